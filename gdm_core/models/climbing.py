"""Fits that climb: iterations of expectation and maximisation, until nothing is gained any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from gdm_core.models.base import Array, Progress, StateModel, Status

TOLERANCE = 1e-5  # nats per sample
CALM = 3  # iterations in a row that gain less end the fit


@dataclass(frozen=True)
class Climb:
    """One iteration: `keep()` makes its parameters the model's; both bounds in nats over all samples."""

    keep: Callable[[], None]
    elbo: float
    objective: float


def in_fixed_order(ys: Iterable[Array]) -> list[Array]:
    """The trials in an order of their own: theirs must not reach rounding errors."""
    return sorted(ys, key=lambda y: (len(y), y.tobytes()))


class ClimbingModel(StateModel):
    """A model that is fitted by iterations each of which gains."""

    def _climb(self, iterations: Iterable[Climb], n_samples: int) -> Iterator[Progress]:
        """Keep every iteration; set `status_` at the end."""
        best, calm = -np.inf, 0
        for number, now in enumerate(iterations):
            if not np.isfinite(now.objective):
                self.status_ = Status.DIVERGED
                return
            now.keep()
            yield Progress(number, self.config.n_iter, now.elbo / n_samples, now.objective / n_samples)
            calm = calm + 1 if now.objective - best < TOLERANCE * n_samples else 0
            best = max(best, now.objective)
            if calm == CALM:
                self.status_ = Status.CONVERGED
                return
        self.status_ = Status.MAX_STEPS
