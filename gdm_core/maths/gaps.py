"""Gaps (NaN) in recordings [T, N], and sums and means along time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]


def carry_forward(y: npt.NDArray[Any], before: float = 0.0) -> Float:
    """Fill each gap with the last observed value of its channel, or `before` at the start."""
    values = np.asarray(y, np.float64)
    seen = np.isfinite(values)
    if seen.all():
        return values
    last = np.maximum.accumulate(np.where(seen, np.arange(len(values))[:, None], -1), axis=0)
    return np.where(last >= 0, np.take_along_axis(values, np.maximum(last, 0), axis=0), before)


def interpolate_gaps(y: npt.NDArray[Any]) -> Float:
    """Fill gaps by linear interpolation; empty channels become zero."""
    filled = y.astype(np.float64)
    time = np.arange(len(y))
    for channel in np.flatnonzero(~np.isfinite(y).all(axis=0)):
        known = np.flatnonzero(np.isfinite(y[:, channel]))
        filled[:, channel] = np.interp(time, known, y[known, channel]) if len(known) else 0.0
    return filled


def gap_lengths(missing: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the length of the gap around each sample [T]; 0 for observed samples."""
    edges = np.diff(np.concatenate([[0], missing.astype(np.int8), [0]]))
    starts, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    lengths = np.zeros(len(missing), dtype=np.int64)
    lengths[missing] = np.repeat(stops - starts, stops - starts)
    return lengths


def split_runs(y: npt.NDArray[Any], chosen: npt.NDArray[np.bool_]) -> list[npt.NDArray[Any]]:
    """Return the contiguous stretches of y [T, N] in the mask `chosen`."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], chosen, [False]])))
    return [y[first:after] for first, after in edges.reshape(-1, 2)]


def ratio(part: npt.ArrayLike, whole: npt.ArrayLike) -> Float:
    """Return part / whole; NaN where the whole is zero."""
    nothing = np.full(np.broadcast_shapes(np.shape(part), np.shape(whole)), np.nan)
    return np.asarray(np.divide(part, whole, out=nothing, where=np.asarray(whole) > 0))


def known_mean(values: npt.NDArray[Any], axis: int = 0) -> Float:
    """Return the mean of finite values along an axis; NaN without any."""
    known = np.isfinite(values)
    return ratio(np.where(known, values, 0).sum(axis=axis), known.sum(axis=axis))


def running_sum(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return cumulative sums [T + 1, N] that start at zero."""
    total = np.zeros((len(values) + 1, values.shape[1]))
    np.cumsum(values, axis=0, out=total[1:])
    return total


def moving_mean(values: npt.NDArray[Any], width: int) -> npt.NDArray[np.float64]:
    """Return the centred moving average [T, N] over `width` samples; fewer at the ends."""
    total, at = running_sum(values), np.arange(len(values))
    first, last = np.maximum(at - width // 2, 0), np.minimum(at - width // 2 + width, len(values))
    mean: npt.NDArray[np.float64] = (total[last] - total[first]) / (last - first)[:, None]
    return mean
