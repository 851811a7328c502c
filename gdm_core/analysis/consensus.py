"""What several fits of the same trial agree on: states matched one to one, their mean, and the moments they disagree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.bouts import stays
from gdm_core.analysis.matching import overlap
from gdm_core.errors import DataError

States = npt.NDArray[np.float32]
Array = npt.NDArray[np.float32]

APART = 0.5  # of all weight in other states: from here on two fits say different things


@dataclass(frozen=True)
class Consensus:
    """states [T, K] mean of all fits; apart [T] how far a fit is from it on average (0: all say the same, 1: nothing shared)."""

    states: States
    apart: Array

    @property
    def share(self) -> float:
        """How much of all weight is where the fits agree."""
        return float(1 - self.apart.mean())


def like(states: States, reference: States) -> States:
    """`states` [T, K] in the columns of `reference` [T, R] that they share most with; what has no like comes after them."""
    from scipy.optimize import linear_sum_assignment

    if len(states) != len(reference):
        raise DataError(f"Fits of {len(states)} and {len(reference)} samples cannot be compared; take the same trial.")
    rows, columns = linear_sum_assignment(overlap(reference, states), maximize=True)
    rest = [k for k in range(states.shape[1]) if k not in set(columns.tolist())]
    made = np.zeros((len(states), reference.shape[1] + len(rest)), np.float32)
    made[:, rows] = states[:, columns]
    made[:, reference.shape[1] :] = states[:, rest]
    return made


def distance(first: States, second: States) -> Array:
    """[T] what part of the weight two fits put into different states, the second's matched to the first's."""
    moved = like(second, first)
    padded = np.zeros_like(moved)
    padded[:, : first.shape[1]] = first
    found: Array = (0.5 * np.abs(padded - moved).sum(axis=1)).astype(np.float32)
    return found


def consensus(fits: Sequence[States]) -> Consensus:
    """Of fits with the same number of states, matched to the one that is nearest to all others."""
    if not fits:
        raise DataError("There is no fit to agree with.")
    if len({fit.shape for fit in fits}) > 1:
        raise DataError("A consensus needs fits of one trial with the same number of states.")
    nearest = min(fits, key=lambda one: sum(float(distance(one, other).mean()) for other in fits))
    moved = np.stack([like(fit, nearest) for fit in fits])  # [S, T, K]
    mean = moved.mean(axis=0)
    return Consensus(mean, (0.5 * np.abs(moved - mean).sum(axis=2)).mean(axis=0).astype(np.float32))


def moments(apart: Array, least: float = APART, shortest: int = 3) -> list[tuple[int, int]]:
    """Stretches (first, past the last) on which two fits say different things, the weightiest first."""
    found = [(a, b) for a, b in stays(apart >= least).tolist() if apart[a] >= least and b - a >= shortest]
    return sorted(found, key=lambda span: -float(apart[span[0] : span[1]].sum()))
