"""Stochastic gradient fits: the fast recipe, and the paper's own as a faithful rival.

Fast: the first half of the steps (two thirds where Adam goes alone) climbs the ELBO with one sample and the
exact-in-expectation divergence; the rest climbs the importance-weighted objective with several, which frees the
parameters from the posterior's family (the ELBO alone shrinks the states towards each other, docs/decisions.md). One
cycle of the learning rate over both.
Paper: ten samples, AdamW, constant-then-falling rate, clipped gradients, an entropy bonus, its own stopping rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from gdm_core.maths.pca import can_balance
from gdm_core.maths.relaxed import gumbel, log_density
from gdm_core.maths.rows import Rows, RowSource, WindowSampler
from gdm_core.maths.threads import one_torch_thread
from gdm_core.models.gdm import fused
from gdm_core.models.gdm.ascent import AdamAscent, NewtonAscent
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.fused_memory import objective_of
from gdm_core.models.gdm.module import GdmModule, importance_objective, sampled_elbo

PEAK_RATE = 0.03
IMPORTANCE_SAMPLES = 8
REPORT_EVERY = 10
_WINDOW = 64
_RUN_UP = 32


@dataclass(frozen=True)
class Plan:
    """How a fit goes about it.

    newton         closed-form steps of dynamics and noise (ascent.py)
    steps, warm    optimiser steps of a cold start, and of one from another fit
    elbo_share     of the steps that climb the ELBO; the rest climb the importance-weighted objective
    least_weighted rows that the weighted phase sees a step at the least; a quarter of all at the most
    """

    newton: bool
    steps: int
    warm: int
    elbo_share: float
    least_weighted: int


def plan(config: GDMConfig, module: GdmModule) -> Plan:
    """Newton's steps for moves where the hand-written pass can say what they are.

    States that are places stay with Adam: what they name follows from how blunt q is (docs/decisions.md, 6). So do a few
    channels: F starts far from its best where their noise cannot be told, and then has to be learned. With memory Newton's
    steps climb higher and name soft states less well (docs/decisions.md, 51).
    """
    n_latent, n_channels = module.projection.shape
    newton = fused.supports(config, module) and config.reads != "linear" and config.preset == "fast"
    newton = newton and not config.remembers
    newton = newton and can_balance(n_channels, n_latent)
    if newton:
        return Plan(True, config.n_steps or 240, 60, 1 / 2, 256)
    return Plan(False, config.steps, 200, 2 / 3, 1024)


@dataclass(frozen=True)
class Step:
    """What one optimiser step saw: values per time step, in nats."""

    index: int
    total: int
    elbo: float
    objective: float
    finite: bool


def _temperature(config: GDMConfig, step: int, total: int) -> float:
    if config.temperature_start is None:
        return config.temperature
    share = min(1.0, step / max(1, 0.7 * total))
    return float(config.temperature_start ** (1 - share) * config.temperature**share)


def one_cycle(step: int, total: int, peak: float, warm: float = 0.2) -> float:
    rise = max(1.0, warm * total)
    if step < rise:
        return peak * (0.04 + 0.96 * 0.5 * (1 - math.cos(math.pi * step / rise)))
    return peak * 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1.0, total - rise))) + 1e-5


def _batches(rows: RowSource, config: GDMConfig, size: int, generator: torch.Generator) -> Callable[[], Rows]:
    """All rows when they fit in one batch, windows of them otherwise."""
    if isinstance(rows, Rows) and len(rows) <= size:
        return lambda: rows
    # Networks over sequences need a run-up, and those that read the future as much behind the window.
    context = _RUN_UP if config.transition == "gru" else max(config.lags, 2) + 1
    after = 0
    if config.reads in ("bigru", "transformer"):
        context = after = _RUN_UP
    n_windows = max(1, size // (_WINDOW + context + after))
    sampler = WindowSampler(rows, _WINDOW, n_windows, context, generator, after)
    return sampler.draw


def fast_steps(
    module: GdmModule, rows: RowSource, config: GDMConfig, total: int, generator: torch.Generator
) -> Iterator[Step]:
    """Run the fast recipe. A step that is not finite is reported and not applied."""
    how = plan(config, module)
    climb = round(how.elbo_share * total) if config.corrects else total
    whole = _batches(rows, config, config.batch_size, generator)
    quarter = min(len(rows), config.batch_size) // 4 if how.newton else config.batch_size // 4
    part = _batches(rows, config, max(how.least_weighted, quarter), generator)
    if fused.supports(config, module):
        run: _FusedRun | _AutogradRun = _FusedRun(module, config, how.newton)
    else:
        run = _AutogradRun(module, generator)
    for index in range(total):
        weighted = index >= climb
        n_samples = config.n_samples or (IMPORTANCE_SAMPLES if weighted else 1)
        batch = part() if weighted else whole()
        with one_torch_thread(), np.errstate(all="ignore"):  # what is not finite is reported as such
            value = run.value(batch, n_samples, _temperature(config, index, total), weighted)
            finite = math.isfinite(value)
            if finite:
                run.ascend(one_cycle(index, total, PEAK_RATE), index / total)
        step = Step(index + 1, total, value, value, finite)
        if index + 1 == total or step.index % REPORT_EVERY == 0:
            run.write_back()
        yield step
        if not finite:
            return


class _AutogradRun:
    """Objective and update for any configuration."""

    def __init__(self, module: GdmModule, generator: torch.Generator) -> None:
        self.module, self.generator = module, generator
        self.optimiser = torch.optim.Adam(
            [p for p in module.parameters() if p.requires_grad], betas=(0.9, 0.99), fused=True
        )

    def value(self, batch: Rows, n_samples: int, temperature: float, weighted: bool) -> float:
        bound = importance_objective if weighted else sampled_elbo
        noise = gumbel((n_samples, len(batch), self.module.n_states), self.generator)
        per_row = bound(self.module, batch, noise, temperature)
        scored = per_row if batch.scored is None else per_row * batch.scored
        objective = scored.sum() / batch.n_scored
        self.optimiser.zero_grad(set_to_none=True)
        (-objective).backward()
        return objective.item()

    def ascend(self, rate: float, done: float) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()

    def write_back(self) -> None:
        """The module is always current."""


class _FusedRun:
    """The same with the hand-written pass."""

    def __init__(self, module: GdmModule, config: GDMConfig, newton: bool) -> None:
        self.module, self.config = module, config
        self.objective = objective_of(module, config)
        self.noise = fused.Noise(config.seed)
        self.ascent = (NewtonAscent if newton else AdamAscent)(self.objective)
        self._rows: Rows | None = None
        self._batch: fused.Batch | None = None

    def value(self, batch: Rows, n_samples: int, temperature: float, weighted: bool) -> float:
        if self._batch is None or batch is not self._rows:
            self._rows, self._batch = batch, fused.Batch(batch, self.config.lags)
        noise = self.noise.draw(self.config.n_states, n_samples, len(batch))
        return self.objective(self._batch, noise, temperature, weighted)

    def ascend(self, rate: float, done: float) -> None:
        assert self._batch is not None
        self.ascent.ascend(rate, done, self._batch.observed)

    def write_back(self) -> None:
        self.objective.write_to(self.module)


def paper_steps(
    module: GdmModule, rows: Rows, config: GDMConfig, total: int, generator: torch.Generator
) -> Iterator[Step]:
    """The paper's recipe (section 3 and the authors' released settings): its objective is no bound, and is reported apart."""
    samples, warm = config.n_samples or 10, 200
    module.projection.requires_grad_(False)  # F stays random there
    parameters = [p for p in module.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(parameters, lr=1e-2, weight_decay=1e-4)
    recent: list[float] = []
    for index in range(total):
        fall = min(1.0, max(0.0, (index - warm) / (2 * warm)))
        for group in optimiser.param_groups:
            group["lr"] = 1e-2 * (1 - 0.9 * fall)
        noise = gumbel((samples, len(rows), module.n_states), generator)
        tau = _temperature(config, index, total)
        view = module.view(rows)
        log_z, posterior = module.sample_posterior(view, rows, noise, tau)
        z = log_z.exp()
        prior = module.prior_logits(view.context, z, rows)
        ratio = log_density(log_z, prior, tau) - log_density(log_z, posterior, tau)
        bound = (module.log_likelihood(z, view.design, rows) + module.label_term(z, rows) + ratio).sum(-1).mean()
        usage = z.mean((0, 1))
        objective = bound - (usage * (usage + 1e-8).log()).sum()
        optimiser.zero_grad(set_to_none=True)
        (-objective).backward()
        torch.nn.utils.clip_grad_norm_(parameters, max_norm=1.0)
        seen = objective.item()
        finite = math.isfinite(seen)
        if finite:
            optimiser.step()
        recent.append(seen)
        yield Step(index + 1, total, bound.item() / len(rows), seen / len(rows), finite)
        if not finite:
            return
        if len(recent) > 100 and (recent[-1] - recent[-100]) / 99 < 1e-4:
            return
