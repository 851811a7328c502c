"""The clock of a recording: seconds from a time column, its regularity, and resampling to a fixed step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import ConfigError, DataError

from .roles import numeric_values, parse_times

TimeUnit = Literal["auto", "s", "ms", "us", "ns", "min", "h", "frames"]
_IN_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0}
_EPOCH = 1e8  # larger times (three years) count from an epoch such as 1970, not from a recording's start
_FAR = 100.0  # usual steps
_MAX_ROWS = 5  # to name one by one
_UNIT_IN_NAME = re.compile(r"(?:^|[ _(\[])(ms|us|ns|min|h|s|sec|secs|seconds|millis|milliseconds|frames?)[)\]]?$")
_SPELLED = {"sec": "s", "secs": "s", "seconds": "s", "millis": "ms", "milliseconds": "ms", "frame": "frames"}


@dataclass(frozen=True)
class Clock:
    """Times of the samples of a recording.

    seconds    [T] time since the first sample
    unit       unit of the time column: frames, seconds, milliseconds or dates
    rate_hz    one over the usual step; None if the column counts frames
    irregular  share of steps that differ from the median by more than 10%
    longest    longest step in seconds
    backwards  number of steps that do not go forward
    start      first time, in seconds or frames; None for dates and seconds since 1970
    """

    seconds: npt.NDArray[np.float64]
    unit: str
    rate_hz: float | None
    irregular: float
    longest: float
    backwards: int
    start: float | None = None

    def sentence(self) -> str:
        """Describe the clock."""
        if self.rate_hz is None:
            jump = f"; the longest step is {self.longest:,.0f} frames" if self.longest > 3 else ""
            return f"the time column counts frames; enter the sampling rate{jump}"
        pace = (
            f"a sample every {1 / self.rate_hz:.4g} s" if self.rate_hz < 1 else f"{self.rate_hz:.4g} samples per second"
        )
        text = f"{pace} (time in {self.unit})"
        if self.backwards:
            text += f"; time does not increase at {self.backwards:,} {'row' if self.backwards == 1 else 'rows'}"
        if self.irregular > 0.01:
            text += f"; {100 * self.irregular:.0f}% of the steps are irregular, the longest {self.longest:.3g} s"
        elif self.longest * self.rate_hz > 3:
            text += f"; the longest step is {self.longest:.3g} s, the usual one {1 / self.rate_hz:.3g} s"
        return text


def read_clock(column: pd.Series[Any], name: str, unit: TimeUnit = "auto") -> Clock:
    """Read a clock from a column of numbers, timestamps or text."""
    seconds, found, start = _parse_seconds(column, name, unit)
    return clock_from_steps(seconds, found, np.diff(seconds[np.isfinite(seconds)]), name, start)


def clock_from_steps(
    seconds: npt.NDArray[np.float64], unit: str, steps: npt.NDArray[np.float64], name: str, start: float | None = None
) -> Clock:
    """Make a clock from the steps between adjacent samples of the same trial."""
    forward = steps[steps > 0]
    if len(forward) == 0:
        raise DataError(f"The time column {name!r} never increases. Choose another column, or none and enter the rate.")
    step = float(np.median(forward))
    longest, backwards = float(forward.max()), int((steps <= 0).sum())
    if unit == "frames":
        return Clock(seconds, unit, None, 0.0, longest, backwards, start)
    usual = np.abs(steps - step) <= 0.1 * step
    if np.mean(usual) > 0.9:
        step = float(np.mean(steps[usual]))  # more precise than the median of rounded times
    return Clock(seconds, unit, 1.0 / step, float(1 - np.mean(usual)), longest, backwards, start)


def describe_times(column: pd.Series[Any], seconds: npt.NDArray[np.float64]) -> list[str]:
    """Return notes on rows whose time is unreadable, or far from the times before and after."""
    known = np.flatnonzero(np.isfinite(seconds))
    steps = np.diff(seconds[known])
    far = np.abs(steps) > _FAR * np.median(np.abs(steps))
    there_and_back = far[:-1] & far[1:] & (np.sign(steps[:-1]) != np.sign(steps[1:]))
    faults = (
        ("cannot be read", np.flatnonzero(~np.isfinite(seconds) & column.notna().to_numpy())),
        ("is far from those of the rows before and after", known[1:-1][there_and_back]),
    )
    notes = []
    for fault, rows in faults:
        shown = [f"the time of row {row + 1:,} ({str(column.iloc[row])[:40]}) {fault}" for row in rows[:_MAX_ROWS]]
        more = len(rows) - len(shown)
        notes += shown + ([f"the time of {more:,} more rows {fault}"] if more else [])
    return notes


def _parse_seconds(
    column: pd.Series[Any], name: str, unit: TimeUnit
) -> tuple[npt.NDArray[np.float64], str, float | None]:
    """Return times since the first row, their unit, and the start unless a date."""
    if unit != "auto" and unit != "frames" and unit not in _IN_SECONDS:
        raise ConfigError(f"unit is {unit!r}; choose auto, frames, {', '.join(_IN_SECONDS)}.")
    if pd.api.types.is_datetime64_any_dtype(column.dtype) or pd.api.types.is_timedelta64_dtype(column.dtype):
        return _seconds_since_first(column, name), "timestamps", None
    values = numeric_values(column).astype(np.float64)
    if np.isfinite(values).sum() < 0.5 * column.notna().sum():
        return _seconds_since_first(_parse_dates(column, name), name), "timestamps", None
    if not np.isfinite(values).any():
        raise DataError(f"The time column {name!r} is empty. Choose another column, or none and enter the rate.")
    chosen = _guess_unit(values, name) if unit == "auto" else unit
    first = values[np.isfinite(values)][0]
    scale = _IN_SECONDS.get(chosen, 1.0)
    start = float(first * scale)
    if chosen == "frames" and start == 1:
        start = 0.0  # frames counted from one start at the beginning of the video
    return (values - first) * scale, chosen, start if abs(start) < _EPOCH else None


def _parse_dates(column: pd.Series[Any], name: str) -> pd.Series[Any]:
    text = column.astype(object).astype(str)  # direct conversion fails for categories with missing values
    dates = parse_times(text)
    if dates is None:
        raise DataError(
            f"The time column {name!r} has neither numbers nor dates (such as {text.iloc[0][:40]!r}). "
            "Choose another column, or none and enter the rate."
        )
    return dates


def _seconds_since_first(column: pd.Series[Any], name: str) -> npt.NDArray[np.float64]:
    present = column.dropna()
    if present.empty:
        raise DataError(f"The time column {name!r} is empty. Choose another column, or none and enter the rate.")
    return np.asarray((column - present.iloc[0]).dt.total_seconds(), dtype=np.float64)


def _guess_unit(values: npt.NDArray[np.float64], name: str) -> str:
    """Guess the unit from the column's name, or else from the values."""
    if found := _UNIT_IN_NAME.search(name.strip().lower()):
        return _SPELLED.get(found[1], found[1])
    seen = values[np.isfinite(values)]
    largest = float(np.abs(seen).max())
    for unit, epoch in (("ns", 1e17), ("us", 1e14), ("ms", 1e11)):
        if largest > epoch:
            return unit
    if largest > 1e9:  # seconds since 1970
        return "s"
    steps = np.diff(seen)
    steps = steps[steps > 0]
    if len(steps) and np.all(np.mod(seen, 1) == 0):
        step = float(np.median(steps))
        if step == 1:
            return "frames"
        if 2 <= step <= 2000 and re.match(r"^(t|time|timestamp|elapsed)$", name.strip().lower()):
            return "ms"
    return "s"


