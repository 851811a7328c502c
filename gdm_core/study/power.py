"""Power by simulation: studies resampled from the measured values, each tested like the real one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdm_core.errors import ConfigError, DataError
from gdm_core.study.design import LEVEL, Design
from gdm_core.study.permutation import Floats, Model, p_of_two

N_STUDIES = 1_000
N_PERMUTATIONS = 999
TARGET = 0.8
_SIZES = (3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 80, 100, 128, 160, 200)


@dataclass(frozen=True)
class Power:
    """Probability of p < .05 if the effect is real; `float(power)` returns it.

    power    at the sizes of this study
    effect   in standard deviations between animals (of differences, if sessions are paired)
    raw      effect in the units of the measure
    sizes    group -> units in this study
    curve    units per group -> power
    needed   fewest units per group with a power of 0.8, None above 200
    notes    caveats, in sentences
    """

    power: float
    effect: float
    raw: float
    sizes: dict[str, int]
    curve: dict[int, float]
    needed: int | None
    notes: tuple[str, ...] = ()

    def __float__(self) -> float:
        return self.power


def simulate_power(design: Design, values: Floats, effect: float, relative: bool, seed: int) -> Power:
    """Simulate the power of a design of one factor.

    The last level differs from the first by the effect; levels between are interpolated if numeric, else without effect.
    """
    if len(design.factors) != 1:
        raise ConfigError("Power needs exactly one factor; fix the other factor with where.")
    if not np.isfinite(effect):
        raise ConfigError(f"effect is {effect}; it must be a number (of standard deviations between animals).")
    factor = design.factors[0]
    part = design.part(np.isfinite(values))
    y, levels = values[np.isfinite(values)], part.levels[:, 0]
    counts = [int((levels == j).sum()) for j in range(len(factor.levels))]
    adjusted = not part.paired and bool(part.strata.any() or part.covariates.size)
    steps = np.zeros(len(counts))
    steps[-1] = 1.0
    if factor.numeric:
        steps = (factor.amounts - factor.amounts[0]) / (factor.amounts[-1] - factor.amounts[0])
    if part.paired:
        if len(counts) != 2:
            raise ConfigError("Power of paired sessions needs exactly two sessions; choose two with where.")
        firsts = {s: v for s, v, j in zip(part.subjects, y, levels, strict=True) if j == 0}
        pairs = [v - firsts[s] for s, v, j in zip(part.subjects, y, levels, strict=True) if j == 1 and s in firsts]
        residuals, counts = [_centre(np.array(pairs))], [len(pairs)]
    elif adjusted:
        model = Model.from_columns(part.dummies(), part.covariates, part.strata)
        if model.df_residual < 2:
            raise DataError("Blocks and covariates leave too few degrees of freedom for power. Leave some out.")
        free = model.residuals(y[:, None])
        free = (free - model.effect @ (model.effect.T @ free))[:, 0] * np.sqrt(len(y) / model.df_residual)
        residuals = [free[levels == j] for j in range(len(counts))]
    else:
        residuals = [_centre(y[levels == j]) for j in range(len(counts))]
    if min(counts) < 2:
        raise DataError("Power needs at least two units in every group.")
    # One degree of freedom per group goes to its mean.
    spread = float(
        np.sqrt(sum((found**2).mean() * (len(found) - 1) for found in residuals) / (sum(counts) - len(counts)))
    )
    if spread == 0:
        raise DataError("All units of each group have the same value, so power cannot be estimated.")
    raw = effect * (abs(float(y.mean())) if relative else spread)
    rng = np.random.default_rng(seed)

    def simulated(sizes: list[int]) -> float:
        drawn = [rng.choice(found, (n, N_STUDIES)) for found, n in zip(residuals, sizes, strict=True)]
        if part.paired:
            cells = np.concatenate([np.zeros_like(drawn[0]), drawn[0] + raw])
            subjects = np.tile(np.arange(sizes[0]), 2)
            second = np.repeat([[0.0], [1.0]], sizes[0], axis=0)
            p = Model.from_columns(second, np.zeros((len(subjects), 0)), subjects).p_values(cells, N_PERMUTATIONS, seed)
            return float((p < LEVEL).mean())
        whole = np.concatenate([one + raw * step for one, step in zip(drawn, steps, strict=True)])
        group = np.repeat(np.arange(len(sizes)), sizes)
        if len(sizes) == 2:
            return float((p_of_two(whole, group == 1, N_PERMUTATIONS, seed) < LEVEL).mean())
        dummies = (group[:, None] == np.arange(1, len(sizes))).astype(np.float64)
        p = Model.from_columns(dummies, np.zeros((len(group), 0)), np.zeros(len(group), np.int64)).p_values(
            whole, N_PERMUTATIONS, seed
        )
        return float((p < LEVEL).mean())

    curve: dict[int, float] = {}
    for n in _SIZES:
        if n * len(residuals) > 6:
            curve[n] = simulated([n] * len(residuals))
            if curve[n] > 0.95:
                break
    units = "pairs" if part.paired else f"{design.unit_word}s"
    notes = [f"{N_STUDIES:,} simulated studies per size, from the spread of {sum(counts)} {units}."]
    if adjusted:
        notes.append("The spread is net of blocks and covariates; larger studies are assumed to have the same blocks.")
    if min(counts) < 8:
        few = f"{min(counts)} {units}{'' if part.paired else ' per group'}"
        notes.append(f"The spread is estimated from only {few}, so power is approximate.")
    return Power(
        power=simulated(counts),
        effect=raw / spread,
        raw=raw,
        sizes=dict(zip(factor.words if not part.paired else ["pairs"], counts, strict=True)),
        curve=curve,
        needed=next((n for n, share in curve.items() if share >= TARGET), None),
        notes=tuple(notes),
    )


def _centre(values: Floats) -> Floats:
    """Return values minus their mean, scaled to the unbiased variance."""
    n = len(values)
    return (values - values.mean()) * np.sqrt(n / (n - 1)) if n > 1 else np.zeros(n)
