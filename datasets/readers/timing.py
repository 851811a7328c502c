"""The clock of a recording: seconds from a time column, its regularity, and resampling to a fixed step."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import DataError

from .dates import CLOCKS, compact_clock, compact_dates, is_clock, parse_times
from .doubts import Answers, Doubt, require_answers
from .roles import may_be_time, numeric_values

_IN_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0, "d": 86400.0}
UNITS = (*_IN_SECONDS, "frames")
_EPOCH = 1e8  # larger times (three years) count from an epoch such as 1970, not from a recording's start
_LATEST = 1e10  # seconds since 1970, in the year 2286
_FAR = 100.0  # usual steps
_MAX_ROWS = 5  # to name one by one
_SPELLINGS = {
    "s": "s sec secs second seconds", "ms": "ms msec msecs millis millisec milliseconds", "us": "us µs μs usec microseconds",
    "ns": "ns nsec nanoseconds", "min": "min mins minute minutes", "h": "h hr hrs hour hours", "d": "d day days datenum",
    "frames": "frame frames",
}  # fmt: skip
_SPELLED = {word: unit for unit, words in _SPELLINGS.items() for word in words.split()}
_UNIT_IN_NAME = re.compile(rf"(?:^|[ _(\[./-])({'|'.join(_SPELLED)})[)\]]?$")
# days as Excel and MATLAB count them, 1954 to 2119 and 1954 to 2138
_DAY_RANGES = ((20_000.0, 80_000.0), (714_000.0, 781_000.0))
_FASTEST = 2_000.0  # samples per second; days read as seconds seem faster


@dataclass(frozen=True)
class Times:
    """Times of rows.

    seconds   [T] time since the first row
    unit      unit of the time column: frames, seconds, milliseconds or dates
    start     first time, in seconds or frames; None for dates and seconds since 1970
    doubts    questions about the unit or the order of day and month
    """

    seconds: npt.NDArray[np.float64]
    unit: str
    start: float | None = None
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True)
class Clock(Times):
    """Times of the samples of a recording.

    rate_hz    one over the usual step; None if the column counts frames
    irregular  share of steps that differ from the median by more than 10%
    longest    longest step in seconds
    backwards  number of steps that do not go forward
    """

    rate_hz: float | None = None
    irregular: float = 0.0
    longest: float = 0.0
    backwards: int = 0

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


def read_clock(column: pd.Series[Any], name: str) -> Clock:
    """Read a clock from a column of numbers, timestamps or text; raise DataError in doubt."""
    times = read_times(column, name, {})
    require_answers(name, times.doubts, {})
    return clock_from_steps(times, np.diff(times.seconds[np.isfinite(times.seconds)]), name)


def clock_from_steps(times: Times, steps: npt.NDArray[np.float64], name: str) -> Clock:
    """Make a clock from the steps between adjacent samples of the same trial."""
    forward = steps[steps > 0]
    if len(forward) == 0:
        raise DataError(f"The time column {name!r} never increases. Choose another column, or none and enter the rate.")
    step = float(np.median(forward))
    clock = Clock(
        times.seconds, times.unit, times.start, longest=float(forward.max()), backwards=int((steps <= 0).sum())
    )
    if times.unit == "frames":
        return clock
    usual = np.abs(steps - step) <= 0.1 * step
    if np.mean(usual) > 0.9:
        step = float(np.mean(steps[usual]))  # more precise than the median of rounded times
    return replace(clock, rate_hz=1.0 / step, irregular=float(1 - np.mean(usual)))


def far_times(seconds: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return rows whose time is far from those of the rows before and after, which are close."""
    known = np.flatnonzero(np.isfinite(seconds))
    steps = np.diff(seconds[known])
    far = np.abs(steps) > _FAR * np.median(np.abs(steps)) if len(steps) else np.zeros(0, bool)
    there_and_back = far[:-1] & far[1:] & (np.sign(steps[:-1]) != np.sign(steps[1:]))
    return known[1:-1][there_and_back]


