"""Stretches of time that a recording is cut into, so that measures on it can be told from chance."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

SHORTEST = 20  # samples


def blocks(n_samples: int, wanted: int, shortest: int = SHORTEST) -> list[tuple[int, int]]:
    """(first sample, the one after its last) of at most `wanted` blocks, about equally long and none below `shortest`
    samples; what is shorter altogether is one block."""
    count = max(1, min(wanted, n_samples // shortest))
    return [(int(a), int(b)) for a, b in pairwise(np.linspace(0, n_samples, count + 1).astype(int))]
