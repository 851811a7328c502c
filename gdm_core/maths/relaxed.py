"""The Gumbel-Softmax distribution in log space, with exact divergences and moments.

z = softmax((logits + g) / tau) with standard Gumbel noise g. Densities are on the log-simplex (log z), where they stay
finite in float32 when the density of z underflows. Results do not depend on the order of states.

Divergences and moments are integrals that follow from 1/X = Int exp(-u X) du for a positive sum X. The trapezoid rule in
s = log u converges exponentially. docs/method.md has the derivation.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from gdm_core.arrays import Float

# Quadrature in s: errors of divergences and shares are below 1e-7 (float64) for K up to 64.
_BELOW, _ABOVE = 10.5, 21.0
CHUNK_ELEMENTS = 4_000_000
# Quadrature of moments, in units of max(1, temperature), and its table: errors are below 1e-4 at temperatures 0.01 to 10.
_TABLE_SPACING = 1 / 32
_LOW, _HIGH = -60.0, 12.0
_NODE_SPACING = 0.75
_NODES_BELOW, _NODES_ABOVE = 18.0, 9.0
MOMENT_ELEMENTS = 2_000_000


def gumbel(shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
    """Sample standard Gumbel noise."""
    noise = torch.rand(shape, generator=generator, dtype=dtype, device=generator.device)
    # -log(1 - u) is exponential; in float32, u has steps of 2^-24, and half a step replaces zero.
    noise.neg_().log1p_().neg_().clamp_min_(2**-25)
    return noise.log_().neg_()


def log_sample(logits: Tensor, temperature: float, noise: Tensor) -> Tensor:
    """Return log z [..., K] for the given Gumbel noise, differentiable in the logits."""
    return torch.log_softmax((logits + noise) / temperature, -1)


def log_density(log_z: Tensor, logits: Tensor, temperature: float) -> Tensor:
    """Return the log-density [...] of log z on the log-simplex; on the simplex, subtract sum(log z)."""
    k = logits.shape[-1]
    score = logits - temperature * log_z
    constant = math.lgamma(k) + (k - 1) * math.log(temperature)
    return constant + score.sum(-1) - k * torch.logsumexp(score, -1)


class LogMixture(NamedTuple):
    """E[log sum_k w_k e^{delta_k}] for w uniform on the simplex, with its derivatives."""

    value: Tensor  # [...]
    mean: Tensor  # [..., K] gradient: mean share of each term, sums to 1
    products: Tensor | None  # [..., K, K] mean products of two shares, for the Hessian


def log_mixture(delta: Tensor, with_products: bool = False) -> LogMixture:
    """Compute E[log sum_k w_k e^{delta_k}] = Int (1+e^s)^-K - prod_k (1+e^{s+delta_k})^-1 ds, [..., K]."""
    k = delta.shape[-1]
    flat = delta.reshape(-1, k)  # [R, K]
    # Shift delta to a mean e^delta of one: integrands then begin at -log K and end at e^-s / K for any entries, and
    # the first-order term below the first node cancels.
    center = torch.logsumexp(flat, -1, keepdim=True) - math.log(k)
    flat = flat - center
    spacing = _spacing(k)
    nodes = torch.arange(-_BELOW - math.log(k), _ABOVE, spacing, dtype=delta.dtype, device=delta.device)  # [M]
    weights = torch.full_like(nodes, spacing)
    weights[0] /= 1 - math.exp(-spacing)  # shares fall as e^s below the first node
    twice = torch.full_like(nodes, spacing)
    twice[0] /= 1 - math.exp(-2 * spacing)  # second-order terms fall as e^2s
    reference = torch.exp(-k * softplus(nodes))
    values, means, products = [], [], []
    step = max(1, CHUNK_ELEMENTS // (k * len(nodes)))
    for rows in flat.split(step):
        shifted = nodes[:, None] + rows[:, None, :]  # [r, M, K]
        survival = torch.exp(-softplus(shifted).sum(-1))  # [r, M]
        share = torch.sigmoid(shifted)
        values.append((reference - survival) @ twice)
        means.append(torch.einsum("rmk,rm->rk", share, survival * weights))
        if with_products:
            weighted = share * (survival * twice)[..., None]
            off = torch.einsum("rmi,rmj->rij", weighted, share)
            diagonal = means[-1] - (off.sum(-1) - off.diagonal(dim1=-2, dim2=-1))  # rows of E[p p'] sum to E[p]
            products.append(off.diagonal_scatter(diagonal, dim1=-2, dim2=-1))
    shape = delta.shape[:-1]
    return LogMixture(
        (torch.cat(values) + center[:, 0]).reshape(shape),
        torch.cat(means).reshape(delta.shape),
        torch.cat(products).reshape(*shape, k, k) if with_products else None,
    )


def _spacing(n_states: int) -> float:
    """Return the spacing of the quadrature, which is finer for more states."""
    return 0.78 - 0.08 * math.log(n_states)


class _LogMixture(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, delta: Tensor) -> Tensor:
        result = log_mixture(delta)
        ctx.save_for_backward(result.mean)
        return result.value

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Tensor:
        (mean,) = ctx.saved_tensors
        return upstream[0][..., None] * mean


def gumbel_softmax_kl(posterior_logits: Tensor, prior_logits: Tensor) -> Tensor:
    """Return the exact KL(GS(posterior, tau) || GS(prior, tau)) [...], which does not depend on tau.

    KL = -sum_k delta_k + K E[log sum_k w_k e^{delta_k}], delta = prior - posterior, w uniform on the simplex.

    posterior_logits, prior_logits   [..., K] unnormalised log weights of both distributions
    """
    delta = prior_logits - posterior_logits
    value: Tensor = _LogMixture.apply(delta)
    return -delta.sum(-1) + delta.shape[-1] * value


def sampled_kl(delta: Tensor, log_weights: Tensor) -> Tensor:
    """Return an unbiased one-sample estimate of the exact KL [...]."""
    return -delta.sum(-1) + delta.shape[-1] * torch.logsumexp(delta + log_weights, -1)


def sticky_kl_bound(delta: Tensor, gamma: float, covariance: Tensor) -> Tensor:
    """Return an upper bound [...] on E[KL] if the prior logits contain gamma * z with random z.

    `delta` [..., K] is evaluated at the mean of z. Along any direction v, the second derivative of the log-mixture changes
    by at most a factor exp(range(v)), and range(gamma (z - E z)) <= 2 gamma.
    """
    mixture = log_mixture(delta, with_products=True)
    assert mixture.products is not None
    k = delta.shape[-1]
    hessian = torch.diag_embed(mixture.mean) - mixture.products
    r = 2 * gamma
    factor = (math.exp(r) - 1 - r) / 4 if gamma > 1e-4 else gamma**2 / 2  # gamma^2 (e^r - 1 - r) / r^2
    curvature = (hessian * covariance).sum((-2, -1))
    return -delta.sum(-1) + k * (mixture.value + factor * curvature)


class Moments(NamedTuple):
    mean: Tensor  # [..., K]
    second: Tensor | None  # [..., K, K]

    @property
    def covariance(self) -> Tensor:
        assert self.second is not None
        return self.second - self.mean[..., :, None] * self.mean[..., None, :]

    def slope(self, temperature: float) -> Tensor:
        """Return d mean / d logits [..., K, K]."""
        assert self.second is not None
        return (torch.diag_embed(self.mean) - self.second) / temperature


@lru_cache(maxsize=64)
def _table(temperature: float) -> Float:
    """Return [2, V]: log psi(v) and the hazard -psi'/psi on a grid of v in units of max(1, temperature)."""
    v = np.arange(_LOW, _HIGH + _TABLE_SPACING / 2, _TABLE_SPACING)
    # exp(-e^x) = P(log E > x) for an exponential variable E, so psi(v) = P(T + tau S > v) for two such logarithms S and T.
    # The wider one has a closed form, which leaves a smooth integral over the other.
    t = np.arange(-60.0, 4.5, 0.05)
    log_weight = t - np.exp(t) + np.log(0.05)
    inner = np.exp(v[:, None] - min(temperature, 1 / temperature) * t)
    log_terms = log_weight - inner
    peak = log_terms.max(axis=1, keepdims=True)
    terms = np.exp(log_terms - peak)
    total = terms.sum(axis=1)
    hazard = (terms * inner).sum(axis=1) / total
    return np.stack([peak[:, 0] + np.log(total), hazard])


