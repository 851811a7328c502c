"""Features of each sample: its values, and their mean and standard deviation in windows around it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.maths.gaps import interpolate_gaps, running_sum

Array = npt.NDArray[np.float32]

WINDOW_SECONDS = (0.36, 1.03, 3.03, 9.03)  # 11, 31, 91 and 271 frames at 30 Hz
LEAST_WINDOWS = (3, 7, 15, 31)  # samples, for recordings with a low sampling rate
GAP_SECONDS = 30.0
LIMIT = 8.0  # standard deviations; larger values are outliers


def window_lengths(rate_hz: float) -> tuple[int, ...]:
    """Return the window lengths in samples, all odd."""
    return tuple(
        max(least, 2 * int(seconds * rate_hz / 2) + 1)
        for seconds, least in zip(WINDOW_SECONDS, LEAST_WINDOWS, strict=True)
    )


def window_features(y: npt.NDArray[Any], rate_hz: float, rows: npt.NDArray[np.intp] | None = None) -> Array:
    """Return features [rows, N (1 + 2 windows)] of a standardised trial [T, N].

    Gaps of up to `GAP_SECONDS` are interpolated linearly; longer ones are 0, the mean of the channel.
    """
    values = np.clip(np.asarray(y, np.float32), -LIMIT, LIMIT)
    known = np.isfinite(values)
    if not known.all():
        fillable = ~known & (_gap_lengths(known) <= GAP_SECONDS * rate_hz)
        values = np.where(fillable, interpolate_gaps(values), values).astype(np.float32)
        known |= fillable
        values = np.where(known, values, np.float32(0))
    at = np.arange(len(y)) if rows is None else rows
    sums, squares, counts = running_sum(values), running_sum(np.square(values)), running_sum(known)
    columns: list[npt.NDArray[Any]] = [values[at]]
    for window in window_lengths(rate_hz):
        start, stop = np.maximum(at - window // 2, 0), np.minimum(at + window // 2 + 1, len(y))
        n = np.maximum(counts[stop] - counts[start], 1)
        mean = (sums[stop] - sums[start]) / n
        variance = (squares[stop] - squares[start]) / n - mean**2
        columns += [mean, np.sqrt(np.maximum(variance, 0.0))]
    return np.concatenate(columns, axis=1, dtype=np.float32)


def _gap_lengths(known: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the length [T, N] of each sample's gap, more than T at the ends."""
    n = len(known)
    at = np.arange(n)[:, None]
    before = np.maximum.accumulate(np.where(known, at, -2 * n), axis=0)
    after = np.minimum.accumulate(np.where(known, at, 3 * n)[::-1], axis=0)[::-1]
    return np.asarray(after - before - 1)
