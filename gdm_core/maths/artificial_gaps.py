"""Calibration of standard deviations in gaps, by artificial gaps in observed data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.maths.gaps import gap_lengths

Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
Impute = Callable[[npt.NDArray[Any]], tuple[npt.NDArray[Any], npt.NDArray[Any]]]

_LEVEL, _QUANTILE = 0.9, 1.6449  # quantile of the errors, and of a standard normal
_PASSES = 3  # to hide every sample once
_MAX_SHARE = 1 / 8  # of a recording, for one artificial gap
_MIN_SAMPLES, _SAMPLES_PER_GAP = 2_000, 30
_MIN_GAPS = 5


def gap_factors(impute: Impute, y: npt.NDArray[Any]) -> Float:
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


def _distances(unseen: Bool) -> npt.NDArray[np.int64]:
    """Return the distance from each sample to the nearest seen sample; 0 for seen samples."""
    at = np.arange(len(unseen))
    before = np.maximum.accumulate(np.where(unseen, -len(at), at))
    after = np.minimum.accumulate(np.where(unseen, 2 * len(at), at)[::-1])[::-1]
    return np.minimum(at - before, after - at)
