"""Gaussian posterior of missing entries under linear dynamics, from banded systems of equations.

y_t ~ N(S_t F y_{t-1} + c_t, P_t^-1)        for every incomplete sample t and the sample after it
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_solve_banded, cholesky_banded, lapack

from gdm_core.arrays import Bool, Float, Ints
from gdm_core.maths.gaussian import LOG_2PI

_RIDGE = 1e-6


@dataclass(frozen=True, eq=False)
class Steps:
    """Linear dynamics into M samples of one recording.

    rows        [M] indices of the samples
    projection  F [D, N]
    gain        S [M, D, N]
    offset      c [M, N]
    precision   P [M, N, N]
    """

    rows: Ints
    projection: Float
    gain: Float
    offset: Float
    precision: Float

    def residual(self, y: Float) -> Float:
        """Return the prediction errors [M, N] for complete observations y [T, N]."""
        x = y @ self.projection.T
        return np.asarray(
            y[self.rows] - self.offset - np.einsum("md,mdn->mn", x[np.maximum(self.rows - 1, 0)], self.gain)
        )


@dataclass(frozen=True, eq=False)
class MissingEntries:
    """Gaussian posterior of the missing entries of a recording.

    missing  [T, N]
    mean     [U] in the order of `np.flatnonzero(missing)`
    factor   lower Cholesky factor of the precision, in LAPACK's banded storage
    """

    missing: Bool
    mean: Float
    factor: Float

    def fill(self, y: Float, values: Float) -> Float:
        """Return y [T, N] with the missing entries replaced by `values` [U]."""
        filled = y.copy()
        filled[self.missing] = values
        return filled

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Float, Float]:
        """Return n draws [n, U] and their log-densities [n]."""
        noise = rng.standard_normal((len(self.mean), n))
        moved, info = lapack.dtbtrs(self.factor, noise, uplo="L", trans="T")
        assert info == 0
        log_density = np.log(self.factor[0]).sum() - 0.5 * ((noise**2).sum(axis=0) + len(noise) * LOG_2PI)
        return (self.mean[:, None] + moved).T, log_density


def steps_needed(missing: Bool) -> Ints:
    """Return the samples whose dynamics involve missing entries [T, N]."""
    incomplete: Bool = np.asarray(missing.any(axis=1))
    return np.flatnonzero(incomplete | np.append(False, incomplete[:-1]))


def missing_entries(y: Float, missing: Bool, steps: Steps) -> MissingEntries:
    """Return the posterior of the `missing` entries of y [T, N] given the others."""
    n_missing = int(missing.sum())
    number = np.full(y.shape, -1, np.int32)
    number[missing] = np.arange(n_missing)
    weighted = np.einsum("mij,mj->mi", steps.precision, steps.residual(np.where(missing, 0.0, y)))

    # Numbers of the entries [M, N] of each sample and of the one before, -1 if observed. The latter move the residuals.
    own, before = number[steps.rows], np.where((steps.rows > 0)[:, None], number[steps.rows - 1], -1)
    effect = -(steps.projection.T @ steps.gain).swapaxes(1, 2)  # [M, N, N]

    linear = np.zeros(n_missing)
    linear[own[own >= 0]] -= weighted[own >= 0]
    linear[before[before >= 0]] -= np.einsum("mij,mi->mj", effect, weighted)[before >= 0]
    parts = []  # of the lower triangle of the precision: distances from the diagonal, columns, values
    for late, early, block in (
        (own, own, steps.precision),
        (own, before, steps.precision @ effect),
        (before, before, effect.swapaxes(1, 2) @ steps.precision @ effect),
    ):
        below = late[:, :, None] - early[:, None, :]
        at = np.flatnonzero((below >= 0) & (early >= 0)[:, None, :])
        column = np.broadcast_to(early[:, None, :], below.shape).reshape(-1)
        parts.append((below.reshape(-1)[at], column[at], block.reshape(-1)[at]))

    band = max(int(below.max(initial=0)) for below, *_ in parts)
    banded = np.zeros((band + 1, n_missing))
    for below, column, values in parts:  # a part has each pair of entries once
        banded.reshape(-1)[below.astype(np.int64) * n_missing + column] += values
    try:
        factor = cholesky_banded(banded, lower=True, check_finite=False)
    except LinAlgError:  # growing dynamics in a long gap make it numerically singular
        banded[0] *= 1 + _RIDGE
        factor = cholesky_banded(banded, lower=True, check_finite=False)
    return MissingEntries(missing, cho_solve_banded((factor, True), linear, check_finite=False), factor)
