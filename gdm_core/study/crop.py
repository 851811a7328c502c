"""Parts of recordings to analyse: first minutes, times from the sheet, equal lengths, and time without wear or tracking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import ConfigError, DataError
from gdm_core.maths.gaps import gap_lengths
from gdm_core.study.sheet import RECORDING, Sheet, find_column, format_list
from gdm_core.study.text import count, format_minutes
from gdm_core.trials import Trial

One = TypeVar("One", Trial, npt.NDArray[np.int64])
NON_WEAR_MIN = 90.0  # Choi et al. (2011); shorter stretches of zeros can be sleep
_UNITS = {"h": 3600.0, "hours": 3600.0, "s": 1.0, "sec": 1.0, "seconds": 1.0}  # endings of columns; minutes otherwise


@dataclass(frozen=True)
class Crop:
    """The part of each recording to analyse.

    first_min   minutes from the start, None for all
    start       column of the sheet with the time to start from; empty cells are the start of the recording
    stop        column of the sheet with the time to stop at; empty cells are the end of the recording
    equal       whether to cut all recordings to the length of the shortest

    Times are minutes from the start of the recording, or seconds or hours if the column's name ends in "_s" or "_h".
    """

    first_min: float | None = None
    start: str | None = None
    stop: str | None = None
    equal: bool = False


def crop_recordings(
    recordings: Mapping[str, One], sheet: Sheet, crop: Crop, rates: Mapping[str, float] | None = None
) -> tuple[dict[str, One], list[str]]:
    """Return the cropped recordings and sentences for the methods paragraph.

    recordings   name -> Trial, or states [T]
    sheet        the matched sheet; recordings that it sets aside stay as they are
    rates        samples per second of each recording, if `recordings` are states
    """
    if crop.first_min is not None and not crop.first_min > 0:
        raise ConfigError(f"first_min is {crop.first_min}; it must be a positive number of minutes.")
    rows = sheet.frame.set_index(RECORDING)
    start, stop = (_read_seconds(rows, name) for name in (crop.start, crop.stop))
    parts: dict[str, tuple[int, int]] = {}
    rate_of: dict[str, float] = {}
    for name in sheet.names:
        one = recordings[name]
        rate = one.rate_hz if isinstance(one, Trial) else float((rates or {})[name])
        n = one.n_samples if isinstance(one, Trial) else len(one)
        first = 0 if np.isnan(start[name]) else round(start[name] * rate)
        after = n if np.isnan(stop[name]) else min(n, round(stop[name] * rate))
        if crop.first_min is not None:
            after = min(after, first + round(crop.first_min * 60 * rate))
        parts[name], rate_of[name] = (first, after), rate
    if empty := [name for name, (first, after) in parts.items() if not 0 <= first < after]:
        raise DataError(f"Cropping leaves nothing of {format_list(empty)}. Check its times in the sheet, in minutes.")
    if crop.equal:
        shortest = min((after - first) / rate_of[name] for name, (first, after) in parts.items())
        parts = {name: (first, first + round(shortest * rate_of[name])) for name, (first, _) in parts.items()}
    found = dict(recordings)
    found |= {name: _cut(recordings[name], first, after) for name, (first, after) in parts.items()}
    return found, _describe(crop, [(after - first) / rate_of[name] / 60 for name, (first, after) in parts.items()])


def _cut(one: Any, first: int, after: int) -> Any:
    if isinstance(one, Trial):
        return one.slice(first, after)
    return one[first:after]


def _read_seconds(rows: pd.DataFrame, name: str | None) -> pd.Series[float]:
    if name is None:
        return pd.Series(np.nan, index=rows.index)
    column = rows[find_column(rows, name, "crop")]
    if not pd.api.types.is_numeric_dtype(column.dtype) or (column < 0).any():
        raise DataError(f"The column {name!r} must contain times in minutes from the start, as numbers.")
    ending = name.casefold().replace("(", "_").rstrip(")").replace(" ", "_").rpartition("_")[2]
    return column.astype(np.float64) * _UNITS.get(ending, 60.0)


def _describe(crop: Crop, minutes: list[float]) -> list[str]:
    parts = [f"to the first {format_minutes(crop.first_min, crop.first_min)}"] if crop.first_min is not None else []
    parts += [f"from the time in {crop.start!r}"] if crop.start else []
    parts += [f"to the time in {crop.stop!r}"] if crop.stop else []
    parts += [f"to {format_minutes(min(minutes), min(minutes))}, the length of the shortest"] if crop.equal else []
    return [f"Recordings were cropped {' and '.join(parts)}."] if parts else []


def mark_constant(
    recordings: Mapping[str, Trial], shortest_min: float = NON_WEAR_MIN
) -> tuple[dict[str, Trial], dict[str, float], list[str]]:
    """Treat long constant stretches as missing, such as a device that was not worn or an animal that was not tracked.

    Returns the recordings, the share of each that was constant, and a sentence for the methods paragraph. States are not
    inferred there, so rates refer to the remaining time.

    recordings     name -> Trial
    shortest_min   shortest stretch in minutes in which no channel changes
    """
    if not shortest_min > 0:
        raise ConfigError(f"shortest_min is {shortest_min}; it must be a positive number of minutes.")
    marked, shares = dict(recordings), dict[str, float]()
    for name, one in recordings.items():
        constant = find_constant(one.y, max(2, round(shortest_min * 60 * one.rate_hz)))
        if constant.any():
            marked[name] = replace(one, y=np.where(constant[:, None], np.nan, one.y))
            shares[name] = float(constant.mean())
    if not shares:
        return marked, shares, []
    length = format_minutes(shortest_min, shortest_min)
    have = f"{count(len(shares), RECORDING)} {'has' if len(shares) == 1 else 'have'}"
    return marked, shares, [
        f"{have} stretches of at least {length} without any change (up to {max(shares.values()):.0%} of a recording), which "
        "were treated as missing."
    ]  # fmt: skip


def find_constant(y: npt.NDArray[np.floating], shortest: int) -> npt.NDArray[np.bool_]:
    """Return a mask [T] of the stretches of y [T, N] with at least `shortest` equal samples."""
    still = (y[1:] == y[:-1]).all(axis=1)
    long = gap_lengths(still) >= shortest - 1
    found = np.zeros(len(y), dtype=bool)
    found[1:] |= long
    found[:-1] |= long
    return found
