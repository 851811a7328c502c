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
_PIECE_PATHS = 8_000  # held in one piece: what a step reads and writes should stay in a core's own memory


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
    states = _states_at(module, rows, view, at, n_paths, temperature, generator)  # [P, O, K]
    lagged = [view.x[(at - lag).clamp_min(0)] for lag in range(module.lags)]
    memory = module.transition.memory(rows, view.x)
    if memory is not None:
        memory = memory[at]
    paths = rows.y.new_empty((horizon, rows.y.shape[1], len(at), n_paths))  # what is summarised lies together
    step = max(1, _PIECE_PATHS // n_paths)
    for begin in range(0, len(at), step):
        part = slice(begin, begin + step)
        z = states[:, part].permute(2, 1, 0).flatten(1).T  # [O P, K]
        seen = [_columns(x[part], n_paths) for x in lagged]
        carried = None if memory is None else _columns(memory[part], n_paths)
        for ahead in range(horizon):
            context, carried = module.transition.next_context(seen[0], carried)
            logits = module.transition.logits(context, z).T
            z = torch.softmax((logits + gumbel(logits.shape, generator)) / temperature, 0).T
            y = _emit(module, z.T, [x.T for x in seen], generator)  # [N, O P]
            paths[ahead, :, part] = y.view(len(y), -1, n_paths)
            seen = [(module.projection @ y).T, *seen[:-1]]
    return paths.permute(3, 2, 0, 1)


def _columns(values: Tensor, n_paths: int) -> Tensor:
    """[O P, C] each row of [O, C] for `n_paths` paths, with a column's numbers side by side: sums over a short last
    axis are slow."""
    return values.T.repeat_interleave(n_paths, 1).T


def _states_at(
    module: GdmModule, rows: Rows, view: View, at: Tensor, n_paths: int, temperature: float, generator: torch.Generator
) -> Tensor:
    """[P, O, K] states at the origins, from observations up to them.

    A posterior that reads only the past is sampled as it is. One that reads the future may not be asked: there the
    states come from the prior of the row, weighed by how well they explain it (one step of a particle filter).
    """
    k = module.n_states
    if module.posterior.causal and not module.posterior.sequential:
        logits = view.posterior[at].T[..., None]
        noise = gumbel((k, len(at), n_paths), generator)
        return torch.softmax((logits + noise) / temperature, 0).permute(2, 1, 0)
    if module.posterior.causal:
        noise = gumbel((n_paths, len(rows), k), generator)
        return module.sample_posterior(view, rows, noise, temperature)[0].exp()[:, at]
    even = torch.full((n_paths, len(rows), k), 1 / k, device=rows.y.device)
    first = module.prior_logits(view.context, even, rows)
    before = log_sample(first, temperature, gumbel(even.shape, generator)).exp()
    logits = module.prior_logits(view.context, before, rows)[:, at]  # [P, O, K]
    draws = log_sample(logits, temperature, gumbel((_FILTER_DRAWS, *logits.shape), generator)).exp()
    here, design = rows.at(at), view.design[at]
    weights = torch.stack([module.log_likelihood(z, design, here) for z in draws])  # [draws, P, O]
    chosen = (weights + gumbel(weights.shape, generator)).argmax(0)  # a draw in proportion to its weight
    return draws.gather(0, chosen[None, ..., None].expand(1, *logits.shape))[0]


def _emit(module: GdmModule, z: Tensor, lagged: list[Tensor], generator: torch.Generator) -> Tensor:
    """One observation [N, R] from states [K, R] and lagged projections, each [D, R]."""
    design = torch.cat([*lagged, lagged[0].new_ones(1, z.shape[1])])  # [L D + 1, R]; enough lags lie behind
    weighted = (z[:, None] * design).flatten(0, 1)
    mean = module.dynamics[:, :-1].flatten(0, 1).T @ weighted
    normal = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
    return mean.addmm_(module.noise_factor(), normal)


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
