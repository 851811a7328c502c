"""States of many recordings: bouts, usage, dwell times and transitions, and which states are common enough to test.

A bout is a run of one state. An unlabelled gap ends it, even if the state is the same afterwards. A change is from one state
to a different one, across gaps. Rates of changes count only changes between adjacent samples, per minute of adjacent
samples, so gaps do not bias them. Bouts cut by the ends of a recording count with their observed length.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.analysis.bouts import find_bouts
from gdm_core.errors import ConfigError, DataError
from gdm_core.maths.gaps import known_mean, ratio
from gdm_core.text import plural, pluralise
from gdm_core.trials import UNLABELLED

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]

# Measures and their descriptions: per state, per pair of states and per recording.
STATE_MEASURES = {
    "usage": "mean share over the labelled time",
    "log_ratio": "centred log-ratio of the mean share",
    "bouts": "number of bouts",
    "bouts_per_min": "bouts per minute of labelled time",
    "median_bout_s": "median length of a bout (s)",
    "mean_bout_s": "mean length of a bout (s)",
}
CHANGE_MEASURES = {
    "transitions": "changes per minute spent in the first state",
    "transition_shares": "share of the changes out of the first state",
}
RECORDING_MEASURES = {
    "entropy": "entropy of usage, 0 (one state only) to 1 (all states equal)",
    "changes_per_min": "changes of state per minute of labelled time",
}
MEASURES = STATE_MEASURES | CHANGE_MEASURES | RECORDING_MEASURES
SHARES = ("usage", "transition_shares")  # shown in percent
RESERVED = (  # columns of tables
    "state", "name", "minute", "changes", "changes_per_min", "from_state", "to_state", *STATE_MEASURES, *CHANGE_MEASURES
)  # fmt: skip
MOST_STATES = 1_000


@dataclass(frozen=True, eq=False)
class Recording:
    """The states of one recording.

    labels          [T] state of each sample, -1 if unlabelled
    rate_hz         samples per second
    soft            [T, K] soft states, if known; NaN rows have no state
    start_seconds   time of the first sample on the recording's clock
    """

    labels: Codes
    rate_hz: float
    soft: npt.NDArray[np.float32] | None = None
    start_seconds: float = 0.0

    @property
    def n_samples(self) -> int:
        """Number of samples, T."""
        return len(self.labels)

    @property
    def labelled(self) -> int:
        """Number of samples with a state."""
        return int((self.labels >= 0).sum())


def make_recording(name: str, states: npt.ArrayLike, rate_hz: float) -> Recording:
    """Make a recording from integer states [T] (-1 unlabelled) or soft states [T, K]."""
    where = f"The states of {name!r}"
    given = np.asarray(states)
    if given.dtype == bool:
        given = given.astype(np.int8)
    if given.ndim == 2 and given.shape[1] == 1:  # a column of states
        given = given[:, 0]
    if not (np.isfinite(rate_hz) and rate_hz > 0):
        raise DataError(f"{where}: rate_hz is {rate_hz}; it must be positive, in samples per second.")
    if given.ndim not in (1, 2) or given.size == 0 or given.dtype.kind not in "iuf":
        raise DataError(
            f"{where} have shape {given.shape} and type {given.dtype}; expected [time] integers (-1 unlabelled) or "
            "soft states [time, states]. If states are strings, number them and pass `names`."
        )
    if given.ndim == 2:
        soft = np.asarray(given, np.float32)
        known = np.isfinite(soft).all(axis=1)
        if (soft[known] < -1e-4).any() or (np.abs(soft[known].sum(axis=1) - 1) > 1e-2).any():
            raise DataError(f"{where} are not proportions: each row must be non-negative and sum to 1, or be NaN.")
        strongest = np.where(known, np.nan_to_num(soft, nan=0.0).argmax(axis=1), UNLABELLED)
        return Recording(strongest.astype(np.int32), float(rate_hz), soft)
    if given.dtype.kind == "f":
        if not (np.isnan(given) | (np.floor(given) == given)).all():
            raise DataError(f"{where} are not integers. Pass soft states as [time, states].")
        given = np.where(np.isnan(given), UNLABELLED, given)
    if given.min() < UNLABELLED or given.max() >= MOST_STATES:
        raise DataError(
            f"{where} range from {given.min()} to {given.max()}; expected 0 to {MOST_STATES - 1}, or -1 for unlabelled."
        )
    return Recording(given.astype(np.int32), float(rate_hz))


@dataclass(frozen=True, eq=False)
class Counts:
    """Statistics of the K states of a study in R recordings.

    recordings   the recordings, in order
    states       state numbers, in the order of all arrays
    """

    recordings: tuple[Recording, ...]
    states: tuple[int, ...]

    @cached_property
    def rates(self) -> Floats:
        """Samples per second [R]."""
        return np.array([one.rate_hz for one in self.recordings])

    @cached_property
    def runs(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Arrays (recording, index into `states`, first sample, length) over the bouts of all recordings."""
        parts = []
        for row, one in enumerate(self.recordings):
            first, after = find_bouts(one.labels).T
            state = one.labels[first]
            place = np.searchsorted(self.states, state)
            parts.append(np.stack([np.full(len(state), row), place, first, after - first])[:, state >= 0])
        recording, place, first, long = np.concatenate(parts, axis=1)
        return recording, place, first, long

    def _sum_bouts(self, values: Floats | None = None) -> Floats:
        """Return the sum [R, K] of `values` over bouts, or the number of bouts."""
        recording, place, _, _ = self.runs
        shape = len(self.recordings), len(self.states)
        cells = recording * shape[1] + place
        return np.bincount(cells, values, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)

    @cached_property
    def seconds(self) -> Floats:
        """Seconds [R, K] in each state."""
        recording, _, _, long = self.runs
        return self._sum_bouts(long / self.rates[recording])

    @cached_property
    def labelled_minutes(self) -> Floats:
        """Minutes [R] with a state."""
        return np.array([one.labelled / one.rate_hz / 60 for one in self.recordings])

    @cached_property
    def usage(self) -> Floats:
        """Share [R, K] of the labelled time, or the mean soft states if known."""
        minutes = self.labelled_minutes[:, None]
        found = ratio(self.seconds / 60, minutes)
        for row, one in enumerate(self.recordings):
            if one.soft is not None and one.labelled:
                known = one.soft if one.labelled == one.n_samples else one.soft[one.labels >= 0]
                found[row] = known.mean(axis=0, dtype=np.float64)[list(self.states)]
        return found

    @cached_property
    def zero_share(self) -> float:
        """Share that replaces zeros in log-ratios: half of the smallest other one."""
        return float(self.usage[self.usage > 0].min() / 2)

    def _count_changes(self, *, across_gaps: bool) -> Floats:
        recording, place, first, long = self.runs
        n, k = len(self.recordings), len(self.states)
        follows = (recording[1:] == recording[:-1]) & (place[1:] != place[:-1])
        follows &= across_gaps | (first[1:] == first[:-1] + long[:-1])
        cells = (recording[:-1] * k + place[:-1]) * k + place[1:]
        return np.bincount(cells[follows], minlength=n * k * k).reshape(n, k, k).astype(np.float64)

    @cached_property
    def changes(self) -> Floats:
        """Number [R, K, K] of changes from row to column, across gaps."""
        return self._count_changes(across_gaps=True)

    @cached_property
    def observed_changes(self) -> Floats:
        """Number [R, K, K] of changes from row to column between adjacent samples."""
        return self._count_changes(across_gaps=False)

    @cached_property
    def observed_minutes(self) -> Floats:
        """Minutes [R, K] in each state in which the next sample has a state too."""
        found = np.zeros((len(self.recordings), len(self.states)))
        for row, one in enumerate(self.recordings):
            followed = one.labels[:-1][(one.labels[:-1] >= 0) & (one.labels[1:] >= 0)]
            places = np.searchsorted(self.states, followed)
            found[row] = np.bincount(places, minlength=len(self.states)) / one.rate_hz / 60
        return found

    @property
    def change_rates(self) -> Floats:
        """Changes [R, K, K] per minute of valid time, NaN without any."""
        return ratio(self.observed_changes, self.observed_minutes.sum(axis=1)[:, None, None])

    def measure(self, name: str) -> Floats:
        """Return a measure of MEASURES: [R, K] of states, [R, K, K] of changes, or [R] of recordings; NaN if undefined."""
        usage, bouts, minutes = self.usage, self._sum_bouts(), self.labelled_minutes[:, None]
        match name:
            case "usage":
                return usage
            case "log_ratio":
                logs = np.log(np.where(usage == 0, self.zero_share, usage))
                return np.asarray(logs - logs.mean(axis=1, keepdims=True))
            case "bouts":
                return np.where(minutes == 0, np.nan, bouts)
            case "bouts_per_min":
                return ratio(bouts, minutes)
            case "mean_bout_s":
                return ratio(self.seconds, bouts)
            case "median_bout_s":
                recording, place, _, long = self.runs
                found = pd.Series(long).groupby(recording * len(self.states) + place).median()
                return found.reindex(range(bouts.size)).to_numpy().reshape(bouts.shape) / self.rates[:, None]
            case "transitions":
                return ratio(self.observed_changes, self.observed_minutes[:, :, None])
            case "transition_shares":
                return ratio(self.changes, self.changes.sum(axis=2, keepdims=True))
            case "entropy":
                logs = np.log(np.where(usage > 0, usage, 1.0))
                return np.asarray(-(usage * logs).sum(axis=1) / np.log(max(2, len(self.states))))
            case "changes_per_min":
                return ratio(self.observed_changes.sum(axis=(1, 2)), self.observed_minutes.sum(axis=1))
        raise ConfigError(f"There is no measure {name!r}.")

    def usage_over_time(self, bin_s: float) -> list[Floats]:
        """Return each recording's usage [bins, K] in bins of `bin_s` seconds, NaN if unlabelled."""
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


