"""The record of an analysis, with every number that methods and page state, its plan, and the methods paragraph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import pandas as pd

from gdm_core import __version__
from gdm_core.analysis.suggestions import Recommendation
from gdm_core.models.registry import TITLES
from gdm_core.study.flow import Flow
from gdm_core.study.means import CONFIDENCE
from gdm_core.study.question import CORRECTIONS, Question
from gdm_core.study.sheet import RECORDING, describe_filters
from gdm_core.study.states import CHANGE_MEASURES, MEASURES, SHARES, STATE_MEASURES, describe_minimum
from gdm_core.study.study import Study
from gdm_core.study.text import format_minutes, format_p, format_rates, format_sizes
from gdm_core.text import listed, plural, pluralise

SETTINGS = {"n_states": "K", "n_latent": "D", "seed": "random seed"}  # of a model, and their names in the paragraph


@dataclass(frozen=True)
class Compared:
    """What one comparison of a measure did; see `Study.compare`.

    n_tests      tests in a correction: of all states, for each factor and their interaction
    n_rare       states that were too rare to test: `minimum` says when
    confidence   level of the intervals, which are not corrected
    is_averaged  whether recordings of one unit under the same condition were averaged
    n_contrasts  doses that were compared with the control by Dunnett's test
    control      first level, which other doses are compared with
    """

    question: Question
    sizes: Mapping[str, int]
    unit: str
    is_averaged: bool
    test: str
    effect: str
    n_permutations: int
    n_tests: int
    n_rare: int
    correction: str
    n_contrasts: int
    control: str
    minimum: str
    confidence: float = CONFIDENCE


@dataclass(frozen=True)
class Record:
    """An analysis: its recordings, its states, what was left out, and its tests.

    n_subjects   None if the sheet has no column for them
    minutes, rates_hz   smallest and largest of the recordings
    preparation  sentences on cropping, windows and missing data
    smoothed_s, shortest_s   smoothing of soft states and shortest bout, 0 where they change nothing
    origin       where the states came from, "" for a model or another tool
    model, settings     title of the model and its settings
    excluded     reason -> recordings that were left out
    plan, changes   what was planned, and phrases on what changed after results were seen
    n_tried      questions that were answered so far, 0 if unknown
    packages     name -> version
    """

    n_recordings: int
    n_subjects: int | None
    subject: str
    minutes: tuple[float, float]
    rates_hz: tuple[float, float]
    rate_source: str
    preparation: tuple[str, ...]
    smoothed_s: float
    shortest_s: float
    n_states: int
    origin: str
    model: str
    settings: Mapping[str, int]
    why_k: str
    excluded: Mapping[str, tuple[str, ...]]
    tests: tuple[Compared | Flow, ...]
    plan: Mapping[str, str]
    changes: tuple[str, ...]
    n_tried: int
    packages: Mapping[str, str]


def make_record(study: Study, found: Sequence[pd.DataFrame | Flow] = (), correction: str = "p_holm") -> Record:
    """Return the record of a study and its tests.

    found        comparisons and flow tests; their filters decide which recordings are counted
    correction   column of p values that the paper reports
    """
    sheet, every, model = study.sheet, study.sheet.names, study.model
    used = {
        row
        for one in found
        for row in (one.rows if isinstance(one, Flow) else map(every.index, one.attrs["recordings"]))
    }
    rows = sorted(used) or list(range(len(every)))
    minutes, rates = study.counts.labelled_minutes[rows], study.counts.rates[rows]
    excluded: dict[str, tuple[str, ...]] = {}
    for name, reason in sheet.set_aside.items():
        excluded[reason] = (*excluded.get(reason, ()), name)
    lasts = {name: seconds * (round(seconds * rates.max()) > 1) for name, seconds in study.smoothing.items()}
    asked = [describe_plan(study, one.attrs["question"]) for one in found if not isinstance(one, Flow)]
    planned = [(name, old, now.get(name, "")) for now in asked for name, old in study.plan.items()]
    return Record(
        n_recordings=len(rows), n_subjects=len({sheet.animals[every[row]] for row in rows}) if sheet.animal else None,
        subject=sheet.subject, minutes=(float(minutes.min()), float(minutes.max())),
        rates_hz=(float(rates.min()), float(rates.max())), rate_source=study.rate_source,
        preparation=tuple(study.preparation), smoothed_s=lasts.get("smooth_s", 0.0), shortest_s=lasts.get("shortest_s", 0.0),
        n_states=len(study.states), origin=study.origin,
        model=TITLES.get(model.family.replace("_", "-"), type(model).__name__) if model else "",
        settings={word: getattr(model.config, name) for name, word in SETTINGS.items() if model and hasattr(model.config, name)},
        why_k=study.why_k.strip().rstrip("."), excluded=excluded,
        tests=tuple(one if isinstance(one, Flow) else _record_comparison(one, correction, sheet.subject) for one in found),
        plan=study.plan,
        changes=tuple(f"{name} ({old} in the plan, now {now})" for name, old, now in planned if now not in ("", old)),
        n_tried=len(study.tried),
        packages={name: version(name) for name in ("numpy", "scipy", "statsmodels")} | {"GDM Studio": __version__},
    )  # fmt: skip


def _record_comparison(table: pd.DataFrame, correction: str, word: str) -> Compared:
    about, question = table.attrs, table.attrs["question"]
    of_states = question.measure in STATE_MEASURES | CHANGE_MEASURES
    return Compared(
        question, about["sizes"], about["unit"], about["averaged"], str(table["test"].iloc[0]).removeprefix("permutation, "),
        str(table["effect_is"].iloc[0]), about["n_permutations"], about["n_tests"],
        len(about["unused"]) if of_states else 0, correction, about["n_contrasts"], about["control"], describe_minimum(word),
    )  # fmt: skip


# ---- the plan -----------------------------------------------------------------------------------------------------------
def describe_plan(study: Study, question: Question) -> dict[str, str]:
    """Return what a plan fixes, as text by heading."""
    rates, none = study.counts.rates, "none"
    sessions = [f"sessions within {question.within}"] if question.within else []
    return {
        "primary measure": MEASURES.get(question.measure, question.measure),
        "compared by": listed([*question.between, *sessions]), "unit": question.unit, "blocks": question.blocks or none,
        "covariates": listed([*question.covariates, *question.planned]) or none,
        "recordings where": listed(describe_filters(question.where)) or "all",
        "left out": listed(sorted(study.sheet.set_aside)) or none, "number of states": str(len(study.states)),
        "time scale": format_rates(float(rates.min()), float(rates.max())), "correction": CORRECTIONS[question.correction],
    }  # fmt: skip


def write_methods(study: Study, *found: pd.DataFrame | Flow, correction: str = "p_holm") -> str:
    """Return a methods paragraph for a paper, with numbers and versions.

    found        tables of `compare` and results of `flow`
    correction   "p_holm" or "p_bh", as reported in the paper
    """
    return describe_record(make_record(study, found, correction))


def describe_record(record: Record) -> str:
    """Return the methods paragraph of a record."""
    animals = "" if record.n_subjects is None else f" of {plural(record.n_subjects, record.subject)}"
    source = f" ({record.rate_source})" if record.rate_source else ""
    each = "" if record.n_recordings == 1 else " each"
    sentences = [
        f"We analysed {plural(record.n_recordings, RECORDING)}{animals} ({format_minutes(*record.minutes)}{each} with a state, "
        f"{format_rates(*record.rates_hz)}{source}).",
        *record.preparation,
        _describe_states(record),
    ]
    if record.smoothed_s:
        sentences.append(f"Soft states were averaged over {record.smoothed_s:g} s.")
    if record.shortest_s:
        sentences.append(f"Bouts below {record.shortest_s:g} s were merged into their neighbours.")
    if record.excluded:
        reasons = "; ".join(f"{', '.join(names)}: {why}" for why, names in record.excluded.items())
        sentences.append(f"Left out: {reasons}.")
    sentences += [
        _describe_flow(one) if isinstance(one, Flow) else _describe_comparison(one, record.subject)
        for one in record.tests
    ]
    if len({type(one) for one in record.tests}) > 1:
        sentences.append(
            "Transitions overall and the measure are separate questions; p values are not corrected across the two."
        )
    if record.plan:
        planned, after = (
            "; ".join(f"{name}: {value}" for name, value in record.plan.items()),
            "Nothing was changed afterwards.",
        )
        if record.changes:
            after = f"Changed after results were seen: {listed(record.changes)}."
        sentences.append(f"The plan was locked before results were seen ({planned}). {after}")
    if record.n_tried > 1:
        sentences.append(f"{record.n_tried} questions were answered in all.")
    *packages, own = (f"{name} {number}" for name, number in record.packages.items())
    return " ".join([*sentences, f"Analyses used {own} with {listed(packages)}."])


def _describe_states(record: Record) -> str:
    """Return how states were found, with the reason for their number."""
    if record.origin:
        return record.origin
    if not record.model:
        return f"Behaviour was described by {plural(record.n_states, 'state')}, which another tool found."
    settings = ", ".join(f"{name}{'' if ' ' in name else ' ='} {value}" for name, value in record.settings.items())
    why = record.why_k
    if not why.startswith("K "):
        why = f"K was set by the analyst: {why}" if why else "K was set by the analyst"
    return (
        f"Behaviour was described by {plural(record.n_states, 'state')}, which one {record.model} ({settings}) found for all "
        f"{pluralise(record.subject)}, fitted to equally many samples of each {record.subject} and blind to conditions. {why}."
    )


def describe_search(verdict: Recommendation, n_states: int) -> str:
    """Return how a search for settings led to K, as `Study.why_k`.

    verdict    on the model and K
    n_states   K of the study
    """
    reason = verdict.sentences[0].partition(": ")[2].rstrip(".")
    certainty = verdict.sentences[1].partition(";")[0].rstrip(".")
    found = f"{reason} ({certainty[:1].lower()}{certainty[1:]})"
    if verdict.n_states == n_states:
        return f"K was chosen by fits to one half of the data, scored on the other: {found}."
    return f"K was set by the analyst; fits to one half of the data, scored on the other, favoured K = {verdict.n_states}: {found}."


def _describe_flow(one: Flow) -> str:
    scaled = "" if one.paired else " and in standard errors as in Welch's t"
    within = f" within {pluralise(one.unit_word)}" if one.paired else ""
    return (
        f"Behavioural flow ({format_sizes(one.sizes)}) was compared by the Manhattan distance between mean matrices of "
        f"transitions between states, in {one.unit} (von Ziegler et al., 2024){scaled}, against {len(one.null):,} random "
        f"permutations{within} (distance {one.distance:.4g}, z = {one.z:.2f}, {format_p(one.p)})."
    )


def _describe_comparison(one: Compared, word: str) -> str:
    question = one.question
    parts = [
        f"The {MEASURES.get(question.measure, question.measure)} was compared by {listed(list(question.between))}",
        *(f"where {each}" for each in describe_filters(question.where)),
        *([f"in sessions paired within {question.within}"] if question.within else []),
        *([f"within blocks of {question.blocks}"] if question.blocks else []),
        *([f"adjusted for {listed(list(question.covariates))}"] if question.covariates else []),
        *([f"adjusted for {listed(list(question.planned))}, as planned in advance"] if question.planned else []),
    ]
    averaged = "; recordings of one unit under the same condition were averaged" if one.is_averaged else ""
    within = pluralise(word) if question.within else question.blocks
    sentences = [
        f"{' '.join(parts)} ({format_sizes(one.sizes)}). The unit of analysis was the {one.unit}{averaged}.",
        f"The test statistic ({one.test}) was compared with {one.n_permutations:,} random permutations"
        f"{f' within {within}' if within else ''}.",
    ]
    if one.n_tests > 1:
        by = f"the method of {CORRECTIONS[one.correction]}"
        each = " for each factor and their interaction" if len(question.between) > 1 else ""
        sentences.append(f"P values were corrected over {one.n_tests} tests{each} by {by}.")
    if one.n_contrasts:
        control = f"{question.between[0]} {one.control}"
        sentences.append(
            f"Each of {one.n_contrasts} levels was compared with {control} by Dunnett's test, corrected over states (Holm)."
        )
    interval = f"with unadjusted {one.confidence:.0%} confidence intervals"
    if "minus" in one.effect:
        points = " in percentage points" if question.measure in SHARES else ""
        size = "d_z, Cohen's d of the differences" if question.within else "Cohen's d"
        sentences.append(f"Effects are differences{points} ({one.effect}) {interval}, and {size}.")
    else:
        sentences.append(f"Effects are given as {one.effect}, {interval}.")
    if one.n_rare:
        were = "was" if one.n_rare == 1 else "were"
        sentences.append(f"{plural(one.n_rare, 'rare state')} ({one.minimum}) {were} not tested.")
    return " ".join(sentences)
