"""Linear dynamics of each state as a weighted Bayesian regression: x = coefficients @ [inputs, 1] + noise.

The prior says "a state nobody has seen stays where it is": coefficients near the identity, noise near a small share
of the data's steps. It keeps every state's noise positive, and it is part of the objective, so that EM stays monotone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gdm_core.maths.gaussian import LOG_2PI

Float = npt.NDArray[np.float64]


@dataclass(frozen=True)
class DynamicsPrior:
    """Matrix-normal inverse-Wishart."""

    coefficients: Float  # [D, P]
    strength: float  # how many samples the prior coefficients are worth
    scale: Float  # [D, D]
    freedom: float

    @classmethod
    def stay(cls, n_latent: int, lags: int, step_variance: Float) -> DynamicsPrior:
        """Around x_t = x_{t-1}, with noise of a thousandth of the steps' variance [D]."""
        coefficients = np.eye(n_latent, n_latent * lags + 1)
        return cls(coefficients, 1.0, np.diag(1e-3 * step_variance), n_latent + 2.0)


@dataclass(frozen=True)
class Dynamics:
    """What each of K states does to a latent: x_t ~ N(coefficients[k] @ inputs_t, covariance[k])."""

    coefficients: Float  # [K, D, P], the last column is the constant
    covariance: Float  # [K, D, D]

    @classmethod
    def fitted(cls, moments: Float, prior: DynamicsPrior) -> Dynamics:
        """Posterior mode from weighted moments of [x, inputs], [K, D+P, D+P]; the last input is the constant one."""
        d, p = prior.coefficients.shape
        count = moments[:, -1, -1]
        inside = moments[:, d:, d:] + prior.strength * np.eye(p)
        across = moments[:, :d, d:] + prior.strength * prior.coefficients
        coefficients = np.swapaxes(np.linalg.solve(inside, np.swapaxes(across, 1, 2)), 1, 2)
        # The residual form stays positive where a difference of large moments would not.
        mix = np.concatenate([np.broadcast_to(np.eye(d), (len(count), d, d)), -coefficients], axis=2)
        gap = coefficients - prior.coefficients
        scatter = mix @ moments @ np.swapaxes(mix, 1, 2) + prior.strength * gap @ np.swapaxes(gap, 1, 2) + prior.scale
        covariance = scatter / (count + prior.freedom + d + 1 + p)[:, None, None]
        return cls(coefficients, (covariance + np.swapaxes(covariance, 1, 2)) / 2)

    def log_prior(self, prior: DynamicsPrior) -> float:
        d, p = prior.coefficients.shape
        gap = self.coefficients - prior.coefficients
        scatter = prior.strength * gap @ np.swapaxes(gap, 1, 2) + prior.scale
        trace = np.trace(np.linalg.solve(self.covariance, scatter), axis1=1, axis2=2)
        logdet = np.linalg.slogdet(self.covariance)[1]
        return float(-0.5 * ((prior.freedom + d + 1 + p) * logdet + trace).sum())

    def whitener(self) -> tuple[Float, Float]:
        """(W [K, D, D+P], log-determinants [K]) with W_k [x, inputs] ~ N(0, I) under state k."""
        factor = np.linalg.cholesky(self.covariance)
        d = factor.shape[1]
        inverse = np.linalg.solve(factor, np.broadcast_to(np.eye(d), factor.shape))
        logdet = 2 * np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        return np.concatenate([inverse, -inverse @ self.coefficients], axis=2), logdet

    @cached_property
    def quadratic(self) -> tuple[Float, Float]:
        """(W_k' W_k [K, D+P, D+P], log-determinants [K])."""
        white, logdet = self.whitener()
        return np.swapaxes(white, 1, 2) @ white, logdet

    def log_density(self, joint: Float) -> Float:
        """[T, D+P] rows of [x, inputs] -> [T, K]."""
        white, logdet = self.whitener()
        k, d, width = white.shape
        errors = (joint @ white.reshape(k * d, width).T).reshape(-1, k, d)
        np.square(errors, out=errors)
        result: Float = -0.5 * (errors.sum(axis=2) + logdet + d * LOG_2PI)
        return result

    def means(self, inputs: Float) -> Float:
        """[T, P] -> [T, K, D]."""
        k, d, p = self.coefficients.shape
        return (inputs @ self.coefficients.reshape(k * d, p).T).reshape(-1, k, d)


def weighted_moments(weights: Float, joint: Float) -> Float:
    """[T, K] weights and [T, M] rows -> [K, M, M] weighted sums of outer products."""
    return np.stack([(joint * weights[:, k, None]).T @ joint for k in range(weights.shape[1])])
