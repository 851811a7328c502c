"""Long tables, with several rows for each time step, as one row per step."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from .roles import format_cell, is_numeric, looks_like_time, numeric_values

_RECORDING = re.compile(r"^(recording|session|trial|video|file)([ _]?(id|no|number|name))?$")
_TRACK = re.compile(r"^(track|individual|instance)s?([ _]?(id|no|number|name|idx))?$")
_ANIMAL = re.compile(r"^(animal|mouse|rat|fly|fish|subject)s?([ _]?(id|no|number|name|idx))?$")
_PART = re.compile(r"^(body[ _]?part|part|key[ _]?point|node)s?([ _]?(name|id))?$")
_SIGNAL = re.compile(r"^(sensor|channel|variable|signal|parameter|measure(ment)?)s?([ _]?(name|id))?$")
_MOST = 1_000  # different values


def widen(frame: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...], list[str]]:
    """Return a table with one row per time step, the animals that its columns begin with, and notes.

    Rows of one step differ in a column such as track, bodypart or sensor. Other tables are returned as they are.
    """
    lower = {str(name): str(name).strip().lower() for name in frame.columns}
    times = [name for name, key in lower.items() if looks_like_time(key) and frame[name].duplicated().any()]
    animals = [name for name, key in lower.items() if _TRACK.match(key) or _ANIMAL.match(key)]
    ids = [*animals, *(name for name, key in lower.items() if _PART.match(key) or _SIGNAL.match(key))]
    ids = [name for name in ids if 1 < frame[name].nunique() <= _MOST or _PART.match(lower[name])]
    if len(times) != 1 or not ids or frame[ids].isna().any(axis=None) or not _takes_turns(frame, ids, lower):
        return frame, (), []
    keys = [name for name, key in lower.items() if _RECORDING.match(key)] + times
    if frame.duplicated([*keys, *ids]).any() or not frame.duplicated(keys).any():
        return frame, (), []
    step = frame.groupby(keys, sort=False, observed=True, dropna=False).ngroup().to_numpy()
    found = frame.groupby(ids, sort=False, observed=True)
    which, n_steps = found.ngroup().to_numpy(), int(step.max()) + 1
    labels = [
        [format_cell(value) for value in row] for row in frame.loc[~found.cumcount().astype(bool), ids].to_numpy()
    ]
    values = [name for name in lower if name not in (*keys, *ids) and is_numeric(frame[name])]
    shared = [name for name in lower if name not in (*ids, *values)]
    columns: dict[str, Any] = {name: frame.loc[~frame.duplicated(keys), name].reset_index(drop=True) for name in shared}
    for i, label in enumerate(labels):
        rows = which == i
        for name in values:
            wide = np.full(n_steps, np.nan)
            wide[step[rows]] = numeric_values(frame[name])[rows]
            single = len(values) == 1 and not _PART.match(lower[ids[-1]])
            columns[" ".join(label) if single else f"{' '.join(label)}_{name}"] = wide
    note = f"{len(frame):,} rows with {' and '.join(map(repr, ids))} became {n_steps:,} time steps"
    whose = [label[0] for label in labels] if ids[0] in animals else []
    return pd.DataFrame(columns), tuple(dict.fromkeys(whose)), [note]


def _takes_turns(frame: pd.DataFrame, ids: list[str], lower: dict[str, str]) -> bool:
    """Return True unless an animal's rows are together: those may be recordings."""
    if any(not _ANIMAL.match(lower[name]) for name in ids):
        return True
    codes = frame.groupby(ids, sort=False, observed=True).ngroup().to_numpy()
    return bool((np.diff(codes) != 0).mean() > 0.5)
