"""Standardised units: each channel centred and scaled by its training data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from gdm_core.streams import BLOCK_ROWS, StreamedTrials
from gdm_core.trials import Trials

Array = npt.NDArray[np.float32]
Float = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scaler:
    """Centre and scale of each channel, from training data."""

    center: Array
    scale: Array

    @classmethod
    def from_trials(cls, trials: Trials | StreamedTrials) -> Scaler:
        """Statistics of all observed samples, gone through twice in blocks; says which channel has none or never moves."""

        def blocks() -> Iterator[npt.NDArray[Any]]:
            if isinstance(trials, StreamedTrials):
                yield from (trials.read(begin, end) for _, begin, end in trials.blocks())
            else:
                for trial in trials:
                    for begin in range(0, trial.n_samples, BLOCK_ROWS):
                        yield trial.y[begin : begin + BLOCK_ROWS]

        names = trials.channels if isinstance(trials, StreamedTrials) else trials[0].channels
        n, total = np.zeros(trials.n_channels), np.zeros(trials.n_channels)
        for y in blocks():
            n += np.isfinite(y).sum(axis=0)
            total += np.nansum(y, axis=0, dtype=np.float64)

        def squares(center: Float) -> Float:
            square = np.zeros(trials.n_channels)
            for y in blocks():
                square += np.nansum((y - center) ** 2, axis=0, dtype=np.float64)
            return square

        return cls.from_sums(n, total, squares, names)

    @classmethod
    def from_sums(cls, n: Float, total: Float, squares: Callable[[Float], Float], names: tuple[str, ...]) -> Scaler:
        """From [N] how many values there are, their sum, and what gives the sum of squares about a centre."""
        if (n == 0).any():
            bad = ", ".join(names[i] for i in np.flatnonzero(n == 0))
            raise DataError(f"Channel {bad} has no observed value in any trial. Drop it before fitting.")
        center = total / n
        square = squares(center)
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


def scaler_for(previous: Scaler | None, trials: Trials | StreamedTrials) -> Scaler:
    """The scale to fit in: that of the model to start from, where there is one."""
    if previous is None:
        return Scaler.from_trials(trials)
    if len(previous.center) != trials.n_channels:
        raise DataError(
            f"The model to start from was fitted on {len(previous.center)} channels, this data has {trials.n_channels}."
        )
    return previous
