"""Order of rows in time: out of order, repeated times, restarts and gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import DataError
from gdm_core.text import plural

from .doubts import Answers, Doubt
from .timing import far_times

Rows = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_REGULAR = 0.9  # share of steps within a tenth of the usual one
_LOCAL = 10  # rows that a row may be from its place in time
_FEW = 0.05  # share of rows out of place
_SHORTEST = 10  # rows of a recording
_OFTEN = 0.2  # share of repeated times that suggests rounded times
_MAX_ROWS = 20_000_000


@dataclass(frozen=True)
class Order:
    """Rows of each trial in time order.

    trials    (name, rows) of each trial; -1 for rows that the file lacks
    seconds   [T] times of the file's rows
    notes     sentences about what was done
    doubts    questions that the times do not answer
    same      [T] row that stands for the rows of its time, to average them; None without repeats
    """

    trials: tuple[tuple[str, Rows], ...]
    seconds: Floats
    notes: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    same: Rows | None = None

    def take(self, values: npt.NDArray[Any], rows: Rows) -> npt.NDArray[Any]:
        """Return rows of values [T, N], NaN for -1, averaged over the rows of a time if that was chosen."""
        if self.same is not None:
            means = pd.DataFrame(values.astype(np.float64)).groupby(self.same).transform("mean")
            values = means.to_numpy().reshape(values.shape).astype(values.dtype)
        taken = values[rows]
        taken[rows < 0] = np.nan
        return taken


def arrange(seconds: Floats, trials: Sequence[tuple[str, Rows]], answers: Answers, frames: bool = False) -> Order:
    """Sort rows by time, and split or complete trials, where that is clearly right or answered.

    seconds   [T] times of the rows, NaN if unknown
    trials    (name, rows) of each trial
    frames    whether times count frames
    """
    seconds, notes, doubts = seconds.copy(), list[str](), list[Doubt]()
    known = seconds[np.isfinite(seconds)]
    if len(known) < 2 or not np.ptp(known) > 0:
        raise DataError("The time column never increases. Choose another column, or none and enter the rate.")
    named = [(name, rows, _known_times(seconds[rows])) for name, rows in trials]
    back = [int((np.diff(times) < 0).sum()) for _, _, times in named]
    if sum(back):
        choice = "sort"
        if not all(_is_shuffled(times) for (_, _, times), n in zip(named, back, strict=True) if n):
            question = (
                f"Time goes back at {plural(sum(back), 'row')}. Does a recording start there, are rows out of order, "
                "or is the order of the file right?"
            )
            doubts.append(Doubt("order", question, ("recordings", "sort", "file")))
            choice = doubts[-1].chosen(answers)
        named = [one for each in named for one in _reorder(*each, choice)]
        if choice == "sort":
            notes.append(f"rows were sorted by time, which went back at {plural(sum(back), 'row')}")
    means: Rows | None = None
    same = sum(int((np.diff(times) == 0).sum()) for _, _, times in named)
    if same:
        usual: tuple[str, ...] = ("first", "average", "recordings", "keep", "spread")
        rounded = same > _OFTEN * sum(len(rows) for _, rows, _ in named)
        question = (
            f"{plural(same, 'row')} repeat the time of the row before. Use the first row of each time or the average, put them "
            "into several recordings, keep all rows, or spread the rows evenly because times are rounded?"
        )
        doubts.append(Doubt("repeats", question, usual[::-1] if rounded else usual))
        choice = doubts[-1].chosen(answers)
        if choice == "average":
            means = np.arange(len(seconds))
            for _, rows, times in named:
                new = np.concatenate([[True], np.diff(times) != 0])
                means[rows] = rows[new][np.cumsum(new) - 1]
        named = [one for each in named for one in _resolve_repeats(*each, choice)]
        if choice == "spread":
            for _, rows, times in named:
                seconds[rows] = times
        elif choice in ("first", "average"):
            notes.append(
                f"{plural(same, 'row')} that repeat a time were {'averaged' if choice == 'average' else 'left out'}"
            )
    completed = _complete(named, notes, doubts, answers, frames)
    return Order(completed, seconds, tuple(notes), tuple(doubts), means)


def _known_times(times: Floats) -> Floats:
    """Return times, estimated from the rows around where they are unknown or far off."""
    usable = np.isfinite(times)
    usable[far_times(times)] = False
    at, known = np.arange(len(times)), np.flatnonzero(usable)
    if len(known) in (0, len(times)):
        return times
    step = float(np.median(np.diff(times[known]))) if len(known) > 1 else 0.0
    found = np.interp(at, known, times[known])
    return found + step * (np.minimum(at - known[0], 0) + np.maximum(at - known[-1], 0))


def _is_shuffled(times: Floats) -> bool:
    """Return True if sorting is clearly right: it gives a regular clock, or moves few rows a little."""
    steps = np.diff(times)
    order = np.argsort(times, kind="stable")
    sorted_steps = np.diff(times[order])
    if (steps <= 0).all():
        return True
    if not (sorted_steps > 0).all():
        return False
    if np.abs(order - np.arange(len(times))).max() <= _LOCAL and (steps < 0).mean() <= _FEW:
        return True
    in_order = len(times) / (1 + (steps < 0).sum())  # rows in a row; many suggest recordings or the end of summer time
    return _regularity(sorted_steps) >= _REGULAR and bool(in_order < _SHORTEST)


def _regularity(steps: Floats) -> float:
    usual = np.median(steps)
    return float((np.abs(steps - usual) <= 0.1 * usual).mean())


def _reorder(name: str, rows: Rows, times: Floats, choice: str) -> list[tuple[str, Rows, Floats]]:
    if choice == "sort":
        order = np.argsort(times, kind="stable")
        return [(name, rows[order], times[order])]
    parts = np.cumsum(np.diff(times, prepend=times[0]) < 0)
    return [(name, rows, times)] if choice == "file" else _split(name, rows, times, parts)


def _split(name: str, rows: Rows, times: Floats, part: npt.NDArray[Any]) -> list[tuple[str, Rows, Floats]]:
    """Return the parts of a trial, by the number of each row's part."""
    n = int(part.max()) + 1
    names = [f"{name} part {i + 1}" if n > 1 else name for i in range(n)]
    return [(names[i], rows[part == i], times[part == i]) for i in range(n)]


