"""What a classifier sees of a moment: each channel there, and its running mean and spread around it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.maths.running import running_sum

Array = npt.NDArray[np.float32]

SECONDS = (0.36, 1.03, 3.03)  # 11, 31 and 91 frames at 30 a second
_LEAST_SAMPLES = (3, 7, 15)  # for recordings with few samples a second
_LIMIT = 8.0  # standard deviations; what lies beyond is an outlier


def window_lengths(rate_hz: float) -> tuple[int, ...]:
    """Odd numbers of samples."""
    return tuple(
        max(least, 2 * int(seconds * rate_hz / 2) + 1) for seconds, least in zip(SECONDS, _LEAST_SAMPLES, strict=True)
    )


def window_features(y: npt.NDArray[Any], windows: tuple[int, ...], rows: npt.NDArray[np.intp] | None = None) -> Array:
    """[rows, N (1 + 2 windows)] of a standardised trial [T, N]; 0, the channel's mean, where nothing was observed."""
    clipped = np.clip(np.asarray(y, np.float32), -_LIMIT, _LIMIT)
    known = np.isfinite(clipped)
    values = np.where(known, clipped, 0.0)
    at = np.arange(len(y)) if rows is None else rows
    sums, squares, counts = running_sum(values), running_sum(np.square(values)), running_sum(known)
    columns = [values[at]]
    for window in windows:
        low, high = np.maximum(at - window // 2, 0), np.minimum(at + window // 2 + 1, len(y))
        n = np.maximum(counts[high] - counts[low], 1)
        mean = (sums[high] - sums[low]) / n
        columns += [mean, np.sqrt(np.maximum((squares[high] - squares[low]) / n - mean**2, 0.0))]
    return np.concatenate(columns, axis=1, dtype=np.float32)
