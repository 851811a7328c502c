"""`suggest`: recommend a time scale, a model and its number of states."""

from __future__ import annotations

import argparse
from typing import Any

from datasets import windows
from gdm_core.analysis.time_scale import ScaleChoice
from gdm_core.engine import suggest as suggesting
from gdm_studio.cli.models import resolve_latent
from gdm_studio.cli.shared import choose_time_scale, open_engine, print_json, read_trials, require_positive, summarise


def suggest(options: argparse.Namespace) -> int:
    """Print the recommendation with the score of every setting."""
    require_positive(jobs=options.jobs, seeds=options.seeds)
    recordings = read_trials(options)
    if options.scale == "auto":
        choice = choose_time_scale(recordings, options)
        if choice.scale is not None and options.models is None:
            return _suggest_windows(choice, recordings.n_channels, options)
    trials = summarise(recordings, options)
    latent = resolve_latent(options.latent, trials, options.data.name)
    fixed = {} if options.repeats == "auto" else {"repeats": options.repeats}
    question = suggesting.SuggestQuestion(
        options.models, trials, latent, fixed, states=options.states, seeds=tuple(range(options.seeds))
    )
    with open_engine("Trying settings", question.n_fits, options.jobs) as (engine, progress):
        found = suggesting.suggest(question, engine, progress)
    if options.json:
        print_json(
            {
                "model": found.model,
                "settings": found.settings,
                "scale": options.scale,
                "sure": found.verdict.sure,
                "sentences": found.sentences,
                "note": found.note,
                "left_out": found.left_out,
                "tried": found.to_frame().to_dict("records"),
            }
        )
    else:
        print(found.to_frame().to_string(index=False, float_format="{:.3f}".format))
        print(found)
        _print_settings(found.model, found.settings, options.scale)
    return 0


def _suggest_windows(choice: ScaleChoice, n_channels: int, options: argparse.Namespace) -> int:
    """Print the time scale and its settings: held-out scores of windows, which overlap, favour one state."""
    n_latent = min(windows.N_LATENT, len(windows.SUMMARIES) * n_channels)
    settings = {"n_states": choice.n_states, "n_latent": n_latent}
    if options.json:
        print_json(
            {"model": windows.MODEL, "settings": settings, "scale": options.scale, "sentences": choice.sentences}
        )
    else:
        _print_settings(windows.MODEL, settings, options.scale)
    return 0


def _print_settings(model: str, settings: dict[str, Any], scale: str) -> None:
    print(f"Model: {model}")
    print("Settings: " + ", ".join(f"{name} {value}" for name, value in settings.items()))
    print(f"Time scale: --scale {scale}")
