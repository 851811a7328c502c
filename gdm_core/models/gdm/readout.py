"""Soft states, bounds and forecasts of a fitted model.

At a high temperature a Gumbel-Softmax is narrow only at a corner, while the true posterior often is elsewhere. So each row
draws S candidates from q, and the candidates form a hidden Markov model with S states per row:

    weight of candidate s at t = p(y_t | z^s) / q(z^s) * sum_j p(z^s | z^j_{t-1}) * weight of candidate j at t-1

With independent noise per row, its likelihood is an unbiased estimate of p(y), and the expected logarithm is a lower bound
on log p(y) that is tighter than the ELBO (S = 1). Its smoothed weights give the posterior mean; every row then uses the
same noise, so smooth data gives smooth states.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gdm_core.compiled import readout
from gdm_core.maths.relaxed import gumbel, log_sample, moments
from gdm_core.maths.rows import Rows
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.module import GdmModule, RowsView, elbo, roles

N_CANDIDATES = 32  # draws per row, for every length, so scores of recordings are comparable
_PIECE_ELEMENTS = 2_000_000  # of [S, R, S] in memory at a time
_HALO = 24  # rows of overlap; its error shrinks by more than half per row
_MAX_EXPONENT = 40.0
_FILTER_DRAWS = 32
_PIECE_PATHS = 8_000  # in memory at a time, to fit the processor's cache


Array = npt.NDArray[np.float32]


class Readout(NamedTuple):
    log_bound: Tensor  # [R] each row's share of the importance-weighted bound on log p(y)
    states: Tensor  # [R, K] posterior mean of z; [0, K] if not requested


@lru_cache(maxsize=16)
def even_points(n_samples: int, k: int) -> Tensor:
    """Return evenly spread points [S, K] of the unit cube."""
    from scipy.stats import qmc

    return torch.as_tensor(qmc.Sobol(k, seed=0).random(n_samples))


def _exponential(points: Tensor, moved: Tensor, like: Tensor) -> Tensor:
    """Return exp(-Gumbel noise) [R, K, S]: the same points [S, K] for every row, shifted by [R, K] modulo 1."""
    uniform = points.T + moved[..., None]
    uniform -= uniform.floor()
    return uniform.clamp_(1e-9, 1 - 1e-9).log_().neg_().to(like)


def soft_states(module: GdmModule, rows: Rows, config: GDMConfig, n_draws: int = N_CANDIDATES) -> Tensor:
    """Return soft states [R, K]: importance-weighted where `config` corrects, else the mean of q."""
    if config.weighs_samples and not module.posterior.sequential:
        return read_out(module, rows, config.temperature, n_draws).states
    return posterior_mean(module, rows, config.temperature)


def bound(module: GdmModule, rows: Rows, config: GDMConfig) -> float:
    """Return the matching bound in nats: importance-weighted, or the ELBO."""
    if config.weighs_samples and not module.posterior.sequential:
        return float(log_bound(module, rows, config.temperature).double().sum())
    return elbo(module, rows, config.temperature)


@torch.no_grad()
def posterior_mean(module: GdmModule, rows: Rows, temperature: float) -> Tensor:
    """Return the mean [R, K] of q(z)."""
    view = module.view(rows)
    if not module.posterior.sequential:
        return moments(view.posterior, temperature).mean
    noise = gumbel((64, len(rows), module.n_states), torch.Generator(device=rows.y.device).manual_seed(0))
    noise = noise[..., roles(module.dynamics)]
    return module.sample_posterior(view, rows, noise, temperature)[0].exp().mean(0)


@torch.no_grad()
def log_bound(
    module: GdmModule, rows: Rows, temperature: float, n_samples: int = N_CANDIDATES, seed: int = 0
) -> Tensor:
    """Return each row's share [R] of the bound on log p(y)."""
    generator = torch.Generator().manual_seed(seed)
    moved = torch.rand((len(rows), module.n_states), generator=generator, dtype=torch.float64)
    return read_out(module, rows, temperature, n_samples, moved, states=False).log_bound


