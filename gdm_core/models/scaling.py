"""Array units, and what all families do with them before and after a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdm_core.arrays import Array, Float, Values
from gdm_core.errors import DataError
from gdm_core.maths.factor import MIN_NOISE, FactorModel
from gdm_core.maths.gaussian import LOG_2PI
from gdm_core.trials import Trials

BASELINE_MARGIN = 0.1  # nats per sample and channel that a fit may lose to the baseline
# A state has collapsed if its noise is below both in some direction. Noise-free data stay above the second.
_LEAST_OF_STEPS, _LEAST_SUM = 1e-6, 5e-3  # share of the variance of steps, and the same times the samples of the state
_LEAST_OF_NOISE = 1e-3  # share of the noise of all states
_LEAST_USAGE = 20.0  # samples; the prior determines the noise of unused states
_BLOCK_ROWS = 65_536
# Channels that vary less are constant: relative to their centre, and at all.
_LEAST_RELATIVE = {"float32": 1e-6, "float64": 1e-13}
_LEAST_SCALE = 1e-35


@dataclass(frozen=True)
class Scaler:
    """Centre and scale of each channel, from training data: float32, or float64 as the data are."""

    center: Values
    scale: Values

    @classmethod
    def from_trials(cls, trials: Trials) -> Scaler:
        """Measure the mean and standard deviation of each channel; raise DataError for an empty or constant one."""
        names = trials[0].channels
        n, total = _channel_sums(trials)
        if (n == 0).any():
            bad = ", ".join(names[i] for i in np.flatnonzero(n == 0))
            raise DataError(f"Channel {bad} has no observed value in any trial. Drop it before fitting.")
        center = total / n
        scale = np.sqrt(_channel_sums(trials, center)[0] / n)
        dtype = np.result_type(*{trial.y.dtype for trial in trials})
        least = np.maximum(_LEAST_RELATIVE[dtype.name] * np.abs(center), _LEAST_SCALE)
        if (still := scale <= least).any():
            moving = np.flatnonzero(still & (scale > least * 1e-6))
            if len(moving):
                i = moving[0]
                raise DataError(
                    f"Channel {names[i]} varies by {scale[i]:.1g} around {center[i]:.6g}, which {dtype} values cannot resolve. "
                    "Give float64 values, subtract an offset or multiply the channel; or drop it before fitting."
                )
            bad = ", ".join(names[i] for i in np.flatnonzero(still))
            raise DataError(
                f"Channel {bad} is constant over all trials, so it carries no dynamics. Drop it before fitting."
            )
        return cls(center.astype(dtype), scale.astype(dtype))

    def apply(self, y: Values) -> Array:
        return np.asarray((y - self.center) / self.scale, np.float32)

    def undo(self, y: Values) -> Values:
        return (y * self.scale + self.center).astype(self.center.dtype)

    def log_jacobian(self, y: Values) -> float:
        """Return by how much standardising the observed entries of `y` raises their log-density."""
        return float((np.isfinite(y) * np.log(self.scale.astype(np.float64))).sum())


def _channel_sums(trials: Trials, center: Float | None = None) -> Float:
    """Return the number and sum of values per channel [2, N]; with a centre, sums of squared deviations [1, N]."""
    total: Any = 0.0
    for trial in trials:
        for begin in range(0, trial.n_samples, _BLOCK_ROWS):
            y = trial.y[begin : begin + _BLOCK_ROWS]
            parts = (np.isfinite(y), y) if center is None else ((y - center) ** 2,)
            total = total + np.stack([np.nansum(part, axis=0, dtype=np.float64) for part in parts])
    return np.asarray(total)


# ---- before and after a fit -------------------------------------------------------------------------------------------
def prepare(trials: Trials, n_latent: int) -> tuple[Scaler, FactorModel, list[Array]]:
    """Return scale and factor model of the data, and standardised trials.

    Channels that are missing at different times get a common centre.
    """
    scaler = Scaler.from_trials(trials)
    ys = [scaler.apply(trial.y) for trial in trials]
    factors = FactorModel.fit(ys, n_latent)
    if any(np.isnan(y).any() for y in ys):
        filled = np.concatenate([factors.fill(y) for y in ys])
        center, scale = filled.mean(axis=0), np.maximum(filled.std(axis=0), 1e-3)
        scaler = Scaler(
            (scaler.center + center * scaler.scale).astype(scaler.center.dtype),
            (scaler.scale * scale).astype(scaler.scale.dtype),
        )
        factors = factors.rescale(center, scale)
        ys = [scaler.apply(trial.y) for trial in trials]
    return scaler, factors, ys


def score_baseline(scaler: Scaler, factors: FactorModel, ys: list[Array], noise_floor: Float | None) -> float:
    """Return the log-likelihood per observed sample of y_t ~ N(S x_{t-1} + b, diag(R)), with the factors x of y.

    noise_floor  [N] least standard deviations of the noise
    """
    past = [factors.fill_causally(y) for y in ys]  # a fill that saw later samples would predict them too well
    inputs = [factors.inputs(part[:-1]) for part in past]
    design, target = np.concatenate(inputs), np.concatenate([part[1:] for part in past])
    gram = design.T @ design + 1e-6 * max(len(design), 1) * np.eye(design.shape[1])
    coefficients = np.linalg.solve(gram, design.T @ target)
    observed = np.isfinite(np.concatenate([y[1:] for y in ys]))
    squares = np.where(observed, (target - design @ coefficients) ** 2, 0.0).sum(axis=0)
    noise = np.maximum(squares / np.maximum(observed.sum(axis=0), 1), MIN_NOISE**2)
    noise = noise if noise_floor is None else np.maximum(noise, noise_floor**2)
    joined = np.concatenate(ys).astype(np.float64)
    first_mean, first_noise = np.nanmean(joined, axis=0), np.nanvar(joined, axis=0) + MIN_NOISE
    total = -sum(scaler.log_jacobian(y) for y in ys)
    for y, before in zip(ys, inputs, strict=True):
        mean = np.concatenate([first_mean[None], before @ coefficients])
        variance = np.concatenate([first_noise[None], np.tile(noise, (len(before), 1))])
        total -= 0.5 * float(np.nansum((y - mean) ** 2 / variance + np.log(variance) + LOG_2PI))
    return total / max(int(np.isfinite(joined).any(axis=1).sum()), 1)


def may_have_collapsed(noise: Float) -> bool:
    """Return whether the noise [K, D, D] of any state is much smaller than that of all."""
    return bool((_smallest(noise, noise.sum(axis=0)) < _LEAST_OF_NOISE).any())  # the mean is at most the sum


def find_collapsed(noise: Float, usage: Float, steps: Float) -> int | None:
    """Return the number of a state whose noise has collapsed; None for no such state.

    noise  [K, D, D] covariance of the noise of each state
    usage  [K] samples of each state
    steps  [D] variance of the steps of the data
    """
    mean = np.einsum("k,kij->ij", usage / usage.sum(), noise)
    least = np.maximum(_LEAST_OF_STEPS, _LEAST_SUM / np.maximum(usage, 1.0))
    collapsed = (_smallest(noise, np.diag(steps)) < least) & (_smallest(noise, mean) < _LEAST_OF_NOISE)
    collapsed &= usage >= _LEAST_USAGE
    return int(collapsed.argmax()) if collapsed.any() else None


def _smallest(covariances: Float, reference: Float) -> Float:
    """Return the smallest eigenvalue of each covariance [K, D, D] in units of `reference` [D, D]."""
    inverse = np.linalg.inv(np.linalg.cholesky(reference))
    return np.asarray(np.linalg.eigvalsh(inverse @ covariances @ inverse.T)[:, 0], np.float64)
