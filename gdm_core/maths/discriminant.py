"""Linear discriminants: closed-form first logits for transitions and posteriors."""

from __future__ import annotations

import torch
from torch import Tensor


def discriminant(features: Tensor, member: Tensor) -> tuple[Tensor, Tensor]:
    """Weights [F, K] and bias [K] of the linear discriminant of one-hot (or soft) membership [R, K]."""
    count = member.sum(0).clamp_min(1e-3)  # [K]
    center = (member.T @ features) / count[:, None]  # [K, F]
    residual = features - member @ center
    within = residual.T @ residual / len(features)
    scale = within.diagonal().mean().clamp_min(1e-6)
    within = within + 1e-2 * scale * torch.eye(within.shape[0], dtype=within.dtype, device=within.device)
    weight = torch.linalg.solve(within, center.T)  # [F, K]
    bias = (count / count.sum()).log() - 0.5 * (center.T * weight).sum(0)
    return weight, bias - bias.mean()
