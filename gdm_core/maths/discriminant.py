"""Linear discriminants: closed-form first logits for transitions and posteriors."""

from __future__ import annotations

import torch
from torch import Tensor

MARGIN = 3.0  # nats between the best and the next state of a typical row, at the most


def discriminant(features: Tensor, member: Tensor) -> tuple[Tensor, Tensor]:
    """Weights [F, K] and bias [K] of the linear discriminant of one-hot (or soft) membership [R, K], softened.

    States whose features hardly vary are told apart by thousands of nats. Where two such sets of logits (posterior
    and transitions) disagree, a row costs as much, and no optimiser takes that back in small steps.
    """
    count = member.sum(0).clamp_min(1e-3)  # [K]
    center = (member.T @ features) / count[:, None]  # [K, F]
    residual = features - member @ center
    within = residual.T @ residual / len(features)
    scale = within.diagonal().mean().clamp_min(1e-6)
    within = within + 1e-2 * scale * torch.eye(within.shape[0], dtype=within.dtype, device=within.device)
    weight = torch.linalg.solve(within, center.T)  # [F, K]
    bias = (count / count.sum()).log() - 0.5 * (center.T * weight).sum(0)
    bias = bias - bias.mean()
    if len(bias) < 2:
        return weight, bias
    best = torch.addmm(bias, features, weight).topk(2, dim=1).values
    margin = float((best[:, 0] - best[:, 1]).median())
    soften = min(1.0, MARGIN / max(margin, 1e-6))
    return weight * soften, bias * soften