def _resolve_repeats(name: str, rows: Rows, times: Floats, choice: str) -> list[tuple[str, Rows, Floats]]:
    new = np.concatenate([[True], np.diff(times) != 0])
    if choice in ("first", "average"):
        return [(name, rows[new], times[new])]
    if choice == "keep" or new.all():
        return [(name, rows, times)]
    if choice == "recordings":  # of first, second and further rows of a time
        return _split(name, rows, times, np.arange(len(times)) - np.flatnonzero(new)[np.cumsum(new) - 1])
    at = np.flatnonzero(new)
    usual = float(np.median(np.diff(times[at]))) if len(at) > 1 else 1.0
    spread = np.interp(np.arange(len(times)), [*at, len(times)], [*times[at], times[at[-1]] + usual])
    return [(name, rows, spread)]


def _complete(
    named: list[tuple[str, Rows, Floats]], notes: list[str], doubts: list[Doubt], answers: Answers, frames: bool
) -> tuple[tuple[str, Rows], ...]:
    """Insert missing rows into gaps of regular clocks, or split trials there."""
    steps = np.concatenate([np.diff(times) for _, _, times in named])
    forward = steps[steps > 0]
    trials = tuple((name, rows) for name, rows, _ in named)
    if not len(forward) or _regularity(forward) < _REGULAR:
        return trials
    usual = float(np.median(forward))
    absent = np.rint(forward / usual).astype(np.int64) - 1
    n_gaps, n_absent = int((absent > 0).sum()), int(absent[absent > 0].sum())
    if not n_gaps:
        return trials
    choice, gaps = "missing", f"{plural(n_gaps, 'gap')} of up to {forward.max():,.4g} {'frames' if frames else 's'}"
    if n_absent > sum(len(rows) for _, rows in trials):
        question = f"Time has {gaps}. Does a recording start after each, or are rows missing?"
        doubts.append(Doubt("gaps", question, ("recordings", "missing")))
        choice = doubts[-1].chosen(answers)
    if choice == "recordings":
        after = [np.cumsum(np.diff(times, prepend=times[0]) > 1.5 * usual) for _, _, times in named]
        parts = [part for each, number in zip(named, after, strict=True) for part in _split(*each, number)]
        return tuple((name, rows) for name, rows, _ in parts)
    if n_absent > _MAX_ROWS:
        raise DataError(f"Time has {gaps}, with {n_absent:,} missing rows. Check the time column and its unit.")
    notes.append(f"{gaps} became {plural(n_absent, 'missing row')}")
    return tuple(_insert(*each, usual) for each in named)


def _insert(name: str, rows: Rows, times: Floats, usual: float) -> tuple[str, Rows]:
    ahead = np.maximum(np.rint(np.diff(times) / usual).astype(np.int64), 1)
    filled = np.full(1 + int(ahead.sum()), -1, np.int64)
    filled[np.concatenate([[0], np.cumsum(ahead)])] = rows
    return name, filled
