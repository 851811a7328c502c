"""Standardised units: each channel centred and scaled by its training data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from gdm_core.streams import BLOCK_ROWS, Span, channel_sums
from gdm_core.trials import Trials

Array = npt.NDArray[np.float32]
Float = npt.NDArray[np.float64]


class FitData(Protocol):
    """Data to fit to that stay where they lie: how much there is, and sums over all of it."""

    @property
    def channels(self) -> tuple[str, ...]: ...

    @property
    def n_channels(self) -> int: ...

    @property
    def n_samples(self) -> int: ...

    def __iter__(self) -> Iterator[Span]: ...

    def channel_sums(self, center: Float | None = None) -> Float: ...


@dataclass(frozen=True)
class Scaler:
    """Centre and scale of each channel, from training data."""

    center: Array
    scale: Array

    @classmethod
    def from_trials(cls, trials: Trials | FitData) -> Scaler:
        """Statistics of all observed samples, gone through twice; says which channel has none or never moves."""
        if isinstance(trials, Trials):
            blocks = [t.y[begin : begin + BLOCK_ROWS] for t in trials for begin in range(0, t.n_samples, BLOCK_ROWS)]
            names = trials[0].channels
            sums: Callable[..., Float] = partial(channel_sums, blocks)
        else:
            names, sums = trials.channels, trials.channel_sums
        n, total = sums()
        if (n == 0).any():
            bad = ", ".join(names[i] for i in np.flatnonzero(n == 0))
            raise DataError(f"Channel {bad} has no observed value in any trial. Drop it before fitting.")
        center = total / n
        scale = np.sqrt(sums(center)[0] / n)
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
