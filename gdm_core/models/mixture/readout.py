"""Soft states of the 3-level mixture, weighed by the model with the latent path integrated out.

q(z_t) must be a Gumbel-Softmax of what the network sees. For each row, draws of q are weighed by how well they carry
what is known before the row (a Gaussian of x_{t-1}) to what is known from it on (one of x_t): the factor of row t is
taken out of q(x | z), and each draw's own factor is put in its place. Nothing is optimised; every row uses the same
noise, so smooth paths stay smooth. The same weights train the model (`gdm_core.models.mixture.model`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gdm_core.maths.gaussian import GaussianPath
from gdm_core.maths.gru import starts_anew
from gdm_core.maths.relaxed import log_sample, moments
from gdm_core.maths.rows import Rows, shift
from gdm_core.models.gdm.readout import even_points
from gdm_core.models.mixture.module import Drive, MixtureModule, precision_blocks

_SWEEPS = 3
_DRAWS = 64
_CHUNK_ROWS = 4_000
# The noise of x is learned while z is a broad draw of q, whose breadth it takes for its own. Here doubt about z is
# counted apart, and half of the learned deviation recovers states best (soft and standard tracks, docs/recurrent.md).
_OWN_SHARE = 0.5
_VAGUE = 1e-4  # precision that stands in for a direction of which nothing is known


class Belief(NamedTuple):
    """What is held of the soft states."""

    states: Tensor  # [R, K] mean of z
    spread: Tensor  # [R, D] variance that doubt about z_t adds to the step into x_t


class Smoothed(NamedTuple):
    """Moments of the path under one belief of the states."""

    mean: Tensor  # [R, D]
    variance: Tensor  # [R, D, D]
    lagged: Tensor  # [R, D, D] Cov(x_t, x_{t-1})
    drive: Drive


class Cavity(NamedTuple):
    """What all rows but the step from t - 1 to t say about its two ends."""

    before: Tensor  # [R, D] of x_{t-1}
    before_covariance: Tensor  # [R, D, D]
    here: Tensor  # [R, D] of x_t
    here_covariance: Tensor  # [R, D, D]


@torch.no_grad()
def smoothed(module: MixtureModule, rows: Rows, belief: Belief) -> Smoothed:
    """Moments of q(x | z) with doubt about z counted as noise of x."""
    drive = module.drive(belief.states[None], rows)
    drive = drive._replace(precision=1 / (_OWN_SHARE**2 / drive.precision + belief.spread))
    blocks = precision_blocks(drive, module.information(rows))
    path = GaussianPath(*(part.numpy(force=True) for part in blocks))
    variance, lagged = path.covariances
    mean, own, lags = (torch.as_tensor(part).to(rows.y) for part in (path.mean, variance, lagged))
    return Smoothed(mean, own, lags, drive)


@torch.no_grad()
def cavities(rows: Rows, found: Smoothed) -> Cavity:
    """Take the factor of every row out of the joint Gaussian of its two ends."""
    d = found.mean.shape[-1]
    before = shift(found.variance.flatten(1), 1).reshape(found.variance.shape)
    pair = torch.cat(
        [torch.cat([before, found.lagged.transpose(1, 2)], 2), torch.cat([found.lagged, found.variance], 2)], 1
    )  # [R, 2 D, 2 D]
    mean = torch.cat([shift(found.mean, 1), found.mean], -1)
    # A row without a predecessor is tied to none: any Gaussian may stand in for it.
    lone = torch.block_diag(torch.eye(d), torch.zeros(d, d)).to(pair)
    tied = (~starts_anew(rows)).to(pair)[:, None, None]
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
    """[S, R] log N(here; A before + b, A P A' + Q + P'): how well each draw's step joins the two ends."""
    d = drive.offset.shape[-1]
    matrix = drive.matrix.reshape(n_samples, -1, d, d)
    spread = matrix @ cavity.before_covariance @ matrix.transpose(-1, -2) + cavity.here_covariance
    spread = spread + torch.diag_embed((1 / drive.precision).reshape(n_samples, -1, d))
    missed = cavity.here - (matrix @ cavity.before[..., None])[..., 0] - drive.offset.reshape(n_samples, -1, d)
    factor = torch.linalg.cholesky(spread)
    white = torch.linalg.solve_triangular(factor, missed[..., None], upper=False)[..., 0]
    return -0.5 * white.square().sum(-1) - torch.diagonal(factor, dim1=-2, dim2=-1).log().sum(-1)


