"""What follows a comparison: order of findings, pairs and doses, a mixed model of recordings, and equivalence."""

from __future__ import annotations

import itertools
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gdm_core.errors import ConfigError
from gdm_core.study.comparing import correct_p, is_trend, write_sentence
from gdm_core.study.design import LEVEL, Design, Question
from gdm_core.study.means import CONFIDENCE
from gdm_core.study.permutation import Floats, Ints, correct_holm
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
    levels = study.design(question).factors[0].levels
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


def compare_recordings(study: Study, table: pd.DataFrame) -> pd.DataFrame:
    """Repeat a comparison by a mixed model of all recordings, with a random intercept for each animal (REML).

    Columns are effect, its interval, p (t with the degrees of freedom between animals) and p_holm, for each row of the table.
    Animals with more recordings weigh more, unlike in averages.

    table   result of `compare` of two groups or a trend, without pairs or blocks
    """
    question: Question = table.attrs["question"]
    design, (values, _) = study.design(question), study.measure_values(question.measure)
    two = len(design.factors) == 1 and len(design.factors[0].levels) == 2
    if design.paired or question.blocks or not (two or is_trend(design, question.trend)):
        raise ConfigError("A mixed model of recordings compares two groups or a trend, without pairs or blocks.")
    rows, animals = np.concatenate(design.rows), np.repeat(np.arange(len(design.rows)), list(map(len, design.rows)))
    amounts = design.levels[:, 0] if two else design.factors[0].amounts[design.levels[:, 0]]
    exog = np.column_stack([np.ones(len(rows)), amounts[animals], design.covariates[animals]])
    found = np.full((values.shape[1], 4), np.nan)
    for column in np.flatnonzero(table["p"].notna()):
        known = np.isfinite(values[rows, column])
        found[column] = _fit_mixed(values[rows, column][known], exog[known], animals[known])
    result = pd.DataFrame(found, columns=["effect", "effect_low", "effect_high", "p"], index=table.index)
    return table[["name"]].join(result.assign(p_holm=correct_holm(found[:, 3])))


def _fit_mixed(y: Floats, exog: Floats, animals: Ints) -> tuple[float, ...]:
    """Return the effect of the second column with its interval and p; NaN if the model cannot be fitted."""
    from scipy import stats
    from statsmodels.regression.mixed_linear_model import MixedLM

    df, scale = len(np.unique(animals)) - exog.shape[1], y.std()
    if df < 1 or not scale > 0:
        return (np.nan,) * 4
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a variance of zero is an estimate like any other
        try:
            fit = MixedLM(y / scale, exog, animals).fit(reml=True)
        except np.linalg.LinAlgError:
            return (np.nan,) * 4
    effect, error = float(fit.params[1]) * scale, float(fit.bse[1]) * scale
    half = stats.t.ppf((1 + CONFIDENCE) / 2, df) * error
    return effect, effect - half, effect + half, float(2 * stats.t.sf(abs(effect) / error, df))


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
