"""A small Gaussian hidden Markov model with diagonal covariances, fitted by EM: a baseline, not a model of the studio."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core.maths import hmm
from gdm_core.maths.hmm import ChainPosterior

Array = npt.NDArray[np.float64]

_FLOOR = 1e-10  # no transition is impossible: EM could never revive one
_MIN_VARIANCE = 1e-6  # of each column's own variance
_TOLERANCE = 1e-5  # nats per sample
_MAX_ITERATIONS = 60


@dataclass(frozen=True)
class GaussianHMM:
    """Parameters of K states over rows of D values."""

    initial: Array  # [K]
    transition: Array  # [K, K]
    mean: Array  # [K, D]
    variance: Array  # [K, D]

    @classmethod
    def fit(
        cls, rows: Array, starts: npt.NDArray[np.int64], guess: npt.NDArray[np.int64], n_states: int
    ) -> GaussianHMM:
        """EM from hard states `guess` [T]; `starts` are the rows at which a new sequence begins (0 is one of them)."""
        hard = np.eye(n_states)[guess]  # [T, K]
        after = np.delete(np.arange(len(rows)), starts)
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
    def _maximise(cls, rows: Array, starts: npt.NDArray[np.int64], states: Array, counts: Array) -> GaussianHMM:
        weight = np.maximum(states.sum(axis=0), 1e-8)[:, None]
        mean = states.T @ rows / weight
        square = states.T @ rows**2 / weight - mean**2
        initial = _distribution(states[starts].sum(axis=0))
        return cls(initial, _distribution(counts), mean, np.maximum(square, _MIN_VARIANCE * rows.var(axis=0) + 1e-12))

    def log_densities(self, rows: Array) -> Array:
        """[T, K] log N(row | state)."""
        precision = 1 / self.variance
        quadratic = (
            rows**2 @ precision.T - 2 * rows @ (self.mean * precision).T + (self.mean**2 * precision).sum(axis=1)
        )
        return -0.5 * (quadratic + np.log(2 * np.pi * self.variance).sum(axis=1))

    def infer(self, rows: Array, starts: npt.NDArray[np.int64]) -> ChainPosterior:
        """Posterior of the states given all of `rows`."""
        begins = np.zeros(len(rows), dtype=bool)
        begins[starts] = True
        return hmm.posterior(self.log_densities(rows), np.log(self.initial), np.log(self.transition), begins)


def _distribution(counts: Array) -> Array:
    total = counts.sum(axis=-1, keepdims=True)
    shares = np.where(total > 0, counts / np.where(total > 0, total, 1), 1 / counts.shape[-1])
    shares = np.maximum(shares, _FLOOR)
    return shares / shares.sum(axis=-1, keepdims=True)
