"""Exact evidence and ELBO of a GDM with two states and two samples, on a grid."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from gdm_core.maths.relaxed import log_density
from gdm_core.maths.rows import Rows
from gdm_core.models.gdm.module import GdmModule

REACH, POINTS = 30.0, 481


class Exact(NamedTuple):
    evidence: float  # log p(y)
    elbo: float  # E_q[log p(y, z) - log q(z)]
    states: Tensor  # [2, K] posterior mean of z
    mass: float  # log of the prior's total mass on the grid, 0 for a good grid


@torch.no_grad()
def integrate(module: GdmModule, rows: Rows, temperature: float) -> Exact:
    """Integrate over a grid of log(z_1 / z_2) for both samples."""
    assert module.n_states == 2
    assert len(rows) == 2
    grid = torch.linspace(-REACH, REACH, POINTS, dtype=torch.float64)
    log_z = torch.stack([torch.nn.functional.logsigmoid(grid), torch.nn.functional.logsigmoid(-grid)], -1)
    first = log_z[:, None].expand(-1, POINTS, -1).reshape(-1, 2)
    second = log_z.expand(POINTS, -1, -1).reshape(-1, 2)
    pairs = torch.stack([first, second], 1)  # [S, 2, K]
    view = module.view(rows)
    prior = module.prior_logits(view.context, pairs.exp(), rows)
    posterior = module.posterior.logits_given(rows, view.posterior, pairs.exp())
    log_p = log_density(pairs, prior, temperature).sum(-1)
    log_q = log_density(pairs, posterior, temperature).sum(-1)
    joint = module.log_likelihood(pairs.exp(), view.design, rows).sum(-1) + log_p
    cell = 2 * math.log(float(grid[1] - grid[0]))
    evidence = float(torch.logsumexp(joint, 0)) + cell
    weights = torch.softmax(joint, 0)
    elbo = float(((log_q + cell).exp() * (joint - log_q)).sum())
    return Exact(
        evidence, elbo, torch.einsum("s,stk->tk", weights, pairs.exp()), float(torch.logsumexp(log_p, 0)) + cell
    )
