"""Gaussians over whole latent paths as one differentiable step: banded LAPACK does the work, moments are the gradient.

With J = L L' block tridiagonal, everything below is a handful of banded solves; there is no loop over samples, and
the backward pass costs as little as the forward one. Values are float64 on the CPU, whatever the device asked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.linalg import lapack
from torch import Tensor

from gdm_core.maths.gaussian import GaussianPath


class Path(NamedTuple):
    """A Gaussian over paths with precision blocks J and linear term h, and one draw from it."""

    mean: Tensor  # [R, D] J^-1 h
    draw: Tensor  # [R, D]
    log_determinant: Tensor  # [] of J


class _Solve(torch.autograd.Function):
    """(J^-1 h, J^-1 (h + e), log |J|). The second is a draw wherever e ~ N(0, J)."""

    @staticmethod
    def forward(
        ctx: Any, diagonal: Tensor, below: Tensor, linear: Tensor, noise: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        path = GaussianPath(*(part.detach().double().numpy(force=True) for part in (diagonal, below, linear)))
        both = np.stack([path.linear, path.linear + noise.detach().double().numpy(force=True)], -1)  # [R, D, 2]
        solved = _solve(path, both)
        ctx.path, ctx.solved, ctx.like = path, solved, linear
        return (
            torch.as_tensor(solved[..., 0]).to(linear),
            torch.as_tensor(solved[..., 1]).to(linear),
            torch.tensor(path.log_determinant, dtype=linear.dtype, device=linear.device),
        )

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        of_mean, of_draw, of_determinant = (part.double().numpy(force=True) for part in upstream)
        pulled = _solve(ctx.path, np.stack([of_mean, of_draw], -1))  # [R, D, 2]
        solved = ctx.solved
        diagonal = -pulled @ np.swapaxes(solved, 1, 2)
        below = np.zeros_like(diagonal)
        below[1:] = -pulled[1:] @ np.swapaxes(solved[:-1], 1, 2) - solved[1:] @ np.swapaxes(pulled[:-1], 1, 2)
        if of_determinant != 0:
            variance, lagged = ctx.path.covariances
            diagonal += of_determinant * variance
            below += 2 * of_determinant * lagged
        diagonal = (diagonal + np.swapaxes(diagonal, 1, 2)) / 2
        linear = pulled.sum(-1)
        return tuple(torch.as_tensor(part).to(ctx.like) for part in (diagonal, below, linear, pulled[..., 1]))  # type: ignore[return-value]


def _solve(path: GaussianPath, right: np.ndarray) -> np.ndarray:
    """J^-1 of right-hand sides [R, D, M]."""
    solution, info = lapack.dpbtrs(path.factor, right.reshape(-1, right.shape[-1]), lower=1)
    assert info == 0
    result: np.ndarray = solution.reshape(right.shape)
    return result


def solve_path(diagonal: Tensor, below: Tensor, linear: Tensor, noise: Tensor | None = None) -> Path:
    """The Gaussian with precision blocks [R, D, D] and linear term [R, D]; `noise` ~ N(0, J) makes the draw."""
    return Path(*_Solve.apply(diagonal, below, linear, torch.zeros_like(linear) if noise is None else noise))