def describe_times(column: pd.Series[Any], seconds: npt.NDArray[np.float64]) -> list[str]:
    """Return notes on rows whose time is unreadable, or far from the times before and after."""
    faults = (
        ("cannot be read", np.flatnonzero(~np.isfinite(seconds) & column.notna().to_numpy())),
        ("is far from those of the rows before and after", far_times(seconds)),
    )
    notes = []
    for fault, rows in faults:
        shown = [f"the time of row {row + 1:,} ({str(column.iloc[row])[:40]}) {fault}" for row in rows[:_MAX_ROWS]]
        more = len(rows) - len(shown)
        notes += shown + ([f"the time of {more:,} more rows {fault}"] if more else [])
    return notes


def read_times(column: pd.Series[Any], name: str, answers: Answers) -> Times:
    """Read the times of rows; `answers` may decide the unit and the order of day and month."""
    if pd.api.types.is_datetime64_any_dtype(column.dtype) or pd.api.types.is_timedelta64_dtype(column.dtype):
        return Times(_seconds_since_first(column, name), "timestamps")
    values = numeric_values(column).astype(np.float64)
    if np.isfinite(values).sum() < 0.5 * column.notna().sum():
        return _read_dates(column, name, answers)
    if not np.isfinite(values).any():
        raise DataError(f"The time column {name!r} is empty. Choose another column, or none and enter the rate.")
    if "unit" not in answers and (dates := compact_dates(values)) is not None:
        return Times(_seconds_since_first(dates, name), "timestamps")
    if "unit" not in answers and (clock := compact_clock(values)) is not None:
        short = bool(np.nanmax(values) < 2400)  # of four digits
        doubt = Doubt("clock", f"How are times such as {values[0]:04.0f} in the column {name!r} written?", CLOCKS[::-1])
        scale = 60.0 if short and doubt.chosen(answers) == CLOCKS[1] else 1.0
        return Times(scale * (clock - clock[np.isfinite(clock)][0]), "timestamps", None, (doubt,) * short)
    doubt = Doubt("unit", f"In which unit is the time column {name!r}?", _possible_units(values, name))
    unit = replace(doubt, choices=UNITS).chosen(answers) if "unit" in answers else doubt.choices[0]
    first = values[np.isfinite(values)][0]
    scale = _IN_SECONDS.get(unit, 1.0)
    start = float(first * scale)
    if unit == "frames" and start == 1:
        start = 0.0  # frames counted from one start at the beginning of the video
    doubts = (doubt,) if len(doubt.choices) > 1 else ()
    return Times((values - first) * scale, unit, start if abs(start) < _EPOCH else None, doubts)


def _read_dates(column: pd.Series[Any], name: str, answers: Answers) -> Times:
    kinds = column if isinstance(column.dtype, pd.CategoricalDtype) else column.astype(str).astype("category")
    words = kinds.cat.categories.astype(str).to_series()
    readings = parse_times(words)
    if readings is None:
        raise DataError(
            f"The time column {name!r} has neither numbers nor dates (such as {words.iloc[0][:40]!r}). "
            "Choose another column, or none and enter the rate."
        )
    codes = kinds.cat.codes.to_numpy()
    found = {
        choice: _seconds_since_first(pd.Series(values.to_numpy(), copy=False).reindex(codes), name)
        for choice, values in readings.items()
    }
    rising = {key: seconds for key, seconds in found.items() if (np.diff(seconds[np.isfinite(seconds)]) >= 0).all()}
    found = rising if len(rising) == 1 else found
    first = next(iter(found))
    if all(np.allclose(seconds, found[first], equal_nan=True) for seconds in found.values()):
        found = {first: found[first]}  # all give the same recording
    doubts: tuple[Doubt, ...] = ()
    if len(found) > 1:
        key = "dates" if "day first" in found else "clock"
        doubts = (Doubt(key, f"How are times such as {words.iloc[0]!r} in the column {name!r} written?", tuple(found)),)
    seconds = found[doubts[0].chosen(answers) if doubts else first]
    return Times(_over_midnight(seconds) if is_clock(words) else seconds, "timestamps", None, doubts)


