"""Repeated values: held sensors, doubled rows, dead stretches, and channels with few distinct values.

A state that explains "nothing moved" with almost no noise beats every other state, so fits leave repeats out: rows that
repeat regularly are thinned, and other repeats count as missing. Channels with few distinct values keep them, and their
noise gets a floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from gdm_core.arrays import Bool, Float, Ints, Values
from gdm_core.text import first_of, plural

Kind = Literal["fine", "limited", "held", "discrete"]

_TINY = 1e-4  # of the root mean square step: smaller steps are repeats
_FEW_REPEATS = 0.02  # share of repeats in all recordings
_MANY_REPEATS = 0.05  # share of repeats in one recording
_LEAST_STEPS = 50  # of a recording that is judged by itself
_FEW_VALUES = 12
_RETURNS, _RETURNING = 3, 0.8  # runs of a value that recurs, and share of repeats at such values: limits of a sensor
_RESTS = 0.8  # share of samples at one value of a channel that rests there
_REGULAR = 0.75  # share of samples in runs of the usual length
_LEAST_RUNS = 10
_FEW_ROWS = 0.2  # share of rows that repeat; regular runs of two are half
_STILL = 20  # samples of a run that is a dead stretch, if it is ten times as long as the mean run
_STILL_RUNS = 10.0
_FLOOR = 2.0  # least noise of a channel with few values, in root mean square steps


class Fitted(NamedTuple):
    """A recording as it is fitted.

    y     [T', N] thinned rows, NaN where a value repeats
    rows  [T] row of `y` for each sample of the recording; None if each has its own
    """

    y: Values
    rows: Ints | None

    def at_samples(self, values: Values) -> Values:
        """Return values of rows [T', ...] at the samples of the recording."""
        return values if self.rows is None else values[self.rows]


@dataclass(frozen=True)
class ChannelRepeats:
    """Repeats of one channel, in thinned rows.

    kind       "held" if repeats count as missing; "discrete" for few values, and "limited" where repeats are the ends of
               a scale, which keep them; "fine" otherwise
    tolerance  largest step that counts as a repeat
    step       root mean square step
    share      share of steps that repeat a value
    run        usual number of samples of one value
    n_values   number of distinct values; 0 for more than a few
    still      samples in dead stretches
    """

    kind: Kind
    tolerance: float
    step: float
    share: float
    run: int
    n_values: int
    still: int

    @property
    def keeps_repeats(self) -> bool:
        return self.kind in ("limited", "discrete")

    def describe(self) -> str:
        """Return what a fit does with the repeats; "" for nothing."""
        if self.kind == "held" and self.run > 1:
            return f"repeated, {self.run} samples a value; repeats count as missing"
        if self.kind == "held":
            return f"{self.share:.0%} of values repeat the one before; repeats count as missing"
        if self.kind == "discrete" and self.n_values != 1:  # a constant channel is refused
            values = f"only {plural(self.n_values, 'value')}" if self.n_values else "rests at one value"
            return f"{values}; states cannot follow it alone"
        return f"stands still for {self.still:,} samples, which count as missing" if self.still else ""


@dataclass(frozen=True)
class Repeats:
    """Repeats of recordings with the same channels.

    hold      samples of a row that repeats regularly; 1 if rows do not
    stopped   samples in blocks in which every channel stops
    """

    channels: tuple[ChannelRepeats, ...]
    hold: int
    stopped: int

    @classmethod
    def find(cls, ys: Sequence[Values]) -> Repeats:
        """Find the repeats of recordings [T, N]."""
        tolerance = [_TINY * step for step in _steps(ys)]
        hold = _usual_hold(ys, tolerance)
        ys = [thin(y, tolerance, hold).y for y in ys]
        channels = tuple(_describe(ys, j) for j in range(ys[0].shape[1]))
        found = cls(channels, hold, 0)
        return cls(channels, hold, sum(int(found._stopped(y).sum()) for y in ys))

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Repeats:
        """Return the repeats that `dataclasses.asdict` has taken apart."""
        return cls(tuple(ChannelRepeats(**one) for one in values["channels"]), values["hold"], values["stopped"])

    @property
    def leaves_out(self) -> bool:
        """Return whether fits count any value as missing."""
        return bool(self.stopped) or any(one.kind == "held" or one.still for one in self.channels)

    @property
    def discrete(self) -> list[int]:
        """Numbers of the channels with few values."""
        return [j for j, one in enumerate(self.channels) if one.kind == "discrete"]

    def describe(self, names: Sequence[str]) -> list[str]:
        """Return sentences on what a fit does with repeats of the channels `names`, without a final stop."""
        found: dict[str, list[str]] = {}
        for name, one in zip(names, self.channels, strict=True):
            if (text := one.describe()) and not (one.kind == "fine" and one.still <= self.stopped):
                found.setdefault(text, []).append(name)
        lines = [f"{first_of(group, 3)}: {text}" for text, group in found.items()]
        if self.hold > 1:
            lines.insert(0, f"rows repeat, up to {self.hold} samples each; fits use each once")
        if self.stopped:
            lines.append(f"all channels stop for {self.stopped:,} samples, which count as missing")
        return lines

    def noise_floor(self) -> Float:
        """Return the least standard deviation of the noise of each channel [N]; 0 for no floor."""
        return np.array([_FLOOR * one.step if one.kind == "discrete" else 0.0 for one in self.channels])

    def apply(self, y: Values, least: int = 2) -> Fitted:
        """Return a recording [T, N] as it is fitted; one with fewer than `least` rows left stays as it is."""
        tolerance = [one.tolerance for one in self.channels]
        thinned = thin(y, tolerance, self.hold)
        if len(thinned.y) < least:
            thinned = Fitted(y, None)
        missing = self._missing(thinned.y)
        return thinned._replace(y=np.where(missing, np.nan, thinned.y)) if missing.any() else thinned

    def _missing(self, y: Values) -> Bool:
        missing = np.zeros(y.shape, dtype=bool)
        for j, one in enumerate(self.channels):
            if not one.keeps_repeats and (one.kind == "held" or not _is_plain(y[:, j], one.tolerance)):
                runs = _runs(y[:, j], one.tolerance)
                held = one.kind == "held" or _kind([runs], one.tolerance) == "held"
                missing[runs.seen, j] = runs.repeats if held else runs.repeats & runs.still
        missing[self._stopped(y)] = True
        return missing

    def _stopped(self, y: Values) -> Bool:
        """Return the rows [T] of blocks in which every channel stops."""
        stopped: Bool = np.asarray(np.isfinite(y).any(axis=1))
        moves = False
        for j, one in enumerate(self.channels):
            if not one.keeps_repeats and _is_plain(y[:, j], one.tolerance):
                return np.zeros_like(stopped)
            runs = _runs(y[:, j], one.tolerance)
            still = np.ones(len(y), dtype=bool)
            still[runs.seen] = runs.repeats if one.keeps_repeats else runs.still
            moves |= not one.keeps_repeats
            stopped &= still
        return stopped if moves and not stopped.all() else np.zeros_like(stopped)


def _is_plain(values: Values, tolerance: float) -> bool:
    """Return whether a channel clearly has neither many repeats nor a dead stretch."""
    with np.errstate(invalid="ignore"):
        at = np.flatnonzero(np.abs(np.diff(values.astype(np.float64))) <= tolerance)
    if len(at) >= _FEW_REPEATS * len(values) or len(values) <= _LEAST_STEPS or np.isnan(values).any():
        return False
    return not (at[_STILL - 2 :] - at[: max(len(at) - _STILL + 2, 0)] == _STILL - 2).any()


class _Runs(NamedTuple):
    """Runs of one value among the observed samples of a channel."""

    seen: npt.NDArray[np.intp]  # [S] observed samples
    repeats: Bool  # [S] whether a sample repeats the one before
    lengths: Ints  # [runs]
    values: Float  # [runs]

    @property
    def still(self) -> Bool:
        """Samples [S] of dead stretches."""
        if not len(self.seen):
            return self.repeats
        length, n_others = np.repeat(self.lengths, self.lengths), len(self.lengths) - 1
        usual = (len(self.seen) - length.max()) / n_others if n_others else 0.0  # mean of the other runs
        return np.asarray((length >= _STILL) & (length >= _STILL_RUNS * usual))


def _runs(values: Values, tolerance: float) -> _Runs:
    seen = np.flatnonzero(np.isfinite(values))
    known = values[seen].astype(np.float64)
    repeats = np.zeros(len(seen), dtype=bool)
    repeats[1:] = np.abs(np.diff(known)) <= tolerance
    first = np.flatnonzero(~repeats)
    return _Runs(seen, repeats, np.diff(np.append(first, len(seen))), known[first])


def _steps(ys: Sequence[Values]) -> Float:
    """Return the root mean square step between neighbours of each channel [N]."""
    total, n = 0.0, 0.0
    for y in ys:
        squares = np.diff(y.astype(np.float64), axis=0) ** 2
        total, n = total + np.nansum(squares, axis=0), n + np.isfinite(squares).sum(axis=0)
    return np.asarray(np.sqrt(total / np.maximum(n, 1)))


def _describe(ys: Sequence[Values], channel: int) -> ChannelRepeats:
    columns = [y[:, channel] for y in ys]
    step = float(_steps([column[:, None] for column in columns])[0])
    tolerance = _TINY * step
    if all(_is_plain(column, tolerance) for column in columns):
        return ChannelRepeats("fine", tolerance, step, 0.0, 1, 0, 0)
    runs = [_runs(column, tolerance) for column in columns]
    kind = _kind(runs, tolerance)
    n_steps = sum(max(len(one.seen) - 1, 0) for one in runs)
    share = sum(int(one.repeats.sum()) for one in runs) / max(n_steps, 1)
    still = 0 if kind in ("limited", "discrete") else sum(int((one.still & one.repeats).sum()) for one in runs)
    n_values = _n_values(np.concatenate([one.values for one in runs]), tolerance)
    return ChannelRepeats(kind, tolerance, step, share, _usual_length(runs), n_values, still)


def _kind(runs: list[_Runs], tolerance: float) -> Kind:
    """Return how repeats of a channel are treated."""
    shares = [one.repeats.mean() for one in runs if len(one.seen) > _LEAST_STEPS]
    total = sum(len(one.seen) for one in runs)
    repeated = sum(int((one.repeats & ~one.still).sum()) for one in runs)
    if not total or (repeated < _FEW_REPEATS * total and max(shares, default=0.0) < _MANY_REPEATS):
        return "fine"
    of_runs = np.concatenate([one.values for one in runs])
    if _n_values(of_runs, tolerance):
        return "discrete"
    lengths = np.concatenate([one.lengths for one in runs])
    if _regular_length(lengths) > 1:
        return "held"
    changes = np.abs(np.concatenate([np.diff(one.values) for one in runs]))
    if repeated <= np.count_nonzero(changes < 1.5 * changes.min()):
        return "fine"  # rounded values repeat as often as they change by the smallest step
    resting, returning = _resting_shares(of_runs, lengths, tolerance)
    if resting >= _RESTS:
        return "discrete"
    return "limited" if returning >= _RETURNING else "held"


def _n_values(values: Float, tolerance: float) -> int:
    """Return the number of distinct values; 0 for more than a few."""
    n = 1 + int((np.diff(np.sort(values)) > tolerance).sum())
    return n if n <= _FEW_VALUES else 0


def _resting_shares(values: Float, lengths: Ints, tolerance: float) -> tuple[float, float]:
    """Return the share of samples at the commonest value, and of repeats at values with several runs."""
    order = np.argsort(values)
    number = np.cumsum(np.diff(values[order], prepend=values[order[0]]) > tolerance)
    samples, repeats = np.bincount(number, lengths[order]), np.bincount(number, lengths[order] - 1)
    returns = np.bincount(number, lengths[order] > 1) >= _RETURNS
    return float(samples.max() / samples.sum()), float(repeats[returns].sum() / max(repeats.sum(), 1))


def _usual_length(runs: list[_Runs]) -> int:
    """Return the length of the runs that hold most samples."""
    counts = np.bincount(np.concatenate([one.lengths for one in runs]))
    return int((counts * np.arange(len(counts))).argmax()) if len(counts) else 1


def _regular_length(lengths: Ints) -> int:
    """Return the longest usual length of regular runs; 1 if lengths vary or nothing repeats."""
    if len(lengths) < _LEAST_RUNS:
        return 1
    counts = np.bincount(lengths, minlength=3)
    samples = counts * np.arange(len(counts))
    usual = int(counts.argmax())
    near = samples[max(usual - 1, 0) : usual + 2].sum()
    if usual < 2 or near < _REGULAR * samples.sum():
        return 1
    longer = counts[usual + 1] if usual + 1 < len(counts) else 0
    return usual + 1 if longer > 0.15 * counts.sum() else usual


def _row_runs(y: Values, tolerance: Sequence[float]) -> tuple[Bool, Ints]:
    """Return whether each row [T] repeats the one before, and the lengths of runs; no repeats where they are few."""
    same, known = np.ones(len(y) - 1, dtype=bool), np.zeros(len(y) - 1, dtype=bool)
    for j, least in enumerate(tolerance):
        column = y[:, j].astype(np.float64)
        with np.errstate(invalid="ignore"):
            equal = np.abs(np.diff(column)) <= least
        missing = np.isnan(column)
        known |= equal
        same &= equal | (missing[1:] & missing[:-1])
        if same.sum() < _FEW_ROWS * len(y):
            same[:] = False
            break
    repeats = np.append(False, same & known)
    return repeats, np.diff(np.append(np.flatnonzero(~repeats), len(y)))


def _usual_hold(ys: Sequence[Values], tolerance: Sequence[float]) -> int:
    """Return how many samples a row takes in most recordings; 1 if rows do not repeat regularly."""
    hold = max(_regular_length(_row_runs(y, tolerance)[1]) for y in ys)
    few = (_n_values(np.concatenate([y[:, j] for y in ys]), tolerance[j]) for j in range(ys[0].shape[1]))
    return 1 if hold == 1 or all(few) else hold


def thin(y: Values, tolerance: Sequence[float], hold: int) -> Fitted:
    """Return every new row of a recording; rows that repeat for longer than usual are NaN.

    hold  usual length of runs, for recordings that are too short to tell
    """
    repeats, lengths = _row_runs(y, tolerance)
    own = _regular_length(lengths)
    hold = own if len(lengths) >= _LEAST_RUNS else hold
    if hold == 1 or not repeats.any():
        return Fitted(y, None)
    first = np.maximum.accumulate(np.where(repeats, 0, np.arange(len(y))))
    age = np.arange(len(y)) - first
    kept = age % hold == 0
    still = np.repeat((lengths >= _STILL) & (lengths >= _STILL_RUNS * hold), lengths)
    values = np.where((repeats | still)[:, None], np.nan, y)[kept]
    return Fitted(values, np.cumsum(kept) - 1)


class NewValues:
    """Reader of a recording sample by sample that leaves out repeats."""

    def __init__(self, repeats: Repeats) -> None:
        self._hold = repeats.hold
        self._tolerance = np.array([one.tolerance for one in repeats.channels])
        self._held = np.array([one.kind == "held" for one in repeats.channels])
        self._keeps = np.array([one.keeps_repeats for one in repeats.channels])
        n = len(repeats.channels)
        self._row, self._age = np.full(n, np.nan), 0
        self._last, self._length = np.full(n, np.nan), np.zeros(n, np.int64)

    def read(self, y: Values) -> Values | None:
        """Return the sample [N] with repeats missing; None for a repeat of the row before."""
        same = (np.abs(y - self._row) <= self._tolerance) | (np.isnan(y) & np.isnan(self._row))
        repeats_row = self._hold > 1 and bool(same.all()) and not np.isnan(y).all()
        self._age, self._row = (self._age + 1 if repeats_row else 0), y
        if self._age % self._hold:
            return None
        repeats = np.abs(y - self._last) <= self._tolerance
        self._length = np.where(repeats, self._length + 1, np.where(np.isnan(y), self._length, 0))
        self._last = np.where(np.isnan(y), self._last, y)
        missing = repeats & (self._held | (~self._keeps & (self._length >= _STILL)))
        return np.where(missing | repeats_row, np.nan, y).astype(y.dtype)
