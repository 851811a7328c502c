"""Isolated values far from their neighbours in time, such as glitches of a sensor."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy  # loads its submodules lazily

from gdm_core.arrays import Bool, Float, Values

_MEDIAN = 7  # values
_SPREAD = 25  # values on one side, for the local spread
_LIMIT = 6.0  # local standard deviations
_MIN_DISTANCE = 0.5  # of the spread of the whole channel
_MAX_RUN = 2  # spikes in a row
_MAX_SHARE = 0.05  # share of a channel; more are not outliers
_PER_MAD = 1.4826  # standard deviation of a Gaussian
REACH = 2 * (_MEDIAN + _SPREAD)  # values that `is_new_spike` looks back at


def find_spikes(y: Values) -> Bool:
    """Return a mask of isolated values [T, N] far from their neighbours, at most two in a row.

    The limit is six local standard deviations from the running median, on the side with more variance.
    """
    spikes = np.zeros(y.shape, dtype=bool)
    for channel in range(y.shape[1]):  # one at a time, to save memory
        seen, values = _observed(y[:, channel])
        if len(seen) <= 2 * _SPREAD:
            continue
        distance = np.abs(values - scipy.ndimage.median_filter(values, _MEDIAN, mode="nearest"))
        local = np.pad(scipy.ndimage.median_filter(distance, _SPREAD, mode="reflect"), _SPREAD // 2 + 1, mode="edge")
        # the maximum of both sides, because a change of the noise is no spike
        spread = np.maximum(local[: len(values)], local[-len(values) :])
        low, high = np.quantile(values, [0.05, 0.95])
        far = distance > np.maximum(_LIMIT * _PER_MAD * spread, _MIN_DISTANCE * (high - low) / 3.29)
        edges = np.flatnonzero(np.diff(far, prepend=False, append=False)).reshape(-1, 2)
        for first, after in edges[np.diff(edges, axis=1)[:, 0] > _MAX_RUN]:
            far[first:after] = False
        if far.mean() <= _MAX_SHARE:
            spikes[seen, channel] = far
    return spikes


def find_new_spikes(y: Values) -> Bool:
    """Return a mask of standardised values [T, N] far from earlier ones, including the first two of a change."""
    spikes = np.zeros(y.shape, dtype=bool)
    for channel in range(y.shape[1]):
        seen, values = _observed(y[:, channel])
        if len(seen) <= _SPREAD:
            continue
        distance = np.abs(values - scipy.ndimage.median_filter(values, _MEDIAN, mode="nearest", origin=_MEDIAN // 2))
        spread = np.roll(scipy.ndimage.median_filter(distance, _SPREAD, mode="nearest", origin=_SPREAD // 2), 1)
        far = distance > np.maximum(_LIMIT * _PER_MAD * spread, _MIN_DISTANCE)
        far[:_SPREAD] = False
        far[_MAX_RUN:] &= ~(far[1:-1] & far[:-2])
        spikes[seen, channel] = far
    return spikes


def _observed(values: Values) -> tuple[npt.NDArray[np.intp], Float]:
    seen = np.flatnonzero(np.isfinite(values))
    return seen, values[seen].astype(np.float64)