def collect_states(recordings: Sequence[Recording], names: Mapping[int, str] | None = None) -> tuple[int, ...]:
    """Return all K of soft states, or else states that occur or have names."""
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
        raise DataError(f"There are {k} soft states, numbered from 0, but labels or names include state {max(seen)}.")
    return tuple(range(k))


def parse_names(names: Mapping[int, str] | Sequence[str] | None) -> dict[int, str]:
    """Return number -> name from a mapping, or a list from state 0."""
    found: dict[Any, Any] = dict(names if isinstance(names, Mapping) else enumerate(names or ()))
    return {int(state): str(name) for state, name in found.items() if str(name).strip()}


FEWEST_BOUTS = 10  # or changes, over all compared recordings
FEWEST_ANIMALS = 3  # all animals if there are fewer
LEAST_SHARE = 0.0005  # mean over the compared recordings
MANY_UNUSED = 0.25  # share of rare states from which a sentence says so
COMMON_SHARE = 0.01  # mean share from which few bouts do not matter, and an unused state is no reason to fit fewer
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Occurrence:
    """States and changes that are common enough to test in the compared recordings.

    A state is used if it is the strongest in enough animals and has enough bouts or mean share; a hard state is always the
    strongest where it occurs.

    used          [K] mask of states
    used_changes  [K, K] mask of changes from row to column
    unused        name -> description of how rare it is, for each other state
    unused_share  largest mean share of an unused state
    word          what the sheet calls an animal
    """

    used: Bools
    used_changes: Bools
    unused: dict[str, str]
    unused_share: float
    word: str

    @classmethod
    def in_recordings(cls, counts: Counts, rows: Ints, subjects: Ints, names: Iterable[str], word: str) -> Occurrence:
        """Count the states and changes of some recordings.

        rows       indices into `counts`
        subjects   number of the animal of each recording
        names      names of the states
        word       what the sheet calls an animal
        """

        def count_each(values: Floats) -> tuple[Ints, Ints]:
            """Return how often each column occurs, and in how many animals."""
            per_animal = pd.DataFrame(values[rows].reshape(len(rows), -1)).groupby(subjects).sum()
            return per_animal.sum().to_numpy(np.int64), (per_animal > 0).sum().to_numpy()

        n, share = len(np.unique(subjects)), known_mean(counts.usage[rows])
        (bouts, animals), (changes, changing) = count_each(counts.measure("bouts")), count_each(counts.changes)
        fewest = min(FEWEST_ANIMALS, n)
        used = (animals >= fewest) & (share >= LEAST_SHARE) & ((bouts >= FEWEST_BOUTS) | (share >= COMMON_SHARE))
        common = ((changes >= FEWEST_BOUTS) & (changing >= fewest)).reshape(len(used), len(used))
        unused = {
            name: f"{plural(its_bouts, 'bout')} in {its_animals} of {plural(n, word)}, mean share {its_share:.2%}"
            for name, its_bouts, its_animals, its_share, yes in zip(names, bouts, animals, share, used, strict=True)
            if not yes
        }
        return cls(used, common & used[:, None] & used, unused, float(share[~used].max(initial=0.0)), word)

    def tested(self, measure: str, n_rows: int) -> Bools:
        """Return a mask [M] of the rows of a measure to test."""
        if measure in STATE_MEASURES:
            return self.used
        if measure in CHANGE_MEASURES:
            return self.used_changes[~np.eye(len(self.used), dtype=bool)]
        return np.ones(n_rows, dtype=bool)

    def describe_untested(self, measure: str) -> list[str]:
        """Return sentences on the states and changes that are not tested."""
        notes = []
        if self.unused and measure in STATE_MEASURES | CHANGE_MEASURES:
            each = "; ".join(f"{name}: {what}" for name, what in self.unused.items())
            notes.append(f"Rare states are not tested ({describe_minimum(self.word)}): {each}.")
        pairs = self.used[:, None] & self.used & ~np.eye(len(self.used), dtype=bool)
        if measure in CHANGE_MEASURES and (rare := int((pairs & ~self.used_changes).sum())):
            few = f"fewer than {FEWEST_BOUTS} times or in fewer than {FEWEST_ANIMALS} {pluralise(self.word)}"
            notes.append(f"{rare} changes between used states are not tested: they occur {few}.")
        return notes


def describe_minimum(word: str) -> str:
    """Return when a state is not tested; `word` is what the sheet calls an animal."""
    few = f"strongest in fewer than {FEWEST_ANIMALS} {pluralise(word)}, a mean share below {LEAST_SHARE:.2%}"
    return f"{few}, or fewer than {FEWEST_BOUTS} bouts and below {COMMON_SHARE:.0%}"


def advise_fewer_states(found: Occurrence) -> list[str]:
    """Return a sentence if many states are too rare to test."""
    n, n_states = len(found.unused), len(found.used)
    if n < 2 or n < MANY_UNUSED * n_states:
        return []
    if found.unused_share >= COMMON_SHARE:
        return [f"{n} states are rarely the strongest (mean share up to {found.unused_share:.0%}) and not tested."]
    return [f"{n} of {n_states} states are rare and not tested. Fit fewer, about {max(2, n_states - n)}."]
