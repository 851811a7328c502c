"""What follows a comparison: order of findings, pairs of groups, equivalence, and checks of assumptions."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gdm_core.errors import ConfigError
from gdm_core.study.comparing import correct_p, is_trend, write_sentence
from gdm_core.study.design import LEVEL, Design, Question
from gdm_core.study.permutation import Floats, Model, correct_holm
from gdm_core.study.sheet import format_value
from gdm_core.study.states import SHARES

if TYPE_CHECKING:
    from gdm_core.study.study import Study

MARGIN = 0.5  # standard deviations between animals


def order_findings(table: pd.DataFrame, correction: str = "p_holm") -> list[int]:
    """Return the positions of the rows of `compare` that survive correction, largest effect first.

    Effects are Cohen's d, or omega squared for several groups.
    """
    size = table["d"].fillna(table["effect"]).abs().to_numpy()
    found = np.flatnonzero(table[correction].to_numpy() < LEVEL)
    return [int(row) for row in found[np.argsort(-size[found], kind="stable")]]


def compare_pairs(study: Study, table: pd.DataFrame) -> pd.DataFrame:
    """Compare every pair of groups in the states that survive correction, corrected over all these pairs.

    table   result of `compare` with three or more groups
    """
    question: Question = table.attrs["question"]
    levels = study.levels(question)
    if (
        len(question.between) > 1
        or len(levels) < 3
        or table["d"].notna().any()
        or table["effect_is"].str.contains("change").any()
    ):
        raise ConfigError("Pairs are compared after a test of three or more groups of one column.")
    columns = [c for c in ("state", "from_state", "to_state") if c in table]
    significant = table.loc[order_findings(table), columns]
    parts = []
    for first, second in itertools.combinations(levels, 2):
        chosen = {**question.where, question.between[0]: [first, second]}
        found = repeat_comparison(study, table, where=chosen, trend=False)
        means = [c for c in found if str(c).startswith("mean_")]
        labelled = found.rename(columns=dict(zip(means, ("mean_first", "mean_second"), strict=True)))
        parts.append(significant.merge(labelled, on=columns).assign(first=first, second=second))
    pairs = pd.concat(parts, ignore_index=True)
    correct_p(pairs, np.ones(len(pairs), bool))
    pairs["sentence"] = [write_sentence(row, question.measure in SHARES) for _, row in pairs.iterrows()]
    return pairs[[*columns, "first", "second", *[c for c in pairs if c not in (*columns, "first", "second")]]]


def has_contrasts(design: Design, trend: bool | None) -> bool:
    """Return whether each level of a trend can be compared with the first: several animals each, unpaired and unadjusted."""
    if not is_trend(design, trend) or design.paired or design.covariates.size or design.strata.any():
        return False
    return bool(np.bincount(design.levels[:, 0]).min() > 1)


def compare_doses(study: Study, table: pd.DataFrame) -> pd.DataFrame:
    """Compare each dose with the lowest by Dunnett's test, with p corrected over doses (Dunnett) and states (Holm).

    table   result of `compare` by the trend, of doses with several animals each
    """
    from scipy import stats

    question: Question = table.attrs["question"]
    design, values, _ = study.adjusted_values(question)
    columns = [c for c in ("state", "from_state", "to_state", "name", "test") if c in table]
    factor, parts = design.factors[0], []
    for place in np.flatnonzero(table["p"].notna()):
        known = np.isfinite(values[:, place])
        groups = [values[known & (design.levels[:, 0] == code), place] for code in range(len(factor.levels))]
        if min(map(len, groups)) < 2:
            continue
        found = stats.dunnett(*groups[1:], control=groups[0], rng=np.random.default_rng(0))
        interval, spread = found.confidence_interval(), np.sqrt(sum(((g - g.mean()) ** 2).sum() for g in groups))
        spread /= np.sqrt(known.sum() - len(groups))
        effects = np.array([group.mean() - groups[0].mean() for group in groups[1:]])
        part = pd.DataFrame({"first": factor.levels[0], "second": factor.levels[1:], "effect": effects, "effect_low": interval.low,
                             "effect_high": interval.high, "p": found.pvalue, "d": effects / spread})  # fmt: skip
        parts.append(part.assign(**{name: table[name].iloc[place] for name in columns}))
    pairs = pd.concat(parts, ignore_index=True)
    pairs["p_holm"] = pairs.groupby("second")["p"].transform(lambda p: correct_holm(p.to_numpy()))
    pairs["effect_is"] = [f"{factor.name} {format_value(level)} minus {factor.words[0]}" for level in pairs["second"]]
    pairs["sentence"] = [write_sentence(row, question.measure in SHARES) for _, row in pairs.iterrows()]
    return pairs


def repeat_comparison(study: Study, table: pd.DataFrame, **changes: Any) -> pd.DataFrame:
    """Ask the question of a comparison again, of another study or with other arguments."""
    q: Question = table.attrs["question"]
    return study.compare(
        q.measure, q.between, **(q.options | {"n_permutations": table.attrs["n_permutations"]} | changes)
    )


def assess_equivalence(table: pd.DataFrame, margin: float = MARGIN) -> pd.DataFrame:
    """Test whether each difference is smaller than a margin, by two one-sided t tests.

    Columns are margin (in units of the measure), p_equivalence, its Holm correction and the conclusion: "different",
    "equivalent" or "inconclusive".

    table    result of `compare` between two groups or sessions
    margin   in standard deviations between animals
    """
    from scipy import stats

    if not margin > 0:
        raise ConfigError(f"margin is {margin}; it must be a positive number of standard deviations.")
    if table["d"].isna().all():
        raise ConfigError("Equivalence is tested between two groups; choose two with where.")
    far = margin * (table["effect"] / table["d"]).abs()
    tails = [stats.t.sf((far + sign * table["effect"]) / table["se"], table["df_residual"]) for sign in (1, -1)]
    found = pd.DataFrame({"margin": far, "p": np.maximum(*tails)}, index=table.index)
    found.loc[table["p"].isna(), "p"] = np.nan
    correct_p(found, np.ones(len(found), bool))
    different = table["p_holm"] < LEVEL
    found["conclusion"] = np.select([different, found["p_holm"] < LEVEL], ["different", "equivalent"], "inconclusive")
    names = {"p": "p_equivalence", "p_holm": "p_equivalence_holm"}
    return found.drop(columns="p_bh").rename(columns=names)


def check_assumptions(design: Design, values: Floats) -> pd.DataFrame:
    """Return Shapiro-Wilk p of the residuals, and Brown-Forsythe p of equal variances, for each column of values [n, m].

    Sessions are paired, so only their residuals are tested.
    """
    from scipy import stats

    nothing = np.zeros((len(values), 0))
    groups = (design.cells[:, None] == np.unique(design.cells)[1:]).astype(np.float64)
    rows = []
    for column in values.T:
        known = np.isfinite(column)
        model = Model.from_columns(groups[known], nothing[known], design.strata[known] * design.paired)
        free = model.residuals(column[known][:, None])
        free = (free - model.effect @ (model.effect.T @ free))[:, 0]
        if design.paired and groups.shape[1] == 1:  # both sessions of an animal have one residual, with two signs
            free = free[design.cells[known] == design.cells[0]]
        parts = [column[known & (design.cells == cell)] for cell in np.unique(design.cells)]
        testable = len(free) > 2 and np.ptp(free) > 1e-12
        rows.append(
            {
                "normality_p": stats.shapiro(free).pvalue if testable else np.nan,
                "equal_variance_p": stats.levene(*parts).pvalue
                if testable and not design.paired and min(len(part) for part in parts) > 1
                else np.nan,
            }
        )
    return pd.DataFrame(rows)


def describe_assumptions(checks: pd.DataFrame) -> str:
    """Return a sentence on the rows that deviate from the assumptions of the classical test."""
    tested = int(checks["normality_p"].notna().sum())
    odd, unequal = (int((checks[name] < LEVEL).sum()) for name in ("normality_p", "equal_variance_p"))
    return (
        f"Residuals deviate from normality in {odd} of {tested} rows (Shapiro-Wilk p < .05), variances differ in {unequal} "
        "(Brown-Forsythe). Permutation p values assume neither normality nor, between two groups, equal variances."
    )
