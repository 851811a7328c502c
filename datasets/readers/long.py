"""Tables in other layouts: several rows per time step, dates apart from times, and totals below."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from gdm_core.errors import DataError
from gdm_core.text import listed, plural

from .dates import is_clock, parse_times
from .roles import (
    Role,
    columns_with,
    format_cell,
    is_frame_number,
    is_named,
    is_numeric,
    is_time_column,
    looks_like_time,
    numeric_values,
    plain_name,
)

_TOTAL = re.compile(r"(grand )?(total|sum|mean|average|median|std|sd|min|max|summe|mittelwert)s?:?$", re.IGNORECASE)
_MILLISECONDS = re.compile(r"^(ms|msecs?|millis(econds?)?)$", re.IGNORECASE)
_DATE_PARTS = ("year", "month", "day", "hour", "minute", "second")
_MOST = 1_000  # different values


def find_row_names(frame: pd.DataFrame) -> dict[str, Role]:
    """Return the roles time, animal and part of the columns that tell the rows of one time step apart, if there are any.

    A column of animals has that role only if they take turns; else its rows may be recordings.
    """
    names = [str(name) for name in frame.columns]
    times = [name for name in names if looks_like_time(name) and frame[name].duplicated().any()]
    times = [name for name in times if not is_frame_number(name)] or times
    animals, parts = _find(names, "track", "animal"), _find(names, "part", "signal")
    ids = [one for one in (*animals, *parts) if 1 < frame[one].nunique() <= _MOST or is_named(one, "part")]
    if len(times) != 1 or not ids or frame[ids].isna().any(axis=None) or not _takes_turns(frame, ids):
        return {}
    keys = [*_find_recordings(frame), *times]
    if frame.duplicated([*keys, *ids]).any() or not frame.duplicated(keys).any():
        return {}
    return {times[0]: Role.TIME} | {name: Role.ANIMAL if name in animals else Role.PART for name in ids}


def widen(frame: pd.DataFrame, roles: dict[str, Role]) -> tuple[pd.DataFrame, tuple[str, ...], str]:
    """Return a table with one row per time step, the animals that its columns begin with, and a note.

    roles   of the columns; animal and part tell the rows of one time step apart
    """
    ids = [*columns_with(roles, Role.ANIMAL), *columns_with(roles, Role.PART)]
    keys = list(dict.fromkeys([*_find_recordings(frame), *columns_with(roles, Role.GROUP, Role.TIME)]))
    keys = [name for name in keys if name not in ids]
    named, values = " and ".join(map(repr, ids)), columns_with(roles, Role.CHANNEL, Role.POSITION, Role.SCORE)
    if not (columns_with(roles, Role.TIME) and values) or frame.duplicated([*keys, *ids]).any():
        raise DataError(
            f"{named} do not tell the rows of one time step apart. They need a time column, a channel, and one row for each "
            "combination. Change the roles of the columns."
        )
    step = frame.groupby(keys, sort=False, observed=True, dropna=False).ngroup().to_numpy()
    found = frame.groupby(ids, sort=False, observed=True)
    which, n_steps = found.ngroup().to_numpy(), int(step.max()) + 1
    firsts = frame.loc[~found.cumcount().astype(bool), ids].astype(object).to_numpy()
    labels = [" ".join(map(format_cell, row)) for row in firsts]
    shared = dict.fromkeys([*keys, *columns_with(roles, Role.LABEL)])
    columns: dict[str, Any] = {name: frame.loc[~frame.duplicated(keys), name].reset_index(drop=True) for name in shared}
    for i, label in enumerate(labels):
        rows = which == i
        for name in values:
            wide = np.full(n_steps, np.nan)
            wide[step[rows]] = numeric_values(frame[name])[rows]
            columns[f"{label}_{name}" if len(values) > 1 else label] = wide
    animals = dict.fromkeys(format_cell(row[0]) for row in firsts if columns_with(roles, Role.ANIMAL))
    note = f"{len(frame):,} rows with {named} became {n_steps:,} time steps"
    return pd.DataFrame(columns), tuple(animals), note


def _find_recordings(frame: pd.DataFrame) -> list[str]:
    names = _find(list(map(str, frame.columns)), "recording")
    return [name for name in names if frame[name].nunique() <= len(frame) // 2]


def _find(names: list[str], *kinds: str) -> list[str]:
    return [name for name in names if is_named(name, *kinds)]


def join_date_and_time(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return a table in which a column of dates and one of times of day are one, or columns of years to seconds."""
    if (joined := _join_date_parts(frame)) is not None:
        return joined
    texts = [str(name) for name in frame.columns if isinstance(frame[name].dtype, pd.CategoricalDtype)]
    words = {name: frame[name].cat.categories.astype(str).to_series() for name in texts if frame[name].notna().all()}
    if len(words) == 1 and (joined := _add_milliseconds(frame, *next(iter(words.items())))) is not None:
        return joined
    dates = [
        name for name in words if re.match(r"date|datum|day", name, re.I) and not words[name].str.contains(":").any()
    ]
    times = [name for name in words if is_clock(words[name])]
    if len(dates) != 1 or len(times) != 1 or parse_times(words[dates[0]]) is None:
        return frame, []
    both = frame[dates[0]].astype(str) + " " + frame[times[0]].astype(str)
    frame = frame.drop(columns=dates).assign(**{times[0]: both.astype("category")})
    return frame, [f"{dates[0]!r} and {times[0]!r} are one clock"]