def _over_midnight(seconds: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return times of day that go on over midnight."""
    known = np.flatnonzero(np.isfinite(seconds))
    steps = np.diff(seconds[known])
    nights = np.cumsum(steps < -_IN_SECONDS["d"] / 2)
    if not len(nights) or (steps[steps >= -_IN_SECONDS["d"] / 2] < 0).any():
        return seconds
    moved = seconds.copy()
    moved[known[1:]] += nights * _IN_SECONDS["d"]
    return moved


def _seconds_since_first(column: pd.Series[Any], name: str) -> npt.NDArray[np.float64]:
    present = column.dropna()
    if present.empty:
        raise DataError(f"The time column {name!r} is empty. Choose another column, or none and enter the rate.")
    return np.asarray((column - present.iloc[0]).dt.total_seconds(), dtype=np.float64)


def _possible_units(values: npt.NDArray[np.float64], name: str) -> tuple[str, ...]:
    """Return the possible units, most likely first: one from the column's name, or else by the values."""
    seen = values[np.isfinite(values)]
    largest, smallest = float(np.abs(seen).max()), float(seen.min())
    named = _UNIT_IN_NAME.search(name.strip().lower())
    unit = _SPELLED[named[1]] if named else ""
    if unit and largest * _IN_SECONDS.get(unit, 1.0) < _LATEST:
        return (unit,)
    if re.search(r"[(\[][^)\]]*/[^)\]]*[)\]]$", name):  # an unknown unit, such as s/256
        return UNITS
    for unit, epoch in (("ns", 1e17), ("us", 1e14), ("ms", 1e11), ("s", 1e9)):  # since 1970
        if largest > epoch:
            return (unit,)
    steps = np.abs(np.diff(seen))
    step = float(np.median(steps[steps > 0])) if (steps > 0).any() else 0.0
    if not may_be_time(name):
        return ("s", "ms", "min", "frames")
    if any(low <= smallest and largest <= high for low, high in _DAY_RANGES) and 0 < step <= 1:
        return ("d",) if step < 1 / _FASTEST else ("d", "s", "frames")
    if np.all(np.mod(seen, 1) == 0):
        counts = step == 1 and (steps > 0).mean() > 0.5  # else times are rounded to seconds
        return ("frames",) if counts else ("s",) if step == 1 else ("ms", "s", "frames")
    # days, as Excel writes times of day and durations: steps divide a minute, or an hour in under a day
    by_seconds = step * _IN_SECONDS["d"]
    whole = round(by_seconds)
    if smallest >= 0 and whole and abs(by_seconds - whole) < 0.01 and (3600 if largest <= 1 else 60) % whole == 0:
        return ("d", "s")
    return ("s",)


def interpolate(
    new_time: npt.NDArray[np.float64],
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
    before = np.clip(np.searchsorted(time, new_time, side="right") - 1, 0, time.size - 1)
    after = np.clip(before + 1, 0, time.size - 1)
    result = values[before] if stepped else np.interp(new_time, time, values)
    outside = np.maximum(time[0] - new_time, new_time - time[-1])
    hole = (time[after] - time[before] > largest_gap) & (new_time > time[before]) & (new_time < time[after])
    return np.where(hole | (outside > beyond), np.nan, result).astype(dtype)


def resample(
    seconds: npt.NDArray[np.float64], values: npt.NDArray[np.floating[Any]], rate_hz: float, max_gap: float
) -> npt.NDArray[np.floating[Any]]:
    """Interpolate values [T, N] at a fixed step; NaN in gaps over `max_gap`."""
    grid = _grid(seconds, rate_hz)
    out = np.full((len(grid), values.shape[1]), np.nan, values.dtype)
    for j, seen in enumerate(np.isfinite(values).T):  # gaps differ between channels
        if seen.any():
            out[:, j] = interpolate(grid, seconds[seen], values[seen, j], max_gap, 1e-6 / rate_hz, dtype=values.dtype)
    return out


def nearest_sample(seconds: npt.NDArray[np.float64], rate_hz: float) -> npt.NDArray[np.int64]:
    """Return the nearest sample to each step of a fixed clock, for labels."""
    return np.searchsorted((seconds[1:] + seconds[:-1]) / 2, _grid(seconds, rate_hz)).astype(np.int64)


def _grid(seconds: npt.NDArray[np.float64], rate_hz: float) -> npt.NDArray[np.float64]:
    n = int(np.floor((seconds[-1] - seconds[0]) * rate_hz + 1e-6)) + 1
    if n > 20_000_000:
        raise DataError(
            f"At {rate_hz:.4g} samples per second this recording would have {n:,} samples. Check the time unit and the rate."
        )
    return seconds[0] + np.arange(n) / rate_hz
