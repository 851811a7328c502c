"""The prediction from one moment of a trial with its envelope, and how much envelopes like it hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core import adaptation
from gdm_core.errors import DataError
from gdm_core.forecast import Forecast, coverage, width
from gdm_core.models.loading import model_from_bytes
from gdm_core.trials import Trial

Array = npt.NDArray[np.float32]

COVERAGE_ORIGINS = 250
ENVELOPE_PATHS = 200


@dataclass(frozen=True)
class Held:
    """What bands of one kind hold over evenly spaced moments of a whole trial, at each horizon [H].

    half, nine_tenths   share of outcomes inside the 50 % and the 90 % band
    """

    half: Array
    nine_tenths: Array


@dataclass(frozen=True, eq=False)
class Envelope:
    """The prediction from one moment of a trial, and what envelopes like it hold (times in samples).

    adaptive             whether the bands have learned from what came before `origin`, or are as calibrated
    mean, lower90, ...   [H, N] for the steps after `origin`
    learning, fixed      what adaptive bands hold, and what bands as calibrated do
    wider                mean width of the adaptive 90 % band over that of the calibrated one, `horizon` steps ahead
    """

    origin: int
    adaptive: bool
    mean: Array
    lower50: Array
    upper50: Array
    lower90: Array
    upper90: Array
    std: Array
    learning: Held
    fixed: Held
    wider: float
    n_origins: int


def envelope(
    model_bytes: bytes, trial: Trial, origin: int, horizon: int, adaptive: bool = True, seed: int = 0
) -> Envelope:
    """The prediction from `origin`, and how much envelopes of the same horizon hold over the trial.

    adaptive   the bands learn from the outcomes that are known at `origin`, of predictions from evenly spaced moments before it
    """
    model = model_from_bytes(model_bytes)
    first = model.min_samples - 1
    if trial.n_samples - first < 3:
        raise DataError(f"Trial {trial.name!r} is too short ({trial.n_samples} samples) for a prediction.")
    origin = int(np.clip(origin, first, trial.n_samples - 2))
    spread = np.unique(np.linspace(first, trial.n_samples - 2, COVERAGE_ORIGINS).astype(np.int64))
    fixed = model.forecast(trial, horizon, n_paths=100, seed=seed, origins=spread, adaptive=False)
    one = model.forecast(trial, horizon, n_paths=ENVELOPE_PATHS, seed=seed, origins=[origin], adaptive=False)
    learned = adaptation.learn(fixed, trial.y)
    learning = adaptation.scaled(fixed, learned.factors(spread))
    if adaptive:
        one = adaptation.scaled(one, learned.factors(origin))
    (low50, high50), (low90, high90) = one.interval(0.5), one.interval(0.9)
    before, after = width(fixed)[-1], width(learning)[-1]
    moving = before > 0
    return Envelope(
        origin,
        adaptive,
        one.mean[0],
        low50[0],
        high50[0],
        low90[0],
        high90[0],
        one.std[0],
        _held(learning, trial),
        _held(fixed, trial),
        float((after[moving] / before[moving]).mean()) if moving.any() else 1.0,
        len(spread),
    )


def _held(bands: Forecast, trial: Trial) -> Held:
    return Held(coverage(bands, trial.y, 0.5), coverage(bands, trial.y, 0.9))
