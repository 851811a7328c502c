"""What differs between conditions, state by state: effect with interval first, p by permutation second, corrected over the
family, with the classical test beside it."""

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
from gdm_core.study.design import Design, check_sizes, limits_of
from gdm_core.study.permutation import Floats, Model, p_of_two, welch_t
from gdm_core.study.sheet import listed
from gdm_core.study.states import Counts

CONFIDENCE = 0.95
PARTIAL = "partial omega squared"
COLUMNS = ("effect", "effect_low", "effect_high", "p", "p_holm", "p_bh", "test", "statistic", "df", "df_residual",
           "p_classical", "n", "d", "effect_is")  # fmt: skip
WHY_NOT = (
    "Frames as units: neighbouring frames of one animal are nearly the same, so they are not samples of their own. p is what "
    "this mistake would have claimed; almost any two groups of animals 'differ' by it. p_by_animal is the answer."
)


@dataclass(frozen=True, eq=False)
class Term:
    """One thing that is asked: a factor, or two of them together.

    name     in tables
    effect   [n, q] columns that say where a unit stands
    beside   [n, c] columns that are taken away first
    is_what  the effect in words
    words    what the classical test is called
    """

    name: str
    effect: Floats
    beside: Floats
    is_what: str
    words: str


def compared(
    design: Design,
    values: Floats,
    n_permutations: int,
    seed: int,
    trend: bool | None = None,
    mixed: Floats | None = None,
    tested: npt.NDArray[np.bool_] | None = None,
) -> tuple[pd.DataFrame, list[str]]:
    """A row for each term and column of values, and what the design cannot say. Columns that are not `tested` have no p."""
    if n_permutations < 1:
        raise ConfigError(f"n_permutations is {n_permutations}; at least 1 is needed.")
    notes = list(design.notes)
    if design.paired and len(design.factors) == 1:
        alone = np.bincount(design.subjects)[design.subjects] < 2
        whole, design, values = design, design.part(~alone), values[~alone]
    else:
        whole = design
    check_sizes(design)
    trend = _trend(design) if trend is None else trend
    if trend and not (len(design.factors) == 1 and design.factors[0].numeric):
        raise ConfigError(
            f"trend asks for one column of numbers; between is {listed([f.name for f in design.factors])}."
        )
    tested = np.ones(values.shape[1], dtype=bool) if tested is None else tested
    means = _means(design, values)
    tables, said = [], limits_of(design, trend, n_permutations, int(tested.sum()))
    for term, part, its in _terms(design, values, trend):
        if not Model.of(term.effect, term.beside, part.strata).effect.size:
            raise DataError(
                f"{term.name!r} cannot be told apart from blocks or covariates: they say the same. Leave one out."
            )
        table = _by_patterns(term, part, its, n_permutations, seed)
        table.insert(0, "term", term.name)
        if mixed is not None:
            put_mixed(table, whole, mixed, trend, said)
        table.loc[~tested, ["p", "statistic", "p_classical"]] = np.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of columns without a value
            correct(table, np.nanmax(its, axis=0) > np.nanmin(its, axis=0))
        if not trend and len(design.factors) == 1 and design.factors[0].numeric and len(design.factors[0].levels) > 2:
            straight = _by_patterns(_trend_term(design), part, its, n_permutations, seed + 1)
            names = {"effect": "trend", "effect_low": "trend_low", "effect_high": "trend_high", "p": "p_trend"}
            straight.loc[~tested, "p"] = np.nan
            table = table.join(straight[list(names)].rename(columns=names))
        tables.append(pd.concat([means, table], axis=1))
    found = pd.concat(tables, keys=range(len(tables)), names=["order", "column"]).reset_index(level="column")
    if len(design.factors) == 1:
        found = found.drop(columns="term")
    asked = found[tested[found["column"]]]
    lacking = int(asked["p"].isna().sum())
    if lacking:
        said.append(f"{lacking} of {len(asked)} rows cannot be tested: too few units have a value there.")
    return found.reset_index(drop=True), notes + said


