"""Gaps (NaN) in recordings [T, N], sums and means along time, and calibration of estimates inside gaps."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gdm_core.arrays import Bool, Float, Ints, Values

_STRETCH = 2_000  # samples


def carry_forward(y: Values, before: float = 0.0) -> Float:
    """Fill each gap with the last observed value of its channel, or `before` at the start."""
    values = np.asarray(y, np.float64)
    seen = np.isfinite(values)
    if seen.all():
        return values
    last = np.maximum.accumulate(np.where(seen, np.arange(len(values))[:, None], -1), axis=0)
    return np.where(last >= 0, np.take_along_axis(values, np.maximum(last, 0), axis=0), before)


def interpolate_gaps(y: Values) -> Float:
    """Fill gaps by linear interpolation; empty channels become zero."""
    filled = y.astype(np.float64)
    time = np.arange(len(y))
    for channel in np.flatnonzero(~np.isfinite(y).all(axis=0)):
        known = np.flatnonzero(np.isfinite(y[:, channel]))
        filled[:, channel] = np.interp(time, known, y[known, channel]) if len(known) else 0.0
    return filled


def gap_lengths(missing: Bool) -> Ints:
    """Return the length of the gap around each sample [T]; 0 for observed samples."""
    edges = np.diff(np.concatenate([[0], missing.astype(np.int8), [0]]))
    starts, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    lengths = np.zeros(len(missing), dtype=np.int64)
    lengths[missing] = np.repeat(stops - starts, stops - starts)
    return lengths


def split_runs(y: Values, chosen: Bool) -> list[Values]:
    """Return the contiguous stretches of y [T, N] in the mask `chosen`."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], chosen, [False]])))
    return [y[first:after] for first, after in edges.reshape(-1, 2)]


def stretches(total: int, n_samples: int, parts: int = 8) -> Ints:
    """Return the indices [parts, n_samples / parts] of evenly spread stretches of `total` samples."""
    length = n_samples // parts
    firsts = np.linspace(0, total - length, parts).astype(np.int64)
    return firsts[:, None] + np.arange(length)


def spread_stretches(ys: list[Values], n_samples: int) -> list[Values]:
    """Return evenly spread stretches of longer data, with at most about `n_samples` in all."""
    total = sum(map(len, ys))
    if total <= n_samples:
        return ys
    parts = [y[begin : begin + _STRETCH] for y in ys for begin in range(0, len(y), _STRETCH)]
    return [y for y in parts if np.isfinite(y).any()][:: math.ceil(total / n_samples)]


def ratio(part: npt.ArrayLike, whole: npt.ArrayLike) -> Float:
    """Return part / whole; NaN where the whole is zero."""
    nothing = np.full(np.broadcast_shapes(np.shape(part), np.shape(whole)), np.nan)
    return np.asarray(np.divide(part, whole, out=nothing, where=np.asarray(whole) > 0))


def known_mean(values: Values, axis: int = 0) -> Float:
    """Return the mean of finite values along an axis; NaN without any."""
    known = np.isfinite(values)
    return ratio(np.where(known, values, 0).sum(axis=axis), known.sum(axis=axis))


def running_sum(values: Values) -> Float:
    """Return cumulative sums [T + 1, N] that start at zero."""
    total = np.zeros((len(values) + 1, values.shape[1]))
    np.cumsum(values, axis=0, out=total[1:])
    return total


def moving_mean(values: Values, width: int) -> Float:
    """Return the centred moving average [T, N] over `width` samples; fewer at the ends."""
    total, at = running_sum(values), np.arange(len(values))
    first, last = np.maximum(at - width // 2, 0), np.minimum(at - width // 2 + width, len(values))
    return (total[last] - total[first]) / (last - first)[:, None]


# ---- calibration by artificial gaps -----------------------------------------------------------------------------------
Impute = Callable[[Values], tuple[Values, Values]]

_LEVEL, _QUANTILE = 0.9, 1.6449  # quantile of the errors, and of a standard normal
_PASSES = 3  # to hide every sample once
_MAX_SHARE = 1 / 8  # of a recording, for one artificial gap
_MIN_SAMPLES, _SAMPLES_PER_GAP = 2_000, 30
_MIN_GAPS = 5


def gap_factors(impute: Impute, y: Values) -> Float:
    """Return factors [T] for the standard deviations of missing entries of y [T, N]; 1 for observed samples.

    impute  estimates missing entries and their standard deviations [T, N]

    Artificial gaps as long as the longest gap give a factor for each distance from an observed sample.
    """
    unseen = np.asarray(np.isnan(y).all(axis=1))
    n_samples = max(_MIN_SAMPLES, _SAMPLES_PER_GAP * int(gap_lengths(unseen).max(initial=0)))
    begin = max(0, (len(y) - n_samples) // 2)
    part = y[begin : begin + n_samples]
    passes = _artificial_gaps(unseen[begin : begin + n_samples], int(gap_lengths(unseen).max(initial=0)))
    factors = np.ones(len(y))
    if sum(int((np.diff(hidden.astype(np.int8)) == 1).sum()) for hidden in passes) < _MIN_GAPS:
        return factors
    errors, spreads, distances = [], [], []
    for hidden in passes:
        values, std = impute(np.where(hidden[:, None], np.nan, part))
        errors.append((np.abs(values - part) / np.maximum(std, 1e-12))[hidden])
        spreads.append(np.sqrt((std[hidden] ** 2).mean(axis=1)))
        distances.append(_distances(hidden)[hidden])
    error, spread, distance = (np.concatenate(parts) for parts in (errors, spreads, distances))
    octave = np.log2(distance).astype(int)
    groups = [octave == one for one in np.unique(octave)]
    needed = np.array([np.nanquantile(error[group], _LEVEL) / _QUANTILE for group in groups])
    typical = np.array([spread[group].mean() for group in groups])
    needed = np.maximum.accumulate(needed * typical) / typical  # intervals widen with the distance
    middle = [np.log(distance[group]).mean() for group in groups]
    factors[unseen] = np.interp(np.log(_distances(unseen)[unseen]), middle, needed)
    return factors


def _artificial_gaps(unseen: Bool, longest: int) -> list[Bool]:
    """Return the samples to hide [T] in each pass: gaps between observed stretches of the same length."""
    length = min(longest, int(_MAX_SHARE * len(unseen)))
    passes: list[Bool] = []
    for number in range(_PASSES if length else 0):
        hidden = np.zeros(len(unseen), dtype=bool)
        for start in range(length + 3 * length * number // _PASSES, len(unseen) - 2 * length + 1, 3 * length):
            if not unseen[start - length : start + 2 * length].any():
                hidden[start : start + length] = True
        if hidden.any():
            passes.append(hidden)
    return passes


def _distances(unseen: Bool) -> Ints:
    """Return the distance from each sample to the nearest seen sample; 0 for seen samples."""
    at = np.arange(len(unseen))
    before = np.maximum.accumulate(np.where(unseen, -len(at), at))
    after = np.minimum.accumulate(np.where(unseen, 2 * len(at), at)[::-1])[::-1]
    return np.minimum(at - before, after - at)
