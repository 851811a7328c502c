"""Stochastic gradient fits: the fast recipe, and the paper's own for comparison.

The fast recipe maximises the ELBO with one sample and the exact-in-expectation divergence until the bound of an excerpt no
longer improves, then the importance-weighted objective with several samples and a falling learning rate: the ELBO alone
shrinks the states towards each other (docs/decisions/003).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from gdm_core.maths.relaxed import gumbel, log_density
from gdm_core.maths.rows import Rows
from gdm_core.models.gdm.ascent import Ascent
from gdm_core.models.gdm.module import GdmModule

REPORT_EVERY = 10
PEAK_RATE = 0.03
JUDGED_FROM = 0.85  # of a fit with a given number of steps: from here on, its bound is followed
_RISE = 0.1  # share of the exploring steps in which the rate rises
_FLAT = 0.005  # nats per sample and channel


@dataclass(frozen=True)
class Step:
    """Result of one optimiser step; values per time step, in nats.

    converged   the bound no longer improves; of the last step
    """

    index: int
    total: int
    elbo: float
    objective: float
    converged: bool = False

    @property
    def finite(self) -> bool:
        return math.isfinite(self.objective)


@dataclass(frozen=True)
class Plan:
    """Steps of a fit.

    explore   steps that maximise the ELBO, the fewest and the most; they end when its bound no longer improves
    refine    steps that maximise the importance-weighted objective
    holds     keep the learning rate until `refine`; otherwise it falls from a fifth of all steps on
    """

    explore: tuple[int, int]
    refine: int
    holds: bool = True

    @classmethod
    def for_ascent(cls, ascent: Ascent) -> Plan:
        """Return the plan of a whole fit."""
        given, newton = ascent.config.n_steps, ascent.newton
        if newton and given is None:
            return _LASTING if ascent.module.informed else _SOFT
        total = given or ascent.config.effective_steps
        explore = round(total * (1 / 2 if newton else 2 / 3))
        return cls((explore, explore), total - explore, holds=False)

    @property
    def total(self) -> int:
        """Largest number of steps."""
        return self.explore[1] + self.refine

    def rate(self, index: int, explored: int | None) -> float:
        """Return the learning rate of a step; `explored` steps have ended the first phase."""
        begin = self.explore[1] if explored is None else explored
        total = begin + self.refine
        rise, fall = (_RISE * self.explore[1], begin) if self.holds else (0.2 * total, 0.2 * total)
        return learning_rate(index, rise, fall, total, PEAK_RATE)


_SOFT, _LASTING = Plan((30, 120), 60), Plan((80, 160), 100)  # a chain learns slowly how far to trust it


def learning_rate(index: int, rise: float, fall: float, total: float, peak: float) -> float:
    """Return a rate that rises for `rise` steps and falls from step `fall` to `total`, both along a cosine."""
    rate = peak * (0.04 + 0.96 * 0.5 * (1 - math.cos(math.pi * min(1.0, index / max(1.0, rise)))))
    return rate * 0.5 * (1 + math.cos(math.pi * max(0.0, index - fall) / max(1.0, total - fall))) + 1e-5


def is_flat(bounds: list[float], n_channels: int) -> bool:
    """Return whether the last of some bounds per sample is hardly above the first."""
    return len(bounds) > 1 and bounds[-1] - bounds[0] < _FLAT * n_channels


def optimise(ascent: Ascent, plan: Plan) -> Iterator[Step]:
    """Run the fast recipe. A step that is not finite is reported and not applied."""
    explored: int | None = None
    bounds: list[float] = []
    index, total, flat = 0, plan.total, False
    while index < total:
        weighted = explored is not None and ascent.config.weighs_samples
        with np.errstate(all="ignore"):  # values that are not finite are reported
            value = ascent.evaluate(weighted)
            if math.isfinite(value):
                ascent.step(plan.rate(index, explored), index / total)
            index += 1
            if index % REPORT_EVERY == 0 or index == total:
                ascent.write_back()
                exploring = explored is None and index % ascent.renewed_every == 0
                if exploring if plan.holds else index >= JUDGED_FROM * total:
                    bounds.append(ascent.bound(weighted))
                    n_channels = int(ascent.rows.y.shape[1])
                    flat = is_flat(bounds[-2:], n_channels) if plan.holds else is_flat(bounds, 2 * n_channels)
        yield Step(index, total, value, value, flat)
        if not math.isfinite(value):
            return
        fewest = max(plan.explore[0], 3 * ascent.renewed_every) if plan.holds else plan.explore[1]
        if explored is None and ((flat and index >= fewest) or index == plan.explore[1]):
            explored, total = index, index + plan.refine


def paper_steps(module: GdmModule, rows: Rows) -> Iterator[Step]:
    """Run the paper's recipe with the authors' released settings; its objective is not a bound."""
    config = module.config
    samples, warm, total = config.n_samples or 10, 200, config.effective_steps
    generator = torch.Generator(device=rows.device).manual_seed(config.seed)
    module.projection.requires_grad_(False)  # the paper's F stays random
    parameters = [p for p in module.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(parameters, lr=1e-2, weight_decay=1e-4)
    recent: list[float] = []
    for index in range(total):
        fall = min(1.0, max(0.0, (index - warm) / (2 * warm)))
        for group in optimiser.param_groups:
            group["lr"] = 1e-2 * (1 - 0.9 * fall)
        noise = gumbel((samples, len(rows), module.n_states), generator)
        view = module.view(rows)
        log_z, posterior = module.sample_posterior(view, rows, noise)
        z = log_z.exp()
        prior = module.prior_logits(view.context, z, rows)
        ratio = log_density(log_z, prior, config.temperature) - log_density(log_z, posterior, config.temperature)
        bound = (module.log_likelihood(z, view.design, rows) + ratio).sum(-1).mean()
        usage = z.mean((0, 1))
        objective = bound - (usage * (usage + 1e-8).log()).sum()
        optimiser.zero_grad(set_to_none=True)
        (-objective).backward()
        torch.nn.utils.clip_grad_norm_(parameters, max_norm=1.0)
        seen = objective.item()
        if math.isfinite(seen):
            optimiser.step()
            rows.raise_noise(module.log_noise)
        recent.append(seen)
        ended = len(recent) > 100 and (recent[-1] - recent[-100]) / 99 < 1e-4
        yield Step(index + 1, total, bound.item() / len(rows), seen / len(rows), ended)
        if ended or not math.isfinite(seen):
            return
