"""Power and sample size, from the spread between animals and the noncentral F distribution of the study's own test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdm_core.errors import ConfigError, DataError
from gdm_core.study.design import LEVEL, Design
from gdm_core.study.permutation import Floats, Ints, Model, smallest_p
from gdm_core.text import plural, pluralise

TARGET = 0.8
MOST_UNITS = 200  # per group
_FULL = 0.95  # power at which the curve ends


@dataclass(frozen=True)
class Power:
    """Probability of significance after correction over states, if the effect is real; `float(power)` returns it.

    power    at the sizes of this study
    effect   in standard deviations between animals (of differences, if sessions are paired)
    raw      effect in the units of the measure
    sizes    group -> units in this study
    curve    units per group -> power
    needed   fewest units per group with a power of 0.8, None above 200
    n_tests  tests in the correction (Holm); power is that of the smallest p
    notes    caveats, in sentences
    """

    power: float
    effect: float
    raw: float
    sizes: dict[str, int]
    curve: dict[int, float]
    needed: int | None
    n_tests: int = 1
    notes: tuple[str, ...] = ()

    def __float__(self) -> float:
        return self.power


def estimate_power(design: Design, values: Floats, effect: float, n_tests: int = 1, is_trend: bool = False) -> Power:
    """Return the power of a design of one factor.

    The last level differs from the first by the effect; levels between are interpolated if ordered, else without effect.

    n_tests    tests in the correction; the level is that of Holm's first step
    is_trend   whether the trend over the levels decides
    """
    from scipy import stats

    if len(design.factors) != 1:
        raise ConfigError("Power needs exactly one factor; fix the other factor with where.")
    if not np.isfinite(effect):
        raise ConfigError(
            f"effect is {effect}; it must be a number (of standard deviations between {pluralise(design.unit_word)})."
        )
    factor, level = design.factors[0], LEVEL / n_tests
    if design.paired and len(factor.levels) != 2:
        raise ConfigError("Power of paired sessions needs exactly two sessions; choose two with where.")
    part = design.part(np.isfinite(values))
    y, part = values[np.isfinite(values)][~part.unpaired], part.part(~part.unpaired)
    counts = np.bincount(part.levels[:, 0], minlength=len(factor.levels))
    if counts.min() < 2:
        raise DataError("Power needs at least two units in every group.")
    model = Model.from_columns(part.dummies(), part.covariates, part.strata)
    adjusted = not part.paired and bool(part.strata.any() or part.covariates.size)
    if model.df_residual < 1 + adjusted:
        raise DataError("Blocks and covariates leave too few degrees of freedom for power. Leave some out.")
    free = model.residuals(y[:, None])
    free = free - model.effect @ (model.effect.T @ free)
    doubled = 2 if part.paired else 1  # for differences
    spread = float(np.sqrt((free**2).sum() / model.df_residual * doubled))
    if spread < 1e-12 * max(1.0, np.abs(y).max()):
        raise DataError("All units of each group have the same value, so power cannot be estimated.")
    steps = np.zeros(len(counts))
    steps[-1] = 1.0
    if factor.ordered:
        steps = (factor.amounts - factor.amounts[0]) / (factor.amounts[-1] - factor.amounts[0])
    lost = 0 if part.paired else len(y) - len(counts) - model.df_residual  # to covariates and blocks

    def power_at(sizes: Ints) -> float:
        groups = np.repeat(np.arange(len(sizes)), sizes)
        pairs = np.tile(np.arange(sizes[0]), len(sizes)) if part.paired else np.zeros(len(groups), np.int64)
        if smallest_p(groups, pairs, factor.amounts[groups] if is_trend else None) >= level:
            return 0.0
        apart = (steps - np.average(steps, weights=sizes)) ** 2 @ sizes * doubled
        q = 1 if is_trend else len(sizes) - 1
        df = sizes[0] - 1 if part.paired else int(sizes.sum()) - 1 - q - lost
        return float(stats.ncf.sf(stats.f.isf(level, q, df), q, df, effect**2 * apart)) if df > 0 else 0.0

    curve: dict[int, float] = {}
    for n in range(3, MOST_UNITS + 1):
        curve[n] = power_at(np.full(len(counts), n))
        if curve[n] > _FULL:
            break
    pairs = {"pairs": int(counts[0])}
    sizes = pairs if part.paired else dict(zip(factor.words, counts.tolist(), strict=True))
    units = plural(sum(sizes.values()), "pair" if part.paired else design.unit_word)
    notes = [f"From the noncentral F distribution, with the spread of {units}."]
    if adjusted:
        notes.append("The spread is net of blocks and covariates; larger studies are assumed to have the same blocks.")
    if counts.min() < 8:
        few = units if part.paired else f"{plural(int(counts.min()), design.unit_word)} per group"
        notes.append(f"The spread is estimated from only {few}, so power is approximate.")
    needed = next((n for n, share in curve.items() if share >= TARGET), None)
    return Power(power_at(counts), effect, effect * spread, sizes, curve, needed, n_tests, tuple(notes))
