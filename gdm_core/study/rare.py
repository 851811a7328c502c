"""States and changes that are too rare to test and do not count in the correction of p values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.maths.gaps import known_mean
from gdm_core.study.states import CHANGE_MEASURES, STATE_MEASURES, Counts, Floats
from gdm_core.text import plural, pluralise

FEWEST_BOUTS = 10  # or changes, over all compared recordings
FEWEST_ANIMALS = 3  # all animals if there are fewer
LEAST_SHARE = 0.0005  # of the labelled time
MANY_UNUSED = 0.25  # share of rare states from which a sentence says so
SOFT_SHARE = 0.01  # mean share from which a state that is never the strongest is no reason to fit fewer
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Occurrence:
    """States and changes that are common enough to test in the compared recordings.

    used          [K] mask of states
    used_changes  [K, K] mask of changes from row to column
    unused        name -> description of how rarely it is the strongest, for each other state
    unused_share  largest mean share of an unused state
    word          what the sheet calls an animal
    """

    used: Bools
    used_changes: Bools
    unused: dict[str, str]
    unused_share: float
    word: str

    @classmethod
    def in_recordings(cls, counts: Counts, rows: Ints, subjects: Ints, names: Sequence[str], word: str) -> Occurrence:
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

        n = len(np.unique(subjects))
        bouts, animals = count_each(counts.measure_states("bouts"))
        changes, changing = count_each(counts.changes)
        seconds = counts.seconds[rows].sum(axis=0)
        share = seconds / max(float(seconds.sum()), 1e-9)
        usage = known_mean(counts.usage[rows])
        fewest = min(FEWEST_ANIMALS, n)
        used = (bouts >= FEWEST_BOUTS) & (share >= LEAST_SHARE) & (animals >= fewest)
        common = ((changes >= FEWEST_BOUTS) & (changing >= fewest)).reshape(len(used), len(used))
        rarely = [
            f"{plural(its_bouts, 'bout')}, strongest in {its_share:.2%} of the time, mean share {mean:.2%}, {its_animals} of "
            f"{plural(n, word)}"
            for its_bouts, its_share, mean, its_animals in zip(bouts, share, usage, animals, strict=True)
        ]
        unused = {name: text for name, text, yes in zip(names, rarely, used, strict=True) if not yes}
        soft = float(usage[~used].max()) if unused else 0.0
        return cls(used, common & used[:, None] & used, unused, soft, word)

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
        if self.unused and measure in (*STATE_MEASURES, *CHANGE_MEASURES):
            each = "; ".join(f"{name}: {what}" for name, what in self.unused.items())
            notes.append(
                f"States that are rarely the strongest are not tested ({describe_minimum(self.word)}): {each}."
            )
        if measure in CHANGE_MEASURES:
            pairs = self.used[:, None] & self.used & ~np.eye(len(self.used), dtype=bool)
            if rare := int((pairs & ~self.used_changes).sum()):
                notes.append(
                    f"{rare} changes between used states are not tested: they occur fewer than {FEWEST_BOUTS} times or in fewer "
                    f"than {FEWEST_ANIMALS} {pluralise(self.word)}."
                )
        return notes


def describe_minimum(word: str) -> str:
    """Return when a state is not tested; `word` is what the sheet calls an animal."""
    return f"fewer than {FEWEST_BOUTS} bouts or {FEWEST_ANIMALS} {pluralise(word)}, or below {LEAST_SHARE:.2%} of the labelled time"


def advise_fewer_states(found: Occurrence) -> list[str]:
    """Return a sentence if many states are too rare to test."""
    n, n_states = len(found.unused), len(found.used)
    if n < 2 or n < MANY_UNUSED * n_states:
        return []
    if found.unused_share >= SOFT_SHARE:
        return [f"{n} states are rarely the strongest (mean share up to {found.unused_share:.0%}) and not tested."]
    return [f"{n} of {n_states} states are rare and not tested. Fit fewer, about {max(2, n_states - n)}."]
