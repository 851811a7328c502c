"""What the page looks at: one trial of the data, its states as the visitor named them, and the bouts made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis import looks
from gdm_core.analysis.bouts import BoutRule, median_bout
from gdm_core.trials import Trial, Trials
from pages.lab import live
from pages.lab.live.pictures import State
from pages.recording.data import Data
from pages.recording.naming import Naming
from pages.recording.units import SECONDS, Unit, unit_for

Array = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Here:
    """One trial, and what to draw on it. `states` and `bouts` are None while there is nothing; `unit` is that of time."""

    trial: Trial
    states: Array | None  # [T, K], named and merged
    bouts: npt.NDArray[np.int64] | None  # [T]
    names: tuple[str, ...]
    state: State
    unit: Unit = SECONDS
    naming: Naming | None = None

    @property
    def used(self) -> list[int]:
        """Columns that hold a state."""
        return list(range(len(self.names))) if self.naming is None else self.naming.used

    @property
    def numbers(self) -> tuple[int, ...]:
        """Which state each column is, counted from one."""
        return tuple(range(1, len(self.names) + 1)) if self.naming is None else self.naming.numbers

    @property
    def step(self) -> float:
        """From one sample to the next, in `unit`."""
        return self.unit.of(1.0 / self.trial.rate_hz)

    def stays(self, labels: npt.NDArray[np.int64]) -> Unit:
        """The unit for the lengths of stays, which may be short in a long trial."""
        return unit_for(median_bout([labels]) / self.trial.rate_hz)

    @property
    def start(self) -> float:
        return self.unit.of(self.trial.start_seconds)

    @property
    def labels(self) -> npt.NDArray[np.int64] | None:
        """Expert labels, None where there are none at all."""
        labels = self.trial.labels
        return None if labels is None or not (np.asarray(labels) >= 0).any() else np.asarray(labels, np.int64)


@dataclass(frozen=True, eq=False)
class View:
    """Which fit, which trial (fitted ones first), and what became of its states."""

    fit: live.Live
    shown: live.Shown
    look: looks.Look | None
    data: Data
    index: int
    naming: Naming
    rule: BoutRule
    exact: bool = True  # whether `look` holds the states as the model gives them, not in eight bits

    def at(self, shown: live.Shown) -> Here:
        """The trial and its states. New trials are looked at once a fit is done; until then an earlier look stays."""
        trial = self.data.trials[self.index]
        mine = shown.wanted is not None and shown.wanted.train.fingerprint == self.data.train.fingerprint
        soft, state = self._soft(shown) if mine else (None, shown.state)
        kept = self.fit.kept
        where = (trial.fingerprint, self.index)
        if soft is not None and state == "fresh":
            kept["here"] = (where, soft)
        elif soft is None and kept.get("here", (None,))[0] == where:
            soft, state = kept["here"][1], "stale"
        if soft is None or len(soft) != trial.n_samples:
            return Here(trial, None, None, self.naming.names, state, self.unit)
        naming = self.naming_for(soft.shape[1])
        states, bouts = shown.once(
            "here", lambda: self._made(soft, naming, trial), of=(soft,), settings=(naming, self.rule)
        )
        return Here(trial, states, bouts, naming.names, state, self.unit, naming)

    @property
    def unit(self) -> Unit:
        """Seconds beside the player, which counts them; else what suits the length of the trial."""
        trial = self.data.trials[self.index]
        return SECONDS if self.data.pose(self.index) is not None else unit_for(trial.n_samples / trial.rate_hz)

    def _made(self, soft: Array, naming: Naming, trial: Trial) -> tuple[Array, npt.NDArray[np.int64]]:
        states = naming.apply(soft)
        return states, self.rule.labels(states, trial.rate_hz)

    def naming_for(self, n_states: int) -> Naming:
        """The naming, unless the picture still has another number of states."""
        return self.naming if len(self.naming.into) == n_states else Naming.plain(n_states)

    def _soft(self, shown: live.Shown) -> tuple[Array | None, State]:
        """[T, K] of the trial in the order of colours, as fitted."""
        exact = self.look is not None and shown.result is self.shown.result and bool(shown.train)
        if exact and self.look is not None:
            parts = self.look.test if self.data.is_new(self.index) else self.look.train
            place = self.index - len(self.data.train) if self.data.is_new(self.index) else self.index
            if place < len(parts):
                mine = parts[place]
                soft = shown.once(("exact", self.index), lambda: live.in_order((mine,), shown.order)[0], of=(mine,))
                return soft, shown.state
        if not self.data.is_new(self.index) and self.index < len(shown.train):
            return shown.train[self.index], shown.state
        return None, shown.state

    def as_labels(self, shown: live.Shown, mapping: Sequence[int]) -> npt.NDArray[np.int64] | None:
        """[T] the label that each moment's state stands for, exactly as it is scored; None before there is a result.

        mapping [K] is in the model's own order of states.
        """
        soft, state = self._soft(shown)
        if soft is None or state != "fresh" or len(mapping) != len(shown.order):
            return None
        bouts = self.rule.labels(soft, self.data.trials[self.index].rate_hz)
        found: npt.NDArray[np.int64] = np.asarray(mapping, np.int64)[list(shown.order)][bouts]
        return found

    def stands(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(the merged state that each of the model's goes to, the label that each merged one is said to be), as `named` in
        bout_scores takes them. Merged states are counted in the order of the page's."""
        naming = self.naming_for(len(self.shown.order))
        place = {column: j for j, column in enumerate(naming.used)}
        into = [0] * len(naming.into)
        for k, column in enumerate(naming.into):
            into[self.shown.order[k]] = place[column]
        return tuple(into), tuple(naming.stands[column] for column in naming.used)

    def as_named(self, here: Here, mapping: Sequence[int]) -> npt.NDArray[np.int64]:
        """[T] the label that each moment's state is in the visitor's judgement; `mapping` is that of `named`."""
        assert here.bouts is not None
        assert here.naming is not None
        label = np.full(len(here.names), -1, np.int64)
        label[here.used] = np.asarray(mapping, np.int64)
        found: npt.NDArray[np.int64] = label[here.bouts]
        return found

    def ask(self, name: str, function: Callable[..., Any], *args: Any) -> live.Answer:
        """A question about the finished fit."""
        result = self.shown.result
        if result is None or self.shown.state == "preview":
            return live.Answer()
        key = "/".join([result.key, *(a.fingerprint if isinstance(a, Trial | Trials) else repr(a) for a in args)])
        return self.fit.ask(name, key, function, result.model_bytes, *args)
