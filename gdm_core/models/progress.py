"""Progress and outcome of a fit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """Outcome of a fit.

    CONVERGED  the bound no longer improved
    MAX_STEPS  the bound was still improving at the last step
    FAILED     `failure_` gives the reason; the model keeps its last finite parameters, which are not a result
    CANCELLED  stopped early
    """

    CONVERGED = "converged"
    MAX_STEPS = "max_steps"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Progress:
    """State of a running fit; the model is usable with its current parameters.

    step       steps taken, of `total`; 0 before the first one
    elbo       bound per time step in nats, in standardised units; noisy, and NaN before the first step
    objective  value that the optimiser maximises, per time step; differs from `elbo` by the prior
    """

    step: int
    total: int
    elbo: float
    objective: float