@torch.no_grad()
def read_out(
    module: GdmModule,
    rows: Rows,
    temperature: float,
    n_samples: int = N_CANDIDATES,
    moved: Tensor | None = None,
    states: bool = True,
) -> Readout:
    """Return bound and states; without `states` the bound alone, which needs no later rows.

    moved   [R, K] shifts of the noise; uniform random numbers make the bound valid
    """
    view = module.view(rows)
    role = roles(module.dynamics).cpu()
    points = even_points(n_samples, module.n_states)[:, role]
    piece = max(_HALO, _PIECE_ELEMENTS // n_samples**2)
    bounds, means = [], [view.posterior[:0]]
    before: Array | None = None
    for begin in range(0, len(rows), piece):
        end = min(begin + piece, len(rows))
        head, tail = max(0, begin - 1), min(len(rows), end + _HALO) if states else end
        part_moved = points.new_zeros(1, len(role)) if moved is None else moved[head:tail][:, role]
        exponential = _exponential(points, part_moved, view.posterior)
        chain = _Chain(module, rows.piece(head, tail), view.piece(head, tail), exponential, temperature)
        weights, log_likelihood = chain.forward(before)
        bounds.append(torch.as_tensor(log_likelihood[begin - head : end - head]).to(view.posterior))
        before = weights[end - head - 1]
        if states:
            means.append(chain.smoothed(weights)[begin - head : end - head])
    return Readout(torch.cat(bounds), torch.cat(means))


def same_noise(module: GdmModule) -> Tensor:
    """Return the noise [1, K, S] from which `read_out` draws the candidates of every row."""
    points = even_points(N_CANDIDATES, module.n_states)[:, roles(module.dynamics).cpu()]
    return _exponential(points, points.new_zeros(1, module.n_states), module.initial)


def candidates_of_last_row(
    module: GdmModule, rows: Rows, view: RowsView, noise: Tensor, temperature: float
) -> tuple[Array, Array]:
    """Return the transfer [S, S] into the last row's candidates, and their states [S, K].

    The transfer is [1, S] for a first row. `noise` is that of `same_noise`.
    """
    begin = max(0, len(rows) - 2)
    rows, view = rows.piece(begin, len(rows)), view.piece(begin, len(rows))
    chain = _Chain(module, rows, view, noise, temperature)
    transfer = chain.transfer_of_last()
    return transfer if len(rows) > 1 else transfer.mean(0, keepdims=True), _floats(chain.z[-1].T)


class _Chain:
    """Candidates of rows, from noise [R or 1, K, S].

    Arrays are [R, K, S], since sums over a short last axis are slow. A transfer is exp(u_j + v_s) m_js^-K with
    m_js = sum_k exp(delta_jk - top_j) E_ks, so it needs no logarithm.
    """

    def __init__(self, module: GdmModule, rows: Rows, view: RowsView, exponential: Tensor, temperature: float) -> None:
        self.k, self.n_samples = int(exponential.shape[1]), int(exponential.shape[2])
        self.z = torch.softmax((view.posterior[..., None] - exponential.log()) / temperature, 1)  # [R, K, S]
        draws = self.z.permute(2, 0, 1)
        # for each candidate before: delta = prior - posterior logits [R, K, S_j]
        delta = (module.prior_logits(view.context, draws, rows) - view.posterior).permute(1, 2, 0)
        top = delta.amax(1, keepdim=True)
        delta = delta - top
        of_before = delta.sum(1)  # [R, S_j] u
        total = exponential.sum(1).log()  # [R or 1, S]
        of_next = module.log_likelihood_of_draws(draws, view.design, rows).T + self.k * total  # [R, S_s] v
        best_before, best_next = of_before.amax(1), of_next.amax(1)
        self._scale = (best_before + best_next).numpy(force=True)  # [R]
        self._left = _floats(delta.exp_() * self._root(best_before, of_before))  # [R, K, S_j]
        self._right = _floats(exponential * self._root(best_next, of_next))  # [R, K, S_s]
        self._linked = (rows.age > 0).numpy(force=True)
        self._transfer: Array = np.empty((0, 0, 0), np.float32)  # [R, S_j, S_s]

    def _root(self, best: Tensor, values: Tensor) -> Tensor:
        """Return exp((best - values) / K) [R, 1, S]; terms at the upper limit have no weight."""
        return ((best[:, None] - values) / self.k).clamp_(max=_MAX_EXPONENT).exp_()[:, None]

    def forward(self, before: Array | None) -> tuple[Array, Array]:
        """Return filtered weights [R, S] of the candidates, and the log-likelihood [R].

        before   [S] weights of the first row if they are known; its own transfer is then ignored
        """
        self._transfer = np.empty((len(self.z), self.n_samples, self.n_samples), np.float32)
        first = np.zeros(0, np.float32) if before is None else before
        weights, found = readout.weigh(self._left, self._right, self._linked, first, self._transfer)
        return weights, found + self._scale - math.log(self.n_samples)

    def transfer_of_last(self) -> Array:
        """Return the transfer [S_j, S_s] of the last row."""
        out = np.empty((1, self.n_samples, self.n_samples), np.float32)
        readout.weigh(self._left[-1:], self._right[-1:], self._linked[-1:], np.zeros(0, np.float32), out)
        return out[0]

    def smoothed(self, weights: Array) -> Tensor:
        """Return the posterior mean [R, K] of z from filtered weights and all later rows."""
        return torch.as_tensor(readout.smooth(self._transfer, self._linked, weights, _floats(self.z))).to(self.z)


def _floats(values: Tensor) -> Array:
    return np.ascontiguousarray(values.numpy(force=True), np.float32)


# ---- forecasts and samples --------------------------------------------------------------------------------------


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
    """Sample futures [P, O, H, N] with observation noise; the path from origin t sees y[..t] only."""
    generator = torch.Generator(device=rows.y.device).manual_seed(seed)
    at = torch.as_tensor(origins, device=rows.y.device)
    view = module.view(rows, filtered=True)
    states = _states_at(module, rows, view, at, n_paths, temperature, generator)  # [P, O, K]
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
    module: GdmModule,
    rows: Rows,
    view: RowsView,
    at: Tensor,
    n_paths: int,
    temperature: float,
    generator: torch.Generator,
) -> Tensor:
    """Sample states [P, O, K] at the origins, from observations up to them.

    A causal posterior is sampled directly. Otherwise states come from the prior of the row, weighted by their likelihood:
    one step of a particle filter.
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
def generate(module: GdmModule, n_samples: int, temperature: float, seed: int) -> tuple[Tensor, Tensor, Tensor]:
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
        z = log_sample(logits, temperature, all_noise[t]).exp()
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
