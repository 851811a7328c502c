"""One number for the whole: the distance between how groups go from state to state (after von Ziegler et al. 2024)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from gdm_core.errors import ConfigError, DataError
from gdm_core.study.design import Design, out_of_reach
from gdm_core.study.permutation import Floats, orders

RATE, COUNT = "changes per minute of valid time", "changes per recording"
LENGTHS_ALIKE = 1.03  # the longest over the shortest recording, up to which numbers of changes can be compared


@dataclass(frozen=True, eq=False)
class Flow:
    """The flow test: Manhattan distance between the mean matrices of changes of groups, against animals re-labelled.

    distance   of the two groups; of several, the mean over all pairs
    z          how many standard deviations it lies above that of re-labelled studies
    p          share of re-labelled studies, this one among them, that lie as far apart
    n          units (animals)
    sizes      of each group
    means      of each group, the mean [K, K] of changes from row to column, in `unit`
    states     the numbers of the states, in the order of rows and columns
    null       distances of re-labelled studies
    unit       RATE, or COUNT where that was asked for
    notes      what a reader has to know
    """

    distance: float
    z: float
    p: float
    n: int
    sizes: dict[str, int]
    means: dict[str, Floats] = field(repr=False)
    states: tuple[int, ...] = field(repr=False)
    null: Floats = field(repr=False)
    unit: str = RATE
    notes: tuple[str, ...] = ()

    @property
    def test(self) -> str:
        """The test in words."""
        return f"permutation of animals, Manhattan distance of mean matrices of {self.unit}"

    @property
    def difference(self) -> Floats:
        """[K, K] what the last group changes more often than the first, in `unit`."""
        first, *_, last = self.means.values()
        return last - first


def check_lengths(minutes: Floats) -> None:
    """Refuse numbers of changes of recordings that differ in valid time.

    minutes   of each recording that is compared
    """
    if minutes.max() > LENGTHS_ALIKE * minutes.min():
        raise DataError(
            f"counts=True compares numbers of changes, which grow with the time, and recordings have {minutes.min():.2f} to "
            f"{minutes.max():.2f} minutes of valid time. Leave out counts to compare changes per minute."
        )


def flow_of(
    design: Design, changes: Floats, states: tuple[int, ...], n_permutations: int, seed: int, unit: str = RATE
) -> Flow:
    """The flow test of a design."""
    if n_permutations < 1:
        raise ConfigError(f"n_permutations is {n_permutations}; at least 1 is needed.")
    if len(design.factors) != 1:
        raise ConfigError("The flow test compares groups of one column; choose the other factor's value with where.")
    factor, levels = design.factors[0], design.levels[:, 0]
    kept = np.asarray(np.isfinite(changes).all(axis=(1, 2)))
    if design.paired:  # whoever lacks a session would enter some means and not others
        kept &= np.isin(design.subjects, np.flatnonzero(np.bincount(design.subjects[kept]) == len(factor.levels)))
    design, levels, flat = design.part(kept), levels[kept], changes[kept].reshape(int(kept.sum()), -1)
    sizes = np.bincount(levels, minlength=len(factor.levels))
    if sizes.min() < 2:
        word = factor.words[int(sizes.argmin())]
        raise DataError(
            f"The group {factor.name} {word!r} has {int(sizes.min()) or 'no'} {design.unit_word} with all that is compared; a mean "
            "needs 2 or more. Join groups, or compare others with where."
        )
    used = flat.any(axis=0)
    weights = (levels == np.arange(len(sizes))[:, None]) / sizes[:, None]  # [G, n]

    def distances(groups: Floats) -> Floats:
        """[P] of weights [P, G, n]."""
        means = groups.reshape(-1, groups.shape[2]) @ flat[:, used]
        means = means.reshape(*groups.shape[:2], -1)
        pairs = list(itertools.combinations(range(len(sizes)), 2))
        return np.mean([np.abs(means[:, b] - means[:, a]).sum(axis=1) for a, b in pairs], axis=0)

    distance = float(distances(weights[None])[0])
    width = len(sizes) * (1 + int(used.sum()) // max(1, len(flat)))
    null = np.concatenate(
        [
            distances(np.moveaxis(weights[:, order], 1, 0))
            for order in orders(design.strata, n_permutations, seed, width)
        ]
    )
    spread = float(null.std())
    means = (weights @ flat).reshape(len(sizes), len(states), len(states))
    return Flow(
        distance=distance,
        z=(distance - float(null.mean())) / spread if spread > 0 else 0.0,
        p=float((1 + (null >= distance * (1 - 1e-9)).sum()) / (1 + n_permutations)),
        n=len(np.unique(design.subjects)),
        sizes=dict(zip(factor.words, sizes.tolist(), strict=True)),
        means=dict(zip(factor.words, means, strict=True)),
        states=states,
        null=null,
        unit=unit,
        notes=(*design.notes, *out_of_reach(design)),
    )
