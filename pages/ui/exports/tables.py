"""Soft states and bouts as tables that other programs read."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.analysis.tables import csv, states_table
from gdm_core.trials import Trial

States = npt.NDArray[np.floating[Any]]

# The columns of a tabular export of BORIS, so that a table goes where those go.
BOUT_COLUMNS = (
    "Observation id",
    "Subject",
    "Behavior",
    "Behavioral category",
    "Behavior type",
    "Start (s)",
    "Stop (s)",
    "Duration (s)",
    "Mean share",
    "Comment start",
    "Comment stop",
)


def states_csv(states: States, trial: Trial) -> bytes:
    """The table of states as CSV, exact to seven digits."""
    return csv(states_table(states, trial))


def states_parquet(states: States, trial: Trial) -> bytes:
    """The table of states as Parquet."""
    return parquet(states_table(states, trial))


def parquet(table: pd.DataFrame) -> bytes:
    """A table as Parquet."""
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False)
    return buffer.getvalue()


def bouts_table(
    states: States, trial: Trial, names: Sequence[str] | None = None, subject: str = "", unit: str = "s"
) -> pd.DataFrame:
    """One row for each uninterrupted stay of the strongest state, stop excluded.

    Times are on the recording's clock. Where samples have no time (`unit` "step") they are counted, and columns say so.
    """
    soft = np.asarray(states)
    labels = soft.argmax(axis=1)
    shown = list(names) if names else [f"S{k + 1}" for k in range(soft.shape[1])]
    starts = np.flatnonzero(np.diff(labels, prepend=-1))
    stops = np.append(starts[1:], len(labels))
    state = labels[starts]
    cumulative = np.concatenate([np.zeros((1, soft.shape[1])), np.cumsum(soft, axis=0, dtype=np.float64)])
    share = (cumulative[stops, state] - cumulative[starts, state]) / (stops - starts)
    first = trial.start_seconds if unit == "s" else round(trial.start_seconds * trial.rate_hz)
    rate = trial.rate_hz if unit == "s" else 1
    table = pd.DataFrame(
        {
            "Observation id": trial.name,
            "Subject": subject or trial.name,
            "Behavior": [shown[k] for k in state],
            "Behavioral category": "soft state",
            "Behavior type": "STATE",
            "Start (s)": first + starts / rate,
            "Stop (s)": first + stops / rate,
            "Duration (s)": (stops - starts) / rate,
            "Mean share": share.round(4),
            "Comment start": "",
            "Comment stop": "",
        }
    )
    table = table[list(BOUT_COLUMNS)]
    if unit == "s":
        return table
    counts = {name: name.replace("(s)", f"({unit})") for name in BOUT_COLUMNS if name.endswith("(s)")}
    return table.astype(dict.fromkeys(counts, np.int64)).rename(columns=counts)


def bouts_csv(
    states: States, trial: Trial, names: Sequence[str] | None = None, subject: str = "", unit: str = "s"
) -> bytes:
    """The table of bouts as CSV."""
    return csv(bouts_table(states, trial, names, subject, unit))
