"""Linear factor model with a random-walk path, a fast estimate of missing entries.

x_t = x_{t-1} + N(0, diag(step))        y_t ~ N(C x_t + d, diag(R))
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdm_core.arrays import Bool, Float, Values
from gdm_core.compiled import as_floats, switching
from gdm_core.maths.emission import Emission, Observed, regress_emission
from gdm_core.maths.gaps import interpolate_gaps
from gdm_core.maths.gaussian import GaussianPath, add_steps

_EM_ITERATIONS = 10
_FIT_SAMPLES = 20_000
MIN_NOISE, _MIN_STEP = 1e-4, 1e-6
_START_PRECISION = 1e-2


@dataclass(frozen=True, eq=False)
class FactorModel(Emission):
    """Fitted factor model of standardised observations."""

    step: Float  # [D]

    @classmethod
    def fit(cls, ys: list[Values], n_factors: int) -> FactorModel:
        """Fit to recordings [T, N] with NaN where missing, by EM where entries are missing."""
        observed = Observed.prepare(ys).excerpt(_FIT_SAMPLES)
        filled = np.concatenate([interpolate_gaps(part) for part in observed.split()])
        model = cls._from_complete(filled, observed.starts, min(n_factors, filled.shape[1]))
        if observed.mask is not None:
            for _ in range(_EM_ITERATIONS):
                model = model._update(observed)
        return model

    @classmethod
    def _from_complete(cls, y: Float, starts: Bool, d: int) -> FactorModel:
        offset = y.mean(axis=0)
        values, vectors = np.linalg.eigh((y - offset).T @ (y - offset) / len(y))
        loadings = vectors[:, ::-1][:, :d] * np.sqrt(np.maximum(values[::-1][:d], 1e-12))
        x = (y - offset) @ np.linalg.pinv(loadings).T
        noise = np.maximum(((y - offset - x @ loadings.T) ** 2).mean(axis=0), MIN_NOISE)
        steps = np.diff(x, axis=0)[~starts[1:]]
        step = (steps**2).mean(axis=0) if len(steps) else np.ones(d)
        return cls(loadings, offset, noise, np.maximum(step, _MIN_STEP))

    def rescale(self, center: Float, scale: Float) -> FactorModel:
        """Return the model of (y - center) / scale."""
        return FactorModel(
            self.loadings / scale[:, None], (self.offset - center) / scale, self.noise / scale**2, self.step
        )

    def _update(self, observed: Observed) -> FactorModel:
        """Run one EM iteration."""
        path = self._path(observed)
        emission = regress_emission(observed, path.mean, path.variance)
        squares = path.step_squares(observed.starts)
        step = squares.mean(axis=0) if len(squares) else self.step
        return FactorModel(**vars(emission), step=np.maximum(step, _MIN_STEP))

    def _path(self, observed: Observed) -> GaussianPath:
        """Return the posterior of the path over the concatenated recordings."""
        precision, linear = self.information(observed)
        below = np.zeros_like(precision)
        precision[observed.starts] += _START_PRECISION * np.eye(len(self.step))
        add_steps(precision, below, ~observed.starts[:, None] / self.step)
        return GaussianPath(precision, below, linear)

    def smooth(self, y: Values) -> tuple[Float, Float]:
        """Return y [T, N] with missing entries filled, and the standard deviation of each entry (0 where observed)."""
        observed = Observed.prepare([y])
        if observed.mask is None:
            return observed.y, np.zeros_like(observed.y)
        path = self._path(observed)
        variance = np.einsum("nd,tde,ne->tn", self.loadings, path.variance, self.loadings) + self.noise
        return self._complete(observed, path.mean), np.where(observed.mask == 0, np.sqrt(variance), 0.0)

    def fill(self, y: Values) -> Float:
        """Return y [T, N] with missing entries estimated from the whole recording."""
        observed = Observed.prepare([y])
        return observed.y if observed.mask is None else self._complete(observed, self._path(observed).mean)

    def _complete(self, observed: Observed, x: Float) -> Float:
        return np.where(observed.mask == 0, self.mean(x), observed.y)

    def fill_causally(self, y: Values) -> Float:
        """Return y [T, N] with missing entries estimated from past and present observations only."""
        return self.filter(y, *self.filter_start())[2] if np.isnan(y).any() else y.astype(np.float64)

    def inputs(self, y: Values) -> Float:
        """Return the least-squares factors of complete samples y [T, N] and a constant: [T, D + 1]."""
        x = (y - self.offset) @ np.linalg.pinv(self.loadings).T
        return np.concatenate([x, np.ones((len(x), 1))], axis=1)

    def filter_start(self) -> tuple[Float, Float]:
        """Return the mean [D] and covariance [D, D] of the path before the first sample."""
        d = len(self.step)
        return np.zeros(d), np.eye(d) / _START_PRECISION - np.diag(self.step)

    def filter(self, y: Values, mean: Float, covariance: Float) -> tuple[Float, Float, Float]:
        """Return the filtered mean and covariance after samples y [T, N], and y filled from the past."""
        observed, d = Observed.prepare([y]), len(self.step)
        step, one = np.diag(self.step), np.zeros((1, 1))
        first = one[0], as_floats(mean[None]), as_floats(covariance[None] + step)
        walk = one, np.zeros((1, d)), np.eye(d, d + 1)[None], step[None]
        # One state, so the filter is that of Kalman.
        found = switching.filter_path(np.arange(len(y)), *self.information(observed), first, walk)
        means, covariances = found[1][:, 0], found[2][:, 0]
        filled = observed.y if observed.mask is None else self._complete(observed, means)
        return means[-1], covariances[-1], filled
