"""Standardised units: each channel centred and scaled by its training data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from gdm_core.trials import Trials

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Scaler:
    """Centre and scale of each channel, from training data."""

    center: Array
    scale: Array

    @classmethod
    def from_trials(cls, trials: Trials) -> Scaler:
        """Statistics of all observed samples; says which channel has none or never moves."""
        n = np.zeros(trials.n_channels)
        total = np.zeros(trials.n_channels)
        for trial in trials:
            n += np.isfinite(trial.y).sum(axis=0)
            total += np.nansum(trial.y, axis=0, dtype=np.float64)
        names = trials[0].channels
        if (n == 0).any():
            bad = ", ".join(names[i] for i in np.flatnonzero(n == 0))
            raise DataError(f"Channel {bad} has no observed value in any trial. Drop it before fitting.")
        center = total / n
        square = np.zeros(trials.n_channels)
        for trial in trials:
            square += np.nansum((trial.y - center) ** 2, axis=0, dtype=np.float64)
        scale = np.sqrt(square / n)
        still = scale <= 1e-6 * np.maximum(np.abs(center), 1e-12)
        if still.any():
            bad = ", ".join(names[i] for i in np.flatnonzero(still))
            raise DataError(
                f"Channel {bad} is constant over all trials, so it carries no dynamics. Drop it before fitting."
            )
        return cls(center.astype(np.float32), scale.astype(np.float32))

    def apply(self, y: npt.NDArray[Any]) -> Array:
        return ((y - self.center) / self.scale).astype(np.float32)

    def undo(self, y: npt.NDArray[Any]) -> Array:
        return (y * self.scale + self.center).astype(np.float32)

    def log_jacobian(self, y: npt.NDArray[Any]) -> float:
        """What the log-density of the observed entries of `y` loses by going back to the user's units."""
        return float((np.isfinite(y) * np.log(self.scale.astype(np.float64))).sum())
