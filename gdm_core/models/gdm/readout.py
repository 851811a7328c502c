"""What the model itself says about the soft states, with q as a proposal: tighter bound, better posterior means.

q(z_t | y) must be a Gumbel-Softmax, and at a high temperature no Gumbel-Softmax is narrow except at a corner; the true
posterior often is. So each row draws S candidates from q, and the chain of candidates is a hidden Markov model with S
states per row, whose weights follow from the model's own densities:

    weight of candidate s at t = p(y_t | z^s) / q(z^s) * sum_j p(z^s | z^j_{t-1}) * weight of candidate j at t-1

With noise drawn anew for every row its evidence estimates p(y) without bias, so the expected logarithm is a true lower
bound on log p(y), tighter than the ELBO (S = 1 is the ELBO's estimate). Its smoothed weights give the posterior mean;
for these every row uses the same noise, so smooth data gives smooth states (under stickiness the candidates of
neighbouring rows then resemble each other, and the evidence would be too high). Nothing is optimised, so reading out
a new trial stays amortised. Stickiness carries little from one row to the next, hence the recursions over time are
solved for all rows at once by a few sweeps.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gdm_core.maths.relaxed import log_sample
from gdm_core.maths.rows import Rows, shift
from gdm_core.models.gdm.module import GdmModule, View

_PIECE_ELEMENTS = 2_000_000  # of [S, R, S], held for one piece of rows at a time
_HALO = 24  # rows of overlap; a sweep's error shrinks by more than half per row
_TOLERANCE = 1e-5
_MAX_SWEEPS = 200


class Readout(NamedTuple):
    log_evidence: Tensor  # [R] each row's share of the bound
    states: Tensor | None  # [R, K] posterior mean of z, where it was asked for


def n_candidates(n_rows: int) -> int:
    """Draws per row: more where they are cheap."""
    return 64 if n_rows <= 2_000 else (32 if n_rows <= 5_000 else 16)


@lru_cache(maxsize=16)
def _even_points(n_samples: int, k: int) -> Tensor:
    """[S, K] evenly spread points of the unit cube."""
    from scipy.stats import qmc

    return torch.as_tensor(qmc.Sobol(k, seed=0).random(n_samples))


def _noise(points: Tensor, moved: Tensor, like: Tensor) -> Tensor:
    """[S, R, K] Gumbel noise: the same points [S, K] for every row, moved around the cube by [R, K]."""
    uniform = (points[:, None] + moved) % 1
    return -torch.log(-torch.log(uniform.clamp(1e-9, 1 - 1e-9))).to(like)


@torch.no_grad()
def posterior_states(module: GdmModule, rows: Rows, temperature: float, n_samples: int | None = None) -> Tensor:
    """[R, K] posterior mean of z."""
    states = read_out(module, rows, temperature, n_samples).states
    assert states is not None
    return states


@torch.no_grad()
def log_evidence(
    module: GdmModule, rows: Rows, temperature: float, n_samples: int | None = None, seed: int = 0
) -> Tensor:
    """[R] each row's share of the bound on log p(y)."""
    generator = torch.Generator().manual_seed(seed)
    moved = torch.rand((len(rows), module.n_states), generator=generator, dtype=torch.float64)
    return read_out(module, rows, temperature, n_samples, moved, states=False).log_evidence


