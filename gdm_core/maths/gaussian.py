"""Gaussians over paths whose precision is block tridiagonal: x [T, D] with density proportional to
exp(-1/2 x' J x + h' x).

J is held as its diagonal blocks [T, D, D] and the blocks below them [T, D, D], where `below[t]` couples sample t to
sample t - 1 (so `below[0]` is zero, and a zero block separates two trials laid end to end). Factors come from banded
LAPACK, covariances from a tree over time: there is no loop over samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cholesky_banded, lapack

from gdm_core.errors import FitError

Float = npt.NDArray[np.float64]
LOG_2PI = float(np.log(2 * np.pi))


def joint_moments(mean: Float, variance: Float, cross: Float) -> Float:
    """[T, M, M] second moments of [x_t, x_{t-1}, 1], M = 2D + 1; at a start only the x_t block counts.

    cross  [T, D, D] covariance with the sample before
    """
    n, d = mean.shape
    joint = np.ones((n, 2 * d + 1))
    joint[:, :d] = mean
    joint[1:, d : 2 * d] = mean[:-1]
    joint[0, d : 2 * d] = 0.0
    moments = joint[:, :, None] * joint[:, None, :]
    moments[:, :d, :d] += variance
    moments[1:, d : 2 * d, d : 2 * d] += variance[:-1]
    moments[:, :d, d : 2 * d] += cross
    moments[:, d : 2 * d, :d] += np.swapaxes(cross, 1, 2)
    return moments


@dataclass(frozen=True, eq=False)
class GaussianPath:
    """The distribution with precision blocks and linear term h."""

    diagonal: Float  # [T, D, D]
    below: Float  # [T, D, D]
    linear: Float  # [T, D]

    @cached_property
    def factor(self) -> Float:
        """Lower Cholesky factor of J in LAPACK's banded storage [2D, T D]."""
        try:
            factor: Float = cholesky_banded(_banded(self.diagonal, self.below), lower=True, check_finite=False)
        except LinAlgError as error:
            raise FitError(f"The posterior of the latent path has no positive precision ({error}).") from error
        return factor

    @cached_property
    def mean(self) -> Float:
        """[T, D]."""
        solution, info = lapack.dpbtrs(self.factor, self.linear.reshape(-1, 1), lower=1)
        assert info == 0
        result: Float = solution.reshape(self.linear.shape)
        return result

    @cached_property
    def log_determinant(self) -> float:
        """Of the precision."""
        return 2.0 * float(np.log(self.factor[0]).sum())

    @property
    def entropy(self) -> float:
        return 0.5 * (self.linear.size * (1.0 + LOG_2PI) - self.log_determinant)

    @cached_property
    def covariances(self) -> tuple[Float, Float]:
        """Var(x_t) [T, D, D], and Cov(x_t, x_{t-1}) [T, D, D] whose first block is zero.

        With factor blocks L_t (diagonal) and B_t (below L_{t-1}), V_{t-1} = L^-T (I + B_t' V_t B_t) L^-1: an affine
        map of V_t, and affine maps compose, so all of them are found by a tree.
        """
        own, below = _factor_blocks(self.factor, self.linear.shape[1])
        inverse = _lower_inverse(own)
        turned = np.swapaxes(inverse, 1, 2)
        # gain[t] takes the covariance of sample t to that of sample t - 1.
        gain = np.zeros_like(own)
        gain[1:] = turned[:-1] @ np.swapaxes(below[1:], 1, 2)
        offset = turned @ inverse
        variance = _backward_affine(gain, offset)
        return variance, -variance @ np.swapaxes(gain, 1, 2)

    def sample(self, n_paths: int, rng: np.random.Generator) -> Float:
        """[n_paths, T, D]."""
        noise = rng.standard_normal((self.linear.size, n_paths))
        draw, info = lapack.dtbtrs(self.factor, noise, uplo="L", trans="T")
        assert info == 0
        paths: Float = self.mean + draw.T.reshape(n_paths, *self.linear.shape)
        return paths

    def times(self, x: Float) -> Float:
        """J x [T, D]."""
        result: Float = (self.diagonal @ x[:, :, None])[:, :, 0]
        result[1:] += (self.below[1:] @ x[:-1, :, None])[:, :, 0]
        result[:-1] += (np.swapaxes(self.below[1:], 1, 2) @ x[1:, :, None])[:, :, 0]
        return result

    def towards(self, other: GaussianPath, share: float) -> GaussianPath:
        """Natural parameters part of the way to those of `other`."""
        return GaussianPath(
            self.diagonal + share * (other.diagonal - self.diagonal),
            self.below + share * (other.below - self.below),
            self.linear + share * (other.linear - self.linear),
        )


def _banded(diagonal: Float, below: Float) -> Float:
    """LAPACK's lower banded storage: entry (i, j) of J stands at [i - j, j]."""
    n, d, _ = diagonal.shape
    banded = np.zeros((2 * d, n, d))
    for column in range(d):
        for row in range(column, d):
            banded[row - column, :, column] = diagonal[:, row, column]
        for row in range(d):
            banded[d + row - column, :-1, column] = below[1:, row, column]
    return banded.reshape(2 * d, n * d)


def _factor_blocks(factor: Float, d: int) -> tuple[Float, Float]:
    """Lower diagonal blocks [T, D, D] and the blocks below them, at the later sample [T, D, D]."""
    n = factor.shape[1] // d
    banded = factor.reshape(2 * d, n, d)
    own, below = np.zeros((n, d, d)), np.zeros((n, d, d))
    for column in range(d):
        for row in range(column, d):
            own[:, row, column] = banded[row - column, :, column]
        for row in range(d):
            below[1:, row, column] = banded[d + row - column, :-1, column]
    return own, below


def _lower_inverse(lower: Float) -> Float:
    """Inverse of lower triangular blocks [T, D, D], by forward substitution over the D rows."""
    d = lower.shape[1]
    inverse = np.zeros_like(lower)
    for row in range(d):
        scale = 1.0 / lower[:, row, row]
        inverse[:, row, row] = scale
        if row:
            inverse[:, row, :row] = -scale[:, None] * (lower[:, row, None, :row] @ inverse[:, :row, :row])[:, 0]
    return inverse


def _backward_affine(gain: Float, offset: Float) -> Float:
    """V_{t-1} = gain_t V_t gain_t' + offset_{t-1} for all t, from V_{T-1} = offset_{T-1}."""
    if len(offset) == 1:
        return offset.copy()
    # Two maps in a row are one map, so the even samples obey a recursion of their own, half as long.
    step = gain[1::2]
    halfway = offset[::2].copy()
    halfway[: len(step)] += step @ offset[1::2] @ np.swapaxes(step, 1, 2)
    stride = np.zeros_like(halfway)
    stride[1:] = step[: len(halfway) - 1] @ gain[2::2]
    variance = np.empty_like(offset)
    variance[::2] = _backward_affine(stride, halfway)
    back = gain[2::2]
    variance[1::2] = offset[1::2]
    variance[1 : 2 * len(back) : 2] += back @ variance[2::2] @ np.swapaxes(back, 1, 2)
    return variance
