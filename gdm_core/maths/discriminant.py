"""Linear discriminants: closed-form first logits for transitions and posteriors."""

from __future__ import annotations

import torch
from torch import Tensor

MARGIN = 3.0  # nats between the best and the next state of a typical row, at the most


def discriminant(features: Tensor, member: Tensor, every_state: bool = False) -> tuple[Tensor, Tensor]:
    """Weights [F, K] and bias [K] of the linear discriminant of one-hot (or soft) membership [R, K], softened.

    States whose features hardly vary are told apart by thousands of nats. Where two such sets of logits (posterior
    and transitions) disagree, a row costs as much, and no optimiser takes that back in small steps.

    every_state   keep the best and the worst of K states within K - 1 margins in the typical row of every state, too: a state
                  that is rare is no part of the typical row of all. Where a channel is on or off, as a brake is, one state
                  is known by hundreds of nats
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
    logits = torch.addmm(bias, features, weight)
    top = logits.topk(2, dim=1).values
    soften = min(1.0, MARGIN / max(float((top[:, 0] - top[:, 1]).median()), 1e-6))
    if every_state:
        spread, best = logits.amax(1) - logits.amin(1), logits.argmax(1)
        widest = max(float(spread[best == state].median()) for state in best.unique())
        soften = min(soften, MARGIN * (len(bias) - 1) / max(widest, 1e-6))
    return weight * soften, bias * soften
