"""The control "Time scale": models of single samples, or of windows that summarise activities."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import streamlit as st

from datasets import windows
from datasets.splits import usable
from gdm_core.analysis.first_guess import suggest
from gdm_core.analysis.time_scale import ScaleChoice, choose_scale
from gdm_core.errors import GdmError
from gdm_core.trials import Trials
from gdm_core.units import Unit, unit_for
from pages.lab.dataset import Dataset
from pages.lab.live.background import show_progress, submit_once
from pages.ui import settings, shell
from pages.ui.controls import number, one_of

START = 50  # samples
LARGEST_SHARE = 4  # a window is at most a fourth of the shortest trial
HELP = "Samples: states are short movements. Windows: states are activities. Auto compares both."
UNDER_WAY = "Comparing samples with windows"
AT_ONCE_S = 0.3


def choose_window(trials: Trials, unit: str, scope: str) -> tuple[int | None, int | None]:
    """Show the control and return (window length in samples, number of states); None for single samples and unknown K."""
    own = "Steps" if unit == "step" else "Seconds"
    options = {"samples": "Samples", "auto": "Auto", "own": own}
    kind = one_of("Time scale", options, key=settings.key("scale", scope), row=True, help=HELP)
    choice = recommend(trials, unit) if kind == "auto" else None
    if kind != "own":
        return (None, None) if choice is None else (choice.scale, choice.n_states)
    rate_hz = trials[0].rate_hz
    longest = min(trial.n_samples for trial in trials) / LARGEST_SHARE / rate_hz
    shortest = min(windows.SHORTEST / rate_hz, longest)
    start = min(max(START / rate_hz, shortest), longest)
    length = number(f"Window ({own.lower()})", shortest, longest, start, key=settings.key("window", scope))
    return windows.window_length(length, rate_hz), None


def recommend(trials: Trials, unit: str, key: str = "time-scale") -> ScaleChoice | None:
    """Show the recommended time scale and return it; None until a worker has found it."""
    job = submit_once(("time-scale", trials.fingerprint), UNDER_WAY, choose_scale, trials)
    ended = job.wait(AT_ONCE_S)
    show_progress(key, job, ended)
    if not ended:
        return None
    view = job.poll()
    if view.message:
        shell.quiet(f"No time scale can be recommended. {view.message}")
        return None
    choice: ScaleChoice = view.result
    length = "samples" if choice.scale is None else f"windows of {describe(choice.scale, trials[0].rate_hz, unit)}"
    shell.quiet(f"Recommended: {length}. {choice.sentences[1]}")
    return choice


def at_time_scale(data: Dataset) -> Dataset:
    """Show the control and return the data at the chosen scale."""
    length, n_states = choose_window(data.train, data.unit, data.scope)
    if length is None:
        return data
    try:
        return _summarised(data.key, length, n_states, data)
    except GdmError as error:
        shell.quiet(f"Samples are fitted as they are. {error}")
        return data


@st.cache_resource(scope="session", max_entries=2, show_spinner=False)
def _summarised(key: str, length: int, n_states: int | None, _data: Dataset) -> Dataset:
    """Return the same object each time, because its fingerprints are cached."""
    return summarise(_data, length, n_states)


def summarise(data: Dataset, length: int, n_states: int | None = None) -> Dataset:
    """Return data whose trials are windows of `length` samples."""
    train, test, dropped = usable(*(windows.summarise(side, length) for side in (data.train, data.test)))
    start = replace(suggest(train), n_latent=windows.N_LATENT, why_latent="default for windows")
    if n_states is not None and not data.every_label:
        start = replace(start, n_states=n_states, why_states="the number of states that windows separate best")
    recipe = replace(
        data.recipe,
        imports=[*data.recipe.imports, "from gdm_studio.datasets import splits, windows"],
        lines=[
            *data.recipe.lines,
            "recordings = [*train, *test]",
            f"train, test = (windows.summarise(side, scale={length}) for side in (train, test))",
            "train, test, left_out = splits.usable(train, test)",
        ],
        after=[
            "on_samples = windows.to_samples([*states, *new_states], [*train, *test], recordings)  # [time, states] each",
            *data.recipe.after,
        ],
    )
    made = replace(
        data,
        about=f"{data.about}, windows of {describe(length, data.train[0].rate_hz, data.unit)}",
        train=train,
        test=test,
        recipe=recipe,
        key=f"{data.key}/{length}",
        notes=(*data.notes, *dropped),
        recordings=data.trials,
        first_guess=start,
    )
    return replace(made, truth=made.known_states())


def describe(length: int, rate_hz: float, unit: Any) -> str:
    """Return the window length in words."""
    shown: Unit = unit_for(length / rate_hz, unit)
    return f"{shown.convert(length / rate_hz):.3g} {shown.plural}"
