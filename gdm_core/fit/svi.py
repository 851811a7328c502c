"""Stochastic gradient fits: the fast recipe, and the paper's own as a faithful rival.

Fast: two thirds of the steps climb the ELBO with one sample and the exact-in-expectation divergence; the last third
climbs the importance-weighted objective with several, which frees the parameters from the posterior's family (the
ELBO alone shrinks the states towards each other, docs/decisions.md). One cycle of the learning rate over both.
Paper: ten samples, AdamW, constant-then-falling rate, clipped gradients, an entropy bonus, its own stopping rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gdm_core.config import GDMConfig
from gdm_core.generative import GdmModule, importance_objective, sampled_elbo
from gdm_core.relaxed import gumbel, log_density
from gdm_core.rows import Rows, WindowSampler

PEAK_RATE = 0.03
ELBO_SHARE = 2 / 3
IMPORTANCE_SAMPLES = 8
REPORT_EVERY = 10
_WINDOW = 64
_NOISE_POOL = 2_000_000
_IMPORTANCE_BATCH_SHARE = 4  # the weighted phase sees this many times fewer rows a step


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


def _one_cycle(step: int, total: int, peak: float, warm: float = 0.2) -> float:
    rise = max(1.0, warm * total)
    if step < rise:
        return peak * (0.04 + 0.96 * 0.5 * (1 - math.cos(math.pi * step / rise)))
    return peak * 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1.0, total - rise))) + 1e-5


class _Noise:
    """Gumbel noise drawn in bulk when steps are small: drawing is then a fifth of a step's cost."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator
        self._pool: Tensor | None = None
        self._used = 0

    def draw(self, n_samples: int, n_rows: int, k: int) -> Tensor:
        shape = (n_samples, n_rows, k)
        pooled = max(1, min(64, _NOISE_POOL // (n_samples * n_rows * k)))
        if self._pool is None or self._pool.shape[1:] != shape or self._used == len(self._pool):
            self._pool, self._used = gumbel((pooled, *shape), self.generator), 0
        self._used += 1
        return self._pool[self._used - 1]


def _batches(rows: Rows, config: GDMConfig, size: int, generator: torch.Generator) -> Callable[[], Rows]:
    """All rows when they fit in one batch, windows of them otherwise."""
    if len(rows) <= size:
        return lambda: rows
    context = max(config.lags, 2) + 1
    sampler = WindowSampler(rows, _WINDOW, max(1, size // (_WINDOW + context)), context, generator)
    return sampler.draw


def fast_steps(
    module: GdmModule, rows: Rows, config: GDMConfig, total: int, generator: torch.Generator
) -> Iterator[Step]:
    """Run the fast recipe. A step that is not finite is reported and not applied."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    optimiser = torch.optim.Adam(parameters, lr=PEAK_RATE, betas=(0.9, 0.99), fused=True)
    noise = _Noise(generator)
    climb = round(ELBO_SHARE * total)
    whole = _batches(rows, config, config.batch_size, generator)
    part = _batches(rows, config, max(1024, config.batch_size // _IMPORTANCE_BATCH_SHARE), generator)
    for index in range(total):
        weighted = index >= climb
        n_samples = config.n_samples or (IMPORTANCE_SAMPLES if weighted else 1)
        batch = part() if weighted else whole()
        tau = _temperature(config, index, total)
        for group in optimiser.param_groups:
            group["lr"] = _one_cycle(index, total, PEAK_RATE)
        bound = importance_objective if weighted else sampled_elbo
        per_row = bound(module, batch, noise.draw(n_samples, len(batch), module.n_states), tau)
        scored = per_row if batch.scored is None else per_row * batch.scored
        value = scored.sum() / batch.n_scored
        optimiser.zero_grad(set_to_none=True)
        (-value).backward()
        seen = value.item()
        finite = math.isfinite(seen)
        if finite:
            optimiser.step()
        yield Step(index + 1, total, seen, seen, finite)
        if not finite:
            return


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
        bound = (module.log_likelihood(z, view.design, rows) + ratio).sum(-1).mean()
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
