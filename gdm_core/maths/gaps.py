"""Sums and means along a recording [T, N], and its gaps (NaN): values for missing entries, how long each gap is."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]


def carried_forward(y: npt.NDArray[Any], before: float = 0.0) -> Float:
    """Each gap takes the last value seen of its channel, which a forecast may know, or `before` where there is none yet."""
    values = np.asarray(y, np.float64)
    seen = np.isfinite(values)
    if seen.all():
        return values
    last = np.maximum.accumulate(np.where(seen, np.arange(len(values))[:, None], -1), axis=0)
    return np.where(last >= 0, np.take_along_axis(values, np.maximum(last, 0), axis=0), before)


def interpolated(y: npt.NDArray[Any]) -> Float:
    """Each gap lies on a straight line between its neighbours in time; zero in a channel without any value."""
    filled = y.astype(np.float64)
    time = np.arange(len(y))
    for channel in np.flatnonzero(~np.isfinite(y).all(axis=0)):
        known = np.flatnonzero(np.isfinite(y[:, channel]))
        filled[:, channel] = np.interp(time, known, y[known, channel]) if len(known) else 0.0
    return filled


def gap_lengths(missing: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """[T] for each sample the length of the gap that it lies in, 0 where a value is there."""
    edges = np.diff(np.concatenate([[0], missing.astype(np.int8), [0]]))
    starts, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    lengths = np.zeros(len(missing), dtype=np.int64)
    lengths[missing] = np.repeat(stops - starts, stops - starts)
    return lengths


def runs(y: npt.NDArray[Any], chosen: npt.NDArray[np.bool_]) -> list[npt.NDArray[Any]]:
    """Stretches of y [T, N] whose samples are all chosen."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], chosen, [False]])))
    return [y[first:after] for first, after in edges.reshape(-1, 2)]


def ratio(part: npt.ArrayLike, whole: npt.ArrayLike) -> Float:
    """How much of a whole a part is; NaN where there is nothing of it."""
    nothing = np.full(np.broadcast_shapes(np.shape(part), np.shape(whole)), np.nan)
    return np.divide(part, whole, out=nothing, where=np.asarray(whole) > 0)


def known_mean(values: npt.NDArray[Any], axis: int = 0) -> Float:
    """Mean along an axis of what is known; NaN where nothing is."""
    known = np.isfinite(values)
    return ratio(np.where(known, values, 0).sum(axis=axis), known.sum(axis=axis))


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
