"""The Gumbel Dynamical Model, and a base class for models with soft states and the parameters of a torch module."""

from __future__ import annotations

import copy
import dataclasses
from abc import abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

import numpy as np
import torch

from gdm_core.arrays import Array, Float, Ints, Values
from gdm_core.errors import ConfigError, FitError
from gdm_core.forecast import Sampler
from gdm_core.maths.factor import FactorModel
from gdm_core.maths.repeats import Repeats
from gdm_core.maths.rows import Rows, as_numpy, make_rows
from gdm_core.maths.threads import on_one_thread
from gdm_core.models.base import StateModel
from gdm_core.models.gdm.candidates import candidates
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.fit import REPORT_EVERY, Plan, Step, optimise, paper_steps
from gdm_core.models.gdm.missing import Completion, complete, missing_data_bound
from gdm_core.models.gdm.module import GdmModule
from gdm_core.models.gdm.online import GdmReader
from gdm_core.models.gdm.readout import bound, generate, posterior_mean, sample_paths, soft_states
from gdm_core.models.gdm.start import left_out_changes, start_random
from gdm_core.models.parameters import parameters_of
from gdm_core.models.progress import Progress, Status
from gdm_core.models.registry import ADJUSTABLE
from gdm_core.models.scaling import Scaler

Module = TypeVar("Module", bound=torch.nn.Module)


class SoftModel(StateModel, Generic[Module]):
    """A model whose parameters are those of a torch module."""

    _module: Module | None = None

    @property
    def stickiness_(self) -> float:
        """Learned (or fixed) stickiness (gamma)."""
        return float(self._net.transition.gamma)  # type: ignore[union-attr, arg-type]

    @abstractmethod
    def _blank(self) -> Module:
        """Return a module with the shapes of `params_`."""

    @property
    def _net(self) -> Module:
        """The module that holds `params_`, built on first use."""
        self._require_fitted()
        if self._module is None:
            module = self._blank()
            module.load_state_dict({name: torch.as_tensor(value) for name, value in self.params_.items()})
            self._module = module.requires_grad_(False).eval()
        return self._module

    @abstractmethod
    def _random(self, ys: list[Array], seed: int) -> Module:
        """Return a module with random parameters for standardised trials."""

    def _set_random_parameters(self, ys: list[Array], seed: int) -> None:
        self._keep(self._random(ys, seed))

    def _record_steps(self, module: Module, steps: Iterator[Step], done: int = 0) -> Iterator[Progress]:
        """Follow the steps after the first `done`, keep finite parameters and set the status."""
        for step in steps:
            now, total = done + step.index, done + step.total
            if not step.finite:
                self._fail(f"its objective is not finite at step {now}")
                return
            if step.index % REPORT_EVERY == 0 or step.index == step.total:
                if not all(bool(torch.isfinite(p).all()) for p in module.parameters()):
                    self._fail(f"a parameter is not finite at step {now}")
                    return
                self._keep(module)
                yield Progress(now, total, step.elbo, step.objective)
        self._keep(module)
        self.status_ = Status.CONVERGED if step.converged else Status.MAX_STEPS

    def _follow_config(self) -> None:
        params, gamma = dict(self.params_), self.config.stickiness
        if gamma != "learn":
            params.pop("transition.stickiness_logit", None)
            params["transition.fixed_stickiness"] = np.array(gamma, params["initial"].dtype)
        elif "transition.stickiness_logit" not in params:
            raise ConfigError("The stickiness of this model was fixed in the fit. Fit a new model to learn it.")
        self.params_, self._module = params, None

    def _keep(self, module: Module) -> None:
        self.params_ = {name: value.numpy(force=True).copy() for name, value in module.state_dict().items()}
        self._module = None


QUICK_DRAWS = 16  # half as many as for final states


