"""States and changes that are too rare to test and do not count in the correction of p values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.maths.gaps import known_mean
from gdm_core.study.states import CHANGE_MEASURES, STATE_MEASURES, Counts, Floats
from gdm_core.text import plural, pluralise

FEWEST_BOUTS = 10  # or changes, over all compared recordings
FEWEST_ANIMALS = 3  # all animals if there are fewer
LEAST_SHARE = 0.0005  # mean over the compared recordings
MANY_UNUSED = 0.25  # share of rare states from which a sentence says so
SOFT_SHARE = 0.01  # mean share from which a state that is never the strongest is no reason to fit fewer
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Occurrence:
    """States and changes that are common enough to test in the compared recordings.

    A state is used if it is the strongest in enough bouts of enough animals, and has enough of the reported mean share; hard
    states are always the strongest.

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
        used = (bouts >= FEWEST_BOUTS) & (animals >= fewest) & (share >= LEAST_SHARE)
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
    few = f"strongest in fewer than {FEWEST_BOUTS} bouts or {FEWEST_ANIMALS} {pluralise(word)}"
    return f"{few}, or a mean share below {LEAST_SHARE:.2%}"


def advise_fewer_states(found: Occurrence) -> list[str]:
    """Return a sentence if many states are too rare to test."""
    n, n_states = len(found.unused), len(found.used)
    if n < 2 or n < MANY_UNUSED * n_states:
        return []
    if found.unused_share >= SOFT_SHARE:
        return [f"{n} states are rarely the strongest (mean share up to {found.unused_share:.0%}) and not tested."]
    return [f"{n} of {n_states} states are rare and not tested. Fit fewer, about {max(2, n_states - n)}."]
