"""Filtering of long recordings in chunks that run in parallel, each after a run-up over earlier samples.

Filters forget quickly, so the number of sequential steps does not depend on the length of the recording.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

CHUNK = 64


def chunk_starts(origins: Ints, run_up: int) -> Ints:
    """Return the first sample [B] of each chunk with an origin, including its run-up."""
    return np.maximum(np.unique(origins // CHUNK) * CHUNK - run_up, 0)


def iterate_chunks(origins: Ints, run_up: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Yield for each step the samples [B] of all chunks, the origins that are reached, and their chunks."""
    first = chunk_starts(origins, run_up)
    chunk = np.unique(origins // CHUNK, return_inverse=True)[1]
    reach = origins - first[chunk]
    for step in range(int(reach.max()) + 1):
        here = np.flatnonzero(reach == step)
        yield np.minimum(first + step, origins.max()), here, chunk[here]
