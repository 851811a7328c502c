"""Baselines without a dynamical model of states."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.forecast import outcomes
from gdm_core.maths import hmm
from gdm_core.maths.gaps import carry_forward, interpolate_gaps
from gdm_core.maths.threads import one_thread
from gdm_core.trials import Trials

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NEIGHBOURS = "10-NN"
N_COMPONENTS = 2
# Limit on the training samples of clustering and EM.
MAX_TRAINING_SAMPLES = 50_000
_RIDGE = 1e-8
_FLOOR = 1e-10  # lower bound of probabilities; EM cannot recover from zero
_MIN_VARIANCE = 1e-6  # relative to the variance of the column
_TOLERANCE = 1e-5  # nats per sample
_MAX_ITERATIONS = 60


def steps(y: Array) -> Array:
    """Return the differences [T, N] from the previous sample; the first row repeats the second."""
    if len(y) < 2:
        return np.zeros_like(y)
    change = np.diff(y, axis=0)
    return np.concatenate([change[:1], change])


def fit_baselines(train: Trials, test: Trials, n_states: int, seed: int) -> Iterator[tuple[str, str, Array, Array]]:
    """Yield (method, feature, training rows, test rows) of each baseline, over the concatenated trials.

    Rows are soft states [T, K] of k-means and of a Gaussian HMM initialised by it, fitted to the training trials. For
    NEIGHBOURS they are the features themselves: two principal components of "position" and of "steps". Channels are not
    standardised, which would amplify noisy channels and weaken the baselines.
    """
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA

    whole = [[interpolate_gaps(trial.y) for trial in trials] for trials in (train, test)]
    begins, begins_test = (np.concatenate([np.arange(len(y)) == 0 for y in side]) for side in whole)
    for on, sides in (("position", whole), ("steps", [[steps(y) for y in side] for side in whole])):
        joined, joined_test = map(np.concatenate, sides)
        components = PCA(min(N_COMPONENTS, *joined.shape), svd_solver="covariance_eigh").fit(joined)
        spread = float(np.sqrt(components.explained_variance_[0])) or 1.0  # common, to preserve ratios of distances
        rows, rows_test = (components.transform(side) / spread for side in (joined, joined_test))
        head = slice(MAX_TRAINING_SAMPLES)
        with one_thread():
            clusters = KMeans(n_states, n_init=4, random_state=seed).fit(rows[head])
            hard, hard_test = (np.eye(n_states)[clusters.predict(side)] for side in (rows, rows_test))
        yield "k-means", on, hard, hard_test
        model = GaussianHMM.fit(rows[head], begins[head], clusters.labels_.astype(np.int64), n_states)
        yield "Gaussian HMM", on, model.infer(rows, begins).states, model.infer(rows_test, begins_test).states
        yield NEIGHBOURS, on, rows, rows_test


@dataclass(frozen=True)
class GaussianHMM:
    """Gaussian hidden Markov model with diagonal covariances, fitted by EM."""

    initial: Array  # [K]
    transition: Array  # [K, K]
    mean: Array  # [K, D]
    variance: Array  # [K, D]

    @classmethod
    def fit(cls, rows: Array, starts: Bools, guess: IntArray, n_states: int) -> GaussianHMM:
        """Run EM from hard states `guess` [T]; `starts` [T] are the first rows of sequences."""
        hard = np.eye(n_states)[guess]  # [T, K]
        after = np.flatnonzero(~starts)
        counts = hard[after - 1].T @ hard[after]
        model = cls._maximise(rows, starts, hard, counts)
        last = -np.inf
        for _ in range(_MAX_ITERATIONS):
            posterior = model.infer(rows, starts)
            if posterior.log_likelihood - last < _TOLERANCE * len(rows):
                break
            last = posterior.log_likelihood
            model = cls._maximise(rows, starts, posterior.states, posterior.pairs.sum(axis=0))
        return model

    @classmethod
    def _maximise(cls, rows: Array, starts: Bools, states: Array, counts: Array) -> GaussianHMM:
        weight = np.maximum(states.sum(axis=0), 1e-8)[:, None]
        mean = states.T @ rows / weight
        square = states.T @ rows**2 / weight - mean**2
        initial = _distribution(states[starts].sum(axis=0))
        return cls(initial, _distribution(counts), mean, np.maximum(square, _MIN_VARIANCE * rows.var(axis=0) + 1e-12))

    def log_densities(self, rows: Array) -> Array:
        """Return log N(row | state) [T, K]."""
        precision = 1 / self.variance
        quadratic = (
            rows**2 @ precision.T - 2 * rows @ (self.mean * precision).T + (self.mean**2 * precision).sum(axis=1)
        )
        return np.asarray(-0.5 * (quadratic + np.log(2 * np.pi * self.variance).sum(axis=1)))

    def infer(self, rows: Array, starts: Bools) -> hmm.ChainPosterior:
        """Return the posterior of the states given `rows`."""
        return hmm.posterior(self.log_densities(rows), np.log(self.initial), np.log(self.transition), starts)


def _distribution(counts: Array) -> Array:
    total = counts.sum(axis=-1, keepdims=True)
    shares = np.where(total > 0, counts / np.where(total > 0, total, 1), 1 / counts.shape[-1])
    shares = np.maximum(shares, _FLOOR)
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class LinearAR:
    """First-order autoregression y_{t+1} = A y_t + b + Gaussian noise, by least squares."""

    center: Array  # [N]
    scale: Array  # [N]
    weights: Array  # [N, N], applied to rows: next = row @ weights + bias
    bias: Array  # [N]
    residual: Array  # [N, N] covariance of the noise
    marginal: Array  # [N, N] covariance of a sample

    @classmethod
    def fit(cls, train: Trials) -> LinearAR:
        parts = [interpolate_gaps(trial.y) for trial in train]
        joined = np.concatenate(parts)
        center, spread = joined.mean(axis=0), joined.std(axis=0)
        scale = np.where(spread > 0, spread, 1.0)
        parts = [(part - center) / scale for part in parts]
        before = np.concatenate([part[:-1] for part in parts])
        after = np.concatenate([part[1:] for part in parts])
        n_channels = joined.shape[1]
        design = np.column_stack([before, np.ones(len(before))])
        gram = design.T @ design + _RIDGE * max(len(before), 1) * np.eye(n_channels + 1)
        solution = np.linalg.solve(gram, design.T @ after)  # [N + 1, N]
        error = after - design @ solution
        jitter = _RIDGE * np.eye(n_channels)
        residual = error.T @ error / max(len(error), 1) + jitter
        whole = np.concatenate(parts)
        return cls(center, scale, solution[:-1], solution[-1], residual, whole.T @ whole / len(whole) + jitter)

    def predict(self, rows: Array, horizon: int) -> Array:
        """Predict [O, H, N] from rows [O, N]."""
        state, path = (rows - self.center) / self.scale, []
        for _ in range(horizon):
            state = state @ self.weights + self.bias
            path.append(state * self.scale + self.center)
        return np.stack(path, axis=1)

    def forecast(self, y: npt.NDArray[Any], origins: IntArray, horizon: int) -> Array:
        """Predict [O, H, N] from samples of `y`; unobserved channels start at their mean."""
        now = carry_forward(y, np.nan)[origins]
        return self.predict(np.where(np.isfinite(now), now, self.center), horizon)

    def error_std(self, trials: Trials) -> Array:
        """Return the standard deviation [N] of errors at the next sample."""
        origins = ((trial.y, np.arange(trial.n_samples - 1)) for trial in trials if trial.n_samples > 1)
        errors = [outcomes(y, at, 1)[:, 0] - self.forecast(y, at, 1)[:, 0] for y, at in origins]
        return np.asarray(np.nanstd(np.concatenate(errors), axis=0))

    def log_likelihood(self, trials: Trials) -> float | None:
        """Return nats per time step, in data units; None if values are missing."""
        total = 0.0
        for trial in trials:
            if not np.isfinite(trial.y).all():
                return None
            rows = (np.asarray(trial.y, np.float64) - self.center) / self.scale
            error = rows[1:] - (rows[:-1] @ self.weights + self.bias)
            total += _gaussian(rows[:1], self.marginal) + _gaussian(error, self.residual)
            total -= len(rows) * float(np.log(self.scale).sum())
        return total / trials.n_samples


def _gaussian(rows: Array, covariance: Array) -> float:
    """Return the sum of log N(row | 0, covariance)."""
    factor = np.linalg.cholesky(covariance)
    white = np.linalg.solve(factor, rows.T)
    constant = rows.shape[1] * np.log(2 * np.pi) + 2 * np.log(np.diag(factor)).sum()
    return float(-0.5 * ((white**2).sum() + len(rows) * constant))
