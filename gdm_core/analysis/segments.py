"""States in segments of a recording, and differences between drivers along a lap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError


@dataclass(frozen=True)
class Part:
    """A state in a segment.

    presence   share of samples in which the state has weight
    weight     its mean proportion
    main       whether its presence passes the main threshold
    """

    state: int
    presence: float
    weight: float
    main: bool


def composition(
    states: npt.ArrayLike,
    segment: npt.ArrayLike,
    n_segments: int,
    *,
    weight: float = 0.01,
    presence: float = 0.2,
    complementary: float = 0.05,
) -> list[list[Part]]:
    """Return the states of each segment, most present first.

    A main state has more than `weight` in more than `presence` of the samples; others need more than `complementary`.
    """
    soft, where = np.asarray(states, np.float64), np.asarray(segment, np.int64)
    if len(soft) != len(where):
        raise DataError(f"There are {len(soft)} states but {len(where)} segment numbers.")
    count = np.bincount(where, minlength=n_segments)[:n_segments]
    safe = np.maximum(count, 1)[:, None]
    k = soft.shape[1]
    there = np.column_stack([np.bincount(where, soft[:, j] > weight, n_segments) for j in range(k)]) / safe  # [C, K]
    mean = np.column_stack([np.bincount(where, soft[:, j], n_segments) for j in range(k)]) / safe
    found = []
    for c in range(n_segments):
        order = np.lexsort((-mean[c], -there[c]))
        found.append(
            [
                Part(int(j), float(there[c, j]), float(mean[c, j]), bool(there[c, j] > presence))
                for j in order
                if count[c] and there[c, j] > min(presence, complementary)
            ]
        )
    return found
