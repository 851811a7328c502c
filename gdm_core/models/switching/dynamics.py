"""Linear dynamics of each state as a weighted Bayesian regression: x = coefficients @ [inputs, 1] + noise.

Under the prior an unused state stays where it is: coefficients near the identity, noise near a small share of the
data's steps. The prior keeps every state's noise positive and is part of the objective of EM.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gdm_core.arrays import Float
from gdm_core.maths.gaussian import LOG_2PI


@dataclass(frozen=True)
class DynamicsPrior:
    """Matrix-normal inverse-Wishart."""

    coefficients: Float  # [D, P]
    strength: float  # of the coefficients, in samples
    scale: Float  # [D, D]
    freedom: float
    floor: Float | None = None  # [D, D] least covariance

    @classmethod
    def stay(cls, n_latent: int, lags: int, step_variance: Float, floor: Float | None = None) -> DynamicsPrior:
        """Centre on x_t = x_{t-1}, with noise of a thousandth of the steps' variance [D]."""
        coefficients = np.eye(n_latent, n_latent * lags + 1)
        return cls(coefficients, 1.0, np.diag(1e-3 * step_variance), n_latent + 2.0, floor)


@dataclass(frozen=True)
class Dynamics:
    """Dynamics of K states: x_t ~ N(coefficients[k] @ inputs_t, covariance[k])."""

    coefficients: Float  # [K, D, P]; the last column is the constant
    covariance: Float  # [K, D, D]

    @classmethod
    def fit(cls, moments: Float, prior: DynamicsPrior) -> Dynamics:
        """Return the posterior mode given weighted moments [K, D+P, D+P] of [x, inputs]; the last input is one."""
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
        covariance = (covariance + np.swapaxes(covariance, 1, 2)) / 2
        return cls(coefficients, covariance if prior.floor is None else raise_to(prior.floor, covariance))

    def log_prior(self, prior: DynamicsPrior) -> float:
        d, p = prior.coefficients.shape
        gap = self.coefficients - prior.coefficients
        scatter = prior.strength * gap @ np.swapaxes(gap, 1, 2) + prior.scale
        trace = np.trace(np.linalg.solve(self.covariance, scatter), axis1=1, axis2=2)
        logdet = np.linalg.slogdet(self.covariance)[1]
        return float(-0.5 * ((prior.freedom + d + 1 + p) * logdet + trace).sum())

    def whitener(self) -> tuple[Float, Float]:
        """Return W [K, D, D+P] and log-determinants [K], with W_k [x, inputs] ~ N(0, I) under state k."""
        factor = np.linalg.cholesky(self.covariance)
        d = factor.shape[1]
        inverse = np.linalg.solve(factor, np.broadcast_to(np.eye(d), factor.shape))
        logdet = 2 * np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        return np.concatenate([inverse, -inverse @ self.coefficients], axis=2), logdet

    @cached_property
    def quadratic(self) -> tuple[Float, Float]:
        """W_k' W_k [K, D+P, D+P], and log-determinants [K]."""
        white, logdet = self.whitener()
        return np.swapaxes(white, 1, 2) @ white, logdet

    def log_density(self, joint: Float) -> Float:
        """Return the log-density [T, K] of rows [x, inputs] [T, D+P]."""
        white, logdet = self.whitener()
        k, d, width = white.shape
        errors = (joint @ white.reshape(k * d, width).T).reshape(-1, k, d)
        np.square(errors, out=errors)
        return -0.5 * (errors.sum(axis=2) + logdet + d * LOG_2PI)

    def means(self, inputs: Float) -> Float:
        """Return the mean [T, K, D] of x for inputs [T, P]."""
        k, d, p = self.coefficients.shape
        return (inputs @ self.coefficients.reshape(k * d, p).T).reshape(-1, k, d)


def raise_to(floor: Float, covariances: Float) -> Float:
    """Return covariances [K, D, D] that exceed a floor [D, D] in every direction: the mode under this constraint."""
    factor = np.linalg.cholesky(covariances)
    inverse = np.linalg.inv(factor)
    values, vectors = np.linalg.eigh(inverse @ floor @ np.swapaxes(inverse, 1, 2))
    half = factor @ vectors * np.sqrt(np.maximum(values, 1.0))[:, None, :]
    return np.asarray(half @ np.swapaxes(half, 1, 2))


def weighted_moments(weights: Float, joint: Float) -> Float:
    """Return sums of outer products [K, M, M] of rows [T, M] with weights [T, K]."""
    return np.stack([(joint * weights[:, k, None]).T @ joint for k in range(weights.shape[1])])