def interpolate(
    at: npt.NDArray[np.float64],
    time: npt.NDArray[np.float64],
    values: npt.NDArray[np.floating[Any]],
    largest_gap: float,
    beyond: float = 0.0,
    stepped: bool = False,
    dtype: npt.DTypeLike = np.float32,
) -> npt.NDArray[np.floating[Any]]:
    """Interpolate values at other times, linearly or with `stepped` by the previous value.

    Results are NaN inside gaps above `largest_gap`, and further than `beyond` outside the range of times.
    """
    before = np.clip(np.searchsorted(time, at, side="right") - 1, 0, time.size - 1)
    after = np.clip(before + 1, 0, time.size - 1)
    result = values[before] if stepped else np.interp(at, time, values)
    outside = np.maximum(time[0] - at, at - time[-1])
    hole = (time[after] - time[before] > largest_gap) & (at > time[before]) & (at < time[after])
    return np.where(hole | (outside > beyond), np.nan, result).astype(dtype)


def resample(
    seconds: npt.NDArray[np.float64], values: npt.NDArray[np.floating[Any]], rate_hz: float, max_gap: float
) -> npt.NDArray[np.floating[Any]]:
    """Interpolate values [T, N] at a fixed step; NaN in gaps over `max_gap`."""
    grid = _grid(seconds, rate_hz)
    out = np.full((len(grid), values.shape[1]), np.nan, values.dtype)
    for j, seen in enumerate(np.isfinite(values).T):  # gaps differ between channels
        if seen.any():
            out[:, j] = interpolate(grid, seconds[seen], values[seen, j], max_gap, dtype=values.dtype)
    return out


def nearest_sample(seconds: npt.NDArray[np.float64], rate_hz: float) -> npt.NDArray[np.int64]:
    """Return the nearest sample to each step of a fixed clock, for labels."""
    grid = _grid(seconds, rate_hz)
    right = np.minimum(np.maximum(np.searchsorted(seconds, grid), 1), len(seconds) - 1)
    left = np.maximum(right - 1, 0)
    return np.where(grid - seconds[left] <= seconds[right] - grid, left, right).astype(np.int64)


def _grid(seconds: npt.NDArray[np.float64], rate_hz: float) -> npt.NDArray[np.float64]:
    n = int(np.floor((seconds[-1] - seconds[0]) * rate_hz + 1e-6)) + 1
    if n > 20_000_000:
        raise DataError(
            f"At {rate_hz:.4g} samples per second this recording would have {n:,} samples. Check the time unit and the rate."
        )
    return seconds[0] + np.arange(n) / rate_hz
