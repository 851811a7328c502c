"""The flow test: distance between the transition matrices of groups (after von Ziegler et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import combinations, compress

import numpy as np

from gdm_core.errors import ConfigError, DataError
from gdm_core.maths.gaps import ratio
from gdm_core.study.design import Design, explain_smallest_p
from gdm_core.study.means import adjust_values
from gdm_core.study.permutation import Floats, Ints, Model, orders
from gdm_core.study.sheet import ANIMAL
from gdm_core.study.text import format_items
from gdm_core.text import pluralise

RATE, COUNT = "changes per minute of valid time", "changes per recording"
UNEQUAL = 1.5  # ratio of sizes, and of standard deviations, from which p is approximate
MAX_LENGTH_RATIO = 1.03  # longest over shortest recording, for numbers of changes to be comparable


@dataclass(frozen=True, eq=False)
class Flow:
    """Result of the flow test: Manhattan distance between mean matrices of changes, tested by permutation of animals.

    distance   between the two groups; for more groups, the mean over all pairs
    z          statistic in standard deviations of the null distribution, from its mean
    p          share of permutations, this study included, with at least this statistic
    n          number of units (animals)
    sizes      group -> number of units
    means      group -> mean changes [K, K] from row to column, in `unit`, adjusted for covariates
    states     state numbers, in the order of rows and columns
    null       statistics under permutation: distances in standard errors (Welch), or distances of paired sessions
    unit       RATE or COUNT
    rows       indices of the compared recordings
    notes      caveats, in sentences
    unit_word  noun for a unit
    paired     whether sessions of the same units are compared
    caution    sentence if p is only approximate, because spread and size differ between groups
    """

    distance: float
    z: float
    p: float
    n: int
    sizes: dict[str, int]
    means: dict[str, Floats] = field(repr=False)
    states: tuple[int, ...] = field(repr=False)
    null: Floats = field(repr=False)
    unit: str = RATE
    rows: tuple[int, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()
    unit_word: str = ANIMAL
    paired: bool = False
    caution: str = ""

    @property
    def difference(self) -> Floats:
        """Mean changes [K, K] of the last group minus the first, in `unit`."""
        first, *_, last = self.means.values()
        return last - first


def check_lengths(minutes: Floats) -> None:
    """Raise DataError if recordings differ in their valid minutes."""
    if minutes.max() > MAX_LENGTH_RATIO * minutes.min():
        raise DataError(
            f"counts=True needs recordings of equal length, but these have {minutes.min():.2f} to {minutes.max():.2f} minutes "
            "of valid time. Omit counts to compare changes per minute."
        )


def run_flow_test(
    design: Design, changes: Floats, states: tuple[int, ...], n_permutations: int, seed: int, unit: str = RATE
) -> Flow:
    """Run the flow test on changes [units, K, K]."""
    if n_permutations < 1:
        raise ConfigError(f"n_permutations is {n_permutations}; at least 1 is needed.")
    if len(design.factors) != 1:
        raise ConfigError("The flow test compares groups of one column; fix the other factor with where.")
    factor, levels = design.factors[0], design.levels[:, 0]
    kept = np.asarray(np.isfinite(changes).all(axis=(1, 2)))
    if design.paired:  # a subject without all sessions would enter only some of the means
        kept &= np.isin(design.subjects, np.flatnonzero(np.bincount(design.subjects[kept]) == len(factor.levels)))
    if lost := list(dict.fromkeys(compress(design.units, ~kept & ~design.unpaired))):
        lacking = f"values of every {factor.name!r}" if design.paired else "transitions"
        status = f"left out of the flow test, without valid {lacking}"
        design = replace(design, notes=(*design.notes, format_items(lost, design.unit_word, status)))
    design, levels, flat = design.part(kept), levels[kept], changes[kept].reshape(int(kept.sum()), -1)
    sizes = np.bincount(levels, minlength=len(factor.levels))
    if sizes.min() < 2:
        word = factor.words[int(sizes.argmin())]
        raise DataError(
            f"{'Only one' if sizes.min() else 'No'} {design.unit_word} with valid values has {factor.name} {word!r}; at least 2 "
            "are needed. Join groups, or choose others with where."
        )
    weights = (levels == np.arange(len(sizes))[:, None]) / sizes[:, None]  # [G, n]
    means = weights @ flat
    if design.covariates.size:
        model = Model.from_columns(design.dummies(), design.covariates, design.strata)
        if model.effect.shape[1] < len(sizes) - 1 or model.df_residual < 1:
            raise DataError(f"{factor.name!r} is confounded with covariates or blocks. Omit one of them.")
        means = weights @ adjust_values(design, flat)
        blocks = design.strata[:, None] == np.unique(design.strata)[1:]
        weights = np.linalg.pinv(np.hstack([weights.T > 0, design.covariates, blocks]))[: len(sizes)]
        flat = model.residuals(flat)  # permuted, as in the tests of states
    used, pairs = flat.any(axis=0), list(combinations(range(len(sizes)), 2))
    inside = (levels == np.arange(len(sizes))[:, None]).astype(np.float64)
    free = Model.from_columns(design.dummies(), design.covariates, design.strata).residuals(flat)
    products = free @ free.T  # [n, n]
    parts = np.array([weights[b] - weights[a] for a, b in pairs]) ** 2 @ inside.T  # [pairs, G]

    def measure_spread(members: Floats) -> Floats:
        """Return the variance [..., G] between units within groups, given members [..., G, n]."""
        squares = members @ np.diag(products) - ((members @ products) * members).sum(axis=-1) / sizes
        return np.asarray(np.maximum(squares, 0) / (sizes - 1))

    def measure(order: Ints) -> tuple[Floats, Floats, Floats]:
        """Return distances, their variances and degrees of freedom [P, pairs] for orders [P, n]."""
        groups, members = (np.moveaxis(each[:, order], 1, 0) for each in (weights, inside))
        its = (groups.reshape(-1, groups.shape[2]) @ flat[:, used]).reshape(*groups.shape[:2], -1)
        far = np.stack([np.abs(its[:, b] - its[:, a]).sum(axis=1) for a, b in pairs], axis=1)
        shares = parts * measure_spread(members)[:, None]  # of the groups in the variance, as in Welch's t
        variance = shares.sum(axis=2)
        return far, variance, ratio(variance**2, (shares**2 / (sizes - 1)).sum(axis=2))

    width = len(sizes) * (1 + int(used.sum()) // max(1, len(flat)))
    every = [np.arange(len(flat))[None], *orders(design.strata, n_permutations, seed, width)]
    far, variance, df = (np.concatenate(found) for found in zip(*map(measure, every), strict=True))
    distance = float(far[0].mean())
    if not design.paired:  # unequal spread in unequal groups would give false alarms
        far = np.nan_to_num(far / np.sqrt(np.where(variance > 0, variance, np.inf)))
        scale = np.sqrt((far**2).mean(axis=0))
        t = far / np.where(scale > 0, scale, 1)
        far = np.sqrt(df * np.log1p(t**2 / df)) * (8 * df + 1) / (8 * df + 3)  # t to z
    statistic, null = float(far[0].mean()), np.nan_to_num(far[1:].mean(axis=1))
    spread, sds, caution = float(null.std()), np.sqrt(measure_spread(inside)), ""
    if not design.paired and sds.max() > UNEQUAL * sds.min() and sizes.max() > UNEQUAL * sizes.min():
        each = ", ".join(f"{name} {sd:.3g}" for name, sd in zip(factor.words, sds, strict=True))
        what = f"Groups differ in size and in spread between {pluralise(design.unit_word)} ({each})"
        caution = f"{what}, so p of the flow test is approximate."
    means = means.reshape(len(sizes), len(states), len(states))
    return Flow(
        distance=distance, z=(statistic - float(null.mean())) / spread if spread > 0 else 0.0,
        p=float((1 + (null >= statistic * (1 - 1e-9)).sum()) / (1 + n_permutations)), n=len(np.unique(design.subjects)),
        sizes=dict(zip(factor.words, sizes.tolist(), strict=True)), means=dict(zip(factor.words, means, strict=True)),
        states=states, null=null, unit=unit, rows=tuple(np.concatenate(design.rows).tolist()),
        notes=(*design.notes, *explain_smallest_p(design), *([caution] if caution else [])), unit_word=design.unit_word,
        paired=design.paired, caution=caution,
    )  # fmt: skip