def moments(logits: Tensor, temperature: float, second: bool = False) -> Moments:
    """Return the exact E[z] (and E[z z']) of z ~ GS(logits, temperature), [..., K].

    With psi(v) = E[exp(-exp((v + g) / tau))] over one Gumbel g,

        E[z_k]     = Int  -psi'(r + logit_k)  prod_{j != k} psi(r + logit_j) dr
        E[z_k z_l] = tau Int  psi'(r + logit_k) psi'(r + logit_l)  prod_{j != k, l} psi(r + logit_j) dr      (k != l)

    With a table of log psi and its slope, both are sums over a fixed grid (docs/method.md).
    """
    k = logits.shape[-1]
    table = torch.as_tensor(_table(round(float(temperature), 6)), dtype=logits.dtype, device=logits.device)
    flat = logits.detach().reshape(-1, k)
    flat = flat - flat.max(-1, keepdim=True).values  # the largest factor determines where the product vanishes
    flat = flat / max(1.0, temperature)  # the width of psi
    nodes = torch.arange(-_NODES_BELOW, _NODES_ABOVE, _NODE_SPACING, dtype=logits.dtype, device=logits.device)
    means, seconds = [], []
    for rows in flat.split(max(1, MOMENT_ELEMENTS // (k * len(nodes)))):
        position = ((nodes[:, None] + rows[:, None, :] - _LOW) / _TABLE_SPACING).clamp_(0, table.shape[1] - 1.001)
        low = position.long()
        weight = position - low
        log_psi = torch.lerp(table[0][low], table[0][low + 1], weight)  # [r, M, K]
        hazard = torch.lerp(table[1][low], table[1][low + 1], weight)
        product = torch.exp(log_psi.sum(-1))  # [r, M]
        weighted = hazard * product[..., None]
        mean = _NODE_SPACING * weighted.sum(1)
        mean = mean / mean.sum(-1, keepdim=True)
        means.append(mean)
        if second:
            off = min(1.0, temperature) * _NODE_SPACING * torch.einsum("rmi,rmj->rij", weighted, hazard)
            diagonal = mean - (off.sum(-1) - off.diagonal(dim1=-2, dim2=-1))  # rows of E[z z'] sum to E[z]
            seconds.append(off.diagonal_scatter(diagonal, dim1=-2, dim2=-1))
    shape = logits.shape
    return Moments(torch.cat(means).reshape(shape), torch.cat(seconds).reshape(*shape, k) if second else None)