# ---- what is asked --------------------------------------------------------------------------------------------------
def _terms(design: Design, values: Floats, trend: bool) -> list[tuple[Term, Design, Floats]]:
    """What is tested, and of whom: of two factors where one differs between subjects, their means are its units."""
    beside = design.covariates
    if trend:
        return [(_trend_term(design), design, values)]
    if len(design.factors) == 1:
        own = design.dummies()
        two, plain = own.shape[1] == 1, not (design.paired or beside.size or design.strata.any())
        if design.paired:
            words = "paired t" if two else "repeated measures F"
        else:
            words = ("Welch's t" if two else "one-way F") if plain else f"{'t' if two else 'F'} of a linear model"
        return [(Term(design.factors[0].name, own, beside, _effect_of(design, 0), words), design, values)]
    words = "F of a split-plot model" if design.paired else "F of a linear model"
    names = [factor.name for factor in design.factors]
    columns = [design.dummies(0), design.dummies(1)]
    within = [design.paired and _varies_within(design, j) for j in (0, 1)]
    found: list[tuple[Term, Design, Floats]] = []
    for j in (0, 1):
        if design.paired and not within[j]:
            part, its = _subject_means(design, values)
            found.append((Term(names[j], part.dummies(j), part.covariates, _effect_of(design, j), words), part, its))
            continue
        first = [beside, columns[1 - j]]
        if design.paired and not within[1 - j]:
            first.append(_product(*(one - one.mean(axis=0) for one in columns)))
        found.append((Term(names[j], columns[j], np.hstack(first), _effect_of(design, j), words), design, values))
    both = _product(*columns)
    crossed = "difference of differences" if both.shape[1] == 1 else PARTIAL
    return [*found, (Term(" × ".join(names), both, np.hstack([beside, *columns]), crossed, words), design, values)]


def _product(first: Floats, second: Floats) -> Floats:
    return (first[:, :, None] * second[:, None, :]).reshape(len(first), -1)


def _effect_of(design: Design, j: int) -> str:
    words = design.factors[j].words
    return f"{words[1]} minus {words[0]}" if len(words) == 2 else PARTIAL


def _trend_term(design: Design) -> Term:
    factor = design.factors[0]
    amounts, change = factor.amounts[design.levels[:, :1]], f"change for each 1 of {factor.name}"
    return Term(factor.name, amounts, design.covariates, change, "trend (linear regression)")


def _trend(design: Design) -> bool:
    """Whether levels are numbers that hardly anybody shares, so that a trend is all that can be asked."""
    sizes = np.bincount(design.levels[:, 0])
    return len(design.factors) == 1 and design.factors[0].numeric and len(sizes) > 2 and float(np.median(sizes)) < 2


def _varies_within(design: Design, j: int) -> bool:
    frame = pd.DataFrame({"subject": design.subjects, "level": design.levels[:, j]})
    return bool((frame.groupby("subject")["level"].nunique() > 1).any())


def _subject_means(design: Design, values: Floats) -> tuple[Design, Floats]:
    """One unit a subject: the mean of its cells."""
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
def _by_patterns(term: Term, design: Design, values: Floats, n_permutations: int, seed: int) -> pd.DataFrame:
    """One row for each column of values; those that the same units have are tested together."""
    known = np.isfinite(values)
    found: list[tuple[npt.NDArray[np.int64], pd.DataFrame]] = []
    for pattern in np.unique(known, axis=1).T:
        columns = np.flatnonzero((known == pattern[:, None]).all(axis=0))
        part = design.part(pattern)
        one = replace(term, effect=term.effect[pattern], beside=term.beside[pattern])
        table = _tested(one, part, values[pattern][:, columns], n_permutations, seed)
        table["n"] = len(np.unique(part.subjects))
        found.append((columns, table.set_index(columns)))
    return pd.concat([table for _, table in found]).sort_index()


