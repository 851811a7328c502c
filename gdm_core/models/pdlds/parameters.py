"""What a decomposed linear dynamical system consists of: its parameters, their priors, and posteriors of its two paths.

The model itself stands in `gdm_core.models.pdlds.em`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from gdm_core.maths.emission import Emission
from gdm_core.maths.gaussian import GaussianPath, joint_moments

Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

# Priors, each weak beside a hundred samples; they keep unused operators and vanishing noises away from zero.
OPERATOR_STRENGTH = 1e-2  # the operators' entries, in units of Q
NOISE_FREEDOM = 4.0  # inverse-Wishart of Q
STEP_SHAPE, STEP_RATE = 1.0, 1e-3  # gamma precision of the coefficients' steps
CARRY_STRENGTH = 1.0  # Gaussian on (rho - 1, m)
DRIFT_SHAPE, DRIFT_RATE = 10.0, 1e-6  # inverse-gamma of S: slow beside the dynamics


@dataclass(frozen=True)
class Prior:
    """What the data's scale and the configuration fix before fitting."""

    noise_scale: Float  # [D, D] of the inverse-Wishart prior of Q
    freedom: float  # of the Student-t steps
    carry: float | None  # rho, where it is given and not learned
    constants: bool  # whether operators have constant terms a_k

    def noise_power(self, operators: Float) -> float:
        """The power of 1 / det(Q)^(1/2) in the priors of operators and of Q together."""
        k, d, _ = operators.shape
        return k * (d + int(self.constants)) + NOISE_FREEDOM + d + 1


@dataclass(frozen=True)
class Parameters:
    emission: Emission
    operators: Float  # [K, D, D + 1], rows [A_k, a_k]
    noise: Float  # Q [D, D]
    drift: Float  # S [D] variances, or [0] for a model without b
    carry: Float  # rho [K]
    level: Float  # m [K]
    step: Float  # [K] squared scale of e
    jump: Float  # [K] mean square of e under the posterior, for forecasts

    @property
    def reach(self) -> Float:
        """How the path s reaches y: [D, S], the sum of l and b."""
        eye = np.eye(len(self.noise))
        return np.concatenate([eye, eye], axis=1) if len(self.drift) else eye

    @property
    def whole_emission(self) -> Emission:
        """Of y from the path s, in place of the sum of l and b."""
        return replace(self.emission, loadings=self.emission.loadings @ self.reach)

    def mean_operator(self, c: Float) -> Float:
        """[..., K] coefficients -> [..., D, D + 1] what they add up to."""
        k, d, p = self.operators.shape
        result: Float = (c @ self.operators.reshape(k, d * p)).reshape(*c.shape[:-1], d, p)
        return result

    def oriented(self, c: Float) -> Parameters:
        """The same model with every operator turned to the side that coefficients [T, K] use more."""
        side = np.where(c.mean(axis=0) < 0, -1.0, 1.0)
        return replace(self, operators=self.operators * side[:, None, None], level=self.level * side)

    def log_prior(self, prior: Prior) -> float:
        d = len(self.noise)
        precision = np.linalg.inv(self.noise)
        flat = np.swapaxes(self.operators, 0, 1).reshape(d, -1)
        scatter = OPERATOR_STRENGTH * flat @ flat.T + prior.noise_scale
        power = prior.noise_power(self.operators)
        total = -0.5 * (np.linalg.slogdet(self.noise)[1] * power + (precision * scatter).sum())
        total -= ((STEP_SHAPE + 1) * np.log(self.step) + STEP_RATE / self.step).sum()
        total -= 0.5 * CARRY_STRENGTH * ((self.carry - 1) ** 2 + self.level**2).sum()
        total -= ((DRIFT_SHAPE + 1) * np.log(self.drift) + DRIFT_RATE / self.drift).sum()
        return self.emission.log_prior() + float(total)


@dataclass(frozen=True, eq=False)
class PathPosterior(GaussianPath):
    """q(s), whose first D dimensions are l."""

    n_latent: int

    @cached_property
    def moments(self) -> Float:
        """[T, M, M] of [l_t, l_{t-1}, 1], M = 2D + 1; at a start only the l_t block counts."""
        d = self.n_latent
        return joint_moments(self.mean[:, :d], self.variance[:, :d, :d], self.cross[:, :d, :d])


class CoefficientPosterior(GaussianPath):
    """q(c); c of a start belongs to no step and is under its prior N(0, 1) alone."""

    def squares(self, p: Parameters, starts: Bool) -> Float:
        """[T - starts, K] E[e^2] of every step."""
        mean = self.mean
        inside = ~starts[1:]
        gap = (mean[1:] - p.carry * mean[:-1] - p.level)[inside]
        own = np.diagonal(self.variance, axis1=1, axis2=2)
        both = np.diagonal(self.cross, axis1=1, axis2=2)[1:]
        spread = (own[1:] + p.carry**2 * own[:-1] - 2 * p.carry * both)[inside]
        result: Float = gap**2 + np.maximum(spread, 0.0)
        return result

    def shares(self) -> Float:
        """[T, K] soft states: what each operator has of the expected positive parts of all coefficients."""
        return positive_shares(self.mean, np.sqrt(np.diagonal(self.variance, axis1=1, axis2=2)))

    def second_moments(self) -> Float:
        """[T, K, K]."""
        return self.variance + self.mean[:, :, None] * self.mean[:, None, :]


def positive_shares(mean: Float, deviation: Float) -> Float:
    """[T, K] proportions of E[max(c, 0)] for Gaussian c; equal ones where no coefficient is positive."""
    scaled = mean / np.maximum(deviation, 1e-12)
    density = np.exp(-0.5 * np.minimum(scaled**2, 1e3)) / np.sqrt(2 * np.pi)
    positive = np.maximum(mean * ndtr(scaled) + deviation * density, 0.0) + 1e-12
    result: Float = positive / positive.sum(axis=1, keepdims=True)
    return result


@dataclass(frozen=True)
class Posterior:
    x: PathPosterior
    c: CoefficientPosterior
    elbo: float
