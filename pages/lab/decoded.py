"""One trial of a page, with or without states."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from gdm_core.analysis.bouts import median_bout
from gdm_core.arrays import Array, Ints
from gdm_core.trials import Trial
from gdm_core.units import SECONDS, STEPS, Unit, dwell_unit
from gdm_studio.plot import palette
from pages.lab.naming import LabelNames, Reference, StateNames
from pages.ui.plot import State


@dataclass(frozen=True, eq=False, kw_only=True)
class TrialView:
    """One trial in a picture, with or without states.

    state   status of the picture, for `plot(state=)`
    unit    unit of time
    words   names of the expert's labels, if there are any
    """

    trial: Trial
    state: State
    note: str = ""
    unit: Unit = SECONDS
    words: LabelNames | None = None

    @property
    def counted(self) -> Literal["s", "step"]:
        """Unit of time in exported tables."""
        return "step" if self.unit is STEPS else "s"

    @property
    def _sample(self) -> float:
        """Length of a sample, in seconds or steps."""
        return 1.0 / self.trial.rate_hz

    @property
    def timing(self) -> dict[str, Any]:
        """Start, step and unit of the time axis, as figures take them."""
        unit = self.unit
        return {"start": unit.convert(self.trial.start_seconds), "step": unit.convert(self._sample), "unit": unit.name}

    def dwell_unit(self, labels: Ints) -> Unit:
        """Return the unit of dwell times, which may be short in a long trial."""
        return dwell_unit(median_bout([labels]) * self._sample, self.unit)

    def lengths(self, labels: Ints) -> dict[str, Any]:
        """Return step and unit for dwell times."""
        unit = self.dwell_unit(labels)
        return {"step": unit.convert(self._sample), "unit": unit.plural}

    @property
    def expert(self) -> Ints | None:
        """Labels of the expert, None without any."""
        labels = self.trial.labels
        if self.words is None or labels is None or not (np.asarray(labels) >= 0).any():
            return None
        return np.asarray(labels, np.int64)

    @property
    def reference(self) -> Reference | None:
        """Reference: the expert's labels, or the true states of a simulation."""
        if (expert := self.expert) is not None and self.words is not None:
            words = self.words
            return Reference("expert", words.grouped(expert), words.one_hot(expert), words.names)
        return None if self.trial.states is None else Reference.from_truth(self.trial.states)


@dataclass(frozen=True, eq=False, kw_only=True)
class Undecoded(TrialView):
    """A trial without states; `title` and `note` explain why."""

    title: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Decoded(TrialView):
    """A trial with its states: named, merged and cut into bouts.

    states   [T, columns] in the order of colours
    bouts    [T] column of each sample's bout; the most probable state, unless a rule of bouts applies
    origin   identity of the fit; a figure must not mix states of several origins
    soft     [T, K] the states as fitted, neither named nor merged
    differs  [T, columns] the strongest state where it differs from the smoothed one, NaN elsewhere; for filtered states
    """

    states: Array
    bouts: Ints
    origin: object
    naming: StateNames
    soft: Array
    differs: Array | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return self.naming.names

    @property
    def used(self) -> list[int]:
        """Columns with a state."""
        return self.naming.used

    @property
    def looks(self) -> dict[str, Any]:
        """Names and colours of the columns with a state."""
        colours = palette.colours(len(self.names))
        return {"names": [self.names[k] for k in self.used], "colours": [colours[k] for k in self.used]}

    @property
    def shares(self) -> Array:
        """[T, states] in the columns with a state."""
        return self.states[:, self.used]


def mark_differences(states: Array, others: Array) -> tuple[Array, float]:
    """Return the strongest state [T, K] where it differs from that of `others`, NaN elsewhere, and the share of such samples."""
    known = np.isfinite(states).all(axis=1) & np.isfinite(others).all(axis=1)
    mine, other = np.nan_to_num(states).argmax(axis=1), np.nan_to_num(others).argmax(axis=1)
    changed = known & (mine != other)
    found = np.full(states.shape, np.nan, np.float32)
    found[changed] = np.eye(states.shape[1], dtype=np.float32)[mine[changed]]
    return found, float(changed.sum() / max(1, known.sum()))


D = TypeVar("D", bound=Decoded)


def together(trials: Iterable[D | Undecoded]) -> list[D]:
    """Return the decoded trials of the same fit as the first."""
    decoded = [trial for trial in trials if not isinstance(trial, Undecoded)]
    return [trial for trial in decoded if trial.origin is decoded[0].origin]
