"""Linear Gaussian emission of a latent path, y ~ N(C x + d, diag(R)), with missing entries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gdm_core.arrays import Array, Bool, Float, Values
from gdm_core.maths.gaps import stretches
from gdm_core.maths.gaussian import LOG_2PI

# Emission prior: a weight in samples that shrinks [C, d] to zero, and a bound on small R.
_LOADING_STRENGTH = 1e-3
_NOISE_SHAPE, _NOISE_RATE = 1.0, 1e-6
_KEPT_NOISE = 1_000_000  # numbers


@dataclass(frozen=True)
class Observed:
    """The T samples of all trials, concatenated."""

    y: Float  # [T, N], zero where missing
    mask: Float | None  # [T, N] ones and zeros; None where nothing is missing
    starts: Bool  # [T]
    noise_floor: Float | None = None  # [N] least standard deviations of the noise

    @classmethod
    def prepare(cls, ys: list[Values], noise_floor: Float | None = None) -> Observed:
        y = np.concatenate(ys).astype(np.float64)
        starts = np.zeros(len(y), dtype=bool)
        starts[np.cumsum([0, *(len(one) for one in ys[:-1])])] = True
        known = np.isfinite(y)
        if known.all():
            return cls(y, None, starts, noise_floor)
        return cls(np.where(known, y, 0.0), known.astype(np.float64), starts, noise_floor)

    def split(self) -> list[Float]:
        """Return the trials, with NaN where missing."""
        y = self.y if self.mask is None else np.where(self.mask > 0, self.y, np.nan)
        return np.split(y, np.flatnonzero(self.starts)[1:])

    def excerpt(self, n_samples: int) -> Observed:
        """Return about `n_samples` in evenly spread stretches as separate trials; short data are returned whole."""
        if len(self.y) <= 2 * n_samples:
            return self
        kept = stretches(len(self.y), n_samples)
        starts = self.starts[kept]
        starts[:, 0] = True
        rows = kept.ravel()
        mask = None if self.mask is None else self.mask[rows]
        return Observed(self.y[rows], mask, starts.ravel(), self.noise_floor)

    def raise_noise(self, variance: Float) -> Float:
        """Return variances [N] that are at least the floor."""
        return variance if self.noise_floor is None else np.maximum(variance, self.noise_floor**2)


def draw_noise(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Return standard normal noise; the last array is kept, since every fold of a calibration asks for the same."""
    seed = int(rng.integers(2**62))
    return _noise(seed, shape) if math.prod(shape) <= _KEPT_NOISE else _noise.__wrapped__(seed, shape)


@lru_cache(maxsize=1)
def _noise(seed: int, shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


@dataclass(frozen=True)
class Emission:
    """y ~ N(C x + d, diag(R))."""

    loadings: Float  # C [N, D]
    offset: Float  # d [N]
    noise: Float  # R [N]

    def mean(self, x: Float) -> Float:
        """Return the mean observations [..., N] of latents [..., D]."""
        return x @ self.loadings.T + self.offset

    def sample(self, x: Float, rng: np.random.Generator) -> Array:
        """Sample observations [..., N] of latents [..., D]."""
        noise = draw_noise((*x.shape[:-1], len(self.noise)), rng) * np.sqrt(self.noise).astype(np.float32)
        noise += x.astype(np.float32) @ self.loadings.T.astype(np.float32)
        noise += self.offset.astype(np.float32)
        return noise

    def precision(self, mask: Float) -> Float:
        """Return C' R^-1 C [T, D, D] over the observed channels of each sample."""
        d = self.loadings.shape[1]
        outer = self.loadings[:, :, None] * self.loadings[:, None, :] / self.noise[:, None, None]
        return (mask @ outer.reshape(-1, d * d)).reshape(-1, d, d)

    def information(self, observed: Observed) -> tuple[Float, Float]:
        """Return the likelihood of each latent: precision C' R^-1 C [T, D, D] and linear term C' R^-1 (y - d) [T, D]."""
        weighted = self.loadings / self.noise[:, None]
        if observed.mask is None:
            precision = np.tile(self.loadings.T @ weighted, (len(observed.y), 1, 1))
            return precision, (observed.y - self.offset) @ weighted
        return self.precision(observed.mask), ((observed.y - self.offset) * observed.mask) @ weighted

    def expected_log_density(self, observed: Observed, mean: Float, variance: Float) -> float:
        """Return E[log p(y | x)] for x with the mean [T, D] and variance [T, D, D]."""
        error = observed.y - mean @ self.loadings.T - self.offset
        if observed.mask is None:
            count = np.full(len(self.noise), float(len(error)))
            spread = self.loadings.T @ (self.loadings / self.noise[:, None])
            uncertainty = float((variance.sum(axis=0) * spread).sum())
        else:
            error *= observed.mask
            count = observed.mask.sum(axis=0)
            uncertainty = float((variance * self.precision(observed.mask)).sum())
        size = float((count * (LOG_2PI + np.log(self.noise))).sum())
        return -0.5 * (float((error**2 / self.noise).sum()) + uncertainty + size)

    def log_prior(self) -> float:
        joined = np.concatenate([self.loadings, self.offset[:, None]], axis=1)
        size = joined.shape[1]
        squares = _LOADING_STRENGTH * (joined**2).sum(axis=1) + 2 * _NOISE_RATE
        return float(-0.5 * (squares / self.noise + (size + 2 * _NOISE_SHAPE + 2) * np.log(self.noise)).sum())


def regress_emission(observed: Observed, mean: Float, variance: Float) -> Emission:
    """Return the best emission for a path with the mean [T, D] and variance [T, D, D]."""
    n, d = mean.shape
    joint = np.concatenate([mean, np.ones((n, 1))], axis=1)
    ridge = _LOADING_STRENGTH * np.eye(d + 1)
    across = observed.y.T @ joint  # [N, D + 1]
    if observed.mask is None:
        inside = joint.T @ joint
        inside[:d, :d] += variance.sum(axis=0)
        joined = np.linalg.solve(inside + ridge, across.T).T
        count, uncertainty = np.full(len(across), float(n)), np.broadcast_to(variance.sum(axis=0), (len(across), d, d))
        error = observed.y - joint @ joined.T
    else:
        outer = joint[:, :, None] * joint[:, None, :]
        outer[:, :d, :d] += variance
        insides = (observed.mask.T @ outer.reshape(n, -1)).reshape(-1, d + 1, d + 1)
        joined = np.linalg.solve(insides + ridge, across[:, :, None])[:, :, 0]
        count = observed.mask.sum(axis=0)
        uncertainty = (observed.mask.T @ variance.reshape(n, -1)).reshape(-1, d, d)
        error = (observed.y - joint @ joined.T) * observed.mask
    loadings = joined[:, :d]
    squares = (error**2).sum(axis=0) + ((loadings[:, None, :] @ uncertainty)[:, 0] * loadings).sum(axis=1)
    squares = squares + _LOADING_STRENGTH * (joined**2).sum(axis=1) + 2 * _NOISE_RATE
    noise = squares / (count + d + 1 + 2 * _NOISE_SHAPE + 2)
    return Emission(loadings, joined[:, d], observed.raise_noise(noise))
