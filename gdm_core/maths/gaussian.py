"""Gaussians over paths whose precision is block tridiagonal: x [T, D] with density proportional to
exp(-1/2 x' J x + h' x).

J has diagonal blocks [T, D, D] and blocks below them [T, D, D]: `below[t]` couples sample t to sample t - 1, so
`below[0]` is zero, and a zero block separates two concatenated trials. Banded LAPACK computes factors, and a tree over
time covariances, without a loop over samples.
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
_FEW = 8  # samples, for which a loop is faster


def joint_moments(mean: Float, variance: Float, cross: Float) -> Float:
    """Return second moments [T, M, M] of [x_t, x_{t-1}, 1], M = 2D + 1, from means and covariances."""
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
    """Gaussian distribution of a path, by precision blocks and linear term h."""

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
        """Mean [T, D]."""
        solution, info = lapack.dpbtrs(self.factor, self.linear.reshape(-1, 1), lower=1)
        assert info == 0
        result: Float = solution.reshape(self.linear.shape)
        return result

    def filtered_mean(self, onward: Float) -> Float:
        """Return the mean [T, D] of each sample given those up to it.

        onward   [T, D, D] what the step to the next sample adds to the precision of each sample
        """
        n, d = self.linear.shape
        own = _time_first(_factor_blocks(self.factor, d)[0])
        eliminated, info = lapack.dtbtrs(self.factor, self.linear.reshape(-1, 1), uplo="L")
        assert info == 0
        precision = own @ own.swapaxes(1, 2) - onward
        return np.asarray(np.linalg.solve(precision, own @ eliminated.reshape(n, d, 1))[..., 0])

    @cached_property
    def log_determinant(self) -> float:
        """Log-determinant of the precision."""
        return 2.0 * float(np.log(self.factor[0]).sum())

    @property
    def entropy(self) -> float:
        return 0.5 * (self.linear.size * (1.0 + LOG_2PI) - self.log_determinant)

    @property
    def variance(self) -> Float:
        """Var(x_t) [T, D, D]."""
        return self.covariances[0]

    @property
    def cross(self) -> Float:
        """Cov(x_t, x_{t-1}) [T, D, D]."""
        return self.covariances[1]

    @cached_property
    def moments(self) -> Float:
        """Second moments [T, M, M] of [x_t, x_{t-1}, 1], M = 2D + 1; only the x_t block is valid at a start."""
        return joint_moments(self.mean, *self.covariances)

    @cached_property
    def covariances(self) -> tuple[Float, Float]:
        """Var(x_t) [T, D, D], and Cov(x_t, x_{t-1}) [T, D, D] with a zero first block.

        With factor blocks L_t (diagonal) and B_t (below L_{t-1}), V_{t-1} = L^-T (I + B_t' V_t B_t) L^-1 is an affine
        map of V_t. Affine maps compose, so a tree computes all of them.
        """
        own, below = _factor_blocks(self.factor, self.linear.shape[1])
        inverse = _lower_inverse(own)
        turned = inverse.swapaxes(0, 1)
        # gain[t] maps the covariance of sample t to that of sample t - 1
        gain = np.zeros_like(own)
        gain[..., 1:] = products(turned[..., :-1], below[..., 1:].swapaxes(0, 1))
        variance = _backward_affine(gain, products(turned, inverse))
        cross = products(variance, gain.swapaxes(0, 1))
        np.negative(cross, out=cross)
        return _time_first(variance), _time_first(cross)

    def times(self, x: Float) -> Float:
        """Return J x [T, D]."""
        result: Float = np.einsum("tij,tj->ti", self.diagonal, x)
        result[1:] += np.einsum("tij,tj->ti", self.below[1:], x[:-1])
        result[:-1] += np.einsum("tij,ti->tj", self.below[1:], x[1:])
        return result

    def recentre(self, mean: Float) -> GaussianPath:
        """Return a path with the same precision and another mean."""
        other = GaussianPath(self.diagonal, self.below, self.times(mean))
        vars(other)["mean"] = mean
        if "factor" in vars(self):
            vars(other)["factor"] = self.factor
        return other

    def move_towards(self, other: GaussianPath, share: float) -> GaussianPath:
        """Interpolate the natural parameters towards those of `other`."""
        return GaussianPath(
            self.diagonal + share * (other.diagonal - self.diagonal),
            self.below + share * (other.below - self.below),
            self.linear + share * (other.linear - self.linear),
        )


def _banded(diagonal: Float, below: Float) -> Float:
    """Return J in LAPACK's lower banded storage: entry (i, j) at [i - j, j]."""
    n, d, _ = diagonal.shape
    banded = np.zeros((2 * d, n, d))
    for column in range(d):
        for row in range(column, d):
            banded[row - column, :, column] = diagonal[:, row, column]
        for row in range(d):
            banded[d + row - column, :-1, column] = below[1:, row, column]
    return banded.reshape(2 * d, n * d)


def products(left: Float, right: Float) -> Float:
    """Multiply small matrices [A, B, T] and [B, C, T] with time last, up to eight times faster than numpy."""
    result: Float = left[:, 0, None] * right[0]
    for inner in range(1, len(right)):
        result += left[:, inner, None] * right[inner]
    return result


def _time_first(values: Float) -> Float:
    """Transpose [A, B, T] to [T, A, B]."""
    return np.ascontiguousarray(values.transpose(2, 0, 1))


def _factor_blocks(factor: Float, d: int) -> tuple[Float, Float]:
    """Return diagonal blocks [D, D, T] and, at the later sample, the blocks below them [D, D, T]."""
    n = factor.shape[1] // d
    banded = factor.reshape(2 * d, n, d)
    own, below = np.zeros((d, d, n)), np.zeros((d, d, n))
    for column in range(d):
        for row in range(column, d):
            own[row, column] = banded[row - column, :, column]
        for row in range(d):
            below[row, column, 1:] = banded[d + row - column, :-1, column]
    return own, below


def _lower_inverse(lower: Float) -> Float:
    """Invert lower triangular blocks [D, D, T] by forward substitution."""
    inverse = np.zeros_like(lower)
    for row in range(len(lower)):
        scale = 1.0 / lower[row, row]
        inverse[row, row] = scale
        if row:
            inverse[row, :row] = -scale * products(lower[row, None, :row], inverse[:row, :row])[0]
    return inverse


def _backward_affine(gain: Float, offset: Float) -> Float:
    """Solve V_{t-1} = gain_t V_t gain_t' + offset_{t-1} for all t [D, D, T], from V_{T-1} = offset_{T-1}."""
    if offset.shape[-1] <= _FEW:
        return _few_backward_affine(*(part.transpose(2, 0, 1) for part in (gain, offset))).transpose(1, 2, 0)
    # Pairs of maps form a recursion of half the length over even samples.
    step = gain[..., 1::2]
    n = step.shape[-1]
    halfway = offset[..., ::2].copy()
    halfway[..., :n] += products(products(step, offset[..., 1::2]), step.swapaxes(0, 1))
    stride = np.zeros_like(halfway)
    back = gain[..., 2::2]
    stride[..., 1:] = products(step[..., : halfway.shape[-1] - 1], back)
    variance = np.empty_like(offset)
    variance[..., ::2] = _backward_affine(stride, halfway)
    variance[..., 1::2] = offset[..., 1::2]
    m = back.shape[-1]
    variance[..., 1 : 2 * m : 2] += products(products(back, variance[..., 2::2]), back.swapaxes(0, 1))
    return variance


def _few_backward_affine(gain: Float, offset: Float) -> Float:
    """Solve the recursion in a loop, [T, D, D]."""
    variance = offset.copy()
    for t in range(len(offset) - 1, 0, -1):
        variance[t - 1] += gain[t] @ variance[t] @ gain[t].T
    return variance
