"""Permutation tests of many columns of values at once.

Nuisance effects (strata, covariates) are projected out, residuals are permuted within strata, and nuisance effects are
projected out again before each statistic (Freedman and Lane 1983). Without covariates this is the plain permutation test;
with pairs as strata it is the sign-flip test.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_CHUNK = 4_000_000  # numbers in memory at a time
_TIE = 1e-9  # relative; permutations that differ by rounding are ties


def orders(strata: Ints, n_permutations: int, seed: int, width: int = 1) -> Iterator[Ints]:
    """Yield chunks [P', n] of random orders of n units within strata, `n_permutations` in total."""
    rng = np.random.default_rng(seed)
    n = len(strata)
    base = np.argsort(strata, kind="stable")
    step = max(1, min(n_permutations, _CHUNK // max(1, n * width)))
    for done in range(0, n_permutations, step):
        keys = strata + rng.random((min(step, n_permutations - done), n))
        found = np.empty(keys.shape, np.int64)
        found[:, base] = np.argsort(keys, axis=1)
        yield found


def centre(values: Floats, strata: Ints) -> Floats:
    """Subtract the mean of its stratum from each value [n, m]."""
    _, codes = np.unique(strata, return_inverse=True)
    sums = np.zeros((codes.max() + 1, values.shape[1]))
    np.add.at(sums, codes, values)
    return values - (sums / np.bincount(codes)[:, None])[codes]


def basis(columns: Floats, nuisance: Floats | None = None) -> Floats:
    """Return an orthonormal basis [n, rank] of `columns`, orthogonal to the orthonormal `nuisance`."""
    if nuisance is not None and nuisance.size:
        columns = columns - nuisance @ (nuisance.T @ columns)
    if not columns.size:
        return np.zeros((len(columns), 0))
    left, size, _ = np.linalg.svd(columns, full_matrices=False)
    return left[:, size > 1e-8 * max(1.0, math.sqrt(len(columns)))]


@dataclass(frozen=True, eq=False)
class Model:
    """Linear model of a term, given strata and covariates.

    effect      [n, q] orthonormal columns of the term, orthogonal to the rest
    nuisance    [n, c] orthonormal columns of the covariates, orthogonal to strata
    strata      [n] strata within which units are exchangeable
    df_residual residual degrees of freedom
    """

    effect: Floats
    nuisance: Floats
    strata: Ints
    df_residual: int

    @classmethod
    def from_columns(cls, effect: Floats, covariates: Floats, strata: Ints) -> Model:
        """Build the model from columns that need not be orthogonal."""
        nuisance = basis(centre(covariates, strata)) if covariates.size else np.zeros((len(strata), 0))
        found = basis(centre(effect, strata), nuisance)
        df = len(strata) - len(np.unique(strata)) - nuisance.shape[1] - found.shape[1]
        return cls(found, nuisance, strata, df)

    def residuals(self, values: Floats) -> Floats:
        """Project strata and covariates out of values [n, m]."""
        free = centre(values, self.strata)
        return free - self.nuisance @ (self.nuisance.T @ free)

    def f_statistics(self, explained: Floats, total: Floats) -> Floats:
        """Return F from the explained and total sums of squares."""
        left = np.maximum(total - explained, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((explained / self.effect.shape[1]) / (left / self.df_residual))

    def p_values(self, values: Floats, n_permutations: int, seed: int) -> Floats:
        """Return the share [m] of permutations, this study included, with at least the observed F."""
        free = self.residuals(values)
        total = (free**2).sum(axis=0)
        # F is monotonic in the explained share of squares, which avoids dividing by a zero residual.
        observed = ((self.effect.T @ free) ** 2).sum(axis=0) / np.where(total > 0, total, 1.0)
        joined = np.concatenate([self.nuisance, self.effect], axis=1)  # [n, c + q]
        c, q = self.nuisance.shape[1], joined.shape[1]
        more = np.zeros(free.shape[1])
        for order in orders(self.strata, n_permutations, seed, q * (1 + free.shape[1] // max(1, len(free)))):
            turned = np.moveaxis(joined[order], 1, 2).reshape(-1, len(free)) @ free  # [P' * (c + q), m]
            squares = turned.reshape(len(order), q, -1) ** 2
            left = total - squares[:, :c].sum(axis=1)
            share = squares[:, c:].sum(axis=1) / np.where(left > 0, left, 1.0)
            more += (share >= observed * (1 - _TIE) - _TIE).sum(axis=0)
        return np.where(total > 0, (1 + more) / (1 + n_permutations), 1.0)


def p_of_two(values: Floats, second: npt.NDArray[np.bool_], n_permutations: int, seed: int) -> Floats:
    """Return the two-sided permutation p [m] of Welch's t, for unequal variances."""
    free = values - values.mean(axis=0)
    scale = np.sqrt((free**2).mean(axis=0))
    free = free / np.where(scale > 0, scale, 1.0)
    both = np.concatenate([free, free**2], axis=1)
    n_b, m = int(second.sum()), values.shape[1]
    n_a = len(second) - n_b
    all_squares = (free**2).sum(axis=0)

    def squared_t(inside: Floats) -> Floats:
        """Return t² from the second group's sums and sums of squares [P, 2 m]."""
        sums, squares = inside[:, :m], inside[:, m:]
        mean_a, mean_b = -sums / n_a, sums / n_b
        var_b = np.maximum(squares - n_b * mean_b**2, 0) / (n_b - 1) / n_b
        var_a = np.maximum(all_squares - squares - n_a * mean_a**2, 0) / (n_a - 1) / n_a
        return np.asarray((mean_b - mean_a) ** 2 / np.maximum(var_a + var_b, 1e-12))

    observed = squared_t(second.astype(np.float64)[None] @ both)
    more = np.zeros(m)
    for order in orders(np.zeros(len(second), np.int64), n_permutations, seed, 1 + 2 * m // len(second)):
        more += (squared_t(second[order].astype(np.float64) @ both) >= observed * (1 - _TIE)).sum(axis=0)
    return np.where(scale > 0, (1 + more) / (1 + n_permutations), 1.0)


def correct_holm(p: Floats) -> Floats:
    """Return p values [m] adjusted by Holm's method; NaN stays NaN and does not count."""
    found, rows = p.copy(), np.flatnonzero(np.isfinite(p))
    # statsmodels' multipletests is much slower, as it collects garbage on every call.
    order = rows[np.argsort(p[rows], kind="stable")]
    found[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(rows), 0, -1)), 1.0)
    return found


def smallest_p(levels: Ints, strata: Ints, amounts: Floats | None = None) -> float:
    """Return the smallest possible p: one over the number of distinct arrangements of the units.

    Arrangements that only swap groups of equal size count as one; of a trend over `amounts` [n], those that mirror them.
    """
    logs, per_stratum, is_mirrored = 0.0, [], True
    for stratum in np.unique(strata):
        sizes = Counter(levels[strata == stratum].tolist())
        per_stratum.append(tuple(sizes.get(level, 0) for level in np.unique(levels)))
        logs += math.lgamma(sum(sizes.values()) + 1) - sum(math.lgamma(n + 1) for n in sizes.values())
        if amounts is not None:
            both = np.sort(amounts[strata == stratum])
            is_mirrored &= bool(np.allclose(both + both[::-1], both[0] + both[-1]))
    columns: Counter[Any] = Counter(zip(*per_stratum, strict=True))  # groups of equal size in every stratum
    same = sum(math.lgamma(n + 1) for n in columns.values()) if amounts is None else math.log(1 + is_mirrored)
    return min(1.0, math.exp(same - logs))
