"""What is counted of a study, as tidy tables: a row for each recording and state, bout, pair of states or stretch of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from gdm_core.errors import ConfigError
from gdm_core.study.sheet import RECORDING, Sheet, listed, near
from gdm_core.study.states import OF_CHANGES, OF_RECORDINGS, OF_STATES, Counts, Floats, Recording


@dataclass(frozen=True, eq=False)
class Counted:
    """The part of a `Study` that counts.

    sheet       a row for each recording, matched by name
    recordings  their states by name
    states      the numbers of all states, as the data has them
    names       of states, by number
    """

    sheet: Sheet
    recordings: Mapping[str, Recording]
    states: tuple[int, ...]
    names: Mapping[int, str] = field(default_factory=dict)

    @cached_property
    def counts(self) -> Counts:
        """Bouts and changes of all recordings that take part, in the order of the sheet."""
        return Counts(tuple(self.recordings[name] for name in self.sheet.names), self.states)

    @property
    def conditions(self) -> pd.DataFrame:
        """The sheet's rows of the recordings that take part, in the order of `counts`."""
        frame = self.sheet.frame
        return frame[frame[RECORDING].isin(self.sheet.names)].reset_index(drop=True)

    def called(self, state: int) -> str:
        """What a state is called in words and figures.

        state   its number
        """
        return self.names.get(state, f"state {state}")

    def _labels(self) -> pd.DataFrame:
        labels = pd.DataFrame({"state": list(self.states)})
        return labels.assign(name=[self.called(state) for state in self.states]) if self.names else labels

    def _long(self, values: Mapping[str, Floats], labels: pd.DataFrame) -> pd.DataFrame:
        """A row for each recording and label, with the sheet's columns."""
        left, k = self.conditions, len(labels)
        long = left.loc[left.index.repeat(k)].reset_index(drop=True)
        tiled = pd.concat([labels] * len(left), ignore_index=True)
        return pd.concat([long, tiled, pd.DataFrame({name: one.ravel() for name, one in values.items()})], axis=1)

    def measures(self) -> pd.DataFrame:
        """A row for each recording and state: the sheet's columns, usage, bouts, bouts_per_min, median_bout_s, mean_bout_s."""
        table = self._long({name: self.counts.of_states(name) for name in OF_STATES}, self._labels())
        if not table["bouts"].isna().any():
            table["bouts"] = table["bouts"].astype(np.int64)
        return table

    def transitions(self) -> pd.DataFrame:
        """A row for each recording and pair of states: from_state, to_state, changes, and the measures of OF_CHANGES."""
        values = {"changes": self.counts.changes} | {name: self.counts.of_changes(name) for name in OF_CHANGES}
        apart = ~np.eye(len(self.states), dtype=bool)
        return self._long({name: one[:, apart] for name, one in values.items()}, self._pairs())

    def _pairs(self) -> pd.DataFrame:
        return pd.DataFrame(
            [(a, b) for a in self.states for b in self.states if a != b], columns=["from_state", "to_state"]
        )

    def bouts(self) -> pd.DataFrame:
        """A row for each bout: recording, state, start_s, stop_s and duration_s, on the recording's clock."""
        recording, place, first, long = self.counts.runs
        rates = self.counts.rates[recording]
        start = np.array([one.start_seconds for one in self.counts.recordings])[recording] + first / rates
        table = pd.DataFrame({RECORDING: np.array(self.sheet.names)[recording]})
        table = table.join(self._labels().iloc[place].reset_index(drop=True))
        return table.assign(start_s=start, stop_s=start + long / rates, duration_s=long / rates)

    def clips(self, state: int, n: int = 6, most_s: float = 4.0, around_s: float = 0.5) -> pd.DataFrame:
        """Typical bouts of a state, each of another animal as far as there are enough: recording, first sample and the one after
        the last, with a while around, and the bout's own. Chosen blind to the sheet, but for whose a recording is.

        state      its number
        n          how many
        most_s     seconds of a bout that are shown
        around_s   seconds before and after
        """
        if state not in self.states:
            raise ConfigError(f"There is no state {state}; the study has {listed(self.states)}.")
        recording, _, first, long = (part[self.counts.runs[1] == self.states.index(state)] for part in self.counts.runs)
        found = pd.DataFrame({RECORDING: np.array(self.sheet.names)[recording], "bout_first": first, "long": long})
        found["rate"] = self.counts.rates[recording]
        found["of"] = [self.counts.recordings[one].n_samples for one in recording]
        seconds = (found["long"] / found["rate"]).map(np.log)
        found = found.assign(odd=(seconds - seconds.median()).abs().round(1)).sample(frac=1, random_state=state)
        found = found.sort_values("odd", kind="stable")  # of bouts as typical, any
        turn = found.groupby(found[RECORDING].map(self.sheet.animals)).cumcount()
        found = found.loc[turn.sort_values(kind="stable").index[:n]].reset_index(drop=True)
        around = (around_s * found["rate"]).round().astype(np.int64)
        found["bout_after"] = found["bout_first"] + np.minimum(
            found["long"], (most_s * found["rate"]).round().astype(np.int64)
        )
        found["first"] = np.maximum(0, found["bout_first"] - around)
        found["after"] = np.minimum(found["of"], found["bout_after"] + around)
        return found[[RECORDING, "first", "after", "bout_first", "bout_after"]]

    def over_time(self, bin_s: float = 60.0) -> pd.DataFrame:
        """A row for each recording, stretch of time and state: its usage over the minutes since the recording began.

        bin_s   seconds of a stretch
        """
        parts, labels = [], self._labels()
        for name, usage in zip(self.sheet.names, self.counts.usage_over_time(bin_s), strict=True):
            n = len(usage)
            part = pd.concat([labels] * n, ignore_index=True)
            part.insert(0, "minute", np.repeat(np.arange(n) * bin_s / 60, len(labels)))
            parts.append(part.assign(usage=usage.ravel()).assign(**{RECORDING: name}))
        return self.conditions.merge(pd.concat(parts, ignore_index=True), on=RECORDING)

    def values_of(self, measure: str) -> tuple[Floats, pd.DataFrame, str]:
        """[R, M] values of a measure, what each column is, and the measure in words."""
        if measure in OF_STATES:
            return self.counts.of_states(measure), self._labels(), OF_STATES[measure]
        if measure in OF_CHANGES:
            apart = ~np.eye(len(self.states), dtype=bool)
            return self.counts.of_changes(measure)[:, apart], self._pairs(), OF_CHANGES[measure]
        whole = pd.DataFrame({"state": ["all"]})
        if measure in OF_RECORDINGS:
            return self.counts.of_recordings(measure)[:, None], whole, OF_RECORDINGS[measure]
        frame = self.conditions
        if measure in frame and pd.api.types.is_numeric_dtype(frame[measure].dtype):
            return frame[measure].to_numpy(np.float64)[:, None], whole, measure
        known = [*OF_STATES, *OF_CHANGES, *OF_RECORDINGS]
        raise ConfigError(
            f"There is no measure {measure!r}{near(measure, known)}: choose one of {', '.join(known)}, or a column of numbers in "
            "the sheet."
        )
