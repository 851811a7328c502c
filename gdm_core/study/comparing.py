"""Comparison of conditions: effects with intervals, permutation p values with correction, and classical tests."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import ConfigError, DataError
from gdm_core.maths.gaps import known_mean, ratio
from gdm_core.study.design import Design, check_sizes, describe_limits
from gdm_core.study.means import CONFIDENCE, adjust_values
from gdm_core.study.permutation import Floats, Model, correct_holm, p_of_two
from gdm_core.study.text import format_d, format_difference, format_effect, format_list, format_p

PARTIAL = "partial omega squared"
TAILS = (1 + CONFIDENCE) / 2, (1 - CONFIDENCE) / 2
COLUMNS = ("effect", "effect_low", "effect_high", "p", "p_holm", "p_bh", "test", "statistic", "df", "df_residual",
           "p_classical", "n", "d", "d_low", "d_high", "se", "effect_is")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Term:
    """A factor or interaction to test, with the units and values that test it.

    name      name in tables
    effect    [n, q] columns of the design matrix
    nuisance  [n, c] columns to project out
    measure   what the effect is
    test      name of the classical test
    design, values   units and their values [n, M]; subjects' means for a factor between subjects of a paired design
    """

    name: str
    effect: Floats
    nuisance: Floats
    measure: str
    test: str
    design: Design
    values: Floats

    def part(self, units: npt.NDArray[np.bool_], columns: npt.NDArray[np.int64]) -> Term:
        """Return the term of some units and columns of values."""
        return replace(
            self, effect=self.effect[units], nuisance=self.nuisance[units], design=self.design.part(units),
            values=self.values[units][:, columns],
        )  # fmt: skip


def compare_groups(
    design: Design, values: Floats, n_permutations: int, seed: int, trend: bool | None, tested: npt.NDArray[np.bool_]
) -> tuple[pd.DataFrame, list[str]]:
    """Test each term on each column of values; return the table, with the index of the column, and notes.

    tested   mask of the columns to test; the others have no p
    """
    if n_permutations < 1:
        raise ConfigError(f"n_permutations is {n_permutations}; at least 1 is needed.")
    notes = list(design.notes)
    design, values = design.part(~design.unpaired), values[~design.unpaired]
    check_sizes(design)
    if trend and not (len(design.factors) == 1 and design.factors[0].ordered):
        names = format_list([factor.name for factor in design.factors])
        raise ConfigError(f"trend needs one column of numbers or ordered categories; between is {names}.")
    trend = is_trend(design, trend)
    means = _average_groups(design, adjust_values(design, values, trend))
    tables = []
    for term in _list_terms(design, values, trend):
        if not Model.from_columns(term.effect, term.nuisance, term.design.strata).effect.size:
            if " × " in term.name:
                raise DataError(
                    f"{term.name} cannot be tested: combinations are missing. Compare one factor at a time."
                )
            raise DataError(f"{term.name!r} is confounded with blocks or covariates. Omit one of them.")
        table = _test_term(term, n_permutations, seed)
        table.loc[~tested, ["p", "statistic", "p_classical"]] = np.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # columns of NaN
            correct_p(table, np.nanmax(term.values, axis=0) > np.nanmin(term.values, axis=0))
        tables.append(pd.concat([means, table.assign(term=term.name, column=table.index)], axis=1))
    found = pd.concat(tables, ignore_index=True)
    testable = found[tested[found["column"]]]
    notes += describe_limits(design, trend, n_permutations, int(tested.sum()))
    if lacking := int(testable["p"].isna().sum()):
        notes.append(f"{lacking} of {len(testable)} rows cannot be tested: too few units have a value.")
    return found if len(design.factors) > 1 else found.drop(columns="term"), notes


def order_columns(found: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
    """Order the columns: labels, means of groups, effect, p, the rest."""
    names = labels.loc[found["column"]].reset_index(drop=True)
    kept = [c for c in ("term", *(c for c in found if str(c).startswith("mean_")), *COLUMNS) if c in found]
    return pd.concat([names, found[kept]], axis=1)


def _average_groups(design: Design, values: Floats) -> pd.DataFrame:
    """Return the mean of every group, or of every cell of two factors."""
    found = {}
    for codes in itertools.product(*(range(len(factor.levels)) for factor in design.factors)):
        words = "_".join(factor.words[code] for factor, code in zip(design.factors, codes, strict=True))
        found[f"mean_{words}"] = known_mean(values[(design.levels == codes).all(axis=1)])
    return pd.DataFrame(found)


# ---- terms ----------------------------------------------------------------------------------------------------------
def is_trend(design: Design, asked: bool | None) -> bool:
    """Return whether the trend is tested: as asked, or by default over three or more numbers or ordered categories."""
    factor = design.factors[0]
    return len(design.factors) == 1 and factor.ordered and len(factor.levels) > 2 if asked is None else asked


def has_contrasts(design: Design, trend: bool | None) -> bool:
    """Return whether each level of a trend can be compared with the first: several animals each, unpaired and unadjusted."""
    if not is_trend(design, trend) or design.paired or design.covariates.size or design.strata.any():
        return False
    return bool(np.bincount(design.levels[:, 0]).min() > 1)


def _list_terms(design: Design, values: Floats, trend: bool) -> list[Term]:
    """Return the terms: one factor or trend, or two factors and their interaction."""
    nuisance, factor = design.covariates, design.factors[0]
    if trend:
        step = f"each 1 of {factor.name}" if factor.numeric else f"each step of {factor.name}"
        amounts = factor.amounts[design.levels[:, :1]]
        return [Term(factor.name, amounts, nuisance, f"change for {step}", "trend (linear regression)", design, values)]
    if len(design.factors) == 1:
        own = design.dummies()
        two, plain = own.shape[1] == 1, not (design.paired or nuisance.size or design.strata.any())
        if design.paired:
            test = "paired t" if two else "repeated measures F"
        else:
            test = ("Welch's t" if two else "one-way F") if plain else f"{'t' if two else 'F'} of a linear model"
        return [Term(factor.name, own, nuisance, _describe_effect(design, 0), test, design, values)]
    test = "F of a split-plot model" if design.paired else "F of a linear model"
    columns = [design.dummies(0), design.dummies(1)]
    levels = pd.DataFrame(design.levels).groupby(design.subjects).nunique()
    within = [design.paired and bool((levels[j] > 1).any()) for j in (0, 1)]
    found: list[Term] = []
    for j, one in enumerate(design.factors):
        if design.paired and not within[j]:
            part, its = _average_subjects(design, values)
            effect, rest = part.dummies(j), part.covariates
        else:
            part, its, effect = design, values, columns[j]
            rest = np.hstack([nuisance, columns[1 - j]])
            if design.paired and not within[1 - j]:
                rest = np.hstack([rest, _product(*(each - each.mean(axis=0) for each in columns))])
        found.append(Term(one.name, effect, rest, _describe_effect(design, j), test, part, its))
    both = _product(*columns)
    crossed = "difference of differences" if both.shape[1] == 1 else PARTIAL
    name = " × ".join(one.name for one in design.factors)
    return [*found, Term(name, both, np.hstack([nuisance, *columns]), crossed, test, design, values)]


def _product(first: Floats, second: Floats) -> Floats:
    return (first[:, :, None] * second[:, None, :]).reshape(len(first), -1)


def _describe_effect(design: Design, j: int) -> str:
    words = design.factors[j].words
    return f"{words[1]} minus {words[0]}" if len(words) == 2 else PARTIAL


def _average_subjects(design: Design, values: Floats) -> tuple[Design, Floats]:
    """Average the cells of each subject, whose factor is then tested between subjects."""
    members = [np.flatnonzero(design.subjects == subject) for subject in range(design.subjects.max() + 1)]
    part = design.part(np.isin(np.arange(len(values)), [found[0] for found in members]))
    covariates = np.stack([design.covariates[found].mean(axis=0) for found in members])
    part = replace(part, covariates=covariates, strata=np.zeros(len(members), np.int64), paired=False)
    return part, np.stack([known_mean(values[found]) for found in members])


# ---- the tests ----------------------------------------------------------------------------------------------------------
def _test_term(term: Term, n_permutations: int, seed: int) -> pd.DataFrame:
    """Return one row per column of values, testing columns with the same missing units together."""
    known, tables = np.isfinite(term.values), []
    for pattern in np.unique(known, axis=1).T:
        columns = np.flatnonzero((known == pattern[:, None]).all(axis=0))
        part = term.part(pattern, columns)
        test = _test_two_groups if term.test == "Welch's t" else _test_linear_model
        found = test(part, n_permutations, seed) | {"n": len(np.unique(part.design.subjects))}
        tables.append(pd.DataFrame(dict.fromkeys(COLUMNS, np.nan) | found, index=columns))
    return pd.concat(tables).sort_index().assign(test=f"permutation, {term.test}", effect_is=term.measure)


def _test_two_groups(term: Term, n_permutations: int, seed: int) -> dict[str, Any]:
    """Return the columns of Welch's t test of two groups; none if too few units have a value."""
    from scipy import stats

    second = term.effect[:, 0] > 0
    groups = term.values[second], term.values[~second]
    n = [len(group) for group in groups]
    if min(n) < 2:
        return {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # constant columns
        test = stats.ttest_ind(*groups, equal_var=False)
        interval = test.confidence_interval(CONFIDENCE)
    difference = groups[0].mean(axis=0) - groups[1].mean(axis=0)
    variances = [group.var(axis=0, ddof=1) for group in groups]
    d = ratio(difference, np.sqrt((variances[0] * (n[0] - 1) + variances[1] * (n[1] - 1)) / (sum(n) - 2)))
    return {
        "effect": difference, "effect_low": interval.low, "effect_high": interval.high,
        "se": np.sqrt(variances[0] / n[0] + variances[1] / n[1]), "p": p_of_two(term.values, second, n_permutations, seed),
        "statistic": test.statistic, "df": 1.0, "df_residual": test.df, "p_classical": test.pvalue,
        **_measure_d(d, np.sqrt(1 / n[0] + 1 / n[1]), sum(n) - 2),
    }  # fmt: skip


def _measure_d(d: Floats, scale: float | Floats, df: int) -> dict[str, Floats]:
    """Return d with its 95% interval, by inverting the noncentral t distribution of d / scale."""
    from scipy import special

    t = np.asarray(d / scale)
    low, high = (special.nctdtrinc(df, tail, np.clip(t, -30, 30)) for tail in TAILS)
    wide = special.ndtri(TAILS[0]) * np.sqrt(1 + t**2 / (2 * df))  # the limit of large t
    far = np.abs(t) > 30
    return {"d": d, "d_low": np.where(far, t - wide, low) * scale, "d_high": np.where(far, t + wide, high) * scale}


def _test_linear_model(term: Term, n_permutations: int, seed: int) -> dict[str, Any]:
    """Return the columns of the t or F test of a linear model with nuisance effects; none if too few units have a value."""
    from scipy import special, stats

    if not len(term.values):
        return {}
    model = Model.from_columns(term.effect, term.nuisance, term.design.strata)
    q, df = model.effect.shape[1], model.df_residual
    if q == 0 or df < 1:
        return {}
    free = model.residuals(term.values)
    total, explained = (free**2).sum(axis=0), ((model.effect.T @ free) ** 2).sum(axis=0)
    f = np.where(total > 0, model.f_statistics(explained, total), np.nan)
    base = {"p": model.p_values(term.values, n_permutations, seed), "df": float(q), "df_residual": float(df),
            "p_classical": stats.f.sf(f, q, df)}  # fmt: skip
    if q > 1 or term.effect.shape[1] > 1:
        size, gain = q + df + 1, np.maximum(q * (f - 1), 0)
        low, high = (np.nan_to_num(special.ncfdtrinc(q, df, tail, np.minimum(f, 1e6))) for tail in TAILS)
        # omega squared, since eta squared is biased
        share = {"effect": gain / (gain + size), "effect_low": low / (low + size), "effect_high": high / (high + size)}
        return base | share | {"statistic": f}
    along = model.residuals(term.effect)[:, 0]
    length = np.sqrt(along @ along)
    slope, spread = along @ free / length**2, np.sqrt(np.maximum(total - explained, 0) / df)
    half = special.stdtrit(df, TAILS[0]) * spread / length
    found = base | {"effect": slope, "effect_low": slope - half, "effect_high": slope + half, "se": spread / length,
                    "statistic": np.sign(slope) * np.sqrt(f)}  # fmt: skip
    if term.effect.max() != 1:
        return found
    scale = np.sqrt(2) if term.design.paired else 1.0  # the sd of differences, as in Power
    return found | _measure_d(ratio(slope, spread * scale), 1 / scale / length, df)


def correct_p(table: pd.DataFrame, differs: npt.NDArray[np.bool_]) -> None:
    """Add p_holm and p_bh, corrected over the rows whose values differ between units."""
    from scipy import stats

    rows = np.flatnonzero(differs & table["p"].notna().to_numpy())
    holm, bh = (table["p"].to_numpy(copy=True) for _ in range(2))
    holm[rows] = correct_holm(holm[rows])
    if len(rows):
        bh[rows] = stats.false_discovery_control(bh[rows], method="bh")
    table["p_holm"], table["p_bh"] = holm, bh


def write_sentence(row: Any, share: bool, correction: str = "p_holm") -> str:
    """Return a sentence for one row of a comparison, with the effect first.

    share        whether the measure is a share, whose differences are percentage points
    correction   column of the adjusted p
    """
    name = f"{row['term']}: {row['name']}" if "term" in row else row["name"]
    if not np.isfinite(row["p"]):
        return f"{name}: not tested."
    in_points = share and "omega" not in row["effect_is"]
    low, high = (format_effect(row[edge], in_points) for edge in ("effect_low", "effect_high"))
    effect = f"{format_difference(row['effect'], in_points)} ({row['effect_is']}; 95% CI {low} to {high})"
    d = "" if np.isnan(row["d"]) else f", {'d_z' if 'paired' in row['test'] else 'd'} = {format_d(row['d'])}"
    return f"{name}: {effect}{d}, adjusted {format_p(row[correction])}."
