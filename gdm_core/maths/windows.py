"""Summaries of a recording [T, N] over windows: mean, spread and step size of each channel."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.maths.gaps import ratio, running_sum

Float = npt.NDArray[np.float64]

LEAST_OBSERVED = 0.1  # of a window; with less of it the window counts as missing


def summarise_windows(y: npt.NDArray[Any], length: int, step: int) -> Float:
    """Return [windows, N, 3]: mean, standard deviation and RMS step of each channel around every `step`-th sample.

    Windows reach `length // 2` samples to both sides and are shorter at both ends of the recording. Steps across a gap count
    by their size per sample. A window with too few observed samples is NaN.
    """
    at = np.arange(0, len(y), step)
    first, after = np.maximum(at - length // 2, 0), np.minimum(at + length // 2 + 1, len(y))
    found = np.full((len(at), y.shape[1], 3), np.nan)
    for channel, values in enumerate(np.asarray(y, np.float64).T):
        if np.isfinite(values).any():
            found[:, channel] = _summarise_channel(values, first, after, length)
    return found


def _summarise_channel(values: Float, first: npt.NDArray[np.int64], after: npt.NDArray[np.int64], length: int) -> Float:
    seen = np.flatnonzero(np.isfinite(values))
    known = values[seen] - values[seen].mean()  # running sums of squares lose detail far from zero
    gaps, steps = np.diff(seen), np.diff(known)
    near = gaps < length
    terms = np.zeros((len(values), 5))
    terms[seen, :3] = np.column_stack([np.ones_like(known), known, known**2])
    terms[seen[1:][near], 3:] = np.column_stack([gaps, steps**2])[near]
    sums = running_sum(terms)
    count, total, square, span, energy = (sums[after] - sums[first]).T
    mean = ratio(total, count)
    spread = np.sqrt(np.maximum(ratio(square, count) - mean**2, 0))
    found = np.column_stack([mean + values[seen].mean(), spread, np.sqrt(ratio(np.maximum(energy, 0), span))])
    found[count < LEAST_OBSERVED * (after - first)] = np.nan
    return found
