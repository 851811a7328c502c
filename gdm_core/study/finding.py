"""The finding of a question: the flow test, the comparison, pairs and doses, a mixed model of recordings, and equivalence."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from gdm_core.errors import ConfigError, GdmError
from gdm_core.study.comparing import correct_p, is_trend, write_sentence
from gdm_core.study.design import LEVEL
from gdm_core.study.flow import Flow
from gdm_core.study.means import CONFIDENCE
from gdm_core.study.permutation import Floats, Ints, correct_holm
from gdm_core.study.question import Question
from gdm_core.study.states import CHANGE_MEASURES, SHARES
from gdm_core.study.study import Study
from gdm_core.study.text import format_value

MARGIN = 0.5  # standard deviations between animals
STATE_COLUMNS = ("state", "from_state", "to_state")


@dataclass(frozen=True)
class Finding:
    """Answer to a question; `table` is None and `trouble` an error if it has none.

    no_flow      why there is no flow test
    unadjusted   the comparison without covariates, None if there are none
    log_ratios   the comparison of log-ratios of shares, if shares were compared, which sum to one
    recordings   mixed model of all recordings, if recordings of one unit were averaged
    per_unit     adjusted values of each unit and state
    means        adjusted means of groups, with intervals
    confounds    columns of the sheet, and which of them are associated with the groups
    """

    flow: Flow | None = None
    no_flow: str = "The flow test compares the groups of one column."
    table: pd.DataFrame | None = None
    unadjusted: pd.DataFrame | None = None
    log_ratios: pd.DataFrame | None = None
    recordings: pd.DataFrame | None = None
    per_unit: pd.DataFrame | None = None
    means: pd.DataFrame | None = None
    confounds: pd.DataFrame | None = None
    trouble: str = ""

    @property
    def tests(self) -> list[Flow | pd.DataFrame]:
        """The flow test and the comparison, as far as there are any."""
        return [one for one in (self.flow, self.table) if one is not None]

    @property
    def notes(self) -> list[str]:
        """Limitations of the design, in sentences."""
        notes = [one.notes if isinstance(one, Flow) else one.attrs["notes"] for one in self.tests]
        return list(dict.fromkeys(note for one in notes for note in one))


def answer_question(
    study: Study, question: Question, n_permutations: int = 10_000, seed: int = 0, counts: bool = False,
    report: Callable[[str, float], None] = lambda text, share: None,
) -> Finding:  # fmt: skip
    """Return the finding of a question to a study.

    n_permutations, seed   number and seed of the permutations
    counts                 as in `Study.flow`
    report                 called with (text, share) of the progress
    """
    measure, between, options = question.measure, question.between, question.options
    random: dict[str, Any] = {"n_permutations": n_permutations, "seed": seed}
    plain = options | {"covariates": (), "planned": ()}
    found = Finding()
    report("Comparing how one state follows another", 0.1)
    if len(between) == 1:
        try:
            found = Finding(study.flow(between[0], counts=counts, **random, **options), no_flow="")
        except GdmError as error:
            found = Finding(no_flow=str(error))
    report("Comparing each state", 0.5)
    try:
        table = study.compare(measure, between, **random, **options)
        return replace(
            found, table=table, recordings=_compare_recordings(study, table),
            unadjusted=study.compare(measure, between, **random, **plain) if plain != options else None,
            log_ratios=study.compare("log_ratio", between, **random, **options) if measure == "usage" else None,
            per_unit=study.per_unit(measure, between, **options), means=study.group_means(measure, between, **options),
            confounds=study.find_confounds(between, **plain),
        )  # fmt: skip
    except GdmError as error:
        return replace(found, trouble=str(error))


def _compare_recordings(study: Study, table: pd.DataFrame) -> pd.DataFrame | None:
    question: Question = table.attrs["question"]
    if question.measure in CHANGE_MEASURES:  # too many to fit at once
        return None
    try:
        return compare_recordings(study, table)
    except ConfigError:  # pairs, several groups, or one recording each
        return None


def follow_up(study: Study, table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the pairs of groups or doses, or the equivalence, that follow a comparison."""
    if table["d"].notna().any():
        return {"equivalence": table[["name"]].join(assess_equivalence(table))}
    is_pooled = "omega" in table["effect_is"].iloc[0] and len(table.attrs["question"].between) == 1
    return {"pairs": compare_pairs(study, table)} if is_pooled or table.attrs["n_contrasts"] else {}