def _tested(term: Term, design: Design, values: Floats, n_permutations: int, seed: int) -> pd.DataFrame:
    """[m] rows; NaN where too few units have a value."""
    test = _of_two if term.words == "Welch's t" else _of_columns
    found = test(term, design, values, n_permutations, seed)
    words = {"test": f"permutation, {term.words}", "effect_is": term.is_what}
    return pd.DataFrame(dict.fromkeys(COLUMNS, np.nan) | found | words, index=range(values.shape[1]))


def _of_two(term: Term, design: Design, values: Floats, n_permutations: int, seed: int) -> dict[str, Any]:
    """Welch's t of two groups."""
    from scipy import special, stats

    second = term.effect[:, 0] > 0
    groups = values[~second], values[second]
    sizes = np.array([[len(group)] for group in groups])
    if sizes.min() < 2:
        return {}
    means = np.stack([group.mean(axis=0) for group in groups])
    variances = np.stack([group.var(axis=0, ddof=1) for group in groups])
    t, df = welch_t(means, variances / sizes, sizes)
    difference = means[1] - means[0]
    error = np.sqrt((variances / sizes).sum(axis=0))
    half = special.stdtrit(np.where(np.isfinite(df), df, 1.0), (1 + CONFIDENCE) / 2) * error
    spread = np.sqrt((variances * (sizes - 1)).sum(axis=0) / (len(values) - 2))
    return {
        "effect": difference,
        "effect_low": difference - half,
        "effect_high": difference + half,
        "p": p_of_two(values, second, n_permutations, seed),
        "statistic": t,
        "df": 1.0,
        "df_residual": df,
        "p_classical": 2 * stats.t.sf(np.abs(t), df),
        "d": ratio(difference, spread),
    }


def _of_columns(term: Term, design: Design, values: Floats, n_permutations: int, seed: int) -> dict[str, Any]:
    """t or F of a linear model, with what stands beside the term taken away."""
    from scipy import special, stats

    if not len(values):  # a state that nobody has
        return {}
    model = Model.of(term.effect, term.beside, design.strata)
    q = model.effect.shape[1]
    if q == 0 or model.df_residual < 1:
        return {}
    free = model.residuals(values)
    total = (free**2).sum(axis=0)
    explained = ((model.effect.T @ free) ** 2).sum(axis=0)
    f = np.where(total > 0, model.f(explained, total), np.nan)
    base = {"p": model.p(values, n_permutations, seed), "df": float(q), "df_residual": float(model.df_residual),
            "p_classical": stats.f.sf(f, q, model.df_residual)}  # fmt: skip
    if q > 1 or term.effect.shape[1] > 1:
        size = q + model.df_residual + 1
        share = np.maximum(q * (f - 1), 0) / (
            np.maximum(q * (f - 1), 0) + size
        )  # omega squared: eta squared is too large
        tails = ((1 + CONFIDENCE) / 2, (1 - CONFIDENCE) / 2)
        low, high = (np.nan_to_num(special.ncfdtrinc(q, model.df_residual, tail, np.minimum(f, 1e6))) for tail in tails)
        bounds = {"effect_low": low / (low + size), "effect_high": high / (high + size)}
        return base | {"effect": share, "statistic": f} | bounds
    along = model.residuals(term.effect)[:, 0]
    slope = along @ free / (along @ along)
    spread = np.sqrt(np.maximum(total - explained, 0) / model.df_residual)
    half = special.stdtrit(model.df_residual, (1 + CONFIDENCE) / 2) * spread / np.sqrt(along @ along)
    scale = spread * (np.sqrt(2) if design.paired else 1.0)  # of differences: what power speaks of
    return base | {
        "effect": slope,
        "effect_low": slope - half,
        "effect_high": slope + half,
        "statistic": np.sign(slope) * np.sqrt(f),
        "d": ratio(slope, scale) if term.effect.max() == 1 else np.nan,
    }


