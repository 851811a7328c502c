"""Soft states and bouts as tables that other programs read."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.analysis.tables import bouts_table, csv, states_table
from gdm_core.trials import Trial

States = npt.NDArray[np.floating[Any]]


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


def bouts_csv(states: States, trial: Trial, names: Sequence[str] | None = None, unit: str = "s") -> bytes:
    """The table of bouts as CSV."""
    return csv(bouts_table(states, trial, names, unit=unit))
