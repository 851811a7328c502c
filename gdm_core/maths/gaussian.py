"""Gaussians over paths whose precision is block tridiagonal: x [T, D] with density proportional to
exp(-1/2 x' J x + h' x).

J has diagonal blocks [T, D, D] and blocks below them [T, D, D]: `below[t]` couples sample t to sample t - 1, so
`below[0]` is zero, and a zero block separates two concatenated trials.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gdm_core.arrays import Bool, Float
from gdm_core.compiled import as_floats, gaussians
from gdm_core.errors import FitError

LOG_2PI = float(np.log(2 * np.pi))


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
    def factor(self) -> tuple[Float, Float]:
        """Blocks [T, D, D] of the lower Cholesky factor of J: on its diagonal, and left of it."""
        lower, left, positive = gaussians.factorise(*map(as_floats, (self.diagonal, self.below)))
        if not positive:
            raise FitError("The posterior of the latent path has no positive precision.")
        return lower, left

    @cached_property
    def mean(self) -> Float:
        """Mean [T, D]."""
        return self.solve(self.linear[..., None])[..., 0]

    def solve(self, right: Float) -> Float:
        """Return J^-1 times right-hand sides [T, D, M]."""
        return gaussians.solve(*self.factor, as_floats(right))

    @cached_property
    def log_determinant(self) -> float:
        """Log-determinant of the precision."""
        return 2.0 * float(np.log(np.diagonal(self.factor[0], axis1=1, axis2=2)).sum())

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
        """Var(x_t) [T, D, D], and Cov(x_t, x_{t-1}) [T, D, D] with a zero first block."""
        return gaussians.covariances(*self.factor)

    def step_squares(self, starts: Bool, carry: Float | float = 1.0, level: Float | float = 0.0) -> Float:
        """Return E[(x_t - carry x_{t-1} - level)^2] [T - starts, D] of every dimension by itself."""
        own, both = (np.diagonal(part, axis1=1, axis2=2) for part in self.covariances)
        gap = self.mean[1:] - carry * self.mean[:-1] - level
        spread = own[1:] + carry**2 * own[:-1] - 2 * carry * both[1:]
        return np.asarray((gap**2 + np.maximum(spread, 0.0))[~starts[1:]])

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


def add_steps(diagonal: Float, below: Float, precision: Float, carry: Float | float = 1.0) -> None:
    """Add steps x_t ~ N(carry x_{t-1}, 1 / precision) of each dimension to blocks of J; `precision` [T, D] is 0 at starts."""
    own = np.arange(precision.shape[1])
    diagonal[:, own, own] += precision
    diagonal[:-1, own, own] += carry**2 * precision[1:]
    below[:, own, own] -= carry * precision


def add_joint_steps(diagonal: Float, below: Float, linear: Float, forms: Float) -> None:
    """Add quadratic forms [T, M, M] in [x_t, x_{t-1}, 1] to blocks of J and h, where x has M // 2 dimensions."""
    d = forms.shape[1] // 2
    diagonal += forms[:, :d, :d]
    diagonal[:-1] += forms[1:, d : 2 * d, d : 2 * d]
    below += forms[:, :d, d : 2 * d]
    linear -= forms[:, :d, -1]
    linear[:-1] -= forms[1:, d : 2 * d, -1]


def products(left: Float, right: Float) -> Float:
    """Multiply small matrices [A, B, T] and [B, C, T] with time last, up to eight times faster than numpy."""
    result: Float = left[:, 0, None] * right[0]
    for inner in range(1, len(right)):
        result += left[:, inner, None] * right[inner]
    return result
