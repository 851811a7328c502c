"""Soft states, bounds and forecasts of a fitted model.

At a high temperature a Gumbel-Softmax is narrow only at a corner, while the true posterior often is elsewhere. So each row
draws S candidates from q, and the candidates form a hidden Markov model with S states per row:

    weight of candidate s at t = p(y_t | z^s) / q(z^s) * sum_j p(z^s | z^j_{t-1}) * weight of candidate j at t-1

With independent noise per row, its likelihood is an unbiased estimate of p(y), and the expected logarithm is a lower bound
on log p(y) that is tighter than the ELBO (S = 1). Its smoothed weights give the posterior mean; every row then uses the
same noise, so smooth data gives smooth states.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gdm_core.arrays import Array, Bool, Float, Ints
from gdm_core.compiled import readout
from gdm_core.maths.relaxed import gumbel, log_sample, moments
from gdm_core.maths.rows import Rows
from gdm_core.models.gdm.module import GdmModule, RowsView, elbo, roles

N_CANDIDATES = 32  # draws per row, for every length, so scores of recordings are comparable
PIECE_ELEMENTS = 500_000  # of transfers [R, S, S] in memory at a time, to fit the processor's cache
_HALO = 24  # rows of overlap; its error shrinks by more than half per row
_FILTER_DRAWS = 32
_PIECE_PATHS = 8_000  # in memory at a time, to fit the processor's cache

_NONE: Array = np.zeros(0, np.float32)


class Readout(NamedTuple):
    log_bound: Tensor  # [R] each row's share of the importance-weighted bound on log p(y)
    states: Tensor  # [R, K] posterior mean of z; [0, K] if not requested


class Noise(NamedTuple):
    """Exponential noise of candidates, [R, K, S] or the same [1, K, S] for every row."""

    values: Array
    logs: Array

    def piece(self, begin: int, end: int) -> Noise:
        return self if len(self.values) == 1 else Noise(self.values[begin:end], self.logs[begin:end])


class Candidates(NamedTuple):
    """Candidates of rows, and how they follow each other."""

    z: Array  # [R, K, S]
    transfer: Array  # [R, S, S] from each candidate before to each one now
    weights: Array  # [R, S] given the rows so far
    log_likelihood: Array  # [R]


@lru_cache(maxsize=16)
def even_points(n_samples: int, k: int) -> Float:
    """Return evenly spread points [S, K] of the unit cube."""
    from scipy.stats import qmc

    return qmc.Sobol(k, seed=0).random(n_samples)


def even_noise(module: GdmModule, n_samples: int, moved: Tensor | None = None) -> Noise:
    """Return the same noise for every row, or noise shifted by `moved` [R, K] modulo 1."""
    role = roles(module.dynamics).numpy(force=True)
    uniform = even_points(n_samples, len(role))[:, role].T[None]
    if moved is not None:
        uniform = uniform + moved.numpy()[:, role, None]
        uniform -= uniform >= 1
    values = -np.log(np.clip(uniform, 1e-9, 1 - 1e-9))
    return Noise(np.ascontiguousarray(values, np.float32), np.ascontiguousarray(np.log(values), np.float32))


def soft_states(module: GdmModule, rows: Rows, n_draws: int = N_CANDIDATES) -> Tensor:
    """Return soft states [R, K]: importance-weighted where the model weighs samples, else the mean of q."""
    if module.config.weighs_samples and not module.posterior.sequential:
        return read_out(module, rows, n_draws).states
    return posterior_mean(module, rows)


def bound(module: GdmModule, rows: Rows) -> float:
    """Return the matching bound in nats: importance-weighted, or the ELBO."""
    if module.config.weighs_samples and not module.posterior.sequential:
        return float(log_bound(module, rows).double().sum())
    return elbo(module, rows)


@torch.no_grad()
def posterior_mean(module: GdmModule, rows: Rows) -> Tensor:
    """Return the mean [R, K] of q(z)."""
    view = module.view(rows)
    if not module.posterior.sequential:
        return moments(view.posterior, module.config.temperature).mean
    noise = gumbel((64, len(rows), module.n_states), torch.Generator(device=rows.y.device).manual_seed(0))
    noise = noise[..., roles(module.dynamics)]
    return module.sample_posterior(view, rows, noise)[0].exp().mean(0)


@torch.no_grad()
def log_bound(module: GdmModule, rows: Rows, n_samples: int = N_CANDIDATES, seed: int = 0) -> Tensor:
    """Return each row's share [R] of the bound on log p(y)."""
    generator = torch.Generator().manual_seed(seed)
    moved = torch.rand((len(rows), module.n_states), generator=generator, dtype=torch.float64)
    return read_out(module, rows, n_samples, moved, states=False).log_bound


