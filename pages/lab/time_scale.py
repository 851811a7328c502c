"""The control "Time scale": models of single samples, or of windows that summarise activities."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import streamlit as st

from datasets import windows
from datasets.splits import usable
from gdm_core.errors import GdmError
from gdm_core.trials import Trials
from gdm_core.units import Unit, unit_for
from pages.lab.dataset import Dataset
from pages.ui import shell
from pages.ui.controls import number, one_of

START = 50  # samples
LARGEST_SHARE = 4  # of the shortest trial: a window is at most a fourth
HELP = "Samples: states are short movements. Windows: states are activities, from the mean, spread and step size of each channel. "


def choose_window(trials: Trials, unit: str, of: str) -> int | None:
    """Show the control and return the window length in samples; None for samples as they are."""
    own = "Steps" if unit == "step" else "Seconds"
    kind = one_of("Time scale", {"samples": "Samples", "own": own}, key="scale", of=of, row=True, help=HELP)
    if kind == "samples":
        return None
    rate_hz = trials[0].rate_hz
    longest = min(trial.n_samples for trial in trials) / LARGEST_SHARE / rate_hz
    shortest = min(windows.SHORTEST / rate_hz, longest)
    start = min(max(START / rate_hz, shortest), longest)
    length = number(f"Window ({own.lower()})", shortest, longest, start, key="window", of=of)
    return windows.window_length(length, rate_hz)


def at_time_scale(data: Dataset) -> Dataset:
    """Show the control and return the data at the chosen scale."""
    length = choose_window(data.train, data.unit, data.of)
    if length is None:
        return data
    try:
        return _summarised(data.key, length, data)
    except GdmError as error:
        shell.quiet(f"Samples are fitted as they are. {error}")
        return data


@st.cache_resource(scope="session", max_entries=2, show_spinner=False)
def _summarised(key: str, length: int, _data: Dataset) -> Dataset:
    """Return the same object each time, so that its fingerprints are computed once."""
    return summarise(_data, length)


def summarise(data: Dataset, length: int) -> Dataset:
    """Return data whose trials are windows of `length` samples."""
    train, test, dropped = usable(*(windows.summarise(side, length) for side in (data.train, data.test)))
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
    )
    return replace(made, truth=made.known_states())


def describe(length: int, rate_hz: float, unit: Any) -> str:
    """Return the window length in words."""
    shown: Unit = unit_for(length / rate_hz, unit)
    return f"{shown.of(length / rate_hz):.3g} {shown.plural}"
