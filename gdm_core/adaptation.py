"""Adaptive prediction intervals: adaptive conformal inference on the log width (Gibbs and Candès, 2021).

Calibration sets the width of intervals from the training data. Along a recording, each outcome outside an interval widens
the intervals of its horizon, channel and level by `rate * level`, and each outcome inside narrows them by
`rate * (1 - level)`, both on the log scale. Without any assumption on the data, the coverage of n outcomes differs from
`level` by at most (change of the log factor) / (rate * n), except for the last `horizon` outcomes. In exchange, widths
fluctuate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gdm_core.arrays import Array, Ints
from gdm_core.errors import ConfigError, DataError
from gdm_core.forecast import LEVELS, Forecast, outcomes

# Chosen on tracks other than the reported ones. A lower rate is too slow for 1,000 steps; a higher one widens intervals.
RATE = 0.04
# Limits factors, so intervals recover after a long constant stretch.
MAX_FACTOR = 30.0
_WIDTH_LEVEL = int(np.flatnonzero(np.isclose(LEVELS, 0.9))[0])  # its factor also scales `std`


@dataclass(frozen=True, eq=False)
class Adaptation:
    """Widths of intervals, learned from the outcomes of earlier forecasts.

    origins  [O] of the forecasts, in order of time
    table    [O + 1, H, levels, N] log factor, given the outcomes of the first o forecasts
    """

    origins: Ints
    table: Array

    def factors(self, at: npt.ArrayLike) -> Array:
        """Return factors [levels, A, H, N] for the samples `at`, from past outcomes only."""
        ahead = np.arange(1, self.table.shape[1] + 1)
        found: Array = np.exp(self.table[_count_known(self.origins, np.atleast_1d(at), ahead), ahead - 1])
        return np.moveaxis(found, 2, 0)


def learn(predicted: Forecast, y: npt.ArrayLike, rate: float = RATE) -> Adaptation:
    """Learn the widths of intervals from forecasts of `y` [T, N] in order of time.

    predicted   forecast with calibrated intervals (`adaptive=False`)
    y           the trial; missing values are skipped
    rate        learning rate in [0, 1); 0 keeps the calibrated intervals
    """
    if not 0 <= rate < 1:
        raise ConfigError(f"rate is {rate}; it must be in [0, 1). 0 keeps the calibrated intervals.")
    values = np.asarray(y, predicted.mean.dtype)
    n_origins, horizon, n_channels = predicted.mean.shape
    if values.ndim != 2 or values.shape[1] != n_channels:
        raise DataError(
            f"The forecast has {n_channels} channels, but y has shape {values.shape}. Pass the y of its trial."
        )
    order = np.argsort(predicted.origins, kind="stable")
    origins, mean = predicted.origins[order], predicted.mean[order]
    error = outcomes(values, origins, horizon) - mean
    # Log distance of each outcome from the mean, relative to the half-width on its side.
    scores = np.empty((n_origins, horizon, len(LEVELS), n_channels), np.float32)
    for i, (low, high) in enumerate(zip(predicted.lower, predicted.upper, strict=True)):
        edge = np.where(error >= 0, high[order] - mean, mean - low[order])
        scores[:, :, i] = np.abs(error) / np.maximum(edge, 1e-9)
    known = np.isfinite(scores)
    with np.errstate(divide="ignore"):  # an outcome equal to the mean is inside any interval
        np.log(scores, out=scores)
    missed, covered = (rate * LEVELS)[:, None], (rate * (LEVELS - 1))[:, None]
    steps = np.arange(horizon)
    n_known = _count_known(origins, origins, steps + 1)  # [O, H]
    table = np.zeros((n_origins + 1, *scores.shape[1:]), np.float32)
    limit = np.float32(np.log(MAX_FACTOR))
    for o in range(n_origins):
        issued = table[n_known[o], steps]
        change = np.where(scores[o] > issued, missed, covered)
        change *= known[o]
        np.add(table[o], change, out=table[o + 1])
        np.clip(table[o + 1], -limit, limit, out=table[o + 1])
    return Adaptation(origins, table)


def adapt(predicted: Forecast, y: npt.ArrayLike, rate: float = RATE) -> Forecast:
    """Return a forecast with intervals adapted to the outcomes before each origin.

    predicted   forecast of `y` with calibrated intervals (`adaptive=False`)
    y           [T, N] the trial
    rate        learning rate in [0, 1); 0 keeps the calibrated intervals
    """
    return scale_intervals(predicted, learn(predicted, y, rate).factors(predicted.origins))


def scale_intervals(predicted: Forecast, factors: Array) -> Forecast:
    """Return `predicted` with the half-widths of its intervals times `factors` [levels, O, H, N]."""
    # Widen outer intervals where needed, so intervals nest.
    below = np.maximum.accumulate(factors * (predicted.mean - predicted.lower))
    above = np.maximum.accumulate(factors * (predicted.upper - predicted.mean))
    return replace(
        predicted, lower=predicted.mean - below, upper=predicted.mean + above, std=predicted.std * factors[_WIDTH_LEVEL]
    )


def _count_known(origins: Ints, at: Ints, ahead: Ints) -> Ints:
    """Count the `origins` [A, H] whose outcomes at `ahead` are known at the samples `at`."""
    return np.searchsorted(origins, at[:, None] - ahead, side="right")