# ---- what follows -------------------------------------------------------------------------------------------------------
def order_findings(table: pd.DataFrame, correction: str = "p_holm") -> list[int]:
    """Return the positions of the rows of `compare` that survive correction, largest effect first.

    Effects are Cohen's d, or omega squared for several groups.
    """
    size = table["d"].fillna(table["effect"]).abs().to_numpy()
    found = np.flatnonzero(table[correction].to_numpy() < LEVEL)
    return [int(row) for row in found[np.argsort(-size[found], kind="stable")]]


def repeat_comparison(study: Study, table: pd.DataFrame, **changes: Any) -> pd.DataFrame:
    """Ask the question of a comparison again, of another study or with other arguments."""
    q: Question = table.attrs["question"]
    options = q.options | {"n_permutations": table.attrs["n_permutations"]} | changes
    return study.compare(q.measure, q.between, **options)


def compare_pairs(study: Study, table: pd.DataFrame) -> pd.DataFrame:
    """Compare every pair of groups in the states that survive correction, or each dose with the lowest (Dunnett).

    Both are corrected over all states.

    table   result of `compare` with three or more groups or doses
    """
    question: Question = table.attrs["question"]
    pairs = _compare_doses(study, table) if table.attrs["n_contrasts"] else _compare_groups(study, table)
    pairs["sentence"] = [write_sentence(row, question.measure in SHARES) for _, row in pairs.iterrows()]
    first = [*(c for c in STATE_COLUMNS if c in table), "first", "second"]
    return pairs[[*first, *(c for c in pairs if c not in first)]]


def _compare_groups(study: Study, table: pd.DataFrame) -> pd.DataFrame:
    question: Question = table.attrs["question"]
    levels = study.design(question).factors[0].levels
    is_pooled = table["d"].isna().all() and not table["effect_is"].str.contains("change").any()
    if len(question.between) > 1 or len(levels) < 3 or not is_pooled:
        raise ConfigError("Pairs are compared after a test of three or more groups of one column.")
    columns = [c for c in STATE_COLUMNS if c in table]
    significant, parts = table.loc[order_findings(table), columns], []
    for first, second in itertools.combinations(levels, 2):
        chosen = {**question.where, question.between[0]: [first, second]}
        found = repeat_comparison(study, table, where=chosen, trend=False)
        means = [c for c in found if str(c).startswith("mean_")]
        labelled = found.rename(columns=dict(zip(means, ("mean_first", "mean_second"), strict=True)))
        parts.append(significant.merge(labelled, on=columns).assign(first=first, second=second))
    pairs = pd.concat(parts, ignore_index=True)
    correct_p(pairs, np.ones(len(pairs), bool))
    return pairs


def _compare_doses(study: Study, table: pd.DataFrame) -> pd.DataFrame:
    """Compare each dose with the lowest, with p corrected over doses (Dunnett) and states (Holm)."""
    from scipy import stats

    design, values, _ = study.adjusted_values(table.attrs["question"])
    columns = [c for c in (*STATE_COLUMNS, "name", "test") if c in table]
    factor, parts = design.factors[0], []
    for place in np.flatnonzero(table["p"].notna()):
        known = np.isfinite(values[:, place])
        groups = [values[known & (design.levels[:, 0] == code), place] for code in range(len(factor.levels))]
        if min(map(len, groups)) < 2:
            continue
        found = stats.dunnett(*groups[1:], control=groups[0], rng=np.random.default_rng(0))
        interval, spread = found.confidence_interval(), np.sqrt(sum(((g - g.mean()) ** 2).sum() for g in groups))
        effects = np.array([group.mean() - groups[0].mean() for group in groups[1:]])
        part = pd.DataFrame({
            "first": factor.levels[0], "second": factor.levels[1:], "effect": effects, "effect_low": interval.low,
            "effect_high": interval.high, "p": found.pvalue, "d": effects / spread * np.sqrt(known.sum() - len(groups)),
        })  # fmt: skip
        parts.append(part.assign(**{name: table[name].iloc[place] for name in columns}))
    if not parts:
        raise ConfigError("No state has values of two or more animals in every group, so levels cannot be compared.")
    pairs = pd.concat(parts, ignore_index=True)
    pairs["p_holm"] = pairs.groupby("second")["p"].transform(lambda p: correct_holm(p.to_numpy()))
    pairs["effect_is"] = [f"{factor.name} {format_value(level)} minus {factor.words[0]}" for level in pairs["second"]]
    return pairs


