"""Steps of a fit that all families share: standardising the data before it, and checking the result after it."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from gdm_core.maths.factor import Autoregression, FactorModel
from gdm_core.models.scaling import Scaler
from gdm_core.trials import Trials

Array = npt.NDArray[np.float32]

BASELINE_MARGIN = 0.1  # nats per sample and channel that a fit may lose to the baseline
_MAX_SCORED, _STRETCH = 100_000, 2_000  # samples that score a fit, and of each stretch
_MAX_CHANGE_OF_SCALE = 10.0  # of most channels, between a warm start and the fit it starts from


def standardise(trials: Trials, n_latent: int) -> tuple[Scaler, FactorModel, list[Array]]:
    """Return the scale and the factor model of the data, and the standardised trials."""
    scaler = Scaler.from_trials(trials)
    ys = [scaler.apply(trial.y) for trial in trials]
    factors = FactorModel.fit(ys, n_latent)
    if any(np.isnan(y).any() for y in ys):
        # Measure again on filled data: channels that are missing at different times get a common centre.
        filled = np.concatenate([factors.fill(y) for y in ys])
        center, scale = filled.mean(axis=0), np.maximum(filled.std(axis=0), 1e-3)
        scaler = Scaler(
            (scaler.center + center * scaler.scale).astype(scaler.center.dtype),
            (scaler.scale * scale).astype(scaler.scale.dtype),
        )
        factors = factors.rescale(center, scale)
        ys = [scaler.apply(trial.y) for trial in trials]
    return scaler, factors, ys


def standardise_as(scaler: Scaler, trials: Trials, n_latent: int) -> tuple[Scaler, FactorModel, list[Array]]:
    """Return the same in the scale of an earlier fit; raise DataError if the data have another scale."""
    if len(scaler.center) != trials.n_channels:
        raise DataError(
            f"The model to start from was fitted on {len(scaler.center)} channels, this data has {trials.n_channels}."
        )
    ys = [scaler.apply(trial.y) for trial in trials]
    factors = FactorModel.fit(ys, n_latent)
    filled = np.concatenate([factors.fill(y) for y in ys])
    spread = filled.std(axis=0)
    ratio = float(np.median(spread))
    shift = float(np.median(np.abs(filled.mean(axis=0)) / np.maximum(spread, 1)))
    if not 1 / _MAX_CHANGE_OF_SCALE <= ratio <= _MAX_CHANGE_OF_SCALE or shift > _MAX_CHANGE_OF_SCALE:
        raise DataError(
            f"The data have another scale than those of the fit to start from: {ratio:.3g} times its standard deviation, "
            f"with means {shift:.3g} standard deviations apart. Convert the data to the same units, or fit a new model."
        )
    return scaler, factors, ys


def spread_stretches(ys: list[Array], n_samples: int = _MAX_SCORED) -> list[Array]:
    """Return evenly spread stretches of longer data, with at most about `n_samples` in all."""
    total = sum(map(len, ys))
    if total <= n_samples:
        return ys
    stretches = [y[begin : begin + _STRETCH] for y in ys for begin in range(0, len(y), _STRETCH)]
    return [y for y in stretches if np.isfinite(y).any()][:: math.ceil(total / n_samples)]


def score_baseline(scaler: Scaler, factors: FactorModel, ys: list[Array]) -> float:
    """Return the log-likelihood per observed sample of a first-order autoregression on the factors."""
    total, n_samples = 0.0, 0
    # A fill that saw later samples would predict them too well.
    past = [factors.fill_causally(y) if np.isnan(y).any() else y for y in ys]
    autoregression = Autoregression.fit(past, ys, factors)
    for y, filled in zip(ys, past, strict=True):
        total += autoregression.log_likelihood(filled, y) - scaler.log_jacobian(y)
        n_samples += int(np.isfinite(y).any(axis=1).sum())
    return total / max(n_samples, 1)
