"""Stochastic gradient fits: the fast recipe, and the paper's own for comparison.

The fast recipe maximises the ELBO with one sample and the exact-in-expectation divergence, then the importance-weighted
objective with several samples: the ELBO alone shrinks the states towards each other (docs/decisions/003). The learning
rate follows one cycle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from gdm_core.maths.pca import can_balance
from gdm_core.maths.relaxed import gumbel, log_density
from gdm_core.maths.rows import Rows, WindowSampler
from gdm_core.maths.threads import one_torch_thread
from gdm_core.models.gdm import fused
from gdm_core.models.gdm.chain import WarmChain
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.module import GdmModule, importance_objective, sampled_elbo
from gdm_core.models.gdm.transitions import MAX_LOG_SCALE

Array = npt.NDArray[np.float32]

REPORT_EVERY = 10
PEAK_RATE = 0.03
IMPORTANCE_SAMPLES = 8
# Relative rates of Adam. F starts at its best for a linear model, and everything else depends on it.
RATES = {"projection": 0.1} | dict.fromkeys(
    (
        "transition.weight",
        "transition.bias",
        "transition.stickiness_logit",
        "transition.log_scale",
        "log_trust",
        "posterior.weight",
        "posterior.bias",
        "posterior.out",
    ),
    4.0,
)
# Decay of the weights of logits, which would grow with every step where states never meet. Transitions decay less, since
# forecasts would otherwise leave a state too late.
DECAY = {"transition.weight": 0.1, "posterior.weight": 0.5, "posterior.out": 0.5}
FIRST_SHARE, LAST_SHARE = 0.5, 0.05  # of a Newton step, at the first and at the last step
_MEMORY = 0.9  # of earlier curvature
_BETA1, _BETA2 = np.float32(0.9), np.float32(0.99)  # of Adam
_RIDGE = 1e-4  # on the curvature of a design with unit variance, per time step
_NOISE_RIDGE = 1e-2  # on the curvature of the noise of states, per time step
_MAX_CHANGE = 0.25  # of the log of a standard deviation, per step
_MIN_OBSERVED = 0.05
_REFRESH, _MAX_REFRESH = 5, 40  # steps between refreshes of the chain
_FIRST_SWEEPS, _SWEEPS = 60, 4
_WINDOW, _RUN_UP = 64, 32


@dataclass(frozen=True)
class Step:
    """Result of one optimiser step; values per time step, in nats."""

    index: int
    total: int
    elbo: float
    objective: float
    finite: bool


# ---- optimisers -------------------------------------------------------------------------------------------------
class NewtonAscent:
    """Newton steps for dynamics and noise, Adam for the other parameters.

    Given the states, dynamics are weighted least squares and the noise is their residual. Adam would need hundreds of
    steps, because the noise is small and limits its step size.
    """

    def __init__(self, objective: fused.FusedObjective) -> None:
        self.objective = objective
        self._adam = Adam(objective.flat.size)
        self._rates: Array = np.ones_like(objective.flat)
        rates = objective.views(self._rates)
        for name, rate in RATES.items():
            if name in rates:
                rates[name] *= np.float32(rate)
        for name in ("dynamics", "log_noise"):
            rates[name][...] = 0
        self._curvature: npt.NDArray[np.float64] | None = None
        self._noise_curvature: npt.NDArray[np.float64] | None = None

    def ascend(self, rate: float, done: float, observed: Array | None) -> None:
        """Take one step at share `done` of the fit; `observed` [N] is the share per channel."""
        now = self.objective
        share = FIRST_SHARE + (LAST_SHARE - FIRST_SHARE) * done
        dynamics, noise = self._newton(observed)
        self._adam.ascend(now.flat, now.gradient, rate, self._rates)
        for name in DECAY.keys() & now.p.keys():
            now.p[name] *= np.float32(1 - DECAY[name] * rate)
        if "transition.log_scale" in now.p:
            np.minimum(now.p["transition.log_scale"], MAX_LOG_SCALE, out=now.p["transition.log_scale"])
        now.p["dynamics"][...] += np.float32(share) * dynamics
        now.p["log_noise"][...] += np.clip(np.float32(share) * noise, -_MAX_CHANGE, _MAX_CHANGE)

    def _newton(self, observed: Array | None) -> tuple[Array, Array]:
        """Return full steps of the dynamics [K, P, N] and of the log noise, [N] or [K, N]."""
        now = self.objective
        seen = now.curvature.astype(np.float64)
        self._curvature = seen if self._curvature is None else _MEMORY * self._curvature + (1 - _MEMORY) * seen
        weight = np.float32(1) if observed is None else np.maximum(observed, np.float32(_MIN_OBSERVED))
        slope = now.g["dynamics"]
        size = seen.shape[-1]
        if now.state_noise:
            ridge = _RIDGE * np.exp(-2 * now.log_noise().max(axis=0))[:, None, None] * np.eye(size)
            right = slope.reshape(size, -1).T[..., None]  # [N, K P, 1]
            solved = np.linalg.solve(self._curvature + ridge, right)[..., 0].T
            curved = now.noise_curvature.astype(np.float64)
            kept = curved if self._noise_curvature is None else _MEMORY * self._noise_curvature + (1 - _MEMORY) * curved
            self._noise_curvature = kept
            noise = np.linalg.solve(kept + _NOISE_RIDGE * np.eye(len(kept)), now.g["log_noise"] / (2 * weight))
            return solved.astype(np.float32).reshape(slope.shape), noise.astype(np.float32)
        variance = np.exp(2 * now.log_noise()) / weight
        solved = np.linalg.solve(self._curvature + _RIDGE * np.eye(size), slope.reshape(size, -1) * variance)
        return solved.astype(np.float32).reshape(slope.shape), now.g["log_noise"] / (2 * weight)


class Adam:
    """Adam on one flat vector."""

    def __init__(self, size: int) -> None:
        self._first: Array = np.zeros(size, np.float32)
        self._second: Array = np.zeros(size, np.float32)
        self._steps = 0

    def ascend(self, flat: Array, gradient: Array, rate: float, rates: Array | float = 1.0) -> None:
        """Take one step up the `gradient`, with `rate` times `rates`."""
        self._steps += 1
        self._first += (1 - _BETA1) * (gradient - self._first)
        self._second += (1 - _BETA2) * (np.square(gradient) - self._second)
        first = self._first / (1 - _BETA1**self._steps)
        second = self._second / (1 - _BETA2**self._steps)
        flat += np.float32(rate) * rates * first / (np.sqrt(second) + np.float32(1e-8))


# ---- plan and batches -------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class FitPlan:
    """Optimiser and number of steps of a fit.

    newton          Newton steps for dynamics and noise (`NewtonAscent`)
    steps, warm     number of steps from a cold start, and from another fit
    elbo_share      share of steps that maximise the ELBO; the others maximise the importance-weighted objective
    least_weighted  smallest number of rows of a step in the importance-weighted phase
    """

    newton: bool
    steps: int
    warm: int
    elbo_share: float
    least_weighted: int


def plan(config: GDMConfig, module: GdmModule) -> FitPlan:
    """Choose Newton steps where the fused pass has their curvature.

    Position states need Adam (docs/decisions/006). So do recordings with few channels: the noise of each channel cannot be
    estimated there, so the start of F is poor and F has to be learned.
    """
    n_latent, n_channels = module.projection.shape
    newton = fused.supports(config, module) and config.reads != "linear" and config.preset == "fast"
    newton = newton and (n_latent >= n_channels or can_balance(n_channels, n_latent))
    if newton:
        return FitPlan(True, config.n_steps or 240, 60, 1 / 2, 256)
    return FitPlan(False, config.steps, 200, 2 / 3, 1024)


def one_cycle(step: int, total: int, peak: float) -> float:
    """Return the learning rate: it rises, then falls along a cosine."""
    rise = max(1.0, 0.2 * total)
    if step < rise:
        return peak * (0.04 + 0.96 * 0.5 * (1 - math.cos(math.pi * step / rise)))
    return peak * 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1.0, total - rise))) + 1e-5


Batches = dict[bool, Callable[[], Rows]]  # draws the rows of a step; the key tells whether it is weighted


def batches(rows: Rows, config: GDMConfig, size: int, generator: torch.Generator) -> Callable[[], Rows]:
    """Return a function that draws all rows, or windows where they exceed `size`."""
    if len(rows) <= size:
        return lambda: rows
    # Networks over sequences need a run-up, and those that read the future also need rows behind the window.
    context = _RUN_UP if config.transition == "gru" else 3
    after = 0
    if config.reads in ("bigru", "transformer"):
        context = after = _RUN_UP
    n_windows = max(1, size // (_WINDOW + context + after))
    sampler = WindowSampler(rows, _WINDOW, n_windows, context, generator, after)
    return sampler.draw


# ---- recipes ----------------------------------------------------------------------------------------------------
def fast_steps(
    module: GdmModule, rows: Rows, config: GDMConfig, total: int, generator: torch.Generator
) -> Iterator[Step]:
    """Run the fast recipe. A step that is not finite is reported and not applied."""
    how = plan(config, module)
    if module.informed:
        rows = replace(rows, chain=torch.zeros(len(rows), config.n_states, device=rows.device))
    quarter = min(len(rows), config.batch_size) // 4 if how.newton else config.batch_size // 4
    sizes = {False: config.batch_size, True: max(how.least_weighted, quarter)}
    drawn = {weighted: batches(rows, config, size, generator) for weighted, size in sizes.items()}
    if fused.supports(config, module):
        ascent: _FusedAscent | _AutogradAscent = _FusedAscent(module, config, drawn, how.newton, rows)
    else:
        ascent = _AutogradAscent(module, config, drawn, generator)
    first_weighted = round(how.elbo_share * total) if config.corrects else total
    for index in range(total):
        with one_torch_thread(), np.errstate(all="ignore"):  # values that are not finite are reported
            value = ascent.evaluate(config.temperature, index >= first_weighted)
            finite = math.isfinite(value)
            if finite:
                ascent.step(one_cycle(index, total, PEAK_RATE), index / total)
        step = Step(index + 1, total, value, value, finite)
        if step.index == total or step.index % REPORT_EVERY == 0:
            ascent.write_back()
        yield step
        if not finite:
            return


def _n_samples(config: GDMConfig, weighted: bool) -> int:
    return config.n_samples or (IMPORTANCE_SAMPLES if weighted else 1)


class _AutogradAscent:
    """Objective and update for any configuration."""

    def __init__(self, module: GdmModule, config: GDMConfig, batches: Batches, generator: torch.Generator) -> None:
        self.module, self.config, self.batches, self.generator = module, config, batches, generator
        self.optimiser = torch.optim.Adam(
            [p for p in module.parameters() if p.requires_grad], betas=(0.9, 0.99), fused=True
        )

    def evaluate(self, temperature: float, weighted: bool) -> float:
        """Return the objective per time step on new rows and noise, and keep its gradient."""
        batch = self.batches[weighted]()
        noise = gumbel((_n_samples(self.config, weighted), len(batch), self.module.n_states), self.generator)
        per_row = (importance_objective if weighted else sampled_elbo)(self.module, batch, noise, temperature)
        scored = per_row if batch.scored is None else per_row * batch.scored
        objective = scored.sum() / batch.n_scored
        self.optimiser.zero_grad(set_to_none=True)
        (-objective).backward()
        return objective.item()

    def step(self, rate: float, done: float) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()

    def write_back(self) -> None:
        """Do nothing: the optimiser updates the module itself."""


class _FusedAscent:
    """The same with the hand-written pass."""

    def __init__(self, module: GdmModule, config: GDMConfig, batches: Batches, newton: bool, rows: Rows) -> None:
        self.module, self.config, self.batches, self.rows = module, config, batches, rows
        self.objective = fused.FusedObjective(module, config)
        self.noise = fused.Noise(config.seed)
        self._newton = NewtonAscent(self.objective) if newton else None
        self._adam = Adam(self.objective.flat.size)
        self._last: tuple[Rows, fused.Batch] | None = None
        self._chain: WarmChain | None = None
        if module.informed:
            self._chain = WarmChain(rows.age.numpy(), config.n_states, float(module.stay))
            self._all_rows = fused.Batch(rows)
        self._refresh_every = min(_MAX_REFRESH, _REFRESH * (1 + len(rows) // config.batch_size))
        self._n_steps = 0

    def evaluate(self, temperature: float, weighted: bool) -> float:
        if self._chain is not None and self._n_steps % self._refresh_every == 0:
            self._refresh(self._chain)
        self._n_steps += 1
        rows = self.batches[weighted]()
        if self._last is None or rows is not self._last[0]:
            self._last = rows, fused.Batch(rows)
        noise = self.noise.draw(self.config.n_states, _n_samples(self.config, weighted), len(rows))
        return self.objective(self._last[1], noise, temperature, weighted)

    def _refresh(self, chain: WarmChain) -> None:
        """Update the chain that batches read."""
        found = chain.refresh(self.objective.evidence(self._all_rows), _SWEEPS if self._n_steps else _FIRST_SWEEPS)
        assert self.rows.chain is not None
        self.rows.chain.copy_(torch.from_numpy(found.T))
        self._last = None

    def step(self, rate: float, done: float) -> None:
        if self._newton is not None:
            self._newton.ascend(rate, done, None if self._last is None else self._last[1].observed)
        else:
            self._adam.ascend(self.objective.flat, self.objective.gradient, rate)

    def write_back(self) -> None:
        self.objective.write_to(self.module)
        if self._chain is not None:
            self.module.stay.fill_(self._chain.stay)


def paper_steps(
    module: GdmModule, rows: Rows, config: GDMConfig, total: int, generator: torch.Generator
) -> Iterator[Step]:
    """Run the paper's recipe with the authors' released settings; its objective is not a bound."""
    samples, warm = config.n_samples or 10, 200
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
        log_z, posterior = module.sample_posterior(view, rows, noise, config.temperature)
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
        finite = math.isfinite(seen)
        if finite:
            optimiser.step()
        recent.append(seen)
        yield Step(index + 1, total, bound.item() / len(rows), seen / len(rows), finite)
        if not finite:
            return
        if len(recent) > 100 and (recent[-1] - recent[-100]) / 99 < 1e-4:
            return
