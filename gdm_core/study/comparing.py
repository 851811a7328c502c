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
from gdm_core.study.sheet import format_list
from gdm_core.study.text import format_d, format_difference, format_effect, format_p

PARTIAL = "partial omega squared"
COLUMNS = ("effect", "effect_low", "effect_high", "p", "p_holm", "p_bh", "test", "statistic", "df", "df_residual",
           "p_classical", "n", "d", "d_low", "d_high", "se", "effect_is")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Term:
    """A factor or interaction to test.

    name         name in tables
    effect       [n, q] columns of the design matrix
    nuisance     [n, c] columns to project out
    effect_name  description of the effect
    words        name of the classical test
    """

    name: str
    effect: Floats
    nuisance: Floats
    effect_name: str
    words: str


def compare_groups(
    design: Design,
    values: Floats,
    n_permutations: int,
    seed: int,
    trend: bool | None = None,
    tested: npt.NDArray[np.bool_] | None = None,
) -> tuple[pd.DataFrame, list[str]]:
    """Test each term on each column of values; return the table and notes.

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
    tested = np.ones(values.shape[1], dtype=bool) if tested is None else tested
    means = _means(design, adjust_values(design, values, trend))
    tables, limits = [], describe_limits(design, trend, n_permutations, int(tested.sum()))
    for term, part, its in _terms(design, values, trend):
        if not Model.from_columns(term.effect, term.nuisance, part.strata).effect.size:
            raise DataError(f"{term.name!r} is confounded with blocks or covariates. Omit one of them.")
        table = _test_by_pattern(term, part, its, n_permutations, seed)
        table.insert(0, "term", term.name)
        table.loc[~tested, ["p", "statistic", "p_classical"]] = np.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # columns of NaN
            correct_p(table, np.nanmax(its, axis=0) > np.nanmin(its, axis=0))
        tables.append(pd.concat([means, table], axis=1))
    found = pd.concat(tables, keys=range(len(tables)), names=["order", "column"]).reset_index(level="column")
    if len(design.factors) == 1:
        found = found.drop(columns="term")
    testable = found[tested[found["column"]]]
    lacking = int(testable["p"].isna().sum())
    if lacking:
        limits.append(f"{lacking} of {len(testable)} rows cannot be tested: too few units have a value.")
    return found.reset_index(drop=True), notes + limits


# ---- terms ----------------------------------------------------------------------------------------------------------
def _terms(design: Design, values: Floats, trend: bool) -> list[tuple[Term, Design, Floats]]:
    """Return each term with its design and values.

    A factor that differs between subjects, in a paired design, is tested on the subjects' means.
    """
    nuisance = design.covariates
    if trend:
        return [(_trend_term(design), design, values)]
    if len(design.factors) == 1:
        own = design.dummies()
        two, plain = own.shape[1] == 1, not (design.paired or nuisance.size or design.strata.any())
        if design.paired:
            words = "paired t" if two else "repeated measures F"
        else:
            words = ("Welch's t" if two else "one-way F") if plain else f"{'t' if two else 'F'} of a linear model"
        return [(Term(design.factors[0].name, own, nuisance, _describe_effect(design, 0), words), design, values)]
    words = "F of a split-plot model" if design.paired else "F of a linear model"
    names = [factor.name for factor in design.factors]
    columns = [design.dummies(0), design.dummies(1)]
    within = [design.paired and _varies_within(design, j) for j in (0, 1)]
    found: list[tuple[Term, Design, Floats]] = []
    for j in (0, 1):
        if design.paired and not within[j]:
            part, its = _subject_means(design, values)
            found.append(
                (Term(names[j], part.dummies(j), part.covariates, _describe_effect(design, j), words), part, its)
            )
            continue
        first = [nuisance, columns[1 - j]]
        if design.paired and not within[1 - j]:
            first.append(_product(*(one - one.mean(axis=0) for one in columns)))
        found.append((Term(names[j], columns[j], np.hstack(first), _describe_effect(design, j), words), design, values))
    both = _product(*columns)
    crossed = "difference of differences" if both.shape[1] == 1 else PARTIAL
    return [*found, (Term(" × ".join(names), both, np.hstack([nuisance, *columns]), crossed, words), design, values)]


def _product(first: Floats, second: Floats) -> Floats:
    return (first[:, :, None] * second[:, None, :]).reshape(len(first), -1)


def _describe_effect(design: Design, j: int) -> str:
    words = design.factors[j].words
    return f"{words[1]} minus {words[0]}" if len(words) == 2 else PARTIAL


def _trend_term(design: Design) -> Term:
    factor = design.factors[0]
    step = f"each 1 of {factor.name}" if factor.numeric else f"each step of {factor.name}"
    amounts, change = factor.amounts[design.levels[:, :1]], f"change for {step}"
    return Term(factor.name, amounts, design.covariates, change, "trend (linear regression)")


def is_trend(design: Design, asked: bool | None) -> bool:
    """Return whether the trend is tested: as asked, or by default over three or more numbers or ordered categories."""
    factor = design.factors[0]
    return len(design.factors) == 1 and factor.ordered and len(factor.levels) > 2 if asked is None else asked


def _varies_within(design: Design, j: int) -> bool:
    frame = pd.DataFrame({"subject": design.subjects, "level": design.levels[:, j]})
    return bool((frame.groupby("subject")["level"].nunique() > 1).any())


def _subject_means(design: Design, values: Floats) -> tuple[Design, Floats]:
    """Average the cells of each subject."""
    members = [np.flatnonzero(design.subjects == subject) for subject in range(design.subjects.max() + 1)]
    firsts = np.array([found[0] for found in members])
    its = np.stack([known_mean(values[found]) for found in members])
    covariates = np.stack([design.covariates[found].mean(axis=0) for found in members])
    part = replace(
        design.part(np.isin(np.arange(len(values)), firsts)), covariates=covariates, strata=np.zeros(len(members), np.int64),
        paired=False,
    )  # fmt: skip
    return part, its


# ---- the tests ----------------------------------------------------------------------------------------------------------
def _test_by_pattern(term: Term, design: Design, values: Floats, n_permutations: int, seed: int) -> pd.DataFrame:
    """Return one row per column of values, testing columns with the same missing units together."""
    known = np.isfinite(values)
    found: list[tuple[npt.NDArray[np.int64], pd.DataFrame]] = []
    for pattern in np.unique(known, axis=1).T:
        columns = np.flatnonzero((known == pattern[:, None]).all(axis=0))
        part = design.part(pattern)
        one = replace(term, effect=term.effect[pattern], nuisance=term.nuisance[pattern])
        table = _test_term(one, part, values[pattern][:, columns], n_permutations, seed)
        table["n"] = len(np.unique(part.subjects))
        found.append((columns, table.set_index(columns)))
    return pd.concat([table for _, table in found]).sort_index()


def _test_term(term: Term, design: Design, values: Floats, n_permutations: int, seed: int) -> pd.DataFrame:
    """Return a table of m rows; NaN if too few units have a value."""
    test = _test_two_groups if term.words == "Welch's t" else _test_linear_model
    found = test(term, design, values, n_permutations, seed)
    words = {"test": f"permutation, {term.words}", "effect_is": term.effect_name}
    return pd.DataFrame(dict.fromkeys(COLUMNS, np.nan) | found | words, index=range(values.shape[1]))


def _test_two_groups(term: Term, design: Design, values: Floats, n_permutations: int, seed: int) -> dict[str, Any]:
    """Return the columns of Welch's t test of two groups."""
    from scipy import stats

    second = term.effect[:, 0] > 0
    groups = values[second], values[~second]
    n = [len(group) for group in groups]
    if min(n) < 2:
        return {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # constant columns
        test = stats.ttest_ind(*groups, equal_var=False)
        interval = test.confidence_interval(CONFIDENCE)
    difference = groups[0].mean(axis=0) - groups[1].mean(axis=0)
    pooled = np.sqrt(sum(group.var(axis=0, ddof=1) * (len(group) - 1) for group in groups) / (sum(n) - 2))
    d = ratio(difference, pooled)
    return {
        "effect": difference,
        "effect_low": interval.low,
        "effect_high": interval.high,
        "se": np.sqrt(groups[0].var(axis=0, ddof=1) / n[0] + groups[1].var(axis=0, ddof=1) / n[1]),
        "p": p_of_two(values, second, n_permutations, seed),
        "statistic": test.statistic,
        "df": 1.0,
        "df_residual": test.df,
        "p_classical": test.pvalue,
        "d": d,
    } | _d_interval(d, np.sqrt(1 / n[0] + 1 / n[1]), sum(n) - 2)


def _d_interval(d: Floats, scale: float | Floats, df: int) -> dict[str, Floats]:
    """Return the 95% interval of d, by inverting the noncentral t distribution of d / scale."""
    from scipy import special

    t = np.asarray(d / scale)
    low, high = (
        special.nctdtrinc(df, tail, np.clip(t, -30, 30)) for tail in ((1 + CONFIDENCE) / 2, (1 - CONFIDENCE) / 2)
    )
    wide = special.ndtri((1 + CONFIDENCE) / 2) * np.sqrt(1 + t**2 / (2 * df))  # the limit of large t
    far = np.abs(t) > 30
    return {"d_low": np.where(far, t - wide, low) * scale, "d_high": np.where(far, t + wide, high) * scale}


def _test_linear_model(term: Term, design: Design, values: Floats, n_permutations: int, seed: int) -> dict[str, Any]:
    """Return the t or F test of a linear model with nuisance effects."""
    from scipy import special, stats

    if not len(values):  # no unit has a value
        return {}
    model = Model.from_columns(term.effect, term.nuisance, design.strata)
    q = model.effect.shape[1]
    if q == 0 or model.df_residual < 1:
        return {}
    free = model.residuals(values)
    total = (free**2).sum(axis=0)
    explained = ((model.effect.T @ free) ** 2).sum(axis=0)
    f = np.where(total > 0, model.f_statistics(explained, total), np.nan)
    base = {"p": model.p_values(values, n_permutations, seed), "df": float(q), "df_residual": float(model.df_residual),
            "p_classical": stats.f.sf(f, q, model.df_residual)}  # fmt: skip
    if q > 1 or term.effect.shape[1] > 1:
        size = q + model.df_residual + 1
        share = np.maximum(q * (f - 1), 0) / (
            np.maximum(q * (f - 1), 0) + size
        )  # omega squared, since eta squared is biased
        tails = ((1 + CONFIDENCE) / 2, (1 - CONFIDENCE) / 2)
        low, high = (np.nan_to_num(special.ncfdtrinc(q, model.df_residual, tail, np.minimum(f, 1e6))) for tail in tails)
        bounds = {"effect_low": low / (low + size), "effect_high": high / (high + size)}
        return base | {"effect": share, "statistic": f} | bounds
    along = model.residuals(term.effect)[:, 0]
    slope = along @ free / (along @ along)
    spread = np.sqrt(np.maximum(total - explained, 0) / model.df_residual)
    half = special.stdtrit(model.df_residual, (1 + CONFIDENCE) / 2) * spread / np.sqrt(along @ along)
    scale = np.sqrt(2) if design.paired else 1.0  # the sd of differences, as in Power
    found = base | {
        "effect": slope,
        "effect_low": slope - half,
        "effect_high": slope + half,
        "se": spread / np.sqrt(along @ along),
        "statistic": np.sign(slope) * np.sqrt(f),
    }
    if term.effect.max() != 1:
        return found
    d = ratio(slope, spread * scale)
    return found | {"d": d} | _d_interval(d, 1 / scale / np.sqrt(along @ along), model.df_residual)


def correct_p(table: pd.DataFrame, differs: npt.NDArray[np.bool_]) -> None:
    """Add p_holm and p_bh, corrected over the rows whose values differ between units."""
    from scipy import stats

    rows = np.flatnonzero(differs & table["p"].notna().to_numpy())
    holm, bh = (table["p"].to_numpy(copy=True) for _ in range(2))
    holm[rows] = correct_holm(holm[rows])
    if len(rows):
        bh[rows] = stats.false_discovery_control(bh[rows], method="bh")
    table["p_holm"], table["p_bh"] = holm, bh


# ---- tables and sentences -------------------------------------------------------------------------------------------
def _means(design: Design, values: Floats) -> pd.DataFrame:
    """Return the mean of every group, or of every cell of two factors."""
    found = {}
    for codes in itertools.product(*(range(len(factor.levels)) for factor in design.factors)):
        inside = (design.levels == codes).all(axis=1)
        words = "_".join(factor.words[code] for factor, code in zip(design.factors, codes, strict=True))
        found[f"mean_{words}"] = known_mean(values[inside])
    return pd.DataFrame(found)


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


def order_columns(found: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
    """Order the columns: labels, means of groups, effect, p, the rest."""
    names = labels.loc[found["column"]].reset_index(drop=True)
    means = [c for c in found if str(c).startswith("mean_")]
    kept = [c for c in ("term",) if c in found] + means + [c for c in COLUMNS if c in found]
    return pd.concat([names, found[kept]], axis=1)
