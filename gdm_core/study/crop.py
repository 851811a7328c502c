"""Parts of recordings to analyse: first minutes, times from the sheet, equal lengths, and wear time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import ConfigError, DataError
from gdm_core.study.sheet import RECORDING, Sheet, find_column
from gdm_core.study.text import format_list, format_minutes
from gdm_core.text import plural
from gdm_core.trials import Trial

NON_WEAR_MIN = 90.0  # Choi et al. (2011); shorter stretches of zeros can be sleep
# Van Hees et al. (2013): 13 mg and 50 mg, for an axis on which gravity spans 2 g.
REST_SD, REST_RANGE = 0.0065, 0.025
_UNITS = {"h": 3600.0, "hours": 3600.0, "s": 1.0, "sec": 1.0, "seconds": 1.0}  # endings of columns; minutes otherwise


@dataclass(frozen=True)
class Crop:
    """The part of each recording to analyse.

    first_min   minutes from the start, None for all
    start       column of the sheet with the time to start from; empty cells are the start of the recording
    stop        column of the sheet with the time to stop at; empty cells are the end of the recording
    equal       whether to cut all recordings to the length of the shortest
    non_wear_min   shortest stretch without movement that counts as missing, in minutes; None keeps all

    Times are minutes from the start of the recording, or seconds or hours if the column's name ends in "_s" or "_h".
    """

    first_min: float | None = None
    start: str | None = None
    stop: str | None = None
    equal: bool = False
    non_wear_min: float | None = None


class Cropped(NamedTuple):
    """Cropped recordings, the seconds cut off at their starts, and sentences for the methods paragraph."""

    recordings: Mapping[str, Any]
    starts: Mapping[str, float] = MappingProxyType({})
    sentences: Sequence[str] = ()


def crop_recordings(
    recordings: Mapping[str, Any], sheet: Sheet, crop: Crop, rates: Mapping[str, float] | None = None
) -> Cropped:
    """Return the chosen parts of recordings.

    recordings   name -> Trial, or states [T]
    sheet        the matched sheet; recordings that it sets aside stay as they are
    rates        samples per second of each recording, if `recordings` are states
    """
    if crop.first_min is not None and not crop.first_min > 0:
        raise ConfigError(f"first_min is {crop.first_min}; it must be a positive number of minutes.")
    rows = sheet.frame.set_index(RECORDING)
    start, stop = (_read_seconds(rows, name) for name in (crop.start, crop.stop))
    parts: dict[str, tuple[int, int, float]] = {}  # first sample, end and rate
    for name in sheet.names:
        one = recordings[name]
        rate = one.rate_hz if isinstance(one, Trial) else float((rates or {})[name])
        n = one.n_samples if isinstance(one, Trial) else len(one)
        first = 0 if np.isnan(start[name]) else round(start[name] * rate)
        after = n if np.isnan(stop[name]) else min(n, round(stop[name] * rate))
        if crop.first_min is not None:
            after = min(after, first + round(crop.first_min * 60 * rate))
        parts[name] = first, after, rate
    if empty := [name for name, (first, after, _) in parts.items() if not 0 <= first < after]:
        raise DataError(f"Cropping leaves nothing of {format_list(empty)}. Check its times in the sheet, in minutes.")
    if crop.equal:
        shortest = min((after - first) / rate for first, after, rate in parts.values())
        parts = {name: (first, first + round(shortest * rate), rate) for name, (first, _, rate) in parts.items()}
    found: dict[str, Any] = dict(recordings)
    for name, (first, after, _) in parts.items():
        one = recordings[name]
        found[name] = one.slice(first, after) if isinstance(one, Trial) else one[first:after]
    starts = {name: first / rate for name, (first, _, rate) in parts.items()}
    sentences = _describe(crop, [(after - first) / rate / 60 for first, after, rate in parts.values()])
    if crop.non_wear_min is not None:
        found, marked = mark_non_wear(found, crop.non_wear_min)
        sentences += marked
    return Cropped(found, starts, sentences)


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


def mark_non_wear(
    recordings: Mapping[str, Trial], shortest_min: float = NON_WEAR_MIN
) -> tuple[dict[str, Trial], list[str]]:
    """Treat non-wear as missing: long stretches in which no channel moves, as of a device that lies on a table.

    Returns the recordings and a sentence for the methods paragraph. States are not inferred there, so rates refer to the
    remaining time.

    recordings     name -> Trial
    shortest_min   shortest stretch in minutes
    """
    if not shortest_min > 0:
        raise ConfigError(f"shortest_min is {shortest_min}; it must be a positive number of minutes.")
    marked, shares = dict(recordings), list[float]()
    for name, one in recordings.items():
        still = find_still(one.y, max(2, round(shortest_min * 60 * one.rate_hz)))
        if still.any():
            marked[name] = replace(one, y=np.where(still[:, None], np.nan, one.y))
            shares.append(still.mean())
    if not shares:
        return marked, []
    length = format_minutes(shortest_min, shortest_min)
    have = f"{plural(len(shares), RECORDING)} {'has' if len(shares) == 1 else 'have'}"
    return marked, [
        f"{have} non-wear of at least {length} (up to {max(shares):.0%} of a recording), which was treated as missing."
    ]  # fmt: skip


def find_still(y: npt.NDArray[np.floating], shortest: int) -> npt.NDArray[np.bool_]:
    """Return a mask [T] of the stretches of y [T, N] with at least `shortest` samples in which every channel rests.

    A channel rests in a window if its standard deviation and its range are small relative to the channel's own range.
    Amounts, which are never negative (counts, speeds), must not change at all: small amounts are sleep. Missing samples are
    ignored.
    """
    measured, still = np.zeros((2, len(y)), dtype=bool)
    if len(y) < shortest:
        return measured
    still[shortest - 1 :] = True  # ends of complete windows
    for channel in y.T[np.isfinite(y).any(axis=0)]:
        low, high = np.nanpercentile(channel, [1, 99])
        is_amount = np.nanmin(channel) >= 0
        scale = 0.0 if is_amount else float(high - low)
        windows = pd.Series(channel - low, dtype=np.float64).rolling(shortest, min_periods=shortest // 2 + 1)
        extent = (windows.max() - windows.min()).to_numpy()
        rests = (extent == 0) | ((extent <= REST_RANGE * scale) & (windows.std().to_numpy() <= REST_SD * scale))
        still &= rests | np.isnan(extent)
        measured |= np.isfinite(extent)
    ends = np.flatnonzero(still & measured)
    edges = np.bincount(ends - shortest + 1, minlength=len(y) + 1) - np.bincount(ends + 1, minlength=len(y) + 1)
    found: npt.NDArray[np.bool_] = (np.cumsum(edges)[:-1] > 0) & np.isfinite(y).any(axis=1)
    return found
