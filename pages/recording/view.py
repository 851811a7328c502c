"""What the page looks at: one trial of the data, its states as the visitor named them, and the bouts made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.bouts import BoutRule, median_bout
from pages import lab
from pages.lab import live
from pages.recording.data import Data
from pages.recording.naming import Naming
from pages.recording.teach.taught_fit import WithWords
from pages.ui.units import SECONDS, STEPS, Unit, unit_of_stays

Array = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Here(lab.Reading):
    """One trial as named, merged and cut into bouts. `states` and `bouts` are None while there is nothing.

    soft    [T, K] the states as fitted, in the order of colours; `states` has them named and merged
    bouts   [T] the column of `states` that each moment's bout belongs to
    unit    that of time
    """

    naming: Naming = field(kw_only=True)
    unit: Unit = SECONDS
    soft: Array | None = None
    bouts: npt.NDArray[np.int64] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return self.naming.names

    @property
    def used(self) -> list[int]:
        """Columns that hold a state."""
        return self.naming.used

    @property
    def step(self) -> float:
        """From one sample to the next, in `unit`."""
        return self.unit.of(1.0 / self.trial.rate_hz)

    @property
    def counted(self) -> Literal["s", "step"]:
        """What exports count in."""
        return "step" if self.unit is STEPS else "s"

    def stays(self, labels: npt.NDArray[np.int64]) -> Unit:
        """The unit for the lengths of stays, which may be short in a long trial."""
        return unit_of_stays(median_bout([labels]) / self.trial.rate_hz, self.unit)

    @property
    def start(self) -> float:
        return self.unit.of(self.trial.start_seconds)

    @property
    def expert(self) -> npt.NDArray[np.int64] | None:
        """Expert labels, None where there are none at all."""
        labels = self.trial.labels
        return None if labels is None or not (np.asarray(labels) >= 0).any() else np.asarray(labels, np.int64)


@dataclass(frozen=True, eq=False)
class View(lab.View):
    """The page in one run of its script, with what became of its states.

    with_words   the fit that was taught words, where the page shows that; `untaught` is then the view of the one without
    """

    naming: Naming = field(kw_only=True)
    rule: BoutRule = field(kw_only=True)
    with_words: WithWords | None = None
    untaught: View | None = None

    @property
    def data(self) -> Data:
        data = self.setting.data
        assert isinstance(data, Data)
        return data

    def read(self, now: live.Shown | None = None, *, exact: bool = True) -> Here:
        """The trial that is looked at, by the model's own look where there is one."""
        now = now or self.shown
        found = super().read(now, exact=exact)
        soft = found.states
        naming = self.naming if soft is None else self.naming_for(soft.shape[1])
        states = bouts = None
        if soft is not None:
            states, bouts = now.once(
                "here", lambda: self._made(soft, naming), of=(soft, found.trial), settings=(naming, self.rule)
            )
        return Here(
            found.trial, states, found.state, found.origin, found.title, found.note,
            found.rough, naming=naming, unit=self.unit, soft=soft, bouts=bouts,
        )  # fmt: skip

    @property
    def unit(self) -> Unit:
        """Seconds beside the player, which counts them; else as on other pages."""
        return super().unit if self.data.pose(self.index) is None else SECONDS

    def _made(self, soft: Array, naming: Naming) -> tuple[Array, npt.NDArray[np.int64]]:
        states = naming.apply(soft)
        return states, self.rule.labels(states, self.trial.rate_hz)

    def naming_for(self, n_states: int) -> Naming:
        """The naming, unless the picture still has another number of states."""
        return self.naming if len(self.naming.into) == n_states else Naming.plain(n_states)

    def as_labels(self, here: Here, order: Sequence[int], mapping: Sequence[int]) -> npt.NDArray[np.int64] | None:
        """[T] the label that each moment's state stands for, exactly as it is scored; None before there is a result.

        mapping [K] is in the model's own order of states; column j of the page is its state order[j].
        """
        if here.soft is None or here.state != "fresh" or len(mapping) != len(order):
            return None
        found: npt.NDArray[np.int64] = np.asarray(mapping, np.int64)[list(order)][
            self.rule.labels(here.soft, here.trial.rate_hz)
        ]
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


def as_named(here: Here, mapping: Sequence[int]) -> npt.NDArray[np.int64]:
    """[T] the label that each moment's state is in the visitor's judgement; `mapping` is that of `bout_scores.named`."""
    assert here.bouts is not None
    label = np.full(len(here.names), -1, np.int64)
    label[here.used] = np.asarray(mapping, np.int64)
    found: npt.NDArray[np.int64] = label[here.bouts]
    return found
