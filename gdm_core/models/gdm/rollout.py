"""Sampling forward in time: futures from many origins at once, and whole trials from the model alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gdm_core.maths.relaxed import gumbel, log_sample
from gdm_core.maths.rows import Rows
from gdm_core.models.gdm.module import GdmModule, View

_FILTER_DRAWS = 32


@torch.no_grad()
def sample_paths(
    module: GdmModule,
    rows: Rows,
    origins: npt.NDArray[np.int64],
    horizon: int,
    n_paths: int,
    temperature: float,
    seed: int,
) -> Tensor:
    """[P, O, H, N] futures with observation noise; the path from origin t sees y[..t] only."""
    generator = torch.Generator(device=rows.y.device).manual_seed(seed)
    at = torch.as_tensor(origins, device=rows.y.device)
    view = module.view(rows)
    z = _states_at(module, rows, view, at, n_paths, temperature, generator)  # [P, O, K]
    lagged = [view.x[(at - lag).clamp_min(0)].expand(n_paths, -1, -1) for lag in range(module.lags)]
    memory = module.transition.memory(rows, view.x)
    if memory is not None:
        memory = memory[at].expand(n_paths, -1, -1)
    factor = module.noise_factor()
    steps = []
    for _ in range(horizon):
        context, memory = module.transition.next_context(lagged[0], memory)
        z = log_sample(module.transition.logits(context, z), temperature, _noise(z, generator)).exp()
        y = _emit(module, z, lagged, factor, generator)
        steps.append(y)
        lagged = [y @ module.projection.T, *lagged[:-1]]
    return torch.stack(steps, 2)


def _states_at(
    module: GdmModule, rows: Rows, view: View, at: Tensor, n_paths: int, temperature: float, generator: torch.Generator
) -> Tensor:
    """[P, O, K] states at the origins, from observations up to them.

    A posterior that reads only the past is sampled as it is. One that reads the future may not be asked: there the
    states come from the prior of the row, weighed by how well they explain it (one step of a particle filter).
    """
    k = module.n_states
    if module.posterior.causal and not module.posterior.sequential:
        logits = view.posterior[at].expand(n_paths, -1, -1)
        return log_sample(logits, temperature, _noise(logits, generator)).exp()
    if module.posterior.causal:
        noise = gumbel((n_paths, len(rows), k), generator)
        return module.sample_posterior(view, rows, noise, temperature)[0].exp()[:, at]
    even = torch.full((n_paths, len(rows), k), 1 / k, device=rows.y.device)
    before = log_sample(module.prior_logits(view.context, even, rows), temperature, _noise(even, generator)).exp()
    logits = module.prior_logits(view.context, before, rows)[:, at]  # [P, O, K]
    draws = log_sample(logits, temperature, gumbel((_FILTER_DRAWS, *logits.shape), generator)).exp()
    weights = torch.stack([_explains(module, rows, view, at, part) for part in draws])  # [draws, P, O]
    chosen = (weights + gumbel(weights.shape, generator)).argmax(0)  # a draw in proportion to its weight
    return draws.gather(0, chosen[None, ..., None].expand(1, *logits.shape))[0]


def _explains(module: GdmModule, rows: Rows, view: View, at: Tensor, z: Tensor) -> Tensor:
    from dataclasses import replace

    known = None if rows.known is None else rows.known[at]
    here = replace(rows, y=rows.y[at], known=known, age=rows.age[at])
    return module.log_likelihood(z, view.design[at], here)


def _noise(like: Tensor, generator: torch.Generator) -> Tensor:
    return gumbel(like.shape, generator).to(like.dtype)


def _emit(module: GdmModule, z: Tensor, lagged: list[Tensor], factor: Tensor, generator: torch.Generator) -> Tensor:
    """One observation [P, O, N] from states [P, O, K] and lagged projections."""
    ready = torch.ones_like(lagged[0][..., :1])
    design = torch.cat([*lagged, ready, torch.zeros_like(ready)], -1)  # [P, O, L D + 2]
    weighted = (z[..., :, None] * design[..., None, :]).flatten(-2)
    mean = weighted @ module.dynamics.flatten(0, 1)
    normal = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
    return mean + normal @ factor.T


@torch.no_grad()
def generate(module: GdmModule, n_samples: int, temperature: float, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """(y [T, N], z [T, K], x [T, D]) from the model alone: each sample feeds the next, so this is a loop."""
    device = module.initial.device
    generator = torch.Generator(device=device).manual_seed(seed)
    k, (d, n) = module.n_states, module.projection.shape
    factor = module.noise_factor()
    all_noise = gumbel((n_samples, k), generator)
    normal = torch.randn((n_samples, n), generator=generator, device=device)
    first = module.first_log_noise.exp() if module.own_start_noise else module.log_noise.exp()
    noise = torch.cat([normal[: module.lags] * first, normal[module.lags :] @ factor.T])
    dynamics = module.dynamics  # [K, L D + 2, N]
    memory = module.transition.memory_at_start()
    ys: list[Tensor] = []
    zs: list[Tensor] = []
    xs: list[Tensor] = []
    z = torch.empty(0)
    for t in range(n_samples):
        logits: Tensor = module.initial
        if t > 0:
            context, memory = module.transition.next_context(xs[-1], memory)
            logits = module.transition.logits(context, z)
        z = log_sample(logits, temperature, all_noise[t]).exp()
        design = torch.zeros(module.lags * d + 2, device=device)
        if t >= module.lags:
            design[: module.lags * d] = torch.cat([xs[-lag] for lag in range(1, module.lags + 1)])
            design[-2] = 1
        else:
            design[-1] = 1
        y = torch.einsum("k,d,kdn->n", z, design, dynamics) + noise[t]
        ys.append(y)
        zs.append(z)
        xs.append(module.projection @ y)
    return torch.stack(ys), torch.stack(zs), torch.stack(xs)
