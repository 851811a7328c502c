"""The Gumbel Dynamical Model behind the verbs of `StateModel`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from gdm_core.errors import ConfigError, FitError
from gdm_core.maths.moments import moments
from gdm_core.maths.rows import Rows, RowSource, make_rows
from gdm_core.maths.threads import on_one_thread
from gdm_core.models.base import Array, Progress, Status
from gdm_core.models.gdm import fit as svi
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.module import GdmModule, elbo
from gdm_core.models.gdm.readout import log_evidence, posterior_states
from gdm_core.models.gdm.rollout import generate, sample_paths
from gdm_core.models.gdm.shares import SharedModel
from gdm_core.models.gdm.soft import as_numpy
from gdm_core.models.gdm.start import start, start_random, start_words
from gdm_core.models.gdm.surgery import resize_states
from gdm_core.models.parameters import parameters_of
from gdm_core.models.scaling import Scaler
from gdm_core.trials import Trials

WARM_STEPS_FOR_MARKS = 50  # where the words changed and nothing else
GLANCE_DRAWS = 16  # a quarter of what a read-out takes, at a ninth of its cost


class GDM(SharedModel):
    """Gumbel Dynamical Model: soft states that mix linear dynamics, inferred by an amortised posterior."""

    family = "gdm"
    config_class = GDMConfig
    warm_changes = frozenset(
        {"n_states", "temperature", "temperature_start", "stickiness", "n_steps", "n_samples", "seed", "readout"}
    )
    adjustable = frozenset({"temperature", "readout"})
    config: GDMConfig

    @parameters_of(GDMConfig)
    def __init__(self, config: GDMConfig) -> None:
        super().__init__(config)

    # ---- what was learned ---------------------------------------------------------------------------------------
    @property
    def posterior_(self) -> str:
        """The posterior in use; with posterior="auto", the one that was chosen."""
        self._require_fitted()
        return self._resolved.reads

    @property
    def _resolved(self) -> GDMConfig:
        if self.config.reads != "auto":
            return self.config
        chosen = "window" if "posterior.move_scale" in self.params_ else "linear"
        return dataclasses.replace(self.config, posterior=chosen)  # type: ignore[arg-type]

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
        words = self.params_.get("word_logits")
        return GdmModule(self.n_channels, self._resolved, 0 if words is None else words.shape[1]).to(self._device)

    # ---- fitting ------------------------------------------------------------------------------------------------
    @property
    def min_samples(self) -> int:
        """Samples that a trial needs at the least."""
        return self.config.lags + 1

    def _fit(self, ys: list[Array]) -> Iterator[Progress]:
        return on_one_thread(self._all_fits(ys))  # a step is small: threads would only wait for each other

    def _all_fits(self, ys: list[Array]) -> Iterator[Progress]:
        if self.config.reads == "auto" and self._warm_from is None:
            yield from self._fit_auto(ys)
            return
        config = self.config
        if self._warm_from is not None:
            config = dataclasses.replace(config, posterior=self._warm_from._resolved.reads)  # type: ignore[attr-defined]
        rows = self._with_words(make_rows(ys, self._device), ys)
        best: tuple[float, dict[str, Array], Status] | None = None
        for restart in range(config.n_restarts):
            yield from self._fit_once(rows, config, restart)
            assert self.status_ is not None
            if config.n_restarts == 1:
                return
            reached = self._evidence(rows) if self.status_ is not Status.DIVERGED else -np.inf
            if best is None or reached > best[0]:
                best = (reached, self.params_, self.status_)
        assert best is not None
        _, self.params_, self.status_ = best
        self._module = None

    def _fit_once(
        self, rows: Rows, config: GDMConfig, restart: int, windows: RowSource | None = None
    ) -> Iterator[Progress]:
        """Start from `rows`, and climb on them or on `windows` of what they are an excerpt of."""
        seed = config.seed + 1_000_003 * restart
        self.status_ = None
        n_words = 0 if rows.words is None else rows.words.shape[1]
        module = GdmModule(rows.y.shape[1], config, n_words).to(rows.y.device)
        if self._warm_from is not None:
            previous = self._warm_from._net  # type: ignore[attr-defined]
            resize_states(previous, module, rows, self.config, seed)
            if "word_logits" not in self._warm_from.params_:
                start_words(module, module.view(rows).posterior.softmax(-1), rows)
        elif config.preset == "paper":
            start_random(module, seed)
            start_words(module, module.view(rows).posterior.softmax(-1), rows)
        else:
            start(module, rows, config, seed)
        self._keep(module)
        generator = torch.Generator(device=rows.y.device).manual_seed(seed)
        total = self._n_steps(config, svi.plan(config, module))
        if config.preset == "paper":
            steps = svi.paper_steps(module, rows, config, total, generator)
        else:
            steps = svi.fast_steps(module, rows if windows is None else windows, config, total, generator)
        yield from self._climbed(module, steps, total)

    def _climbed(self, module: GdmModule, steps: Iterator[svi.Step], total: int) -> Iterator[Progress]:
        """Follow the steps of a recipe, keep what is good, and set the status."""
        last: list[svi.Step] = []
        for step in steps:
            if not step.finite:
                self.status_ = Status.DIVERGED  # params_ still holds the last good ones
                return
            last.append(step)
            if step.index % svi.REPORT_EVERY == 0 or step.index == total:
                if all(bool(torch.isfinite(p).all()) for p in module.parameters()):
                    self._keep(module)
                else:
                    self.status_ = Status.DIVERGED
                    return
                yield Progress(step.index, total, step.elbo, step.objective)
        self._keep(module)
        self.status_ = _judge(last, total)

    def _n_steps(self, config: GDMConfig, plan: svi.Plan) -> int:
        if config.n_steps is not None or self._warm_from is None:
            return plan.steps
        marks_alone = self._labels is not None and self.config == self._warm_from.config
        return WARM_STEPS_FOR_MARKS if marks_alone else plan.warm

    def _fit_auto(self, ys: list[Array]) -> Iterator[Progress]:
        """Fit on the first four fifths with either posterior, keep the one that scores best on the rest, fit it on all."""
        shares = [max(self.min_samples, int(0.8 * len(y))) for y in ys]
        front = [y[:n] for y, n in zip(ys, shares, strict=True)]
        back = [y[n - self.min_samples :] for y, n in zip(ys, shares, strict=True) if len(y) - n >= self.min_samples]
        if not back:
            raise FitError(
                "posterior='auto' needs trials long enough to hold out a fifth; choose 'window' or 'linear'."
            )
        scores: dict[str, float] = {}
        for name in ("window", "linear"):
            config = dataclasses.replace(self.config, posterior=name)
            yield from self._fit_once(make_rows(front, self._device), config, 0)
            diverged = self.status_ is Status.DIVERGED
            scores[name] = -np.inf if diverged else sum(self._bound(y) for y in back)
        best = max(scores, key=lambda name: scores[name])
        chosen = dataclasses.replace(self.config, posterior=best)  # type: ignore[arg-type]
        yield from self._fit_once(self._with_words(make_rows(ys, self._device), ys), chosen, 0)

    def _control(self) -> GDM:
        posterior = (
            self.posterior_ if self.params_ else ("window" if self.config.reads == "auto" else self.config.reads)
        )
        return self.from_config(dataclasses.replace(self.config, posterior=posterior, readout="amortised"))  # type: ignore[arg-type]

    def _random(self, trials: Trials, seed: int) -> GdmModule:
        module = GdmModule(trials.n_channels, self.config)
        start_random(module, seed)
        return module

    @torch.no_grad()
    def next_states(self, y: npt.NDArray[Any], shares: npt.NDArray[Any]) -> npt.NDArray[np.float64] | None:
        transition = self._net.transition
        if not transition.affine_in_state:
            return None
        seen = torch.as_tensor(self._scaler.apply(y), device=self._device)
        context, _ = transition.next_context(seen @ self._net.projection.T, None)  # [G, K]
        before = torch.eye(context.shape[1], device=seen.device)
        logits = torch.stack([transition.logits(context, row.expand_as(context)) for row in before])  # [K, G, K]
        weight = torch.as_tensor(shares, dtype=logits.dtype, device=seen.device)
        mixed: npt.NDArray[np.float64] = (
            torch.einsum("i,igk->gk", weight, logits.softmax(-1)).double().numpy(force=True)
        )
        return mixed

    # ---- hooks --------------------------------------------------------------------------------------------------
    def _amortised_states(self, y: Array) -> Array:
        return as_numpy(self._posterior_mean(make_rows([y], self._device)))

    def _soft_states(self, y: Array) -> Array:
        return self._read_out(y, None)

    def _rough_states(self, y: Array) -> Array:
        return self._read_out(y, GLANCE_DRAWS)

    def _read_out(self, y: Array, n_draws: int | None) -> Array:
        rows = make_rows([y], self._device)
        if self._resolved.corrects and not self._net.posterior.sequential:
            return as_numpy(posterior_states(self._net, rows, self.config.temperature, n_draws))
        return as_numpy(self._posterior_mean(rows))

    @torch.no_grad()
    def _posterior_mean(self, rows: Rows) -> torch.Tensor:
        module = self._net
        view = module.view(rows)
        if not module.posterior.sequential:
            return moments(view.posterior, self.config.temperature).mean
        from gdm_core.maths.relaxed import gumbel

        noise = gumbel((64, len(rows), module.n_states), torch.Generator(device=rows.y.device).manual_seed(0))
        noise = noise[..., module.roles()]
        return module.sample_posterior(view, rows, noise, self.config.temperature)[0].exp().mean(0)

    @torch.no_grad()
    def _reconstruct(self, y: Array) -> Array:
        rows = make_rows([y], self._device)
        z = torch.as_tensor(self._soft_states(y), device=rows.y.device)
        return as_numpy(self._net.mean(z[None], self._net.view(rows).design)[0])

    @torch.no_grad()
    def _latent(self, y: Array) -> Array:
        rows = make_rows([y], self._device)
        return as_numpy(rows.past @ self._net.projection.T)

    def _bound(self, y: Array) -> float:
        return self._evidence(make_rows([y], self._device))

    def _evidence(self, rows: Rows) -> float:
        """The bound that goes with the readout: importance-weighted, or the ELBO of q alone."""
        if self._resolved.corrects and not self._net.posterior.sequential:
            return float(log_evidence(self._net, rows, self.config.temperature).double().sum())
        return elbo(self._net, rows, self.config.temperature)

    def _paths(self, y: Array, origins: npt.NDArray[np.int64], horizon: int, n_paths: int, seed: int) -> Array:
        rows = make_rows([y], self._device)
        return as_numpy(sample_paths(self._net, rows, origins, horizon, n_paths, self.config.temperature, seed))

    def _generate(self, n_samples: int, seed: int) -> tuple[Array, Array, Array]:
        y, z, x = generate(self._net, n_samples, self.config.temperature, seed)
        return as_numpy(y), as_numpy(z), as_numpy(x)


def first_fit(config: GDMConfig, ys: list[Array]) -> Iterator[tuple[Progress, GdmModule]]:
    """A 2-level fit of standardised trials step by step, with its module, for a model that starts from one.

    Raises FitError where it diverges.
    """
    model, n_channels = GDM.from_config(config), ys[0].shape[1]
    model.scaler_ = Scaler(np.zeros(n_channels, np.float32), np.ones(n_channels, np.float32))
    for progress in model._fit(ys):
        yield progress, model._net
    if model.status_ is Status.DIVERGED:
        raise FitError("The 2-level fit to start from diverged.")


def _judge(steps: list[svi.Step], total: int) -> Status:
    """CONVERGED when the bound no longer moved over the last fifth of the steps."""
    if len(steps) < total:
        return Status.CONVERGED  # stopped by the recipe's own rule
    n = max(5, len(steps) // 10)
    if len(steps) < 2 * n:
        return Status.MAX_STEPS
    values = np.array([step.objective for step in steps])
    gain = values[-n:].mean() - values[-2 * n : -n].mean()
    return Status.CONVERGED if abs(gain) < max(0.05, 2 * values[-n:].std() / np.sqrt(n)) else Status.MAX_STEPS
