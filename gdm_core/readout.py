"""Soft states read out with importance weights.

q(z_t | y) must be a Gumbel-Softmax, and at a high temperature no Gumbel-Softmax is narrow except at a corner. The true
posterior often is. Weighing draws of q by the model (self-normalised importance sampling, amortised, no optimisation)
moves the posterior mean to where the model wants it. Every row uses the same draws, so a smooth path stays smooth.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from gdm_core.generative import GdmModule, View
from gdm_core.moments import moments
from gdm_core.relaxed import log_sample
from gdm_core.rows import Rows, shift

_CHUNK_ELEMENTS = 3_000_000
_SWEEPS = 2


@lru_cache(maxsize=16)
def _fixed_noise(n_samples: int, k: int) -> Tensor:
    """[S, 1, K] Gumbel noise from a low-discrepancy sequence."""
    from scipy.stats import qmc

    uniform = qmc.Sobol(k, seed=0).random(n_samples)
    return torch.as_tensor(-np.log(-np.log(np.clip(uniform, 1e-9, 1 - 1e-9))), dtype=torch.float32)[:, None, :]


@torch.no_grad()
def corrected_states(module: GdmModule, rows: Rows, temperature: float) -> Tensor:
    """[R, K] posterior mean of the soft states under the model, with q as the proposal."""
    view = module.view(rows)
    if module.posterior.sequential:
        noise = _fixed_noise(64, module.n_states).to(rows.y).expand(-1, len(rows), -1)
        log_z, posterior = module.sample_posterior(view, rows, noise, temperature)
        return _weigh(module, rows, view, slice(None), log_z, posterior, noise, log_z.exp().mean(0), shifted=False)
    k = module.n_states
    noise = _fixed_noise(128 if len(rows) * k <= 16_000 else 32, k).to(rows.y)
    states = moments(view.posterior, temperature).mean
    step = max(1, _CHUNK_ELEMENTS // (len(noise) * (k + rows.y.shape[1])))
    for _ in range(_SWEEPS):  # the weights of a row use the mean of the row before it
        previous = shift(states, 1)
        parts = []
        for begin in range(0, len(rows), step):
            part = slice(begin, begin + step)
            posterior = view.posterior[part]
            log_z = log_sample(posterior, temperature, noise)
            parts.append(_weigh(module, rows, view, part, log_z, posterior, noise, previous[part]))
        states = torch.cat(parts)
    return states


def _weigh(
    module: GdmModule,
    rows: Rows,
    view: View,
    part: slice,
    log_z: Tensor,
    posterior: Tensor,
    noise: Tensor,
    previous: Tensor,
    shifted: bool = True,
) -> Tensor:
    """[r, K] weighted mean of draws [S, r, K] for the rows in `part`."""
    from dataclasses import replace

    here = replace(
        rows,
        y=rows.y[part],
        known=None if rows.known is None else rows.known[part],
        age=rows.age[part],
    )
    before = previous if shifted else shift(previous, 1)
    prior = module.transition.logits(view.context[part], before)
    prior = torch.where((here.age > 0)[:, None], prior, module.initial)
    delta = prior - posterior
    z = log_z.exp()
    log_ratio = delta.sum(-1) - delta.shape[-1] * (torch.logsumexp(delta - noise, -1) - torch.logsumexp(-noise, -1))
    weight = torch.softmax(module.log_likelihood(z, view.design[part], here) + log_ratio, 0)  # [S, r]
    return torch.einsum("sr,srk->rk", weight, z)
