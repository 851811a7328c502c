"""Envelopes that learn on the way: adaptive conformal inference on the log of each band's factor (Gibbs and Candès, 2021).

A calibrated band is as wide as the training data asked for. Along a recording more becomes known: once the outcome of an
earlier forecast has come, its band either held it or did not. Each miss widens the bands of that horizon, channel and level by
`rate * level`, each hit narrows them by `rate * (1 - level)`, both on the log scale, so that a band comes to rest where it holds
its share. Nothing is assumed about the data: over n outcomes the share held is off by at most (how far the log of the factor
moved) / (rate * n), but for the last `horizon` outcomes, which come too late to teach anything. What it costs is unrest, and
width where the fixed band was too narrow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError, DataError
from gdm_core.forecast import LEVELS, Array, Forecast, outcomes

# Chosen on eight tracks per setting other than the reported ones. A lower rate adapts too slowly for 1,000 steps, a higher
# one widens the bands.
RATE = 0.04
# A factor stays within this range: a channel that stands still for an hour must not narrow its bands beyond recall.
MAX_FACTOR = 30.0
_WIDTH_LEVEL = int(np.flatnonzero(np.isclose(LEVELS, 0.9))[0])  # whose factor a forecast's `std` is scaled with


@dataclass(frozen=True, eq=False)
class Adaptation:
    """What the outcomes of forecasts have taught about their bands.

    origins  [O] of these forecasts, in order of time
    table    [O + 1, H, levels, N] log of the factor, once the outcomes of the first o forecasts are known
    """

    origins: npt.NDArray[np.int64]
    table: Array

    def factors(self, at: npt.ArrayLike) -> Array:
        """[levels, A, H, N] factors of the bands issued at the samples `at`, from outcomes up to these samples alone."""
        ahead = np.arange(1, self.table.shape[1] + 1)
        found: Array = np.exp(self.table[_known(self.origins, np.atleast_1d(at), ahead), ahead - 1])
        return np.moveaxis(found, 2, 0)


def learn(predicted: Forecast, y: npt.ArrayLike, rate: float = RATE) -> Adaptation:
    """Follow the forecasts of `y` [T, N] in order of time, each judged by the band that it was issued with.

    predicted   with its bands as calibrated (`adaptive=False`)
    y           the trial; what is missing teaches nothing
    rate        of change, in [0, 1); 0 keeps the bands as they are
    """
    if not 0 <= rate < 1:
        raise ConfigError(f"rate is {rate}; the rate at which envelopes adapt must lie in [0, 1). 0 keeps them fixed.")
    values = np.asarray(y, predicted.mean.dtype)
    n_origins, horizon, n_channels = predicted.mean.shape
    if values.ndim != 2 or values.shape[1] != n_channels:
        raise DataError(
            f"The forecast has {n_channels} channels, but y has shape {values.shape}. Pass the trial's own y."
        )
    order = np.argsort(predicted.origins, kind="stable")
    origins, mean = predicted.origins[order], predicted.mean[order]
    error = outcomes(values, origins, horizon) - mean
    # Log of how far each outcome lies from the mean, in units of the band's half-width on its side.
    scores = np.empty((n_origins, horizon, len(LEVELS), n_channels), np.float32)
    for i, (low, high) in enumerate(zip(predicted.lower, predicted.upper, strict=True)):
        edge = np.where(error >= 0, high[order] - mean, mean - low[order])
        scores[:, :, i] = np.abs(error) / np.maximum(edge, 1e-9)
    known = np.isfinite(scores)
    with np.errstate(divide="ignore"):  # an outcome on the mean is inside any band
        np.log(scores, out=scores)
    missed, held = (rate * LEVELS)[:, None], (rate * (LEVELS - 1))[:, None]
    steps = np.arange(horizon)
    heard = _known(origins, origins, steps + 1)  # [O, H]
    table = np.zeros((n_origins + 1, *scores.shape[1:]), np.float32)
    limit = np.float32(np.log(MAX_FACTOR))
    for o in range(n_origins):
        issued = table[heard[o], steps]
        change = np.where(scores[o] > issued, missed, held)
        change *= known[o]
        np.add(table[o], change, out=table[o + 1])
        np.clip(table[o + 1], -limit, limit, out=table[o + 1])
    return Adaptation(origins, table)


def adapted(predicted: Forecast, y: npt.ArrayLike, rate: float = RATE) -> Forecast:
    """The forecast of `y` with the bands of each origin adapted by what the earlier origins' outcomes had taught by then.

    predicted   with its bands as calibrated (`adaptive=False`)
    y           [T, N] the trial
    rate        of change, in [0, 1); 0 keeps the bands as they are
    """
    return scaled(predicted, learn(predicted, y, rate).factors(predicted.origins))


def scaled(predicted: Forecast, factors: Array) -> Forecast:
    """The forecast with the half-widths of its bands times `factors` [levels, O, H, N]; the `predicted` mean and median stay."""
    # An inner band that has outgrown an outer one takes it along: intervals nest.
    below = np.maximum.accumulate(factors * (predicted.mean - predicted.lower))
    above = np.maximum.accumulate(factors * (predicted.upper - predicted.mean))
    return replace(
        predicted,
        lower=predicted.mean - below,
        upper=predicted.mean + above,
        std=predicted.std * factors[_WIDTH_LEVEL],
    )


def _known(
    origins: npt.NDArray[np.int64], at: npt.NDArray[np.int64], ahead: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """[A, H] how many of the `origins` have an outcome `ahead` steps later that is known at each of the samples `at`."""
    return np.searchsorted(origins, at[:, None] - ahead, side="right")