@torch.no_grad()
def read_out(
    module: GdmModule, rows: Rows, n_samples: int = N_CANDIDATES, moved: Tensor | None = None, states: bool = True
) -> Readout:
    """Return bound and states; without `states` the bound alone, which needs no later rows.

    moved   [R, K] shifts of the noise; uniform random numbers make the bound valid
    """
    view, noise = module.view(rows), even_noise(module, n_samples, moved)
    piece = max(_HALO, PIECE_ELEMENTS // n_samples**2)
    bounds, means, before = [], [np.zeros((0, module.n_states), np.float32)], _NONE
    for begin in range(0, len(rows), piece):
        end = min(begin + piece, len(rows))
        head, tail = max(0, begin - 1), min(len(rows), end + _HALO) if states else end
        here, part = rows.piece(head, tail), noise.piece(head, tail)
        found = find_candidates(module, here, view.piece(head, tail), part, before)
        bounds.append(found.log_likelihood[begin - head : end - head])
        before = found.weights[end - head - 1]
        if states:
            smoothed = readout.smooth(found.transfer, _linked(here), found.weights, found.z)
            means.append(smoothed[begin - head : end - head])
    return Readout(*(torch.as_tensor(np.concatenate(parts)).to(view.posterior) for parts in (bounds, means)))


def find_candidates(module: GdmModule, rows: Rows, view: RowsView, noise: Noise, before: Array = _NONE) -> Candidates:
    """Return the candidates of rows; `before` [S] are the weights of the first row if they are known."""
    logits, linked = _floats(view.posterior), _linked(rows)
    z = readout.draw(logits, noise.logs, np.float32(module.config.temperature))
    if module.transition.affine_in_state:
        gamma, scale = float(module.transition.gamma), float(module.transition.scale)
        factors = np.float32(gamma * scale), np.float32(1 - gamma)
        delta = readout.compare(z, logits, _floats(view.context), _floats(module.initial), linked, *factors)
    else:
        draws = torch.as_tensor(z.transpose(2, 0, 1)).to(view.posterior)
        delta = _floats((module.prior_logits(view.context, draws, rows) - view.posterior).permute(1, 2, 0))
    log_noise = _floats(module.log_deviation()).reshape(-1, rows.y.shape[1])
    first = _floats(module.first_log_noise) if module.own_start_noise else log_noise[0]
    known = np.zeros((0, 0), np.float32) if rows.known is None else _floats(rows.known)
    values = readout.likelihoods(
        z, _floats(rows.y), known, _floats(view.design), linked, _floats(module.dynamics), log_noise, first
    )
    values += np.float32(module.n_states) * np.log(noise.values.sum(axis=1))
    transfer = np.empty((len(z), z.shape[2], z.shape[2]), np.float32)
    return Candidates(z, transfer, *readout.weigh(delta, values, noise.values, linked, before, transfer))


def _linked(rows: Rows) -> Bool:
    """Return which rows [R] follow the row before."""
    return (rows.age > 0).numpy(force=True)


def _floats(values: Tensor) -> Array:
    return np.ascontiguousarray(values.numpy(force=True), np.float32)


# ---- forecasts and samples --------------------------------------------------------------------------------------


@torch.no_grad()
def sample_paths(module: GdmModule, rows: Rows, origins: Ints, horizon: int, n_paths: int, seed: int) -> Tensor:
    """Sample futures [P, O, H, N] with observation noise; the path from origin t sees y[..t] only."""
    generator, temperature = torch.Generator(device=rows.y.device).manual_seed(seed), module.config.temperature
    at = torch.as_tensor(origins, device=rows.y.device)
    view = module.view(rows, filtered=True)
    states = _states_at(module, rows, view, at, n_paths, generator)  # [P, O, K]
    memory = module.transition.memory(rows, view.x)
    if memory is not None:
        memory = memory[at]
    paths = rows.y.new_empty((horizon, rows.y.shape[1], len(at), n_paths))  # contiguous for summaries over paths
    step = max(1, _PIECE_PATHS // n_paths)
    for begin in range(0, len(at), step):
        part = slice(begin, begin + step)
        z = states[:, part].permute(2, 1, 0).flatten(1).T  # [O P, K]
        x = _columns(view.x[at[part]], n_paths)
        carried = None if memory is None else _columns(memory[part], n_paths)
        for ahead in range(horizon):
            context, carried = module.transition.next_context(x, carried)
            logits = module.transition.logits(context, z).T
            z = torch.softmax((logits + gumbel(logits.shape, generator)) / temperature, 0).T
            y = _emit(module, z.T, x.T, generator)  # [N, O P]
            paths[ahead, :, part] = y.view(len(y), -1, n_paths)
            x = (module.projection @ y).T
    return paths.permute(3, 2, 0, 1)


def _columns(values: Tensor, n_paths: int) -> Tensor:
    """Repeat each row of [O, C] for `n_paths` paths, column-major, since sums over a short last axis are slow."""
    return values.T.repeat_interleave(n_paths, 1).T


def _states_at(
    module: GdmModule, rows: Rows, view: RowsView, at: Tensor, n_paths: int, generator: torch.Generator
) -> Tensor:
    """Sample states [P, O, K] at the origins, from observations up to them.

    A causal posterior is sampled directly. Otherwise states come from the prior of the row, weighted by their likelihood:
    one step of a particle filter.
    """
    k, temperature = module.n_states, module.config.temperature
    if module.posterior.causal and not module.posterior.sequential:
        logits = view.posterior[at].T[..., None]
        noise = gumbel((k, len(at), n_paths), generator)
        return torch.softmax((logits + noise) / temperature, 0).permute(2, 1, 0)
    if module.posterior.causal:
        noise = gumbel((n_paths, len(rows), k), generator)
        return module.sample_posterior(view, rows, noise)[0].exp()[:, at]
    even = torch.full((n_paths, len(rows), k), 1 / k, device=rows.y.device)
    first = module.prior_logits(view.context, even, rows)
    before = log_sample(first, temperature, gumbel(even.shape, generator)).exp()
    logits = module.prior_logits(view.context, before, rows)[:, at]  # [P, O, K]
    draws = log_sample(logits, temperature, gumbel((_FILTER_DRAWS, *logits.shape), generator)).exp()
    here, design = rows.select(at), view.design[at]
    weights = torch.stack([module.log_likelihood(z, design, here) for z in draws])  # [draws, P, O]
    chosen = (weights + gumbel(weights.shape, generator)).argmax(0)  # resampled by weight
    return draws.gather(0, chosen[None, ..., None].expand(1, *logits.shape))[0]


def _emit(module: GdmModule, z: Tensor, x: Tensor, generator: torch.Generator) -> Tensor:
    """Sample observations [N, R] from states [K, R] and projections [D, R] of the sample before."""
    design = torch.cat([x, x.new_ones(1, z.shape[1])])  # [D + 1, R]
    weighted = (z[:, None] * design).flatten(0, 1)
    mean = module.dynamics[:, :-1].flatten(0, 1).T @ weighted
    normal = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
    deviation = module.log_deviation(z.T).exp()
    return mean.addcmul_(normal, deviation.T) if module.has_state_noise else mean.add_(normal * deviation[:, None])


@torch.no_grad()
def generate(module: GdmModule, n_samples: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sample y [T, N], z [T, K] and x [T, D] from the model."""
    device = module.initial.device
    generator = torch.Generator(device=device).manual_seed(seed)
    k, n = module.n_states, module.projection.shape[1]
    all_noise = gumbel((n_samples, k), generator)
    normal = torch.randn((n_samples, n), generator=generator, device=device)
    first = module.first_log_noise.exp() if module.own_start_noise else module.log_noise.exp()
    dynamics = module.dynamics  # [K, D + 2, N]
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
        z = log_sample(logits, module.config.temperature, all_noise[t]).exp()
        if t == 0:
            y = z @ dynamics[:, -1] + normal[t] * first
        else:
            design = torch.cat([xs[-1], torch.ones(1, device=device)])
            noise = normal[t] * module.log_deviation(z).exp()
            y = torch.einsum("k,d,kdn->n", z, design, dynamics[:, :-1]) + noise
        ys.append(y)
        zs.append(z)
        xs.append(module.projection @ y)
    return torch.stack(ys), torch.stack(zs), torch.stack(xs)
