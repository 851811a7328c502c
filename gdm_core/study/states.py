"""The states of many recordings and what is counted of them: usage, bouts, how long they last, what follows what.

A bout is a run of one state. Samples without a state interrupt it: a bout that an unlabelled gap cuts counts as two, since
nobody saw that it went on. A change is from one state to a different one, with the gap between them, if any, left out.
Bouts that a recording cuts at its ends count as long as they were seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError, DataError
from gdm_core.maths.gaps import ratio
from gdm_core.trials import UNLABELLED

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]

# What is measured of every state of a recording, and of a recording as a whole, in words.
OF_STATES = {
    "usage": "share of the labelled time",
    "bouts": "number of bouts",
    "bouts_per_min": "bouts a minute of labelled time",
    "median_bout_s": "median length of a bout (s)",
    "mean_bout_s": "mean length of a bout (s)",
}
OF_CHANGES = {
    "transitions": "changes a minute spent in the state that is left",
    "transition_shares": "share of the changes out of a state",
}
OF_RECORDINGS = {
    "entropy": "entropy of usage, 0 (one state alone) to 1 (all alike)",
    "changes_per_min": "changes of state a minute of labelled time",
}
SHARES = ("usage", "transition_shares")  # measures that are read in percent
MOST_STATES = 1_000


@dataclass(frozen=True, eq=False)
class Recording:
    """The states of one recording.

    labels          [T] the state of each sample, -1 where there is none
    rate_hz         samples a second
    soft            [T, K] soft states, where there are any; rows that are not numbers have no state
    start_seconds   when the first sample was taken, on the clock of the recording
    """

    labels: Codes
    rate_hz: float
    soft: npt.NDArray[np.float32] | None = None
    start_seconds: float = 0.0

    @property
    def n_samples(self) -> int:
        """T, how many samples."""
        return len(self.labels)

    @property
    def labelled(self) -> int:
        """Samples with a state."""
        return int((self.labels >= 0).sum())


def recording_of(name: str, states: npt.ArrayLike, rate_hz: float) -> Recording:
    """A recording from [T] whole numbers (-1 unlabelled) or soft states [T, K]."""
    where = f"The states of {name!r}"
    given = np.asarray(states)
    if given.dtype == bool:  # yes or no
        given = given.astype(np.int8)
    if given.ndim == 2 and given.shape[1] == 1:  # a column of states
        given = given[:, 0]
    if not (np.isfinite(rate_hz) and rate_hz > 0):
        raise DataError(f"{where}: rate_hz is {rate_hz}; it must be a positive number of samples a second.")
    if given.ndim not in (1, 2) or given.size == 0 or given.dtype.kind not in "iuf":
        raise DataError(
            f"{where} have shape {given.shape} and type {given.dtype}; expected [time] whole numbers (-1 unlabelled) "
            "or soft states [time, states]. Number the states that have names, and name them with `names`."
        )
    if given.ndim == 2:
        soft = np.asarray(given, np.float32)
        known = np.isfinite(soft).all(axis=1)
        if (soft[known] < -1e-4).any() or (np.abs(soft[known].sum(axis=1) - 1) > 1e-2).any():
            raise DataError(f"{where} are no shares: each row must be 0 or more and sum to 1 (or be NaN: no state).")
        strongest = np.where(known, np.nan_to_num(soft, nan=0.0).argmax(axis=1), UNLABELLED)
        return Recording(strongest.astype(np.int32), float(rate_hz), soft)
    if given.dtype.kind == "f":
        if not (np.isnan(given) | (np.floor(given) == given)).all():
            raise DataError(f"{where} are not whole numbers. Give soft states as [time, states].")
        given = np.where(np.isnan(given), UNLABELLED, given)
    if given.min() < UNLABELLED or given.max() >= MOST_STATES:
        raise DataError(
            f"{where} go from {given.min()} to {given.max()}; states are numbered from 0 to {MOST_STATES - 1}, and -1 "
            "is unlabelled."
        )
    return Recording(given.astype(np.int32), float(rate_hz))


@dataclass(frozen=True, eq=False)
class Counts:
    """What is counted of R recordings over the K states of a study.

    recordings   in their order
    states       the numbers of the states, in the order of all arrays here
    """

    recordings: tuple[Recording, ...]
    states: tuple[int, ...]

    @cached_property
    def rates(self) -> Floats:
        """[R] samples a second of each."""
        return np.array([one.rate_hz for one in self.recordings])

    @cached_property
    def runs(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(recording, place of its state among `states`, first sample, length) of every bout of all recordings."""
        lengths = np.array([one.n_samples for one in self.recordings])
        joined = np.concatenate([one.labels for one in self.recordings])
        begins = np.concatenate([[0], np.cumsum(lengths)])
        new = np.empty(len(joined), bool)
        new[0] = True
        np.not_equal(joined[1:], joined[:-1], out=new[1:])
        new[begins[:-1]] = True
        starts = np.flatnonzero(new)
        long = np.diff(np.append(starts, len(joined)))
        kept = joined[starts] >= 0
        starts, long = starts[kept], long[kept]
        recording = np.searchsorted(begins, starts, side="right") - 1
        place = np.searchsorted(np.asarray(self.states), joined[starts])
        return recording, place, starts - begins[recording], long

    def _over(self, values: Floats | None = None) -> Floats:
        """[R, K] sum over bouts: how many there are, or of `values`."""
        recording, place, _, _ = self.runs
        shape = len(self.recordings), len(self.states)
        cells = recording * shape[1] + place
        return np.bincount(cells, values, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)

    @cached_property
    def seconds(self) -> Floats:
        """[R, K] time spent in each state."""
        recording, _, _, long = self.runs
        return self._over(long / self.rates[recording])

    @cached_property
    def labelled_minutes(self) -> Floats:
        """[R] minutes with a state."""
        return np.array([one.labelled / one.rate_hz / 60 for one in self.recordings])

    @cached_property
    def usage(self) -> Floats:
        """[R, K] share of the labelled time; of soft states, where a recording has them, their mean."""
        minutes = self.labelled_minutes[:, None]
        found = ratio(self.seconds / 60, minutes)
        for row, one in enumerate(self.recordings):
            if one.soft is not None and one.labelled:
                known = one.soft if one.labelled == one.n_samples else one.soft[one.labels >= 0]
                found[row] = known.mean(axis=0, dtype=np.float64)[list(self.states)]
        return found

    @cached_property
    def changes(self) -> Floats:
        """[R, K, K] how often each state was followed by each other one."""
        recording, place, _, _ = self.runs
        n, k = len(self.recordings), len(self.states)
        follows = (recording[1:] == recording[:-1]) & (place[1:] != place[:-1])
        cells = (recording[:-1] * k + place[:-1]) * k + place[1:]
        return np.bincount(cells[follows], minlength=n * k * k).reshape(n, k, k).astype(np.float64)

    def of_states(self, measure: str) -> Floats:
        """[R, K] one of OF_STATES. Lengths of bouts are NaN where there is none."""
        if measure == "usage":
            return self.usage
        bouts = self._over()
        minutes = self.labelled_minutes[:, None]
        if measure == "bouts":
            return np.where(minutes == 0, np.nan, bouts)
        if measure == "bouts_per_min":
            return ratio(bouts, minutes)
        if measure == "mean_bout_s":
            return ratio(self.seconds, bouts)
        return self._medians(bouts)

    def _medians(self, bouts: Floats) -> Floats:
        recording, place, _, long = self.runs
        cells = recording * len(self.states) + place
        order = np.lexsort((long, cells))
        sizes = bouts.ravel().astype(np.int64)
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        here = np.flatnonzero(sizes)
        ordered = long[order]
        low, high = ordered[first[here] + (sizes[here] - 1) // 2], ordered[first[here] + sizes[here] // 2]
        found = np.full(sizes.shape, np.nan)
        found[here] = (low + high) / 2 / np.repeat(self.rates, len(self.states))[here]
        return found.reshape(bouts.shape)

    def of_changes(self, measure: str) -> Floats:
        """[R, K, K] one of OF_CHANGES: NaN where a state was never there, or never left."""
        left = self.seconds[:, :, None] / 60 if measure == "transitions" else self.changes.sum(axis=2, keepdims=True)
        return ratio(self.changes, left)

    def of_recordings(self, measure: str) -> Floats:
        """[R] one of OF_RECORDINGS."""
        if measure == "entropy":
            share = self.usage
            if len(self.states) < 2:
                return np.zeros(len(share))
            logs = np.log(np.where(share > 0, share, 1.0))
            return -(share * logs).sum(axis=1) / np.log(len(self.states))
        return ratio(self.changes.sum(axis=(1, 2)), self.labelled_minutes)

    def usage_over_time(self, bin_s: float) -> list[Floats]:
        """[bins, K] of each recording: share of the labelled time of every stretch of `bin_s` seconds, by the recording's
        own beginning; NaN where nothing in it has a state."""
        if not bin_s > 0:
            raise ConfigError(f"bin_s is {bin_s}; it must be a positive number of seconds.")
        found = []
        columns = list(self.states)
        for one in self.recordings:
            bins = (np.arange(one.n_samples) / one.rate_hz / bin_s).astype(np.int64)
            known, n = one.labels >= 0, int(bins[-1]) + 1
            if one.soft is None:
                cells = bins[known] * len(columns) + np.searchsorted(columns, one.labels[known])
                total = np.bincount(cells, minlength=n * len(columns)).reshape(n, -1).astype(np.float64)
            else:
                total = np.zeros((n, len(columns)))
                np.add.at(total, bins[known], one.soft[known][:, columns])
            found.append(ratio(total, np.bincount(bins[known], minlength=n)[:, None]))
        return found


def states_of(recordings: Sequence[Recording], names: Mapping[int, str] | None = None) -> tuple[int, ...]:
    """The numbers of all states of a study: of soft states all K, else those that occur or have a name."""
    seen: set[int] = set(names or ())
    widths = {one.soft.shape[1] for one in recordings if one.soft is not None}
    if len(widths) > 1:
        raise DataError(f"Recordings have soft states of {sorted(widths)} columns; a study needs the same for all.")
    for one in recordings:
        seen |= set(np.unique(one.labels).tolist())
    seen.discard(UNLABELLED)
    if not widths:
        return tuple(sorted(seen))
    (k,) = widths
    if seen and max(seen) >= k:
        raise DataError(f"There are {k} soft states, numbered from 0, but something is said of state {max(seen)}.")
    return tuple(range(k))


def as_names(names: Mapping[int, str] | Sequence[str] | None) -> dict[int, str]:
    """Names of states by number, from those or from a list that begins with state 0."""
    found: dict[Any, Any] = dict(names if isinstance(names, Mapping) else enumerate(names or ()))
    return {int(state): str(name) for state, name in found.items() if str(name).strip()}
