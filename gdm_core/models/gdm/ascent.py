"""Optimisers of a GDM's parameters, on rows that may change: an excerpt first, then all data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import torch

from gdm_core.arrays import Array, Float
from gdm_core.compiled.batches import take_windows
from gdm_core.maths.gaps import stretches
from gdm_core.maths.pca import can_balance
from gdm_core.maths.relaxed import gumbel
from gdm_core.maths.rows import Rows
from gdm_core.models.gdm import fused
from gdm_core.models.gdm.chain import chain_log_probabilities, make_batch
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.module import GdmModule, importance_objective, sampled_elbo
from gdm_core.models.gdm.transitions import MAX_LOG_SCALE

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
_START_RIDGE = 1e-2  # the same on the means of first samples, with missing data
_NOISE_RIDGE = 1e-2  # on the curvature of the noise of states, per time step
_MAX_CHANGE = 0.25  # of the log of a standard deviation, per step
_MIN_OBSERVED = 0.05
_LEAST_WEIGHTED, _LEAST_WEIGHTED_ADAM = 500, 1024  # rows of a step in the importance-weighted phase
_REFRESH, _MAX_REFRESH = 5, 40  # steps between refreshes of the chain
_FIRST_ESTIMATES = 10  # of how long states last, with the first parameters
_WINDOW, _CONTEXT, _RUN_UP = 64, 3, 32
_JUDGED_ROWS, _JUDGED_DRAWS, _STRETCHES = 250, 4, 4


def takes_newton_steps(module: GdmModule) -> bool:
    """Return whether to take Newton steps: where the fused pass has their curvature.

    Position states need Adam (docs/decisions/006). So do recordings with few channels: the noise of each channel cannot be
    estimated there, so the start of F is poor and F has to be learned.
    """
    n_latent, n_channels = module.projection.shape
    config = module.config
    newton = fused.supports(module) and config.effective_posterior != "linear" and config.preset == "fast"
    return newton and (n_latent >= n_channels or can_balance(n_channels, n_latent))


def begin(module: GdmModule, rows: Rows, seed: int) -> Ascent:
    """Return the optimiser of a module."""
    kind = FusedAscent if fused.supports(module) else AutogradAscent
    ascent: Ascent = kind(module, seed)
    ascent.use(rows)
    return ascent


class Ascent(ABC):
    """Objective on random rows, and update of the parameters.

    stay           probability of keeping a state; 0 without a chain of states
    renewed_every  steps, in tens, within which everything that q depends on has changed
    """

    stay, renewed_every = 0.0, 10

    def __init__(self, module: GdmModule, seed: int) -> None:
        self.module, self.config = module, module.config
        self.newton = takes_newton_steps(module)
        self.generator = torch.Generator(device=module.initial.device).manual_seed(seed)
        self.n_steps = 0  # taken

    def use(self, rows: Rows) -> None:
        """Go on with other rows."""
        self.rows, most = rows, self.config.batch_size
        least, n_weighted = (_LEAST_WEIGHTED, min(len(rows), most)) if self.newton else (_LEAST_WEIGHTED_ADAM, most)
        self._sizes = {False: most, True: max(least, n_weighted // 4)}  # rows of a step

    def n_samples(self, weighted: bool) -> int:
        return self.config.n_samples or (IMPORTANCE_SAMPLES if weighted else 1)

    @abstractmethod
    def evaluate(self, weighted: bool) -> float:
        """Return the objective per time step on new rows and noise, and keep its gradient."""

    @abstractmethod
    def step(self, rate: float, done: float) -> None:
        """Take one step up the gradient, at share `done` of the fit."""

    @abstractmethod
    def bound(self, weighted: bool) -> float:
        """Return the objective per time step of an excerpt, always on the same rows and noise."""

    def write_back(self) -> None:  # noqa: B027 (autograd updates the module itself)
        """Copy the parameters into the module."""


def batches(rows: Rows, config: GDMConfig, size: int, generator: torch.Generator) -> Callable[[], Rows]:
    """Return a function that draws all rows, or windows where they exceed `size`."""
    if len(rows) <= size:
        return lambda: rows
    # Networks over sequences need a run-up, and those that read the future also need rows behind the window.
    context = _RUN_UP if config.transition == "gru" else _CONTEXT
    after = 0
    if config.effective_posterior in ("bigru", "transformer"):
        context = after = _RUN_UP
    n_windows = max(1, size // (_WINDOW + context + after))
    return lambda: rows.draw(_WINDOW, n_windows, context, generator, after)


class AutogradAscent(Ascent):
    """Ascent for any configuration."""

    def __init__(self, module: GdmModule, seed: int) -> None:
        super().__init__(module, seed)
        parameters = [p for p in self.module.parameters() if p.requires_grad]
        self.optimiser = torch.optim.Adam(parameters, betas=(0.9, 0.99), fused=True)

    def use(self, rows: Rows) -> None:
        super().use(rows)
        self._draw = {
            weighted: batches(rows, self.config, size, self.generator) for weighted, size in self._sizes.items()
        }

    def _objective(self, rows: Rows, weighted: bool, generator: torch.Generator) -> torch.Tensor:
        noise = gumbel((self.n_samples(weighted), len(rows), self.module.n_states), generator)
        per_row = (importance_objective if weighted else sampled_elbo)(self.module, rows, noise)
        scored = per_row if rows.scored is None else per_row * rows.scored
        return scored.sum() / rows.n_scored

    def evaluate(self, weighted: bool) -> float:
        objective = self._objective(self._draw[weighted](), weighted, self.generator)
        self.optimiser.zero_grad(set_to_none=True)
        (-objective).backward()
        return objective.item()

    def step(self, rate: float, done: float) -> None:
        self.n_steps += 1
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        self.rows.raise_noise(self.module.log_noise)

    @torch.no_grad()
    def bound(self, weighted: bool) -> float:
        generator = torch.Generator(device=self.rows.device).manual_seed(0)
        return self._objective(self.rows.excerpt(_JUDGED_ROWS), weighted, generator).item()


class FusedAscent(Ascent):
    """Ascent with the compiled step."""

    def __init__(self, module: GdmModule, seed: int) -> None:
        super().__init__(module, seed)
        self.objective = fused.FusedObjective(module)
        self._rng = np.random.default_rng(seed)
        self._newton = NewtonAscent(self.objective) if self.newton else None
        self._adam = Adam(self.objective.flat.size)
        self.stay = float(module.stay) if module.informed else 0.0

    def use(self, rows: Rows) -> None:
        super().use(rows)
        self._all = self._last = make_batch(rows)
        self._refresh_at = self.n_steps
        self._refresh_every = min(_MAX_REFRESH, _REFRESH * (1 + len(rows) // self.config.batch_size))
        self.renewed_every = 10 * -(-self._refresh_every // 10) if self.module.informed else 10
        short = len(rows) <= _JUDGED_ROWS
        self._judged = stretches(len(rows), len(rows) if short else _JUDGED_ROWS, 1 if short else _STRETCHES)
        if self.module.informed and self.config.n_states > 1 and self.n_steps == 0:
            for _ in range(_FIRST_ESTIMATES):
                self._refresh()

    def evaluate(self, weighted: bool) -> float:
        if self.module.informed and self.n_steps >= self._refresh_at:
            self._refresh()
        size, n_rows = self._sizes[weighted], len(self.rows)
        self._last = self._all
        if n_rows > size:
            begins = self._rng.integers(-(-n_rows // _WINDOW) + 1, size=max(1, size // (_WINDOW + _CONTEXT)))
            begins = begins * _WINDOW - self._rng.integers(_WINDOW)
            self._last = take_windows(self._all, begins, _WINDOW, _CONTEXT)
        return self.objective(self._last, self.n_samples(weighted), int(self._rng.integers(2**32)), weighted)

    def _refresh(self) -> None:
        """Update the chain that batches read."""
        evidence = self.objective.evidence(self._all)
        chain, self.stay = chain_log_probabilities(evidence, self._all.linked, self.stay)
        self._all = self._all._replace(chain=chain)
        self._refresh_at = self.n_steps + self._refresh_every

    def step(self, rate: float, done: float) -> None:
        self.n_steps += 1
        if self._newton is not None:
            known = self._last.known
            self._newton.ascend(rate, done, known @ self._last.share if len(known) else None)
        else:
            self._adam.ascend(self.objective.flat, self.objective.gradient, rate)
        self.rows.raise_noise(torch.from_numpy(self.objective.p["log_noise"]))

    def bound(self, weighted: bool) -> float:
        length = self._judged.shape[1]
        batch = take_windows(self._all, self._judged[:, 0].copy(), length, 0)
        batch.linked[::length] = 0
        return self.objective(batch, max(_JUDGED_DRAWS, self.n_samples(weighted)), 0, weighted)

    def write_back(self) -> None:
        self.objective.write_to(self.module)
        if self.module.informed:
            self.module.stay.fill_(self.stay)


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
        self._remembered: dict[str, Float] = {}

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
        curvature = self._remember("dynamics", now.curvature.dynamics)
        weight = np.float32(1) if observed is None else np.maximum(observed, np.float32(_MIN_OBSERVED))
        slope = now.g["dynamics"]
        size = curvature.shape[-1]
        if now.state_noise:
            ridge = _RIDGE * np.exp(-2 * now.log_noise().max(axis=0))[:, None, None] * np.eye(size)
            right = slope.reshape(size, -1).T[..., None]  # [N, K P, 1]
            solved = np.linalg.solve(curvature + ridge, right)[..., 0].T
            kept = self._remember("log_noise", now.curvature.log_noise)
            noise = np.linalg.solve(kept + _NOISE_RIDGE * np.eye(len(kept)), now.g["log_noise"] / (2 * weight))
            return solved.astype(np.float32).reshape(slope.shape), noise.astype(np.float32)
        ridge = np.full(size, _RIDGE)
        if observed is not None:  # the few rows that start a recording change more per step than the curvature does
            ridge[slope.shape[1] - 1 :: slope.shape[1]] = _START_RIDGE
        # The curvature counts missing entries as if they were predicted, so that no step goes too far.
        variance = np.exp(2 * now.log_noise())
        solved = np.linalg.solve(curvature[0] + np.diag(ridge), slope.reshape(size, -1) * variance)
        return solved.astype(np.float32).reshape(slope.shape), now.g["log_noise"] / (2 * weight)

    def _remember(self, name: str, curvature: Array) -> Float:
        """Return a moving average of the curvature with this name."""
        seen = curvature.astype(np.float64)
        before = self._remembered.get(name)
        self._remembered[name] = seen if before is None else _MEMORY * before + (1 - _MEMORY) * seen
        return self._remembered[name]


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
