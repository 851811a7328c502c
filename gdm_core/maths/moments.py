"""Exact first and second moments of a Gumbel-Softmax variable: no sampling, the same for any order of states.

With psi(v) = E[exp(-exp((v + g) / tau))] over one Gumbel g,

    E[z_k]     = Int  -psi'(r + logit_k)  prod_{j != k} psi(r + logit_j) dr
    E[z_k z_l] = tau Int  psi'(r + logit_k) psi'(r + logit_l)  prod_{j != k, l} psi(r + logit_j) dr      (k != l)

so one table of log psi and of its slope per temperature turns both into sums over a fixed grid (docs/method.md).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_TABLE_SPACING = 1 / 32
_LOW, _HIGH = -60.0, 12.0
_NODE_SPACING = 0.75
_NODES_BELOW, _NODES_ABOVE = 18.0, 9.0
_CHUNK_ELEMENTS = 2_000_000


class Moments(NamedTuple):
    mean: Tensor  # [..., K]
    second: Tensor | None  # [..., K, K]

    @property
    def covariance(self) -> Tensor:
        assert self.second is not None
        return self.second - self.mean[..., :, None] * self.mean[..., None, :]


@lru_cache(maxsize=64)
def _table(temperature: float) -> npt.NDArray[np.float64]:
    """[2, V] log psi and its hazard -psi'/psi on the table's grid."""
    v = np.arange(_LOW, _HIGH + _TABLE_SPACING / 2, _TABLE_SPACING)
    # exp(-e^x) is the chance that the logarithm of an exponential variable exceeds x, so psi(v) is the chance that
    # T + tau S > v for two such logarithms S and T. The wider of the two integrates in closed form, which leaves an
    # integral over the other, smooth at every tau.
    t = np.arange(-60.0, 4.5, 0.05)
    log_weight = t - np.exp(t) + np.log(0.05)
    rate = min(1.0, 1 / temperature)
    inner = np.exp(rate * v[:, None] - min(temperature, 1 / temperature) * t)
    log_terms = log_weight - inner
    peak = log_terms.max(axis=1, keepdims=True)
    terms = np.exp(log_terms - peak)
    total = terms.sum(axis=1)
    hazard = rate * (terms * inner).sum(axis=1) / total
    return np.stack([peak[:, 0] + np.log(total), hazard])


def moments(logits: Tensor, temperature: float, second: bool = False) -> Moments:
    """Exact E[z] (and E[z z']) for z ~ GS(logits, temperature), [..., K]."""
    k = logits.shape[-1]
    table = torch.as_tensor(_table(round(float(temperature), 6)), dtype=logits.dtype, device=logits.device)
    flat = logits.detach().reshape(-1, k)
    flat = flat - flat.max(-1, keepdim=True).values  # the product vanishes once its largest factor does
    nodes = torch.arange(-_NODES_BELOW, _NODES_ABOVE, _NODE_SPACING, dtype=logits.dtype, device=logits.device)
    means, seconds = [], []
    for rows in flat.split(max(1, _CHUNK_ELEMENTS // (k * len(nodes)))):
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
            off = temperature * _NODE_SPACING * torch.einsum("rmi,rmj->rij", weighted, hazard)
            diagonal = mean - (off.sum(-1) - off.diagonal(dim1=-2, dim2=-1))  # rows of E[z z'] sum to E[z]
            seconds.append(off.diagonal_scatter(diagonal, dim1=-2, dim2=-1))
    shape = logits.shape
    return Moments(torch.cat(means).reshape(shape), torch.cat(seconds).reshape(*shape, k) if second else None)