def correct(table: pd.DataFrame, differs: npt.NDArray[np.bool_]) -> None:
    """p corrected over the family: all rows whose values differ at all. A state that is alike everywhere was decided before
    groups were looked at, and costs the others nothing."""
    from scipy import stats

    asked = np.flatnonzero(differs & table["p"].notna().to_numpy())
    holm, bh = (table["p"].to_numpy(copy=True) for _ in range(2))
    if n := len(asked):
        # statsmodels' multipletests does the same, and collects garbage each time: half a second of a page
        order = asked[np.argsort(holm[asked], kind="stable")]
        holm[order] = np.minimum(np.maximum.accumulate(holm[order] * np.arange(n, 0, -1)), 1.0)
        bh[asked] = stats.false_discovery_control(bh[asked], method="bh")
    table["p_holm"], table["p_bh"] = holm, bh


# ---- classical tests beside permutations ------------------------------------------------------------------------------
def put_mixed(table: pd.DataFrame, design: Design, values: Floats, trend: bool, notes: list[str]) -> None:
    """The classical columns of a mixed model over recordings, with animals as what is random."""
    from scipy import stats
    from statsmodels.regression.mixed_linear_model import MixedLM

    if len(design.factors) > 1:
        raise ConfigError("mixed=True takes one factor; ask for each by itself, with where.")
    of_unit = np.repeat(np.arange(len(design.rows)), [len(rows) for rows in design.rows])
    rows, subjects = np.concatenate(design.rows), design.subjects[of_unit]
    effect = (design.factors[0].amounts[design.levels[:, :1]] if trend else design.dummies())[of_unit]
    table["test"] = "permutation, mixed model"
    failed = 0
    for column in table.index:
        y = values[rows, column]
        known = np.isfinite(y)
        x = np.concatenate([np.ones((len(y), 1)), effect, design.covariates[of_unit]], axis=1)[known]
        q, n_subjects = effect.shape[1], len(np.unique(subjects[known]))
        df = int(known.sum()) - n_subjects - q if design.paired else n_subjects - x.shape[1]
        statistic = np.nan
        if df >= 1 and np.ptp(y[known]) > 0 and np.linalg.matrix_rank(x) == x.shape[1] and n_subjects < known.sum():
            scale = y[known].std()
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")  # what does not converge or is singular is counted below
                try:
                    fit = MixedLM(y[known] / scale, x, subjects[known]).fit(reml=True)
                    b, v = fit.fe_params[1 : 1 + q], np.asarray(fit.cov_params())[1 : 1 + q, 1 : 1 + q]
                    statistic = float(b @ np.linalg.solve(v, b)) / q
                except (np.linalg.LinAlgError, ValueError):
                    statistic = np.nan
        failed += not np.isfinite(statistic)
        table.loc[column, ["statistic", "df", "df_residual", "p_classical"]] = [
            statistic, float(q), float(df), float(stats.f.sf(statistic, q, df)) if df >= 1 else np.nan]  # fmt: skip
    if failed:
        notes.append(f"The mixed model found no answer for {failed} of {len(table)} rows.")


def by_frames(design: Design, counts: Counts, measure: str) -> pd.DataFrame:
    """statistic, df, df_residual and p of each state with frames (for lengths of bouts: bouts) as units, by sums alone."""
    if len(design.factors) != 1 or design.paired:
        raise ConfigError("unit='frame' shows a mistake between the groups of one column; leave out within.")
    if measure == "median_bout_s":
        raise ConfigError("unit='frame' takes usage, bouts, bouts_per_min or mean_bout_s.")
    recording, place, _, long = counts.runs
    k = len(counts.states)
    group = np.full(len(counts.recordings), -1)
    for rows, level in zip(design.rows, design.levels[:, 0], strict=True):
        group[rows] = level
    n_groups = len(design.factors[0].levels)
    inside = group[recording] >= 0
    cells = group[recording] * k + place

    def total(weights: Floats | None = None) -> Floats:
        weighed = None if weights is None else weights[inside]
        return np.bincount(cells[inside], weighed, minlength=n_groups * k).reshape(n_groups, k).astype(np.float64)

    if measure == "mean_bout_s":
        seconds = long / counts.rates[recording]
        n, sums, squares = total(), total(seconds), total(seconds**2)
    else:  # 0 or 1 a frame: in the state, or at the beginning of a bout
        frames = np.bincount(
            group[group >= 0],
            [one.labelled for one, g in zip(counts.recordings, group, strict=True) if g >= 0],
            n_groups,
        )
        n = np.repeat(frames[:, None], k, axis=1)
        sums = squares = total(long.astype(np.float64)) if measure == "usage" else total()
    return _from_sums(n, sums, squares)


