"""Predictions of test trials by a model and by baselines, from the same origins, and their scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.baselines import LinearAR
from gdm_core.errors import DataError
from gdm_core.forecast import Forecast, outcomes
from gdm_core.maths.gaps import carry_forward, known_mean, ratio
from gdm_core.trials import Trial, Trials

if TYPE_CHECKING:
    from gdm_core.models.base import StateModel

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

HORIZON = 10
N_PATHS = 100
MAX_ORIGINS = 2_000
FIRST_ORIGIN = 1  # models with one lag need two samples


def r2(y: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Return R² pooled over channels, without missing entries; NaN without variance."""
    truth, guess = np.asarray(y, np.float64), np.asarray(predicted, np.float64)
    if truth.shape != guess.shape:
        raise DataError(f"Observations have shape {truth.shape} but predictions {guess.shape}.")
    known = np.isfinite(truth) & np.isfinite(guess)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, truth, 0).sum(axis=0) / count
    total = np.where(known, truth - mean, 0)
    error = np.where(known, truth - guess, 0)
    spread = float((total**2).sum())
    return 1 - float((error**2).sum()) / spread if spread > 0 else float("nan")


def stacked_r2(trials: Trials, predicted: Sequence[Any]) -> float:
    """Return R² over all trials."""
    return r2(np.concatenate([trial.y for trial in trials]), np.concatenate(predicted))


def persistence(y: npt.ArrayLike) -> Array:
    """Predict each sample by the last observed value [T, N]; NaN for the first."""
    carried = carry_forward(np.asarray(y), np.nan)
    return np.concatenate([np.full_like(carried[:1], np.nan), carried[:-1]])


# ---- forecasts ------------------------------------------------------------------------------------------------------
def forecast_origins(test: Trials, first: int = FIRST_ORIGIN) -> Iterator[tuple[int, Trial, IntArray]]:
    """Yield (offset among all samples, trial, origins) of each test trial; about MAX_ORIGINS origins in all."""
    stride = max(1, -(-test.n_samples // MAX_ORIGINS))
    offset = 0
    for trial in test:
        if len(at := np.arange(first, trial.n_samples - 1, stride)):
            yield offset, trial, at
        offset += trial.n_samples


def forecast_trials(model: StateModel, test: Trials, seed: int = 0) -> list[tuple[Trial, Forecast]]:
    """Forecast the test trials with intervals as calibrated."""
    return [
        (trial, model.forecast(trial, HORIZON, N_PATHS, seed=seed, origins=at, adaptive=False))
        for _, trial, at in forecast_origins(test, model.min_samples - 1)
    ]


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions from all origins of the test trials.

    samples  [O] origins among the samples of all trials
    truth    [O, H, N] observations
    mean     [O, H, N]
    std      [O, N] standard deviation of the next sample; None for a guess without one
    """

    samples: IntArray
    truth: npt.NDArray[Any]
    mean: npt.NDArray[Any]
    std: npt.NDArray[Any] | None

    @classmethod
    def collect(cls, test: Trials, first: int, guesses: Iterable[tuple[Any, Any]]) -> Predictions:
        """Collect the mean and std of each trial with origins."""
        origins = list(forecast_origins(test, first))
        means, stds = zip(*guesses, strict=True)
        return cls(
            np.concatenate([offset + at for offset, _, at in origins]),
            np.concatenate([outcomes(trial.y, at, HORIZON) for _, trial, at in origins]),
            np.concatenate(means),
            None if stds[0] is None else np.concatenate(stds),
        )

    @classmethod
    def by_last_value(cls, test: Trials, first: int = FIRST_ORIGIN) -> Predictions:
        """Predict the last observed value (persistence)."""
        now = (carry_forward(trial.y, np.nan)[at] for _, trial, at in forecast_origins(test, first))
        return cls.collect(test, first, ((np.repeat(rows[:, None], HORIZON, axis=1), None) for rows in now))

    @classmethod
    def by_autoregression(cls, linear: LinearAR, train: Trials, test: Trials, first: int = FIRST_ORIGIN) -> Predictions:
        std = linear.error_std(train)
        means = (linear.forecast(trial.y, at, HORIZON) for _, trial, at in forecast_origins(test, first))
        return cls.collect(test, first, ((mean, np.broadcast_to(std, mean[:, 0].shape)) for mean in means))

    def r2(self) -> tuple[float, ...]:
        """Return R² at each horizon."""
        return tuple(r2(self.truth[:, h], self.mean[:, h]) for h in range(HORIZON))

    def score_blocks(self, test: Trials, blocks: Iterable[IntArray]) -> dict[str, tuple[float, ...]]:
        """Return R² 1 and 10 steps ahead and the log density of the next sample in each block.

        R² is relative to the variance over all test trials. The density uses the predicted mean and sd alone, so it
        compares models with different likelihoods.
        """
        cut = list(blocks)
        variance = np.nanvar(np.concatenate([trial.y for trial in test]).astype(np.float64), axis=0)
        error = self.truth.astype(np.float64) - self.mean
        found = {}
        for name, h in (("next", 0), ("ten", HORIZON - 1)):
            known = np.isfinite(error[:, h])
            sums = np.zeros((test.n_samples, 2))  # of squared errors and of variance
            sums[self.samples] = np.stack(
                [np.where(known, part, 0).sum(axis=1) for part in (error[:, h] ** 2, variance)], axis=1
            )
            found[name] = tuple(float(1 - ratio(*sums[block].sum(axis=0))) for block in cut)
        if self.std is not None:
            std = self.std.astype(np.float64)
            with np.errstate(divide="ignore", invalid="ignore"):
                nats = -0.5 * (error[:, 0] / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)
            density = np.full(test.n_samples, np.nan)
            density[self.samples] = np.where(np.isfinite(nats).any(axis=1), np.nansum(nats, axis=1), np.nan)
            if np.isfinite(density).any():
                found["density"] = tuple(float(known_mean(density[block])) for block in cut)
        return found
