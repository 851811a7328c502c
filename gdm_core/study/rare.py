"""States and changes that are too rare to be tested: they leave the family that p values are corrected over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core.study.states import OF_CHANGES, OF_STATES, Counts

FEWEST_BOUTS = 10  # or changes, over all recordings that are compared
FEWEST_ANIMALS = 3  # in which it occurs; all of them where a study has fewer
LEAST_SHARE = 0.0005  # of the labelled time
MANY = 0.25  # share of unused states from which fewer states are advised
MINIMUM = (
    f"fewer than {FEWEST_BOUTS} bouts or {FEWEST_ANIMALS} animals, or below {LEAST_SHARE:.2%} of the labelled time"
)
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Occurrence:
    """How often each state occurs in the recordings that are compared.

    bouts     [K] number of bouts
    share     [K] share of the labelled time
    animals   [K] number of animals with a bout
    n         number of animals
    changes   [K, K] number of changes from row to column
    animals_with_change   [K, K] number of animals with such a change
    """

    bouts: Ints
    share: npt.NDArray[np.float64]
    animals: Ints
    n: int
    changes: Ints
    animals_with_change: Ints

    @classmethod
    def in_recordings(cls, counts: Counts, rows: Ints, whose: Ints) -> Occurrence:
        """Count in some recordings.

        rows    recordings, as places in `counts`
        whose   the number of the animal of each
        """
        bouts, changes, seconds = counts.of_states("bouts")[rows], counts.changes[rows], counts.seconds[rows]
        animals = np.unique(whose)
        of_animal = whose == animals[:, None]
        return cls(
            bouts=np.nansum(bouts, axis=0).astype(np.int64),
            share=seconds.sum(axis=0) / max(float(seconds.sum()), 1e-9),
            animals=np.sum([(bouts[mine] > 0).any(axis=0) for mine in of_animal], axis=0),
            n=len(animals),
            changes=changes.sum(axis=0).astype(np.int64),
            animals_with_change=np.sum([(changes[mine] > 0).any(axis=0) for mine in of_animal], axis=0),
        )

    @property
    def used(self) -> Bools:
        """[K] whether a state reaches the minimum."""
        common = (self.bouts >= FEWEST_BOUTS) & (self.share >= LEAST_SHARE)
        found: Bools = common & (self.animals >= min(FEWEST_ANIMALS, self.n))
        return found

    @property
    def used_changes(self) -> Bools:
        """[K, K] whether both states and the change between them reach the minimum."""
        common = (self.changes >= FEWEST_BOUTS) & (self.animals_with_change >= min(FEWEST_ANIMALS, self.n))
        found: Bools = common & self.used[:, None] & self.used
        return found

    def tested(self, measure: str, n_rows: int) -> Bools:
        """[M] whether each row of a measure is tested."""
        if measure in OF_STATES:
            return self.used
        if measure in OF_CHANGES:
            return self.used_changes[~np.eye(len(self.used), dtype=bool)]
        return np.ones(n_rows, dtype=bool)

    def unused(self, names: Sequence[str]) -> dict[str, str]:
        """Name of each unused state -> what there is of it.

        names   of all states
        """
        return {
            name: f"{bouts} bouts, {share:.2%} of the time, {animals} of {self.n} animals"
            for name, used, bouts, share, animals in zip(
                names, self.used, self.bouts, self.share, self.animals, strict=True
            )
            if not used
        }


def advice(n_unused: int, n_states: int) -> list[str]:
    """Advise to fit fewer states where many are unused."""
    if n_unused < 2 or n_unused < MANY * n_states:
        return []
    return [f"{n_unused} of {n_states} states are unused. Fit fewer, about {max(2, n_states - n_unused)}."]


def notes_of(occurrence: Occurrence, measure: str, names: Sequence[str]) -> list[str]:
    """What is not tested and why, in sentences."""
    unused = occurrence.unused(names)
    said = []
    if unused and measure in (*OF_STATES, *OF_CHANGES):
        each = "; ".join(f"{name}: {what}" for name, what in unused.items())
        said.append(f"Unused states are not tested ({MINIMUM}): {each}.")
    if measure in OF_CHANGES:
        pairs = occurrence.used[:, None] & occurrence.used & ~np.eye(len(names), dtype=bool)
        if rare := int((pairs & ~occurrence.used_changes).sum()):
            said.append(
                f"{rare} changes between used states are not tested: they occur fewer than {FEWEST_BOUTS} times or in fewer "
                f"than {FEWEST_ANIMALS} animals."
            )
    return said
