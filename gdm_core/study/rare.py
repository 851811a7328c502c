"""States and changes that are too rare to test and do not count in the correction of p values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core.study.states import CHANGE_MEASURES, STATE_MEASURES, Counts
from gdm_core.study.text import count, plural

FEWEST_BOUTS = 10  # or changes, over all compared recordings
FEWEST_ANIMALS = 3  # all animals if there are fewer
LEAST_SHARE = 0.0005  # of the labelled time
MANY_UNUSED = 0.25  # share of unused states from which fewer states are advised
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Occurrence:
    """Occurrence of each state and change in the compared recordings.

    bouts     [K] number of bouts
    share     [K] share of the labelled time
    animals   [K] number of animals with a bout
    n         number of animals
    changes   [K, K] number of changes from row to column
    animals_with_change   [K, K] number of animals with such a change
    word      what the sheet calls an animal
    """

    bouts: Ints
    share: npt.NDArray[np.float64]
    animals: Ints
    n: int
    changes: Ints
    animals_with_change: Ints
    word: str

    @classmethod
    def in_recordings(cls, counts: Counts, rows: Ints, subjects: Ints, word: str) -> Occurrence:
        """Count the states and changes of some recordings.

        rows       indices into `counts`
        subjects   number of the animal of each recording
        word       what the sheet calls an animal
        """
        bouts, changes, seconds = counts.measure_states("bouts")[rows], counts.changes[rows], counts.seconds[rows]
        animals = np.unique(subjects)
        of_animal = subjects == animals[:, None]
        return cls(
            bouts=np.nansum(bouts, axis=0).astype(np.int64),
            share=seconds.sum(axis=0) / max(float(seconds.sum()), 1e-9),
            animals=np.sum([(bouts[mine] > 0).any(axis=0) for mine in of_animal], axis=0),
            n=len(animals),
            changes=changes.sum(axis=0).astype(np.int64),
            animals_with_change=np.sum([(changes[mine] > 0).any(axis=0) for mine in of_animal], axis=0),
            word=word,
        )

    @property
    def used(self) -> Bools:
        """States [K] that reach the minimum."""
        common = (self.bouts >= FEWEST_BOUTS) & (self.share >= LEAST_SHARE)
        found: Bools = common & (self.animals >= min(FEWEST_ANIMALS, self.n))
        return found

    @property
    def used_changes(self) -> Bools:
        """Changes [K, K] that reach the minimum, as do both states."""
        common = (self.changes >= FEWEST_BOUTS) & (self.animals_with_change >= min(FEWEST_ANIMALS, self.n))
        found: Bools = common & self.used[:, None] & self.used
        return found

    def tested(self, measure: str, n_rows: int) -> Bools:
        """Return a mask [M] of the rows of a measure to test."""
        if measure in STATE_MEASURES:
            return self.used
        if measure in CHANGE_MEASURES:
            return self.used_changes[~np.eye(len(self.used), dtype=bool)]
        return np.ones(n_rows, dtype=bool)

    def unused(self, names: Sequence[str]) -> dict[str, str]:
        """Return name -> description of how rarely it occurs, for each unused state."""
        return {
            name: f"{count(bouts, 'bout')}, strongest in {share:.2%} of the time, {animals} of {count(self.n, self.word)}"
            for name, used, bouts, share, animals in zip(
                names, self.used, self.bouts, self.share, self.animals, strict=True
            )
            if not used
        }


def describe_minimum(word: str) -> str:
    """Return when a state is unused; `word` is what the sheet calls an animal."""
    return f"fewer than {FEWEST_BOUTS} bouts or {FEWEST_ANIMALS} {plural(word)}, or below {LEAST_SHARE:.2%} of the labelled time"


def advise_fewer_states(n_unused: int, n_states: int) -> list[str]:
    """Return a sentence that advises fewer states if many are unused."""
    if n_unused < 2 or n_unused < MANY_UNUSED * n_states:
        return []
    return [f"{n_unused} of {n_states} states are unused. Fit fewer, about {max(2, n_states - n_unused)}."]


def describe_untested(occurrence: Occurrence, measure: str, names: Sequence[str]) -> list[str]:
    """Return sentences on the states and changes that are not tested."""
    unused = occurrence.unused(names)
    notes = []
    if unused and measure in (*STATE_MEASURES, *CHANGE_MEASURES):
        each = "; ".join(f"{name}: {what}" for name, what in unused.items())
        notes.append(f"Unused states are not tested ({describe_minimum(occurrence.word)}): {each}.")
    if measure in CHANGE_MEASURES:
        pairs = occurrence.used[:, None] & occurrence.used & ~np.eye(len(names), dtype=bool)
        if rare := int((pairs & ~occurrence.used_changes).sum()):
            notes.append(
                f"{rare} changes between used states are not tested: they occur fewer than {FEWEST_BOUTS} times or in fewer "
                f"than {FEWEST_ANIMALS} {plural(occurrence.word)}."
            )
    return notes
