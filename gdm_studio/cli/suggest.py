"""`suggest`: recommend a time scale, a model and its number of states."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from gdm_studio.cli.models import add_latent_option, add_repeats_option, resolve_latent
from gdm_studio.cli.shared import (
    add_data_options,
    add_jobs_option,
    add_scale_option,
    choose_time_scale,
    open_engine,
    print_json,
    read_trials,
    require_positive,
    split_names,
    summarise,
)

if TYPE_CHECKING:
    from gdm_core.analysis.time_scale import ScaleChoice


def add_suggest(commands: Any) -> None:
    parser = commands.add_parser(
        "suggest",
        help="recommend a time scale, a model and its number of states",
        description="Fits two halves of the data and scores each fit on the other half. Finished fits are cached, so a "
        "suggestion that was stopped continues.",
    )
    add_data_options(parser)
    add_scale_option(parser, "auto")
    parser.add_argument(
        "--models",
        type=split_names,
        help="models to compare, see `gdm info` (default: gdm,arhmm-sticky; for windows gdm-linear)",
    )
    add_latent_option(parser)
    add_repeats_option(parser)
    parser.add_argument(
        "--states", type=counts, default=list(range(1, 10)), metavar="K", help="such as 1-9 or 2,4,8 (default: 1-9)"
    )
    parser.add_argument("--seeds", type=int, default=1, help="fits of each half and setting (default: 1)")
    add_jobs_option(parser)
    parser.add_argument("--json", action="store_true", help="print the recommendation and scores as JSON")
    parser.set_defaults(run=suggest)


def counts(text: str) -> list[int]:
    """Parse "2-4,8" as [2, 3, 4, 8]."""
    found: list[int] = []
    for part in split_names(text):
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} has no number; expected something like 2-6 or 2,4,8")
    return list(dict.fromkeys(found))


def suggest(options: argparse.Namespace) -> int:
    """Print the recommendation with the score of every setting."""
    from gdm_core.engine import suggest as suggesting

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
    from datasets import windows

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