@torch.no_grad()
def read_out(
    module: GdmModule,
    rows: Rows,
    temperature: float,
    n_samples: int | None = None,
    moved: Tensor | None = None,
    states: bool = True,
) -> Readout:
    """Both, with noise that is moved by [R, K] from row to row (uniform numbers make the evidence one of a bound);
    without `states` the evidence alone, which looks into the past and not into the future."""
    view = module.view(rows)
    role = module.roles().cpu()
    n_samples = n_samples or n_candidates(len(rows))
    points = _even_points(n_samples, module.n_states)[:, role]
    piece = max(_HALO, _PIECE_ELEMENTS // n_samples**2)
    evidence, means = [], []
    for begin in range(0, len(rows), piece):
        head, tail = max(0, begin - _HALO), min(len(rows), begin + piece + _HALO)
        part_moved = points.new_zeros(1, len(role)) if moved is None else moved[head:tail][:, role]
        noise = _noise(points, part_moved, view.posterior)
        here, look = _cut_rows(rows, head, tail), _cut_view(view, head, tail)
        part = _piece(module, here, look, noise, temperature, begin > 0, states)
        keep = slice(begin - head, min(begin + piece, len(rows)) - head)
        evidence.append(part.log_evidence[keep])
        if part.states is not None:
            means.append(part.states[keep])
    return Readout(torch.cat(evidence), torch.cat(means) if states else None)


def _piece(
    module: GdmModule, rows: Rows, view: View, noise: Tensor, temperature: float, cut: bool, states: bool
) -> Readout:
    """Rows [R] with noise [S, R or 1, K]."""
    n_samples, _, k = noise.shape
    log_z = log_sample(view.posterior, temperature, noise)  # [S, R, K]
    z = log_z.exp()
    delta = module.prior_logits(view.context, z, rows) - view.posterior  # [S_j, R, K] for each candidate before
    top = delta.max(-1, keepdim=True).values
    exponential = torch.exp(-noise)  # [S, R or 1, K]
    mixture = (delta - top).exp_().transpose(0, 1) @ exponential.permute(1, 2, 0)  # [R, S_j, S_s]
    log_mixture = mixture.log_().transpose(0, 1) + top - exponential.sum(-1).log().T
    cross = delta.sum(-1, keepdim=True) - k * log_mixture  # log p(z^s | z^j) / q(z^s)
    cross = cross + module.log_likelihood_of_draws(z, view.design, rows).T  # [S_j, R, S_s]
    scale = cross.amax((0, 2), keepdim=True)
    transfer = (cross - scale).exp_().permute(1, 0, 2) / n_samples  # [R, S_j, S_s]
    linked = (rows.age > 0).to(z.dtype)[:, None]
    even = torch.full((len(rows), n_samples), 1 / n_samples, dtype=z.dtype, device=z.device)

    def forward(weights: Tensor) -> tuple[Tensor, Tensor]:
        before = torch.where(linked > 0, shift(weights, 1), even)
        if cut:
            before[0] = even[0]
        updated = _products(before[:, None], transfer)[:, 0]
        total = updated.sum(-1, keepdim=True)
        return updated / total, total

    def backward(future: Tensor) -> tuple[Tensor, Tensor]:
        message = _products(transfer, future[..., None])[..., 0]
        message = torch.cat([message[1:], torch.ones_like(message[:1])])
        goes_on = torch.cat([linked[1:], torch.zeros_like(linked[:1])])
        message = torch.where(goes_on > 0, message, 1.0)
        return message / message.mean(-1, keepdim=True), message

    weights, total = _settle(forward, even, len(rows))
    evidence = total[:, 0].log() + scale[0, :, 0]
    if not states:
        return Readout(evidence, None)
    future, _ = _settle(backward, torch.ones_like(even), len(rows))
    smoothed = weights * future
    smoothed = smoothed / smoothed.sum(-1, keepdim=True)
    return Readout(evidence, torch.einsum("rs,srk->rk", smoothed, z))


def _products(left: Tensor, right: Tensor) -> Tensor:
    """One product of small matrices a row; torch's takes up to ten times as long on a processor."""
    if left.device.type != "cpu":
        return left @ right
    return torch.from_numpy(np.matmul(left.numpy(), right.numpy()))


def _settle(sweep, value: Tensor, n_rows: int) -> tuple[Tensor, Tensor]:  # type: ignore[no-untyped-def]
    """Repeat a recursion over time for all rows at once until nothing moves; n_rows sweeps are always exact."""
    extra = value
    for _ in range(min(n_rows + 1, _MAX_SWEEPS)):
        updated, extra = sweep(value)
        change = float((updated - value).abs().max())
        value = updated
        if change < _TOLERANCE:
            break
    return value, extra


def _cut_rows(rows: Rows, head: int, tail: int) -> Rows:
    part = slice(head, tail)
    return replace(rows, y=rows.y[part], known=None if rows.known is None else rows.known[part], age=rows.age[part])


def _cut_view(view: View, head: int, tail: int) -> View:
    return View(*(tensor[head:tail] for tensor in view))
