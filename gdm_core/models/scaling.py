"""Standardised units, and what all families do with them before and after a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from gdm_core.maths.factor import Autoregression, FactorModel
from gdm_core.trials import Trials

Array = npt.NDArray[Any]
Float = npt.NDArray[np.float64]
Standardised = npt.NDArray[np.float32]

BASELINE_MARGIN = 0.1  # nats per sample and channel that a fit may lose to the baseline
_BLOCK_ROWS = 65_536
# Channels that vary less are constant: relative to their centre, and at all.
_LEAST_RELATIVE = {"float32": 1e-6, "float64": 1e-13}
_LEAST_SCALE = 1e-35


@dataclass(frozen=True)
class Scaler:
    """Centre and scale of each channel, from training data: float32, or float64 as the data are."""

    center: Array
    scale: Array

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

    def apply(self, y: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        return np.asarray((y - self.center) / self.scale, np.float32)

    def undo(self, y: npt.NDArray[Any]) -> Array:
        return (y * self.scale + self.center).astype(self.center.dtype)

    def log_jacobian(self, y: npt.NDArray[Any]) -> float:
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
class Prepared(NamedTuple):
    """Scale and factor model of the data, and standardised trials [T, N] with NaN where missing."""

    scaler: Scaler
    factors: FactorModel
    ys: list[Standardised]


def prepare(trials: Trials, n_latent: int) -> Prepared:
    """Measure scale and factors of the data; channels that are missing at different times get a common centre."""
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
    return Prepared(scaler, factors, ys)


def score_baseline(
    scaler: Scaler, factors: FactorModel, ys: list[Standardised], noise_floor: Float | None = None
) -> float:
    """Return the log-likelihood per observed sample of a first-order autoregression on the factors."""
    total, n_samples = 0.0, 0
    # A fill that saw later samples would predict them too well.
    past = [factors.fill_causally(y) if np.isnan(y).any() else y for y in ys]
    autoregression = Autoregression.fit(past, ys, factors, noise_floor)
    for y, filled in zip(ys, past, strict=True):
        total += autoregression.log_likelihood(filled, y) - scaler.log_jacobian(y)
        n_samples += int(np.isfinite(y).any(axis=1).sum())
    return total / max(n_samples, 1)
