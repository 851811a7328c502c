"""A minimal StateModel: states from clusters of steps, predictions from one linear map."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gdm_core.models.base import StateModel
from gdm_core.models.parameters import parameters_of
from gdm_core.models.progress import Progress, Status


@dataclass(frozen=True)
class SimpleConfig:
    n_states: int = 4
    n_latent: int = 2
    temperature: float = 0.99
    stickiness: float = 0.0
    seed: int = 0
    spread: float = 1.0
    posterior: str = "steps"


class SimpleModel(StateModel):
    family = "simple"
    config_class = SimpleConfig

    @parameters_of(SimpleConfig)
    def __init__(self) -> None: ...

    def _fit(self, ys) -> Iterator[Progress]:
        from sklearn.cluster import KMeans

        steps = np.concatenate([self._steps(y) for y in ys])
        before = np.concatenate([np.nan_to_num(y[:-1]) for y in ys])
        after = np.concatenate([np.nan_to_num(y[1:]) for y in ys])
        weights = np.linalg.lstsq(before, after, rcond=None)[0]
        clusters = KMeans(self.config.n_states, n_init=2, random_state=self.config.seed).fit(steps)
        self.params_ = {
            "centers": clusters.cluster_centers_.astype(np.float32),
            "weights": weights.astype(np.float32),
            "noise": (after - before @ weights).std(axis=0).astype(np.float32) * np.float32(self.config.spread),
        }
        for step in (1, 2):
            yield Progress(step, 2, float(step), float(step))
        self.status_ = Status.CONVERGED

    def _set_random_parameters(self, ys, seed):
        rng = np.random.default_rng(seed)
        n = ys[0].shape[1]
        self.params_ = {
            "centers": rng.standard_normal((self.config.n_states, n)).astype(np.float32),
            "weights": np.zeros((n, n), np.float32),
            "noise": np.ones(n, np.float32),
        }

    @staticmethod
    def _steps(y):
        return np.diff(np.nan_to_num(y), axis=0, prepend=np.nan_to_num(y[:1]))

    def _soft_states(self, y):
        distance = ((self._steps(y)[:, None] - self.params_["centers"]) ** 2).sum(axis=2) * 50
        weight = np.exp(distance.min(axis=1, keepdims=True) - distance)
        return (weight / weight.sum(axis=1, keepdims=True)).astype(np.float32)

    def _reconstruct(self, y):
        before = np.concatenate([y[:1], y[:-1]])
        return np.nan_to_num(before) @ self.params_["weights"]

    def _latent(self, y):
        return y[:, : self.config.n_latent]

    def _bound(self, y):
        noise = self.params_["noise"]
        error = (y[1:] - np.nan_to_num(y[:-1]) @ self.params_["weights"]) / noise
        first = y[:1]
        return float(
            np.nansum(-0.5 * error**2 - np.log(noise) - 0.5 * np.log(2 * np.pi))
            + np.nansum(-0.5 * first**2 - 0.5 * np.log(2 * np.pi))
        )

    def _paths(self, y, origins, horizon, n_paths, seed):
        rng = np.random.default_rng(seed)
        state = np.broadcast_to(np.nan_to_num(y[origins]), (n_paths, len(origins), y.shape[1]))
        paths = np.empty((n_paths, len(origins), horizon, y.shape[1]), np.float32)
        for h in range(horizon):
            state = state @ self.params_["weights"] + self.params_["noise"] * rng.standard_normal(state.shape)
            paths[:, :, h] = state
        return paths

    def _generate(self, n_samples, seed):
        y = self._paths(np.zeros((1, self.n_channels), np.float32), np.array([0]), n_samples, 2, seed)[0, 0]
        return y, self._soft_states(y), self._latent(y)