def log_ratio(prior: Tensor, posterior: Tensor, noise: Tensor) -> Tensor:
    """[S, R] log p(z) / q(z) at the draws of q that this noise makes."""
    delta = prior - posterior
    k = delta.shape[-1]
    return delta.sum(-1) - k * (torch.logsumexp(delta - noise, -1) - torch.logsumexp(-noise, -1))


@lru_cache(maxsize=16)
def _even_noise(k: int) -> Tensor:
    """[S, K] Gumbel noise from a low-discrepancy sequence."""
    return torch.as_tensor(-np.log(-np.log(np.clip(even_points(_DRAWS, k).numpy(), 1e-9, 1 - 1e-9))))


@torch.no_grad()
def weigh(module: MixtureModule, rows: Rows, posterior: Tensor, belief: Belief | None, temperature: float) -> Belief:
    """One sweep: a better belief, judged by the path and the cavities of the one before. Without one, q's own."""
    if belief is None:
        cavity, prior, x = None, posterior, module.projected(rows)
    else:
        found = smoothed(module, rows, belief)
        cavity = cavities(rows, found)
        prior = module.prior_logits(found.mean[None], belief.states[None], rows)[0]
        x = found.mean
    noise = _even_noise(module.n_states)[:, module.roles()].to(module.dynamics)[:, None]
    new, before = starts_anew(rows), shift(x, 1)
    parts = []
    for begin in range(0, len(rows), _CHUNK_ROWS):
        part = slice(begin, begin + _CHUNK_ROWS)
        here = rows.piece(begin, min(begin + _CHUNK_ROWS, len(rows)))
        z = log_sample(posterior[part], temperature, noise).exp()
        drive = module.drive(z, here, new[part])
        drive = drive._replace(precision=drive.precision / _OWN_SHARE**2)
        weight = torch.full(z.shape[:2], 1 / _DRAWS, dtype=z.dtype, device=z.device)
        if cavity is not None:
            carry = log_carry(Cavity(*(end[part] for end in cavity)), drive, _DRAWS)
            weight = torch.softmax(carry + log_ratio(prior[part], posterior[part], noise), 0)
        step = (drive.matrix.reshape(*z.shape[:2], *drive.matrix.shape[1:]) @ before[part, :, None])[..., 0]
        step = step + drive.offset.reshape(step.shape)
        mean = torch.einsum("sr,srd->rd", weight, step)
        spread = torch.einsum("sr,srd->rd", weight, (step - mean).square())
        parts.append(Belief(torch.einsum("sr,srk->rk", weight, z), spread))
    return Belief(*(torch.cat(each) for each in zip(*parts, strict=True)))


@torch.no_grad()
def weighed_states(module: MixtureModule, rows: Rows, temperature: float) -> Tensor:
    """[R, K] posterior mean of the soft states under the model, with q as the proposal.

    Where x has no noise of its own there is no Gaussian to weigh by, and q's own mean is the answer.
    """
    posterior = module.posterior_logits(rows)
    if module.deterministic:
        return moments(posterior, temperature).mean
    return settled_belief(module, rows, posterior, temperature, _SWEEPS).states


def settled_belief(module: MixtureModule, rows: Rows, posterior: Tensor, temperature: float, sweeps: int) -> Belief:
    """What is held of the states after so many sweeps."""
    belief = None
    for _ in range(sweeps + 1):
        belief = weigh(module, rows, posterior, belief, temperature)
    assert belief is not None
    return belief