def _from_sums(n: Floats, sums: Floats, squares: Floats) -> pd.DataFrame:
    """Welch's t of two groups, one-way F of several, from [G, K] sums."""
    from scipy import stats

    if (n < 2).all(axis=1).any():
        raise DataError("A group has no frames with a state.")
    with np.errstate(divide="ignore", invalid="ignore"):
        means, within = sums / n, squares - sums**2 / n
        if len(n) == 2:
            t, df = welch_t(means, within / (n - 1) / n, n)
            return pd.DataFrame(
                {"statistic": t, "df": 1.0, "df_residual": df, "p_classical": 2 * stats.t.sf(np.abs(t), df)}
            )
        all_n = n.sum(axis=0)
        between = (sums**2 / n).sum(axis=0) - sums.sum(axis=0) ** 2 / all_n
        f = between / (len(n) - 1) / (within.sum(axis=0) / (all_n - len(n)))
    df_residual = all_n - len(n)
    return pd.DataFrame(
        {
            "statistic": f,
            "df": len(n) - 1.0,
            "df_residual": df_residual,
            "p_classical": stats.f.sf(f, len(n) - 1, df_residual),
        }
    )


# ---- what is said -------------------------------------------------------------------------------------------------------
def _means(design: Design, values: Floats) -> pd.DataFrame:
    """[m] mean of every group, cells of two factors each by itself."""
    found = {}
    for codes in itertools.product(*(range(len(factor.levels)) for factor in design.factors)):
        inside = (design.levels == codes).all(axis=1)
        words = "_".join(factor.words[code] for factor, code in zip(design.factors, codes, strict=True))
        found[f"mean_{words}"] = known_mean(values[inside])
    return pd.DataFrame(found)


def in_unit(value: float, share: bool) -> str:
    """A difference as it is read: of shares in percentage points."""
    return f"{100 * value:.3g} percentage points" if share else f"{value:.3g}"


def sentence(row: Any, name: str, measure: str, share: bool) -> str:
    """One row in words, effect first. `share` says whether the measure is a share of something."""
    share = share and "omega" not in row["effect_is"]
    low, high = (f"{(100 if share else 1) * row[edge]:.3g}" for edge in ("effect_low", "effect_high"))
    if not np.isfinite(row["p"]):
        return f"{name}, {measure}: not tested."
    marks = f"{row['effect_is']} is {in_unit(row['effect'], share)}, 95 % interval {low} to {high}"
    told = (
        f"{name}, {measure}: {marks}; p = {row['p']:.2g} ({row['p_holm']:.2g} with all states in mind), n = {row['n']}."
    )
    if "p_trend" not in row or not np.isfinite(row["p_trend"]):
        return told
    between = f"{row['trend']:.3g} for each 1 more, {row['trend_low']:.3g} to {row['trend_high']:.3g}"
    return f"{told} The trend: {between}; p = {row['p_trend']:.2g}."


def ordered(found: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
    """The table as people read it: which state, means of groups, effect, p, the rest."""
    names = labels.loc[found["column"]].reset_index(drop=True)
    means = [c for c in found if str(c).startswith("mean_")]
    kept = [c for c in ("term",) if c in found] + means + [c for c in COLUMNS if c in found]
    rest = [c for c in ("trend", "trend_low", "trend_high", "p_trend") if c in found]
    return pd.concat([names, found[[*kept, *rest]]], axis=1)
