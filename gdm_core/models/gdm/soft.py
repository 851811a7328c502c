"""What models have in common whose parameters are a torch module's and whose states are soft: the GDM and its mixture."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Generic, Self, TypeVar

import numpy as np
import torch

from gdm_core.models.base import Array, Progress, StateModel, Status
from gdm_core.models.gdm.fit import REPORT_EVERY, Step
from gdm_core.models.scaling import Scaler
from gdm_core.trials import Trials

Module = TypeVar("Module", bound=torch.nn.Module)


class SoftModel(StateModel, Generic[Module]):
    """A model that keeps the parameters of a module."""

    def _forget(self) -> None:
        super()._forget()
        self._module: Module | None = None

    @property
    def stickiness_(self) -> float:
        """Learned (or fixed) stickiness (gamma)."""
        return float(self._net.transition.gamma)  # type: ignore[union-attr, arg-type]

    @abstractmethod
    def _blank(self) -> Module:
        """A module that `params_` fits into."""

    @property
    def _net(self) -> Module:
        """The module that holds `params_`, made when first needed after a load."""
        self._require_fitted()
        if self._module is None:
            module = self._blank()
            module.load_state_dict({name: torch.as_tensor(value) for name, value in self.params_.items()})
            self._module = module.requires_grad_(False).eval()
        return self._module

    @abstractmethod
    def _random(self, ys: list[Array], seed: int) -> Module:
        """A module of random parameters for these standardised trials."""

    def _control(self) -> Self:
        """The unfitted model that `untrained` gives random parameters."""
        return self.from_config(self.config)

    def untrained(self, trials: Trials, seed: int = 0) -> Self:
        """A control: the same configuration with random parameters, never fitted, on this data's scale.

        trials   whose scale the control has
        seed     of its random parameters
        """
        control = self._control()
        control.scaler_ = scaler = Scaler.from_trials(trials)
        control._keep(control._random([scaler.apply(trial.y) for trial in trials], seed))
        control.status_ = Status.CANCELLED
        return control

    def _climbed(self, module: Module, steps: Iterator[Step], total: int, done: int = 0) -> Iterator[Progress]:
        """Follow the steps of a recipe, keep what is good, and set the status; `done` of `total` steps lie behind already."""
        if not done:
            yield Progress(0, total, float("nan"), float("nan"))
        objectives: list[float] = []
        for step in steps:
            if not step.finite:
                self.status_ = Status.DIVERGED  # params_ still holds the last good ones
                return
            objectives.append(step.objective)
            if step.index % REPORT_EVERY == 0 or step.index == step.total:
                if not all(bool(torch.isfinite(p).all()) for p in module.parameters()):
                    self.status_ = Status.DIVERGED
                    return
                self._keep(module)
                yield Progress(done + step.index, total, step.elbo, step.objective)
        self._keep(module)
        self.status_ = self._judge(objectives, total - done)

    @abstractmethod
    def _judge(self, objectives: list[float], total: int) -> Status:
        """Whether a fit of at most `total` steps has converged."""

    def _keep(self, module: Module) -> None:
        self.params_ = {name: value.numpy(force=True).copy() for name, value in module.state_dict().items()}
        self._module = None


def as_numpy(tensor: torch.Tensor) -> Array:
    result: Array = tensor.numpy(force=True).astype(np.float32, copy=False)
    return result
