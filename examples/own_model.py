"""Write a model of your own.

A subclass of `StateModel` implements a few methods on one trial in standardised units. The base class provides fitting,
validation, saving, calibrated forecasts and scores. This model clusters steps and predicts with one linear map.
"""

# %% Parameters
# The fields of the configuration become constructor parameters with these descriptions.

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.cluster import KMeans

from gdm_core import evaluate
from gdm_core.models.base import Array, StateModel
from gdm_core.models.parameters import Configuration, parameter, parameters_of
from gdm_core.models.progress import Progress, Status
from gdm_studio import plot
from gdm_studio.datasets import nascar


@dataclass(frozen=True)
class StepsConfig(Configuration):
    """Parameters of `Steps`."""

    n_states: int = parameter(4, "Number of clusters.")
    n_latent: int = parameter(2, "Number of channels in the latent path.")
    seed: int = parameter(0, "Random seed.")


# %% The model
# Seven methods. `_fit` is a generator: a live view can use the model between its steps.


class Steps(StateModel):
    """States from k-means on steps, one linear map for all of them."""

    family = "steps"
    config_class = StepsConfig

    @parameters_of(StepsConfig)
    def __init__(self) -> None: ...  # stores the fields as attributes

    def _fit(self, ys: list[Array]) -> Iterator[Progress]:
        steps = np.concatenate([self._steps(y) for y in ys])
        clusters = KMeans(self.config.n_states, n_init=3, random_state=self.config.seed).fit(steps)
        before = np.concatenate([np.nan_to_num(y[:-1]) for y in ys])
        after = np.concatenate([np.nan_to_num(y[1:]) for y in ys])
        weights = np.linalg.lstsq(before, after, rcond=None)[0]
        noise = (after - before @ weights).std(axis=0)
        found = {"centers": clusters.cluster_centers_, "weights": weights, "noise": noise}
        self.params_ = {name: value.astype(np.float32) for name, value in found.items()}
        bound = sum(self._bound(y) for y in ys) / sum(map(len, ys))
        yield Progress(step=1, total=1, elbo=bound, objective=bound)
        self.status_ = Status.CONVERGED

    @staticmethod
    def _steps(y: Array) -> Array:
        return np.diff(np.nan_to_num(y), axis=0, prepend=np.nan_to_num(y[:1]))

    def _soft_states(self, y: Array) -> Array:
        distance = 50 * ((self._steps(y)[:, None] - self.params_["centers"]) ** 2).sum(axis=2)  # [T, K]
        weight = np.exp(distance.min(axis=1, keepdims=True) - distance)
        return (weight / weight.sum(axis=1, keepdims=True)).astype(np.float32)

    def _reconstruct(self, y: Array) -> Array:
        return np.nan_to_num(np.concatenate([y[:1], y[:-1]])) @ self.params_["weights"]

    def _latent(self, y: Array) -> Array:
        return y[:, : self.config.n_latent]

    def _bound(self, y: Array) -> float:
        error = (y[1:] - np.nan_to_num(y[:-1]) @ self.params_["weights"]) / self.params_["noise"]
        rest = -np.log(self.params_["noise"]) - 0.5 * np.log(2 * np.pi)
        return float(np.nansum(-0.5 * error**2 + rest) + np.nansum(-0.5 * y[0] ** 2 - 0.5 * np.log(2 * np.pi)))

    def _paths(self, y: Array, origins: np.ndarray, horizon: int, n_paths: int, seed: int) -> Array:
        rng = np.random.default_rng(seed)
        now = np.broadcast_to(np.nan_to_num(y[origins]), (n_paths, len(origins), y.shape[1]))
        paths = np.empty((n_paths, len(origins), horizon, y.shape[1]), np.float32)
        for h in range(horizon):
            now = now @ self.params_["weights"] + self.params_["noise"] * rng.standard_normal(now.shape)
            paths[:, :, h] = now
        return paths

    def _generate(self, n_samples: int, seed: int) -> tuple[Array, Array, Array]:
        start = np.zeros((1, self.n_channels), np.float32)
        y = self._paths(start, np.array([0]), n_samples, 1, seed)[0, 0]
        return y, self._soft_states(y), self._latent(y)

    def _set_random_parameters(self, ys: list[Array], seed: int) -> None:
        for _ in self._fit(ys):
            pass
        rng = np.random.default_rng(seed)
        self.params_["centers"] = rng.standard_normal(self.params_["centers"].shape).astype(np.float32)


# %% Use it like any other model

train, test = nascar.train_test("standard", seed=0, T=400)
model = Steps(n_states=4).fit(train)
scores = evaluate(model, train, test)
name, baseline = scores.best_baseline("matched_accuracy")
print(model)
print(f"matched accuracy {scores.matched_accuracy:.3f} (best baseline: {baseline:.3f}, {name})")
low, high = model.forecast(test, horizon=3).interval(0.90)
print("lower bounds of calibrated 90% intervals:", low.shape)
plot.track(test, model.predict_proba(test)).show()
