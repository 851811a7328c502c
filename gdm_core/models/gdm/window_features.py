"""What a classifier sees of a moment: each channel there, and its running mean and spread around it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.maths.gaps import interpolated
from gdm_core.maths.running import running_sum

Array = npt.NDArray[np.float32]

SECONDS = (0.36, 1.03, 3.03, 9.03)  # 11, 31, 91 and 271 frames at 30 a second
GAP_SECONDS = 30.0  # a hidden part is most likely between where it was last seen and where it is seen next
_LEAST_SAMPLES = (3, 7, 15, 31)  # for recordings with few samples a second
_LIMIT = 8.0  # standard deviations; what lies beyond is an outlier


def window_lengths(rate_hz: float) -> tuple[int, ...]:
    """Odd numbers of samples."""
    return tuple(
        max(least, 2 * int(seconds * rate_hz / 2) + 1) for seconds, least in zip(SECONDS, _LEAST_SAMPLES, strict=True)
    )


def longest_gap(rate_hz: float) -> int:
    """Samples."""
    return max(1, round(GAP_SECONDS * rate_hz))


def window_features(
    y: npt.NDArray[Any], windows: tuple[int, ...], longest: int, rows: npt.NDArray[np.intp] | None = None
) -> Array:
    """[rows, N (1 + 2 windows)] of a standardised trial [T, N].

    longest  gaps of so many samples lie on a straight line; what is hidden for longer is 0, the channel's mean
    """
    clipped = np.clip(np.asarray(y, np.float32), -_LIMIT, _LIMIT)
    known = np.isfinite(clipped)
    if longest and not known.all():
        near = ~known & (_gaps(known) <= longest)
        clipped = np.where(near, interpolated(clipped), clipped).astype(np.float32)
        known |= near
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


def _gaps(known: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """[T, N] samples from the value seen before to the one seen after, more than T where one of them is not there."""
    n = len(known)
    at = np.arange(n)[:, None]
    before = np.maximum.accumulate(np.where(known, at, -2 * n), axis=0)
    after = np.minimum.accumulate(np.where(known, at, 3 * n)[::-1], axis=0)[::-1]
    return np.asarray(after - before - 1)
