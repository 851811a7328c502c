"""Soft states of the 3-level mixture with the latent path integrated out, and its forecasts.

Draws of q(z_t) are weighed by how well their dynamics connect the Gaussian of x_{t-1} before the row to that of x_t from
the row on: the factor of row t is removed from q(x | z), and that of each draw takes its place. All rows use the same noise,
so smooth paths give smooth states.

Forecasts start from the filtered path for each of several draws of the states.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gdm_core.arrays import Ints
from gdm_core.maths.gaussian import GaussianPath
from gdm_core.maths.gru import find_starts
from gdm_core.maths.relaxed import gumbel, log_sample, moments, sampled_kl
from gdm_core.maths.rows import Rows, shift
from gdm_core.models.gdm.module import roles
from gdm_core.models.gdm.readout import even_points
from gdm_core.models.mixture.module import Drive, MixtureModule, from_next_row, led, normal, precision_blocks

_SWEEPS = 3
_DRAWS = 64
_CHUNK_ROWS = 4_000
_STATE_DRAWS = 8  # from which forecasts start
_STRETCH, _RUN_UP = 64, 48  # samples
_VAGUE = 1e-4  # precision of a direction without information


class Belief(NamedTuple):
    """Estimated soft states."""

    states: Tensor  # [R, K] mean of z
    spread: Tensor  # [R, D] variance that uncertainty about z_t adds to the step into x_t


class Smoothed(NamedTuple):
    """Moments of the path under a belief."""

    mean: Tensor  # [R, D]
    variance: Tensor  # [R, D, D]
    lagged: Tensor  # [R, D, D] Cov(x_t, x_{t-1})
    drive: Drive


class Cavity(NamedTuple):
    """Gaussians of x_{t-1} and x_t without the step between them."""

    before: Tensor  # [R, D] mean of x_{t-1}
    before_covariance: Tensor  # [R, D, D]
    here: Tensor  # [R, D] mean of x_t
    here_covariance: Tensor  # [R, D, D]


@torch.no_grad()
def smoothed(module: MixtureModule, rows: Rows, belief: Belief) -> Smoothed:
    """Return the moments of q(x | z), where uncertainty about z adds to the noise of x."""
    drive = module.drive(belief.states[None], rows)
    drive = drive._replace(precision=1 / (1 / drive.precision + belief.spread))
    blocks = precision_blocks(drive, module.information(rows))
    path = GaussianPath(*(part.numpy(force=True) for part in blocks))
    variance, lagged = path.covariances
    mean, own, lags = (torch.as_tensor(part).to(rows.y) for part in (path.mean, variance, lagged))
    return Smoothed(mean, own, lags, drive)


@torch.no_grad()
def cavities(rows: Rows, found: Smoothed) -> Cavity:
    """Remove the factor of each row from the joint Gaussian of its two ends."""
    d = found.mean.shape[-1]
    before = shift(found.variance.flatten(1), 1).reshape(found.variance.shape)
    pair = torch.cat(
        [torch.cat([before, found.lagged.transpose(1, 2)], 2), torch.cat([found.lagged, found.variance], 2)], 1
    )  # [R, 2 D, 2 D]
    mean = torch.cat([shift(found.mean, 1), found.mean], -1)
    # Any Gaussian serves as the missing predecessor of a first row.
    lone = torch.block_diag(torch.eye(d), torch.zeros(d, d)).to(pair)
    tied = (~find_starts(rows)).to(pair)[:, None, None]
    last = torch.block_diag(torch.zeros(d, d), torch.ones(d, d)).to(pair)
    pair = pair * torch.maximum(tied, last) + lone * (1 - tied)
    precision = torch.linalg.inv((pair + pair.transpose(1, 2)) / 2)
    linear = (precision @ mean[..., None])[..., 0]
    matrix, offset, inverse = found.drive
    weighted = inverse[..., None] * matrix
    pull = (weighted.transpose(1, 2) @ offset[..., None])[..., 0]
    ends = []
    for natural, shifted in (
        (precision[:, :d, :d] - matrix.transpose(1, 2) @ weighted, linear[:, :d] + pull),
        (precision[:, d:, d:] - torch.diag_embed(inverse), linear[:, d:] - inverse * offset),
    ):
        values, vectors = torch.linalg.eigh((natural + natural.transpose(1, 2)) / 2)
        covariance = (vectors / values.clamp_min(_VAGUE)[:, None, :]) @ vectors.transpose(1, 2)
        ends.extend([(covariance @ shifted[..., None])[..., 0], covariance])
    return Cavity(*ends)


def log_carry(cavity: Cavity, drive: Drive, n_samples: int) -> Tensor:
    """Return log N(here; A before + b, A P A' + Q + P') [S, R] for the step of each draw."""
    d = drive.offset.shape[-1]
    matrix = drive.matrix.reshape(n_samples, -1, d, d)
    spread = matrix @ cavity.before_covariance @ matrix.transpose(-1, -2) + cavity.here_covariance
    spread = spread + torch.diag_embed((1 / drive.precision).reshape(n_samples, -1, d))
    missed = cavity.here - (matrix @ cavity.before[..., None])[..., 0] - drive.offset.reshape(n_samples, -1, d)
    factor = torch.linalg.cholesky(spread)
    white = torch.linalg.solve_triangular(factor, missed[..., None], upper=False)[..., 0]
    return -0.5 * white.square().sum(-1) - torch.diagonal(factor, dim1=-2, dim2=-1).log().sum(-1)


@torch.no_grad()
def weigh(module: MixtureModule, rows: Rows, posterior: Tensor, belief: Belief | None) -> Belief:
    """Return an improved belief from the path and cavities of the previous one, or that of q alone without one."""
    if belief is None:
        cavity, prior, x = None, posterior, module.projected(rows)
    else:
        found = smoothed(module, rows, belief)
        cavity = cavities(rows, found)
        prior = module.prior_logits(found.mean[None], belief.states[None], rows)[0]
        x = found.mean
    uniform = even_points(_DRAWS, module.n_states)[:, None, roles(module.dynamics).numpy()]
    noise = torch.as_tensor(-np.log(-np.log(np.clip(uniform, 1e-9, 1 - 1e-9))))  # [S, 1, K]
    log_weights = torch.log_softmax(-noise, -1)
    new, before = find_starts(rows), shift(x, 1)
    parts = []
    for begin in range(0, len(rows), _CHUNK_ROWS):
        part = slice(begin, begin + _CHUNK_ROWS)
        here = rows.piece(begin, min(begin + _CHUNK_ROWS, len(rows)))
        z = log_sample(posterior[part], module.config.temperature, noise).exp()
        drive = module.drive(z, here, new[part])
        weight = torch.full(z.shape[:2], 1 / _DRAWS, dtype=z.dtype, device=z.device)
        if cavity is not None:
            carry = log_carry(Cavity(*(end[part] for end in cavity)), drive, _DRAWS)
            weight = torch.softmax(carry - sampled_kl(prior[part] - posterior[part], log_weights), 0)
        step = (drive.matrix.reshape(*z.shape[:2], *drive.matrix.shape[1:]) @ before[part, :, None])[..., 0]
        step = step + drive.offset.reshape(step.shape)
        mean = torch.einsum("sr,srd->rd", weight, step)
        spread = torch.einsum("sr,srd->rd", weight, (step - mean).square())
        parts.append(Belief(torch.einsum("sr,srk->rk", weight, z), spread))
    return Belief(*(torch.cat(each) for each in zip(*parts, strict=True)))


@torch.no_grad()
def weighed_states(module: MixtureModule, rows: Rows) -> Tensor:
    """Return the posterior mean [R, K] of the soft states, with q as the proposal; of q alone if x has no noise."""
    if module.deterministic:
        return moments(module.posterior_logits(rows), module.config.temperature).mean
    return settled_belief(module, rows, _SWEEPS).states


def settled_belief(module: MixtureModule, rows: Rows, sweeps: int) -> Belief:
    """Return the belief after some sweeps."""
    posterior = module.posterior_logits(rows)
    belief = weigh(module, rows, posterior, None)
    for _ in range(sweeps):
        belief = weigh(module, rows, posterior, belief)
    return belief


# ---- forecasts and samples ------------------------------------------------------------------------------------------


@torch.no_grad()
def mixture_paths(module: MixtureModule, rows: Rows, origins: Ints, horizon: int, n_paths: int, seed: int) -> Tensor:
    """Return forecasts [P, O, H, N] with observation noise; those from origin t depend on y[..t] only."""
    generator = torch.Generator().manual_seed(seed)
    draws = min(_STATE_DRAWS, n_paths)
    # Row by row from a separate generator: later rows change nothing before them.
    noise = gumbel((len(rows), draws, module.n_states), torch.Generator().manual_seed(seed + 1), rows.y.dtype)
    noise = noise.transpose(0, 1)
    states, _ = module.sample_posterior(rows, noise)  # [S, R, K]
    mean, covariance = filtered(module, rows, states, origins)
    which = torch.arange(n_paths) % draws
    root = torch.linalg.cholesky(covariance + 1e-12 * torch.eye(module.n_latent, dtype=mean.dtype))
    z = states[:, torch.as_tensor(origins)][which]  # [P, O, K]
    x = mean[which] + (root[which] @ normal((*z.shape[:-1], module.n_latent, 1), generator))[..., 0]
    steps = []
    for _ in range(horizon):
        z, x = _advance(module, z, x, generator)
        steps.append(_emit(module, x, generator))
    return torch.stack(steps, 2)


def filtered(module: MixtureModule, rows: Rows, states: Tensor, origins: Ints) -> tuple[Tensor, Tensor]:
    """Return filtered means [S, O, D] and covariances [S, O, D, D] of x at each origin, for draws of states [S, R, K].

    Eliminating x_1 to x_{t-1} from q(x | z) leaves the filter at t, with what the step into t + 1 says about x_t. It forgets
    all but a run-up, because a path without noise of its own would ignore new samples in time.
    """
    ends, stretch = np.unique(origins // _STRETCH, return_inverse=True)
    first = np.maximum(ends * _STRETCH - _RUN_UP, 0)
    index = torch.as_tensor(first[:, None] + np.arange(_STRETCH + _RUN_UP))
    inside = index < len(rows)
    index = index.clamp(max=len(rows) - 1)
    here = rows.windows(index, ~inside, inside)
    drive = module.drive(states[:, index.flatten()], here)
    path = GaussianPath(*(part.numpy(force=True) for part in precision_blocks(drive, module.information(here))))
    lower, left = map(torch.as_tensor, path.factor)
    mean = torch.as_tensor(path.mean)[..., None]
    carried = lower.mT @ mean + led(left.mT @ mean)
    onto_next, towards_previous = from_next_row(drive)
    precision, linear = lower @ lower.mT - onto_next, lower @ carried + towards_previous[..., None]
    place = torch.as_tensor(stretch * index.shape[1] + origins - first[stretch])
    at = torch.arange(len(states))[:, None] * index.numel() + place
    covariance = torch.linalg.inv(precision[at])
    covariance = (covariance + covariance.mT) / 2
    return (covariance @ linear[at])[..., 0], covariance


def _advance(module: MixtureModule, z: Tensor, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sample the next states [..., K] and positions [..., D]."""
    logits = module.transition.logits(x @ module.transition.weight + module.transition.bias, z)
    z = log_sample(logits, module.config.temperature, gumbel(logits.shape, generator, logits.dtype)).exp()
    ready = torch.cat([x, torch.ones_like(x[..., :1]), torch.zeros_like(x[..., :1])], -1)  # [..., D + 2]
    mean = (z[..., :, None] * ready[..., None, :]).flatten(-2) @ module.dynamics.flatten(0, 1)
    return z, mean + module.step_deviation(z) * normal(x.shape, generator)


def _emit(module: MixtureModule, x: Tensor, generator: torch.Generator) -> Tensor:
    mean = x @ module.emission.T + module.offset
    return mean + normal(mean.shape, generator) / module.noise_precision().sqrt()


@torch.no_grad()
def mixture_sample(module: MixtureModule, n_samples: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sample y [T, N], z [T, K] and x [T, D] from the model."""
    generator = torch.Generator().manual_seed(seed)
    noise = gumbel((module.n_states,), generator, torch.float64)
    z = log_sample(module.initial, module.config.temperature, noise).exp()
    x = z @ module.dynamics[:, -1] + module.step_deviation(z) * normal((module.n_latent,), generator)
    zs, xs = [z], [x]
    for _ in range(n_samples - 1):
        z, x = _advance(module, z, x, generator)
        zs.append(z)
        xs.append(x)
    path = torch.stack(xs)
    return _emit(module, path, generator), torch.stack(zs), path
