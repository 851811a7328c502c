"""Summaries of a recording [T, N] over windows: mean, spread and step size of each channel."""

from __future__ import annotations

import numpy as np

from gdm_core.arrays import Float, Values
from gdm_core.maths.gaps import ratio

MIN_OBSERVED = 0.1  # share of a window; with less, the window is missing


def summarise_windows(y: Values, length: int, step: int) -> Float:
    """Return [windows, N, 3]: mean, standard deviation and RMS step of each channel around every `step`-th sample.

    Samples have Hann weights with half the height at `length / 2` from the centre, because a box window would beat with
    rhythmic motion. Steps across a gap count by their size per sample. Windows with too few observed samples are NaN.
    """
    from scipy.ndimage import convolve1d  # slow to import, and pages import this module

    starts = np.maximum(np.arange(0, len(y), step) - step // 2, 0)
    n_taps = (length - 1) // step
    taps = np.cos(np.pi / 2 * np.arange(-n_taps, n_taps + 1) * step / length) ** 2

    def weighted_sums(terms: Float) -> Float:
        return np.asarray(convolve1d(np.add.reduceat(terms, starts, axis=0), taps, axis=0, mode="constant"))

    weight = weighted_sums(np.ones((len(y), 1)))[:, 0]
    found = np.full((len(starts), y.shape[1], 3), np.nan)
    for channel, values in enumerate(np.asarray(y, np.float64).T):
        if not np.isfinite(values).any():
            continue
        centre = np.nanmean(values)  # squares lose precision far from zero
        count, total, square, span, energy = weighted_sums(_terms(values - centre, length)).T
        mean = ratio(total, count)
        spread = np.sqrt(np.maximum(ratio(square, count) - mean**2, 0))
        summaries = np.column_stack([mean + centre, spread, np.sqrt(ratio(energy, span))])
        found[:, channel] = np.where((count < MIN_OBSERVED * weight)[:, None], np.nan, summaries)
    return found


def _terms(values: Float, length: int) -> Float:
    """Return [T, 5] terms of a channel's sums: observed, value, square, samples and square of the step since the last one."""
    seen = np.flatnonzero(np.isfinite(values))
    known = values[seen]
    gaps, steps = np.diff(seen), np.diff(known)
    near = gaps < length
    terms = np.zeros((len(values), 5))
    terms[seen, :3] = np.column_stack([np.ones_like(known), known, known**2])
    terms[seen[1:][near], 3:] = np.column_stack([gaps, steps**2])[near]
    return terms
