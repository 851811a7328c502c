"""The prediction from one moment of a trial with its envelope, and how much envelopes like it hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from gdm_core.forecast import coverage
from gdm_core.models.loading import model_from_bytes
from gdm_core.trials import Trial

Array = npt.NDArray[np.float32]

COVERAGE_ORIGINS = 250
ENVELOPE_PATHS = 200


@dataclass(frozen=True, eq=False)
class Envelope:
    """The prediction from one moment of a trial, and what envelopes like it hold (times in samples).

    mean, lower90, ...   [H, N] for the steps after `origin`
    held50, held90       [H] share of outcomes inside, over evenly spaced moments of the whole trial
    """

    origin: int
    mean: Array
    lower50: Array
    upper50: Array
    lower90: Array
    upper90: Array
    std: Array
    held50: Array
    held90: Array
    n_origins: int


def envelope(model_bytes: bytes, trial: Trial, origin: int, horizon: int, seed: int = 0) -> Envelope:
    """The prediction from `origin`, and how much envelopes of the same horizon hold over the trial."""
    model = model_from_bytes(model_bytes)
    first = model.min_samples - 1
    if trial.n_samples - first < 3:
        raise DataError(f"Trial {trial.name!r} is too short ({trial.n_samples} samples) for a prediction.")
    origin = int(np.clip(origin, first, trial.n_samples - 2))
    spread = np.unique(np.linspace(first, trial.n_samples - 2, COVERAGE_ORIGINS).astype(np.int64))
    known = model.forecast(trial, horizon, n_paths=100, seed=seed, origins=spread)
    one = model.forecast(trial, horizon, n_paths=ENVELOPE_PATHS, seed=seed, origins=[origin])
    (low50, high50), (low90, high90) = one.interval(0.5), one.interval(0.9)
    return Envelope(
        origin,
        one.mean[0],
        low50[0],
        high50[0],
        low90[0],
        high90[0],
        one.std[0],
        coverage(known, trial.y, 0.5),
        coverage(known, trial.y, 0.9),
        len(spread),
    )