def _join_date_parts(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]] | None:
    """Return a table in which columns named year to second are one; None without them or next to another clock."""
    names = {plain_name(str(name)): str(name) for name in frame.columns if plain_name(str(name)) in _DATE_PARTS}
    if not {"year", "month", "day"} <= names.keys() or any(
        looks_like_time(str(name)) for name in frame.columns if name not in names.values()
    ):
        return None
    parts = pd.DataFrame({part: numeric_values(frame[name]) for part, name in names.items()})
    clock = pd.to_datetime(parts, errors="coerce")
    if clock.isna().any():
        return None
    return frame.drop(columns=list(names.values())).assign(time=clock), [f"{listed(list(names))} are one clock"]


def _add_milliseconds(frame: pd.DataFrame, clock: str, words: pd.Series[Any]) -> tuple[pd.DataFrame, list[str]] | None:
    """Return a table with milliseconds added to a clock of whole seconds; None without such columns."""
    parts = [name for name in frame.columns if _MILLISECONDS.match(str(name).strip()) and is_numeric(frame[name])]
    if len(parts) != 1 or not words.str.contains(r":\d\d$").all() or not frame[clock].duplicated().any():
        return None
    values = pd.Series(numeric_values(frame[parts[0]]))
    if not values.between(0, 999).all():
        return None
    exact = frame[clock].astype(str) + "." + values.astype(int).astype(str).str.zfill(3)
    frame = frame.drop(columns=parts).assign(**{clock: exact.astype("category")})
    return frame, [f"{clock!r} and {parts[0]!r} are one clock"]


def drop_remarks(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return a table without totals at its end, and without rows of text or nothing among numbers, such as names again."""
    kept = len(frame)
    while kept > 1 and any(isinstance(cell, str) and _TOTAL.match(cell.strip()) for cell in frame.iloc[kept - 1]):
        kept -= 1
    out = np.arange(len(frame)) >= kept
    numeric = [name for name in frame.columns if is_numeric(frame[name])]
    blank = np.full(len(frame), bool(numeric))
    for name in numeric:
        blank &= np.isnan(numeric_values(frame[name]))
        if not blank.any():
            break
    if blank.any():
        rows = frame[blank]
        clocks = [name for name in frame.columns if name not in numeric and is_time_column(frame[name])]
        text = rows[numeric].notna().any(axis=1) | ~rows[clocks].astype(str).apply(
            lambda cells: cells.str.contains(r"\d")
        ).all(axis=1)
        timed = any(looks_like_time(str(name)) for name in [*numeric, *clocks])
        out[blank] |= text.to_numpy() | (timed & rows.isna().all(axis=1).to_numpy())
    note = f"{plural(int(out.sum()), 'row')} of totals, remarks or nothing left out"
    return (frame[~out].reset_index(drop=True), [note]) if out.any() else (frame, [])


def _takes_turns(frame: pd.DataFrame, ids: list[str]) -> bool:
    """Return True unless an animal's rows are together: those may be recordings."""
    if _find(ids, "animal") != ids:
        return True
    codes = frame.groupby(ids, sort=False, observed=True).ngroup().to_numpy()
    return bool((np.diff(codes) != 0).mean() > 0.5)
