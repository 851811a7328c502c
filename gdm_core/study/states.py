"""States of many recordings and their statistics: usage, bouts, dwell times and transitions.

A bout is a run of one state. An unlabelled gap ends it, even if the state is the same afterwards. A change is from one state
to a different one, across gaps. Rates of changes count only changes between adjacent samples, per minute of adjacent
samples, so gaps do not bias them. Bouts cut by the ends of a recording count with their observed length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.analysis.bouts import find_bouts
from gdm_core.errors import ConfigError, DataError
from gdm_core.maths.gaps import ratio
from gdm_core.study.sheet import RECORDING, Sheet, did_you_mean, format_list
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
MOST_STATES = 1_000
MOST_S, AROUND_S = 4.0, 0.5  # longest part of a bout in a clip, and its context on either side


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

    def _count_changes(self, across_gaps: bool) -> Floats:
        recording, place, first, long = self.runs
        n, k = len(self.recordings), len(self.states)
        follows = (recording[1:] == recording[:-1]) & (place[1:] != place[:-1])
        if not across_gaps:
            follows &= first[1:] == first[:-1] + long[:-1]
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

    def measure_states(self, measure: str) -> Floats:
        """Return a measure [R, K] of STATE_MEASURES; bout lengths are NaN for states without bouts."""
        if measure == "usage":
            return self.usage
        if measure == "log_ratio":
            logs = np.log(np.where(self.usage == 0, self.zero_share, self.usage))
            return np.asarray(logs - logs.mean(axis=1, keepdims=True))
        bouts = self._sum_bouts()
        minutes = self.labelled_minutes[:, None]
        if measure == "bouts":
            return np.where(minutes == 0, np.nan, bouts)
        if measure == "bouts_per_min":
            return ratio(bouts, minutes)
        if measure == "mean_bout_s":
            return ratio(self.seconds, bouts)
        if measure != "median_bout_s":
            raise ConfigError(f"{measure!r} is not a measure of states.")
        recording, place, _, long = self.runs
        found = pd.Series(long).groupby(recording * len(self.states) + place).median()
        return found.reindex(range(bouts.size)).to_numpy().reshape(bouts.shape) / self.rates[:, None]

    def measure_changes(self, measure: str) -> Floats:
        """Return a measure [R, K, K] of CHANGE_MEASURES, NaN without changes or time."""
        if measure == "transitions":
            return ratio(self.observed_changes, self.observed_minutes[:, :, None])
        if measure != "transition_shares":
            raise ConfigError(f"{measure!r} is not a measure of transitions.")
        return ratio(self.changes, self.changes.sum(axis=2, keepdims=True))

    def measure_recordings(self, measure: str) -> Floats:
        """Return a measure [R] of RECORDING_MEASURES."""
        if measure == "entropy":
            share = self.usage
            if len(self.states) < 2:
                return np.zeros(len(share))
            logs = np.log(np.where(share > 0, share, 1.0))
            return np.asarray(-(share * logs).sum(axis=1) / np.log(len(self.states)))
        if measure != "changes_per_min":
            raise ConfigError(f"{measure!r} is not a measure of recordings.")
        return ratio(self.observed_changes.sum(axis=(1, 2)), self.observed_minutes.sum(axis=1))

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


@dataclass(frozen=True, eq=False)
class StudyTables:
    """The part of a `Study` that tabulates states, bouts and transitions.

    sheet       one row per recording
    recordings  name -> states
    states      state numbers, as in the data
    names       state number -> name
    scores      recording -> score of the model in nats per sample
    """

    sheet: Sheet
    recordings: Mapping[str, Recording]
    states: tuple[int, ...]
    names: Mapping[int, str] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def counts(self) -> Counts:
        """Bouts and changes of the included recordings, in the order of the sheet."""
        return Counts(tuple(self.recordings[name] for name in self.sheet.names), self.states)

    @property
    def conditions(self) -> pd.DataFrame:
        """Rows of the sheet for the included recordings, in the order of `counts`."""
        frame = self.sheet.frame
        return frame[frame[RECORDING].isin(self.sheet.names)].reset_index(drop=True)

    def state_name(self, state: int) -> str:
        """Return the name of a state, by default S1 for column 0 of soft states, or "state" and the number in the data."""
        return self.names.get(state, f"S{state + 1}" if self._has_soft_states else f"state {state}")

    @cached_property
    def _has_soft_states(self) -> bool:
        return any(one.soft is not None for one in self.recordings.values())

    def _labels(self) -> pd.DataFrame:
        return pd.DataFrame({"state": list(self.states), "name": [self.state_name(state) for state in self.states]})

    def _long(self, values: Mapping[str, Floats], labels: pd.DataFrame) -> pd.DataFrame:
        """Return a table with a row for each recording and label, and the sheet's columns."""
        left, k = self.conditions, len(labels)
        long = left.loc[left.index.repeat(k)].reset_index(drop=True)
        tiled = pd.concat([labels] * len(left), ignore_index=True)
        return pd.concat([long, tiled, pd.DataFrame({name: one.ravel() for name, one in values.items()})], axis=1)

    def measures(self) -> pd.DataFrame:
        """Return a table of the state measures, with a row for each recording and state."""
        table = self._long({name: self.counts.measure_states(name) for name in STATE_MEASURES}, self._labels())
        if not table["bouts"].isna().any():
            table["bouts"] = table["bouts"].astype(np.int64)
        return table

    def transitions(self) -> pd.DataFrame:
        """Return a table of changes, with a row per recording and pair of states.

        `flow` compares the column changes_per_min.
        """
        values = {"changes": self.counts.changes, "changes_per_min": self.counts.change_rates}
        values |= {name: self.counts.measure_changes(name) for name in CHANGE_MEASURES}
        apart = ~np.eye(len(self.states), dtype=bool)
        return self._long({name: one[:, apart] for name, one in values.items()}, self._pairs())

    def _pairs(self) -> pd.DataFrame:
        pairs = [
            (a, b, f"{self.state_name(a)} to {self.state_name(b)}") for a in self.states for b in self.states if a != b
        ]
        return pd.DataFrame(pairs, columns=["from_state", "to_state", "name"])

    def bouts(self) -> pd.DataFrame:
        """Return a table of bouts, with times on each recording's clock."""
        recording, place, first, long = self.counts.runs
        rates = self.counts.rates[recording]
        start = np.array([one.start_seconds for one in self.counts.recordings])[recording] + first / rates
        table = pd.DataFrame({RECORDING: np.array(self.sheet.names)[recording]})
        table = table.join(self._labels().iloc[place].reset_index(drop=True))
        return table.assign(start_s=start, stop_s=start + long / rates, duration_s=long / rates)

    def clips(self, state: int, n: int = 6) -> pd.DataFrame:
        """Return a table of typical bouts of different animals, blind to conditions.

        Samples `first` to `after` are the clip with its context, `bout_first` to `bout_after` the bout itself.

        state   number of the state
        n       number of clips
        """
        if state not in self.states:
            raise ConfigError(f"There is no state {state}; the study has {format_list(self.states)}.")
        recording, _, first, long = (part[self.counts.runs[1] == self.states.index(state)] for part in self.counts.runs)
        found = pd.DataFrame({RECORDING: np.array(self.sheet.names)[recording], "bout_first": first, "long": long})
        found["rate"] = self.counts.rates[recording]
        found["of"] = [self.counts.recordings[one].n_samples for one in recording]
        seconds = (found["long"] / found["rate"]).map(np.log)
        found = found.assign(odd=(seconds - seconds.median()).abs().round(1)).sample(frac=1, random_state=state)
        found = found.sort_values("odd", kind="stable")  # equally typical bouts stay shuffled
        turn = found.groupby(found[RECORDING].map(self.sheet.animals)).cumcount()
        found = found.loc[turn.sort_values(kind="stable").index[:n]].reset_index(drop=True)
        around = (AROUND_S * found["rate"]).round().astype(np.int64)
        found["bout_after"] = found["bout_first"] + np.minimum(
            found["long"], (MOST_S * found["rate"]).round().astype(np.int64)
        )
        found["first"] = np.maximum(0, found["bout_first"] - around)
        found["after"] = np.minimum(found["of"], found["bout_after"] + around)
        return found[[RECORDING, "first", "after", "bout_first", "bout_after"]]

    def measure_values(self, measure: str) -> tuple[Floats, pd.DataFrame]:
        """Return a measure's values [R, M] and a table of column labels."""
        if measure in STATE_MEASURES:
            return self.counts.measure_states(measure), self._labels()
        if measure in CHANGE_MEASURES:
            apart = ~np.eye(len(self.states), dtype=bool)
            return self.counts.measure_changes(measure)[:, apart], self._pairs()
        whole = pd.DataFrame({"state": ["all"], "name": ["whole recording"]})
        if measure in RECORDING_MEASURES:
            return self.counts.measure_recordings(measure)[:, None], whole
        frame = self.conditions
        if measure in frame and pd.api.types.is_numeric_dtype(frame[measure].dtype):
            return frame[measure].to_numpy(np.float64)[:, None], whole
        raise ConfigError(
            f"There is no measure {measure!r}{did_you_mean(measure, MEASURES)}. Choose one of {', '.join(MEASURES)}, or a numeric "
            "column of the sheet."
        )