def compare_recordings(study: Study, table: pd.DataFrame) -> pd.DataFrame:
    """Repeat a comparison by a mixed model of all recordings, with random intercepts for animals and litters (REML).

    Columns are effect, its interval, p (t with the degrees of freedom between animals or litters) and p_holm, for each row of
    the table. Animals with more recordings weigh more, unlike in averages. Litters are the unit if it is not the animal, or
    else the blocks.

    table   result of `compare` of two groups or a trend, without pairs
    """
    question: Question = table.attrs["question"]
    design, (values, _) = study.design(question), study.measure_values(question.measure)
    two = len(design.factors) == 1 and len(design.factors[0].levels) == 2
    if design.paired or not (two or is_trend(design, question.trend)):
        raise ConfigError("A mixed model of recordings compares two groups or a trend, without pairs.")
    rows, units = np.concatenate(design.rows), np.repeat(np.arange(len(design.rows)), list(map(len, design.rows)))
    amounts = design.levels[:, 0] if two else design.factors[0].amounts[design.levels[:, 0]]
    exog = np.column_stack([np.ones(len(rows)), amounts[units], design.covariates[units]])
    litters = design.strata[units] if question.blocks else units
    if len(np.unique(litters)) == len(rows):
        raise ConfigError("Each animal has one recording, so a mixed model would repeat the comparison.")
    found = np.full((values.shape[1], 4), np.nan)
    for column in np.flatnonzero(table["p"].notna()):
        known = np.isfinite(values[rows, column])
        parts = (one[known] for one in (values[rows, column], exog, litters, design.animals[rows]))
        found[column] = _fit_mixed(*parts)
    result = pd.DataFrame(found, columns=["effect", "effect_low", "effect_high", "p"], index=table.index)
    return table[["name"]].join(result.assign(p_holm=correct_holm(found[:, 3])))


def _fit_mixed(y: Floats, exog: Floats, litters: Ints, animals: Ints) -> tuple[float, ...]:
    """Return the effect of the second column with its interval and p; NaN if the model cannot be fitted.

    Animals with several recordings are a variance component within litters of several animals.
    """
    from scipy import stats
    from statsmodels.regression.mixed_linear_model import MixedLM

    pairs = np.unique(np.column_stack([litters, animals]), axis=0)
    varies = len(np.unique(np.column_stack([litters, exog[:, 1]]), axis=0)) > len(np.unique(litters))
    lost = len(np.unique(litters)) - 1 if varies else 0  # the effect is estimated within litters
    df, scale = len(pairs if varies else np.unique(litters)) - lost - exog.shape[1], y.std()
    if df < 1 or not scale > 0:
        return (np.nan,) * 4
    nested = len(pairs) > len(np.unique(litters)) and len(pairs) < len(y)
    components = {"exog_vc": _animals_within(litters, animals)} if nested else {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a variance of zero is an estimate like any other
        try:
            fit = MixedLM(y / scale, exog, litters, exog_re=np.ones((len(y), 1)), **components).fit(reml=True)
        except np.linalg.LinAlgError:
            return (np.nan,) * 4
        effect, error = float(fit.params[1]) * scale, float(fit.bse[1]) * scale
    if not error > 0:
        return (np.nan,) * 4
    half = stats.t.ppf((1 + CONFIDENCE) / 2, df) * error
    return effect, effect - half, effect + half, float(2 * stats.t.sf(abs(effect) / error, df))


def _animals_within(litters: Ints, animals: Ints) -> Any:
    """Return the variance component of animals within litters."""
    from statsmodels.regression.mixed_linear_model import VCSpec

    mats = [
        (animals[litters == one][:, None] == np.unique(animals[litters == one])).astype(float)
        for one in np.unique(litters)
    ]
    names = [[str(column) for column in range(mat.shape[1])] for mat in mats]
    return VCSpec(["animal"], [names], [mats])


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
    p = pd.Series(np.maximum(*tails), table.index).where(table["p"].notna())
    found = pd.DataFrame({"margin": far, "p_equivalence": p, "p_equivalence_holm": correct_holm(p.to_numpy())})
    is_small = found["p_equivalence_holm"] < LEVEL
    found["conclusion"] = np.select([table["p_holm"] < LEVEL, is_small], ["different", "equivalent"], "inconclusive")
    return found