class GDM(SoftModel[GdmModule]):
    """Gumbel Dynamical Model: soft states that mix linear dynamics, inferred by an amortised posterior."""

    family = "gdm"
    config_class = GDMConfig
    adjustable = ADJUSTABLE[family]
    config: GDMConfig

    @parameters_of(GDMConfig)
    def __init__(self) -> None: ...

    # ---- fitted attributes ---------------------------------------------------------------------------------------
    @property
    def posterior_(self) -> str:
        """The posterior in use."""
        self._require_fitted()
        return self.config.effective_posterior

    @property
    def lasting_(self) -> bool:
        """True if states have their own noise and the posterior sees a chain of states."""
        self._require_fitted()
        return "stay" in self.params_

    @property
    def stickiness_scale_(self) -> float:
        """Learned (or fixed) factor of the sticky term."""
        return float(self._net.transition.scale)

    @property
    def _device(self) -> torch.device:
        wanted = self.config.device
        if wanted == "auto":
            wanted = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            device = torch.device(wanted)
        except RuntimeError as error:
            raise ConfigError(f"device is {wanted!r}; expected 'auto', 'cpu' or 'cuda'.") from error
        if device.type == "cuda" and not torch.cuda.is_available():
            raise ConfigError("device is 'cuda' but no GPU can be used here; choose 'cpu' or 'auto'.")
        return device

    def _blank(self) -> GdmModule:
        return GdmModule(self.n_channels, self.config, self.lasting_).to(self._device)

    # ---- fitting ------------------------------------------------------------------------------------------------
    def _fit(self, ys: list[Array]) -> Iterator[Progress]:
        return on_one_thread(self._steps(ys))  # a step is small: threads would only wait for each other

    def _steps(self, ys: list[Array]) -> Iterator[Progress]:
        config, rows = self.config, make_rows(ys, self._device, fill=self._fill_inputs)
        rows = dataclasses.replace(rows, noise_floor=self._noise_floor)
        if config.preset == "paper":
            module = GdmModule(rows.y.shape[1], config).to(rows.device)
            start_random(module, config.seed)
            steps, total = paper_steps(module, rows), config.effective_steps
        else:
            ascent = candidates(rows, config, config.seed)
            module, plan = ascent.module, Plan.for_ascent(ascent)
            steps, total = optimise(ascent, plan), plan.total
        self._keep(module)
        yield Progress(0, total, float("nan"), float("nan"))
        yield from self._record_steps(module, steps)

    @torch.no_grad()
    def _cross_fit(self, ys: list[Array], folds: list[Ints]) -> list[Sampler]:
        rows = make_rows(ys, self._device, fill=self._fill_inputs)
        z, design = posterior_mean(self._net, rows), self._net.view(rows).design
        usable = rows.age > 0
        if rows.known is not None:
            usable &= (rows.known > 0).all(1)
        regressors = (z[:, :, None] * design[:, None, :-1]).flatten(1)
        changes = left_out_changes(
            as_numpy(regressors), as_numpy(rows.y), np.concatenate(folds), usable.numpy(force=True)
        )
        samplers: list[Sampler] = []
        for change in changes:
            model = copy.copy(self)
            dynamics = self.params_["dynamics"].copy()
            dynamics[:, :-1] += change.reshape(dynamics[:, :-1].shape)
            model.params_, model._module = self.params_ | {"dynamics": dynamics}, None
            samplers.append(model._paths_across_gaps)
        return samplers

    def _fill_inputs(self, y: Values) -> Values:
        """Return a trial with its gaps filled, for a fit.

        Between repeats, a fill that saw later values would predict them.
        """
        return self._fill_causally(y) if self.repeats_ is not None and self.repeats_.leaves_out else self._fill(y)

    def _random(self, ys: list[Array], seed: int) -> GdmModule:
        module = GdmModule(ys[0].shape[1], self.config)
        start_random(module, seed)
        return module

    @torch.no_grad()
    def _next_states(self, y: Values, shares: Values) -> Float | None:
        transition = self._net.transition
        if not transition.affine_in_state:
            return None
        seen = torch.as_tensor(self._scaler.apply(y), device=self._device)
        context, _ = transition.next_context(seen @ self._net.projection.T, None)  # [G, K]
        before = torch.eye(context.shape[1], device=seen.device)
        logits = torch.stack([transition.logits(context, row.expand_as(context)) for row in before])  # [K, G, K]
        weight = torch.as_tensor(shares, dtype=logits.dtype, device=seen.device)
        return torch.einsum("i,igk->gk", weight, logits.softmax(-1)).double().numpy(force=True)

    def _state_noise(self) -> Float | None:
        log_noise = self.params_["log_noise"].astype(np.float64)
        return np.exp(2 * log_noise)[:, :, None] * np.eye(log_noise.shape[1]) if log_noise.ndim == 2 else None

    def _noisy_path(self, y: Array) -> Array:
        return y

    # ---- hooks --------------------------------------------------------------------------------------------------
    def _rows(self, y: Array, filled: Values | None = None) -> Rows:
        """Return the rows of one trial, with missing entries from `filled` or from the factor model."""
        return make_rows([y], self._device, fill=self._fill if filled is None else lambda _: filled)

    def _complete_rows(self, y: Array) -> tuple[Rows, Completion | None]:
        """Return the rows of one trial with its gaps filled, and their posterior if there are any."""
        found = complete(self._net, y, self._fill(y)) if np.isnan(y).any() else None
        return self._rows(y, None if found is None else found.y), found

    def _states_of(self, y: Array, rows: Rows, found: Completion | None) -> Array:
        states = as_numpy(soft_states(self._net, rows))
        if found is not None:
            unseen = np.isnan(y).all(axis=1)
            states[unseen] = found.states[unseen]
        return states

    def _soft_states(self, y: Array) -> Array:
        return self._states_of(y, *self._complete_rows(y))

    def _rough_states(self, y: Array) -> Array:
        return as_numpy(soft_states(self._net, self._rows(y), QUICK_DRAWS))

    @torch.no_grad()
    def _reconstruct(self, y: Array) -> Array:
        rows, found = self._complete_rows(y)
        z = torch.as_tensor(self._states_of(y, rows, found), device=rows.y.device)
        mean = as_numpy(self._net.mean(z[None], self._net.view(rows).design)[0])
        return np.where(np.isnan(y), as_numpy(rows.past), mean)

    def _impute(self, y: Array) -> tuple[Values, Values]:
        found = complete(self._net, y, self._fill(y))
        return found.y, found.std(np.random.default_rng(0))

    @torch.no_grad()
    def _latent(self, y: Array) -> Array:
        return as_numpy(self._complete_rows(y)[0].past @ self._net.projection.T)

    def _bound(self, y: Array) -> float:
        if np.isnan(y).any():
            return missing_data_bound(self._net, y, self._fill(y))
        return bound(self._net, self._rows(y))

    def _paths(self, y: Array, origins: Ints, horizon: int, n_paths: int, seed: int) -> Array:
        rows = self._rows(y, self._fill_causally(y))
        return as_numpy(sample_paths(self._net, rows, origins, horizon, n_paths, seed))

    def _sample_reader(self) -> GdmReader:
        return GdmReader(self._net, self._factors)

    def _generate(self, n_samples: int, seed: int) -> tuple[Array, Array, Array]:
        y, z, x = generate(self._net, n_samples, seed)
        return as_numpy(y), as_numpy(z), as_numpy(x)


def first_fit(
    config: GDMConfig, ys: list[Array], scaler: Scaler | None, repeats: Repeats | None
) -> Iterator[tuple[Progress, GdmModule]]:
    """Yield the steps of a 2-level fit with its module; raise FitError if it diverges."""
    model = GDM._from_config(config)
    model.scaler_, model.repeats_ = scaler, repeats
    model.factors_ = FactorModel.fit(ys, config.n_dimensions)
    for progress in model._fit(ys):
        yield progress, model._net
    if model.status_ is Status.FAILED:
        raise FitError(f"the 2-level fit that it starts from failed: {model.failure_}")
