"""The paper's recipe as one would first write it, from its equations and torch.distributions: the honest yardstick for
the steps per second of `preset="paper"`."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt
import torch
from torch.distributions import Normal, RelaxedOneHotCategorical


def steps_per_second(y: npt.ArrayLike, n_steps: int, k: int = 4, d: int = 2, n_samples: int = 10) -> float:
    """Optimiser steps per processor second on one trial [T, N]."""
    generator = torch.Generator().manual_seed(0)
    data = torch.tensor(np.asarray(y))
    n = data.shape[1]

    def parameter(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).requires_grad_()

    projection = torch.randn((d, n), generator=generator) * 0.1
    dynamics, offset, first = parameter(k, n, d), parameter(k, n), parameter(k, n)
    weight, bias, gamma, start = parameter(k, d), parameter(k), parameter(1), parameter(k)
    log_variance, q_weight, q_bias = parameter(1, n), parameter(k, n), parameter(k)
    parameters = [dynamics, offset, first, weight, bias, gamma, start, log_variance, q_weight, q_bias]
    optimiser = torch.optim.AdamW(parameters, lr=1e-2, weight_decay=1e-4)
    tau = torch.tensor(0.99)
    started = time.process_time()
    for _ in range(n_steps):
        q = RelaxedOneHotCategorical(tau, logits=(data @ q_weight.T + q_bias).expand(n_samples, -1, -1))
        z = q.rsample()
        x = data @ projection.T
        means = torch.cat([first[:, None], torch.einsum("knd,td->ktn", dynamics, x[:-1]) + offset[:, None]], 1)
        likelihood = Normal(torch.einsum("stk,ktn->stn", z, means), (0.5 * log_variance).exp()).log_prob(data)
        logits = (1 - gamma) * (x[:-1] @ weight.T + bias) + gamma * z[:, :-1]
        prior = RelaxedOneHotCategorical(tau, logits=logits).log_prob(z[:, 1:]).sum(1)
        prior = prior + RelaxedOneHotCategorical(tau, logits=start).log_prob(z[:, 0])
        usage = z.mean((0, 1))
        objective = (likelihood.sum((1, 2)) + prior - q.log_prob(z).sum(1)).mean() - (
            usage * (usage + 1e-8).log()
        ).sum()
        optimiser.zero_grad()
        (-objective).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
    return n_steps / (time.process_time() - started)
