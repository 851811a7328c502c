"""Sums and means over stretches of a series, whatever their length, from sums of everything before each sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def running_sum(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """[T + 1, N] sums of everything before each sample of [T, N], and of all."""
    total = np.zeros((len(values) + 1, values.shape[1]))
    np.cumsum(values, axis=0, out=total[1:])
    return total


def moving_mean(values: npt.NDArray[Any], width: int) -> npt.NDArray[np.float64]:
    """[T, N] averaged over `width` samples around each; fewer at the ends."""
    total, at = running_sum(values), np.arange(len(values))
    first, last = np.maximum(at - width // 2, 0), np.minimum(at - width // 2 + width, len(values))
    mean: npt.NDArray[np.float64] = (total[last] - total[first]) / (last - first)[:, None]
    return mean
