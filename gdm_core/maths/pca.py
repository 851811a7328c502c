"""Probabilistic principal-component scores of observations with missing values.

    weight * (y - center) = basis @ (scale * x) + residual,     residual ~ N(0, residual_variance) across the basis

The weights equalise the residuals of all channels, as in factor analysis, so noisy channels count less. With an
orthonormal `basis`, a density of the scores x gives a density of y. With missing entries, the density is a Gaussian
marginal, which depends on the pattern of missing entries through small D x D matrices only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gdm_core.arrays import Array, Bool, Float, Ints, Values
from gdm_core.maths.emission import draw_noise
from gdm_core.maths.factor import FactorModel
from gdm_core.maths.gaussian import LOG_2PI

_VARIANCE_FLOOR = 1e-8
_ROUNDS = 20  # of balancing
_WEIGHT_RANGE = 100.0  # largest ratio of a channel's noise variance to the typical one


def principal_axes(covariance: Float, weight: Float) -> tuple[Float, Float]:
    """Return eigenvalues in descending order and eigenvectors of the weighted covariance."""
    values, vectors = np.linalg.eigh(covariance * weight[:, None] * weight)
    return np.maximum(values[::-1], 0.0), vectors[:, ::-1]


def can_balance(n_channels: int, n_latent: int) -> bool:
    """Return whether there are enough channels to separate the noise of each from their common factors."""
    return (n_channels - n_latent) ** 2 >= n_channels + n_latent


def balance_channels(covariance: Float, n_latent: int) -> Float:
    """Return weights [N] that equalise the residuals of all channels; ones for too few channels."""
    n_channels = len(covariance)
    weight = np.ones(n_channels)
    if not can_balance(n_channels, n_latent):
        return weight
    for _ in range(_ROUNDS):
        basis = principal_axes(covariance, weight)[1][:, :n_latent]
        across = np.eye(n_channels) - basis @ basis.T
        left = np.einsum("ij,jk,ik->i", across, covariance * weight[:, None] * weight, across)
        # Components absorb part of the noise of channels with large loadings.
        noise = left / np.maximum(np.diagonal(across), 0.1) / weight**2
        level = np.exp(np.log(np.maximum(noise, _VARIANCE_FLOOR)).mean())
        weight = 1.0 / np.sqrt(np.clip(noise, level / _WEIGHT_RANGE, level * _WEIGHT_RANGE) / level)
    return weight


@dataclass(frozen=True)
class ComponentScores:
    """Projection between observations and scores."""

    center: Float  # [N]
    weight: Float  # [N]
    basis: Float  # [N, D] orthonormal columns
    scale: Float  # [D] standard deviation of each score
    residual_variance: float
    step: Float  # [D] variance of the scores' change from one sample to the next

    @classmethod
    def fit(cls, ys: list[Values], n_latent: int, noise_floor: Float | None = None) -> ComponentScores:
        n_channels = ys[0].shape[1]
        factors = FactorModel.fit(ys, n_latent)
        parts = [factors.fill(y) for y in ys]
        filled = np.concatenate(parts)
        center = filled.mean(axis=0)
        covariance = (filled - center).T @ (filled - center) / len(filled)
        if noise_floor is not None:
            covariance = covariance + np.diag(noise_floor**2)
        weight = balance_channels(covariance, n_latent)
        values, vectors = principal_axes(covariance, weight)
        basis = vectors[:, :n_latent]
        largest = np.abs(basis).argmax(axis=0)
        basis = basis * np.where(basis[largest, np.arange(n_latent)] < 0, -1.0, 1.0)
        scale = np.sqrt(np.maximum(values[:n_latent], _VARIANCE_FLOOR))
        rest = n_channels - n_latent
        variance = max(float(values[n_latent:].sum()) / rest, _VARIANCE_FLOOR) if rest else 1.0
        scores = cls(center, weight, np.ascontiguousarray(basis), scale, variance, np.ones(n_latent))
        steps = np.concatenate([np.diff(scores.project(part), axis=0) for part in parts])
        step = np.maximum((steps**2).mean(axis=0), _VARIANCE_FLOOR) if len(steps) else np.ones(n_latent)
        return replace(scores, step=step)

    @property
    def factors(self) -> FactorModel:
        """Factor model of the same projection, to estimate missing entries."""
        noise = self.residual_variance if len(self.center) > len(self.scale) else _VARIANCE_FLOOR
        return FactorModel(self.loadings, self.center, noise / self.weight**2, self.step)

    @property
    def loadings(self) -> Float:
        """Effect [N, D] of the scores on observations."""
        return self.basis * self.scale / self.weight[:, None]

    def project(self, filled: Float) -> Float:
        """Return the scores [T, D] of complete observations [T, N]."""
        return (filled - self.center) @ (self.weight[:, None] * self.basis) / self.scale

    def project_covariance(self, variance: Float) -> Float:
        """Return the covariance [D, D] of the scores of independent channels with `variance` [N]."""
        to_scores = self.weight[:, None] * self.basis / self.scale
        return np.asarray(to_scores.T @ (variance[:, None] * to_scores))

    def expand(self, x: Float) -> Float:
        """Return the observations [..., N] of scores [..., D]."""
        return (x * self.scale) @ self.basis.T / self.weight + self.center

    def log_residual(self, y: Float) -> Float:
        """Return the log-density [T] of complete y [T, N] less that of its scores."""
        centred = (y - self.center) * self.weight
        rest = y.shape[1] - self.basis.shape[1]
        jacobian = np.log(self.weight).sum() - np.log(self.scale).sum()
        if rest == 0:
            return np.full(len(y), jacobian)
        across = centred - (centred @ self.basis) @ self.basis.T
        squares = (across**2).sum(axis=1) / self.residual_variance
        return jacobian - 0.5 * (squares + rest * (LOG_2PI + np.log(self.residual_variance)))

    def sample(self, x: Float, rng: np.random.Generator) -> Array:
        """Sample observations [..., N] of scores [..., D]: `expand(x)`, and noise orthogonal to the basis."""
        basis, weight = self.basis.astype(np.float32), self.weight.astype(np.float32)
        scores = (x * self.scale).astype(np.float32)
        noise: Array | None = None
        if len(basis) > len(self.scale):
            noise = draw_noise((*x.shape[:-1], len(basis)), rng) * np.float32(np.sqrt(self.residual_variance))
            scores -= noise @ basis
        y: Array = scores @ basis.T
        if noise is not None:
            y += noise
        y /= weight
        y += self.center.astype(np.float32)
        return y


@dataclass(frozen=True)
class PartialRows:
    """Sufficient statistics of partly observed rows for a D-dimensional Gaussian."""

    pattern: Ints  # [M] index of the pattern
    gram: Float  # [U, D, D] inner products of the observed rows of the basis
    count: Float  # [U] observed entries
    jacobian: Float  # [U] sum of the observed entries' log-weights
    projected: Float  # [M, D]
    square: Float  # [M]

    @classmethod
    def reduce(cls, y: Float, scores: ComponentScores) -> PartialRows:
        observed = np.isfinite(y)
        patterns, pattern = np.unique(np.packbits(observed, axis=1), axis=0, return_inverse=True)
        kept = np.unpackbits(patterns, axis=1, count=y.shape[1]).astype(np.float64)  # [U, N]
        d = scores.basis.shape[1]
        outer = (scores.basis[:, :, None] * scores.basis[:, None, :]).reshape(-1, d * d)
        centred = np.where(observed, (y - scores.center) * scores.weight, 0.0)
        return cls(
            pattern.reshape(-1),
            (kept @ outer).reshape(-1, d, d),
            kept.sum(axis=1),
            kept @ np.log(scores.weight),
            centred @ scores.basis,
            (centred**2).sum(axis=1),
        )

    def select(self, rows: Bool) -> PartialRows:
        """Return the rows of a mask, with their patterns only."""
        used, pattern = np.unique(self.pattern[rows], return_inverse=True)
        return PartialRows(
            pattern, self.gram[used], self.count[used], self.jacobian[used], self.projected[rows], self.square[rows]
        )

    def condition(self, mean: Float, covariance: Float, scores: ComponentScores) -> tuple[Float, Float, Float]:
        """Condition scores ~ N(mean [M, K, D], covariance [K, D, D]) of each state on the observed entries.

        Returns their log-density [M, K], and the posterior mean [M, K, D] and covariance [M, K, D, D].
        """
        noise, scale = scores.residual_variance, scores.scale
        d = len(scale)
        spread = covariance * scale[:, None] * scale  # [K, D, D]
        gram = self.gram[:, None]  # [U, 1, D, D]
        inner = spread - noise * np.eye(d)
        system = np.eye(d) + inner @ gram / noise  # [U, K, D, D]
        logdet = np.linalg.slogdet(system)[1]
        core = np.linalg.solve(system, np.broadcast_to(inner / noise, system.shape))
        gain = (spread / noise) @ (np.eye(d) - gram @ core)  # [U, K, D, D]
        after = spread - gain @ gram @ spread
        of = self.pattern
        location = mean * scale  # [M, K, D]
        pulled = np.einsum("mde,mke->mkd", self.gram[of], location)
        error = self.projected[:, None] - pulled
        square = self.square[:, None] + (location * (pulled - 2 * self.projected[:, None])).sum(axis=2)
        quadratic = (square - np.einsum("mkd,mkde,mke->mk", error, core[of], error)) / noise
        count = self.count[of][:, None]
        log_density = -0.5 * (quadratic + logdet[of] + count * (LOG_2PI + np.log(noise)))
        log_density += self.jacobian[of][:, None]
        moved = location + np.einsum("mkde,mke->mkd", gain[of], error)
        return log_density, moved / scale, after[of] / (scale[:, None] * scale)
