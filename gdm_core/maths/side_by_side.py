"""Filters forget quickly, so a long recording is cut into stretches that are filtered side by side, each after a run-up over
the samples before it: the number of sequential steps does not grow with the recording."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

STRETCH = 64


def run_ups(origins: Ints, run_up: int) -> Ints:
    """[B] the sample that each stretch with an origin in it is filtered from."""
    return np.maximum(np.unique(origins // STRETCH) * STRETCH - run_up, 0)


def steps_to(origins: Ints, run_up: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Step by step the samples [B] that all stretches see, the origins that are reached there, and the stretch of each."""
    first = run_ups(origins, run_up)
    stretch = np.unique(origins // STRETCH, return_inverse=True)[1]
    reach = origins - first[stretch]
    for step in range(int(reach.max()) + 1):
        here = np.flatnonzero(reach == step)
        yield np.minimum(first + step, origins.max()), here, stretch[here]
