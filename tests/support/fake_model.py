"""A state model with fits of any duration and failure."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from gdm_core.errors import ConfigError, DataError
from gdm_core.models.base import Array, StateModel
from gdm_core.models.parameters import parameters_of
from gdm_core.models.progress import Progress, Status
from gdm_core.models.registry import FAMILIES

FAMILY = "tests.support.fake_model:FakeModel"
FAMILIES["fake"] = ("tests.support.fake_model", "FakeModel")


@dataclass(frozen=True)
class FakeConfig:
    """Configuration of the fake model.

    misbehave  "", "diverge", "data_error", "bug", "stuck" or "memory"
    diary      file with a line per started fit
    hurry      file that makes steps take no time once it exists
    """

    n_states: int = 2
    n_latent: int = 1
    n_steps: int = 20
    step_s: float = 0.0
    seed: int = 0
    misbehave: str = ""
    diary: str = ""
    hurry: str = ""

    def __post_init__(self) -> None:
        if self.n_states < 1:
            raise ConfigError(f"n_states is {self.n_states}; it must be 1 or more.")


class FakeModel(StateModel):
    """A model whose ELBO rises from -1 towards 0, and which predicts the data plus noise."""

    family: ClassVar[str] = "fake"
    config_class: ClassVar[type] = FakeConfig

    @parameters_of(FakeConfig)
    def __init__(self) -> None: ...

    def _fit(self, ys: list[Array]) -> Iterator[Progress]:
        config = self.config
        if config.diary:
            with Path(config.diary).open("a") as diary:
                diary.write(f"{os.getpid()} n_states={config.n_states} seed={config.seed}\n")
        if config.misbehave == "data_error":
            raise DataError("Channel 'x' of trial 'lap 3' is unusable. Drop it.")
        if config.misbehave == "bug":
            raise KeyError("an oversight")
        for step in range(1, config.n_steps + 1):
            if config.step_s and not (config.hurry and Path(config.hurry).exists()):
                time.sleep(config.step_s)
            if config.misbehave == "stuck":
                time.sleep(600)
            if config.misbehave == "memory":
                self._ballast = np.ones((step, 200, 2**15))  # adds 50 MiB per step
            self.params_ = {"level": np.array([float(step)], dtype=np.float32)}
            if config.misbehave == "diverge" and step == 5:
                self._fail("it diverged at step 5")
                yield Progress(step, config.n_steps, float("nan"), float("nan"))
                return
            yield Progress(step, config.n_steps, -1.0 / step, -1.0 / step)
        self.status_ = Status.CONVERGED

    def _soft_states(self, y: Array) -> Array:
        edges = np.arange(self.config.n_states, dtype=np.float32)
        logits = -np.square(y[:, :1] - edges)  # [T, K]
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def _reconstruct(self, y: Array) -> Array:
        return y

    def _latent(self, y: Array) -> Array:
        return y[:, : self.config.n_latent]

    def _paths(self, y: Array, origins: Any, horizon: int, n_paths: int, seed: int) -> Array:
        noise = np.random.default_rng(seed).standard_normal((n_paths, 1, horizon, y.shape[1]), dtype=np.float32)
        return y[origins][None, :, None, :] + noise  # [P, O, H, N]

    def _generate(self, n_samples: int, seed: int) -> tuple[Array, Array, Array]:
        y = np.random.default_rng(seed).standard_normal((n_samples, self.n_channels)).astype(np.float32)
        return y, self._soft_states(y), self._latent(y)

    def _bound(self, y: Array) -> float:
        return -float(np.abs(y).sum()) - self.config.n_states - 0.1 * self.config.seed


def score(model: StateModel, train: Any, test: Any) -> dict[str, Any]:
    """Return fake scores of a fitted model."""
    return {"elbo_test": model.score(test), "n_train": train.n_samples, "nested": {"half": 0.5}, "text": "left out"}
