"""The methods paragraph of a study, written from its record in sentences that can be printed."""

from __future__ import annotations

import pandas as pd

from gdm_core.analysis.suggestions import Recommendation
from gdm_core.study.flow import Flow
from gdm_core.study.question import CORRECTIONS
from gdm_core.study.record import Compared, FlowTested, Record, make_record
from gdm_core.study.sheet import RECORDING, describe_filters
from gdm_core.study.states import MEASURES, SHARES
from gdm_core.study.study import Study
from gdm_core.study.text import format_minutes, format_p, format_rates, format_sizes
from gdm_core.text import listed, plural, pluralise


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
        _describe_flow(one) if isinstance(one, FlowTested) else _describe_comparison(one, record.subject)
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


def _describe_flow(one: FlowTested) -> str:
    return (
        f"Behavioural flow ({format_sizes(one.sizes)}) was compared by the Manhattan distance between mean matrices of "
        f"transitions between states, in {one.unit} (von Ziegler et al., 2024) and in standard errors as in Welch's t, against "
        f"{one.n_permutations:,} random permutations (distance {one.distance:.4g}, z = {one.z:.2f}, {format_p(one.p)})."
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
        sentences.append(f"P values were corrected over {one.n_tests} tests by {by}.")
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
