"""Futures of the 3-level mixture, and whole trials from the model alone.

Where a future begins, x is known from the past only: a Kalman filter runs for each of several draws of the states (their
posterior reads nothing later).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gdm_core.maths.relaxed import gumbel, log_sample
from gdm_core.maths.rows import Rows
from gdm_core.maths.side_by_side import run_ups, steps_to
from gdm_core.models.mixture.module import Drive, MixtureModule, SampleInformation

_STATE_DRAWS = 8
_RUN_UP = 48


@torch.no_grad()
def mixture_paths(
    module: MixtureModule,
    rows: Rows,
    origins: npt.NDArray[np.int64],
    horizon: int,
    n_paths: int,
    temperature: float,
    seed: int,
) -> Tensor:
    """[P, O, H, N] futures with observation noise; the path from origin t sees y[..t] only."""
    generator = torch.Generator().manual_seed(seed)
    draws = min(_STATE_DRAWS, n_paths)
    # Row by row, from a generator of its own: later rows then change nothing before them.
    noise = gumbel((len(rows), draws, module.n_states), torch.Generator().manual_seed(seed + 1), rows.y.dtype)
    noise = noise.transpose(0, 1)
    states = log_sample(module.posterior_logits(rows), temperature, noise).exp()  # [S, R, K]
    mean, covariance = filtered(module.drive(states, rows), module.information(rows), origins, draws)  # [S, O, D(, D)]
    which = torch.arange(n_paths) % draws
    root = torch.linalg.cholesky(covariance + 1e-12 * torch.eye(module.n_latent, dtype=mean.dtype))
    z = states[:, torch.as_tensor(origins)][which]  # [P, O, K]
    normal = _normal((*z.shape[:-1], module.n_latent), generator)
    x = mean[which] + (root[which] @ normal[..., None])[..., 0]
    steps = []
    for _ in range(horizon):
        z, x = _advance(module, z, x, temperature, generator)
        steps.append(_emit(module, x, generator))
    return torch.stack(steps, 2)


def filtered(
    drive: Drive, samples: SampleInformation, origins: npt.NDArray[np.int64], draws: int
) -> tuple[Tensor, Tensor]:
    """Mean [S, O, D] and covariance [S, O, D, D] of x at each origin from the rows up to it, for S draws of states."""
    d = drive.offset.shape[-1]
    matrix, offset = drive.matrix.reshape(draws, -1, d, d), drive.offset.reshape(draws, -1, d)
    variance = torch.diag_embed(1 / drive.precision).reshape(draws, -1, d, d)
    first = torch.as_tensor(run_ups(origins, _RUN_UP))
    eye = torch.eye(d, dtype=offset.dtype)
    mean = offset.new_zeros(draws, len(first), d)
    covariance = (100.0 * eye).expand(draws, len(first), d, d)  # of nothing known, where a run-up begins mid-trial
    means, covariances = offset.new_zeros(draws, len(origins), d), offset.new_zeros(draws, len(origins), d, d)
    for step, seen in enumerate(steps_to(origins, _RUN_UP)):
        now, here, stretch = map(torch.as_tensor, seen)
        a = matrix[:, now]
        if step == 0:
            begins = (first == 0)[:, None]
            mean = torch.where(begins, offset[:, now], mean)
            covariance = torch.where(begins[..., None], variance[:, now], covariance)
        else:
            mean = (a @ mean[..., None])[..., 0] + offset[:, now]
            covariance = a @ covariance @ a.transpose(-1, -2) + variance[:, now]
        information = samples.information[now]
        covariance = torch.linalg.solve(eye + covariance @ information, covariance)
        covariance = (covariance + covariance.transpose(-1, -2)) / 2
        surprise = samples.linear[now] - (information @ mean[..., None])[..., 0]
        mean = mean + (covariance @ surprise[..., None])[..., 0]
        means[:, here], covariances[:, here] = mean[:, stretch], covariance[:, stretch]
    return means, covariances


def _advance(
    module: MixtureModule, z: Tensor, x: Tensor, temperature: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """One step of states [..., K] and latents [..., D]."""
    logits = module.transition.logits(x @ module.transition.weight + module.transition.bias, z)
    z = log_sample(logits, temperature, gumbel(logits.shape, generator, logits.dtype)).exp()
    ready = torch.cat([x, torch.ones_like(x[..., :1]), torch.zeros_like(x[..., :1])], -1)  # [..., D + 2]
    mean = (z[..., :, None] * ready[..., None, :]).flatten(-2) @ module.dynamics.flatten(0, 1)
    return z, mean + module.step_deviation(z) * _normal(x.shape, generator)


def _emit(module: MixtureModule, x: Tensor, generator: torch.Generator) -> Tensor:
    mean = x @ module.emission.T + module.offset
    return mean + _normal(mean.shape, generator) / module.noise_precision().sqrt()


def _normal(shape: tuple[int, ...] | torch.Size, generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


@torch.no_grad()
def mixture_sample(
    module: MixtureModule, n_samples: int, temperature: float, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """(y [T, N], z [T, K], x [T, D]): each sample needs the one before it."""
    generator = torch.Generator().manual_seed(seed)
    noise = gumbel((module.n_states,), generator, torch.float64)
    z = log_sample(module.initial, temperature, noise).exp()
    x = z @ module.dynamics[:, -1] + module.step_deviation(z) * _normal((module.n_latent,), generator)
    zs, xs = [z], [x]
    for _ in range(n_samples - 1):
        z, x = _advance(module, z, x, temperature, generator)
        zs.append(z)
        xs.append(x)
    path = torch.stack(xs)
    return _emit(module, path, generator), torch.stack(zs), path
