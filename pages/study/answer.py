"""Results of a comparison: the figure of groups, sentences and the table of states."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from gdm_core.study import Flow, Question
from gdm_core.study.comparing import write_sentence
from gdm_core.study.design import BEFORE, LEVEL
from gdm_core.study.finding import Finding, assess_equivalence, compare_pairs, order_findings
from gdm_core.study.sheet import RECORDING, ROWS_WITHOUT
from gdm_core.study.states import MEASURES, SHARES, advise_fewer_states
from gdm_core.study.text import bare_p, format_d, format_effect, format_items, format_list, format_p
from gdm_core.text import MINUS, listed, plural
from pages.study import pictures, work
from pages.study.cropping import NOTHING
from pages.study.files import group_by_reason
from pages.study.pictures import groups_of
from pages.study.questions import CORRECTIONS, SHORT
from pages.study.sources import OpenStudy
from pages.ui import settings, shell
from pages.ui.controls import one_of, slide
from pages.ui.plot import coming, plot
from pages.ui.tables import show_table

MOST_SENTENCES = 4
DOTS = 400  # height in pixels, with the caption


def draw(opened: OpenStudy, question: Question | None, finding: Finding | None) -> None:
    """Draw the groups of a comparison, or all recordings without one, and list excluded recordings."""
    excluded, flagged = len(opened.study.sheet.set_aside), len(opened.study.flagged)
    if excluded or flagged or opened.notes:
        counts = [f"{n} {status}" for n, status in ((excluded, "excluded"), (flagged, "flagged")) if n]
        shell.quiet(f"{', '.join(counts) or 'Notes on the files'}: see Recordings.")
    if question is None:
        draw_strips(opened, question)
    elif finding is None:
        coming("study-dots", "Computing the comparison.", DOTS)
    elif finding.table is not None:
        plot(pictures.dots(opened.study, question, finding), key="study-dots", filename=f"{opened.name}-animals")


def draw_strips(opened: OpenStudy, question: Question | None) -> None:
    """Draw one strip of states per recording, sorted by a column."""
    columns = [str(c) for c in opened.study.conditions if c != RECORDING]
    first = question.between[0] if question is not None else NOTHING
    key = settings.key("sort", settings.key(opened.scope, settings.scope(first)))
    found = one_of("Sort recordings by", [NOTHING, *columns], first, key=key, width=260)
    drawn = pictures.strips(opened.study, "" if found == NOTHING else found)
    plot(drawn, key="study-strips", revision=opened.key, filename=f"{opened.name}-recordings")


def describe_left_out(opened: OpenStudy) -> list[str]:
    """Return sentences about excluded and flagged recordings."""
    study = opened.study
    grouped = group_by_reason(study.sheet.set_aside.items())
    notes = [f"{format_items(names, 'recording', 'excluded')} {why.capitalize()}." for why, names in grouped.items()]
    notes += [f"{name} is {why}." for name, why in study.flagged.items()]
    return [*notes, *opened.notes, *(one for one in study.notes if one.startswith(ROWS_WITHOUT))]


# ---- the card -----------------------------------------------------------------------------------------------------------
def card(opened: OpenStudy, question: Question, found: Finding, caution: str) -> None:
    """Show the result of a comparison, with what speaks against it."""
    st.html('<p class="gdm-panel-title">Result</p>')
    if found.flow is not None:
        flow = found.flow
        shell.finding(_describe_flow(flow, question.between[0]))
        n = f"n = {plural(flow.n, flow.unit_word)}{'' if opened.study.sheet.animal else ' (no animal column chosen)'}"
        shell.quiet(f"Behavioural flow: z = {flow.z:.2f}, {format_p(flow.p)}, {n}.".replace("-", MINUS))
    elif found.table is not None:
        shell.quiet(f"No overall test: {found.no_flow}")
    cautions = [one for one in (caution, found.flow and found.flow.caution) if one]
    confounds = find_unadjusted(found, question)
    if len(confounds):
        cautions.append(f"Groups also differ in {format_list(confounds['column'].tolist())}: see Checks.")
    cautions += advise_fewer_states(opened.study.occurrence)
    if cautions:
        shell.finding(" ".join(cautions))
    if found.table is None:
        shell.error("This comparison is not possible", found.trouble)
        return
    st.html(f'<p class="gdm-panel-title gdm-study-part">{escape(SHORT.get(question.measure, question.measure))}</p>')
    _show_sentences(found.table, question)
    for line in _compare_analyses(opened, question, found, found.table):
        shell.quiet(line)


def _describe_flow(flow: Flow, column: str) -> str:
    is_bare = all(name.replace(".", "").replace("-", "").isdigit() for name in flow.sizes)
    names = listed([f"{column} {name}" if is_bare else name for name in flow.sizes])
    if flow.p < LEVEL:
        return f"Transitions between states differ overall between {names}."
    return f"Transitions between states: no significant overall difference between {names}."


def _show_sentences(table: pd.DataFrame, question: Question) -> None:
    """Show the states that differ, largest effect first, or the smallest p value."""
    share, named = question.measure in SHARES, order_findings(table, question.correction)
    for place in named[:MOST_SENTENCES]:
        shell.finding(write_sentence(table.iloc[place], share, question.correction))
    tested = int(table["p"].notna().sum())
    if len(named) > MOST_SENTENCES:
        shell.quiet(f"{len(named) - MOST_SENTENCES} more: see Results.")
    if named and tested > len(named):
        shell.quiet(f"The other {tested - len(named)} of {tested} tests are not significant after correction.")
    elif not named and tested:
        shell.finding("No state differs after correction." if len(table) > 1 else "No significant difference.")
        smallest = table.iloc[int(table["p"].argmin())]
        shell.quiet(f"Smallest p value: {write_sentence(smallest, share, question.correction)}")
    elif not tested:
        shell.finding("Nothing could be tested.")


def _compare_analyses(opened: OpenStudy, question: Question, found: Finding, table: pd.DataFrame) -> list[str]:
    """Return sentences on other analyses of the same question, and whether states differ in them."""
    correction, same, lines = question.correction, "the same states differ", []
    if found.unadjusted is not None:
        names = format_list([*question.covariates, *question.planned])
        lines.append(
            f"Adjusted for {names}. Without: {_describe_changes(table, found.unadjusted, correction) or same}."
        )
    if found.log_ratios is not None and (changes := _describe_changes(table, found.log_ratios, correction)):
        lines.append(f"Shares sum to one. As log-ratios: {changes}.")
    if found.recordings is not None:
        changes = _describe_changes(table, found.recordings.assign(d=np.nan), "p_holm") or same
        what = f"Recordings of one {table.attrs['unit']} are averaged. " if table.attrs["averaged"] else ""
        lines.append(f"{what}In a mixed model of all recordings: {changes}.")
    if pooling := opened.study.find_pooling(question.between[0], question.where, question.accounted):
        lines.append(pooling.note)
    return lines


def _describe_changes(table: pd.DataFrame, other: pd.DataFrame, correction: str) -> str:
    """Return which states differ in one of two comparisons only; "" if the same do."""
    here, there = ({str(name) for name in one["name"].iloc[order_findings(one, correction)]} for one in (table, other))
    parts = [f"{format_list(sorted(there - here))} would differ too"] if there - here else []
    parts += [f"{format_list(sorted(here - there))} would not differ"] if here - there else []
    return ", and ".join(parts)


def find_unadjusted(found: Finding, question: Question) -> pd.DataFrame:
    """Return the columns from before the treatment that are associated with the groups and not accounted for."""
    confounds = (
        pd.DataFrame(columns=["column", "same", "associated", "kind"]) if found.confounds is None else found.confounds
    )
    names, adjusted = confounds["column"] + ", " + confounds["same"], {*question.covariates, *question.planned}
    is_open = np.array([not adjusted.intersection(its.split(", ")) for its in names], dtype=bool)
    return confounds[confounds["associated"].astype(bool) & (confounds["kind"] == BEFORE) & is_open]


def find_surest(table: pd.DataFrame, n_states: int) -> int:
    """Return the position of the state with the smallest p."""
    return 0 if len(table) != n_states or table["p"].isna().all() else int(table["p"].argmin())


# ---- the table ----------------------------------------------------------------------------------------------------------
def format_number(value: float, percent: bool) -> str:
    """Format a number or a share for a table."""
    return "–" if not np.isfinite(value) else (f"{value:.1%}" if percent else f"{value:.3g}").replace("-", MINUS)


def table(opened: OpenStudy, question: Question, finding: Finding) -> None:
    """Show one row per state: means, effect with interval, and p values."""
    assert finding.table is not None
    found, percent = finding.table, question.measure in SHARES
    shown: dict[str, Any] = {"term": found["term"]} if "term" in found else {}
    shown["state"] = found["name"]
    for group in groups_of(found):
        header = f"mean {group}" if group in ("term", "state", "d", "p", "conclusion") else group
        shown[header] = [format_number(value, percent) for value in found[f"mean_{group}"]]
    in_points = percent & ~found["effect_is"].str.contains("omega")  # explained variance is not a share of time
    edges = zip(found["effect"], found["effect_low"], found["effect_high"], in_points, strict=True)
    shown["effect (pp, 95% CI)" if in_points.any() else "effect (95% CI)"] = [
        ("" if points or not in_points.any() else "ω² ")
        + f"{format_effect(effect, points)} ({format_effect(low, points)} to {format_effect(high, points)})"
        for effect, low, high, points in edges
    ]
    if has_d := bool(found["d"].notna().any()):
        shown["d_z" if question.within else "d"] = [format_d(value) for value in found["d"]]
    if finding.unadjusted is not None:
        shown["unadjusted effect"] = [format_effect(value, percent) for value in finding.unadjusted["effect"]]
        shown["unadjusted p"] = [bare_p(value) for value in finding.unadjusted[question.correction]]
    shown |= {
        "adjusted p": [bare_p(value) for value in found[question.correction]],
        "p": [bare_p(p) for p in found["p"]],
    }
    margin = 0.0
    if has_d:
        about = f"Smallest difference that matters, in standard deviations between {opened.study.sheet.subjects}."
        with st.columns([0.35, 0.65])[0]:
            margin = slide("Equivalence margin (SD)", 0.1, 2.0, 0.5, 0.1, key="margin", help=about)
        shown["conclusion"] = assess_equivalence(found, margin)["conclusion"].where(found["p"].notna(), "–")
    at_first = [column for column in shown if column != "p"]  # the table's menu shows the others
    show_table(pd.DataFrame(shown), 560, "study-table", column_order=at_first)
    test, within = str(found["test"].iloc[0]).removeprefix("permutation, "), question.within or question.blocks
    over = f" within {opened.study.sheet.subjects if question.within else within}" if within else ""
    unit = ", in percentage points (pp)" if in_points.any() else ""
    shell.quiet(
        f"{MEASURES.get(question.measure, question.measure).capitalize()}. Means per group. "
        f"Effect: {found['effect_is'].iloc[0]}{unit}. "
        f"Intervals are not adjusted. p: {found.attrs['n_permutations']:,} permutations{over} of {test}. "
        f"Adjusted p: {CORRECTIONS[question.correction]} over {plural(found.attrs['n_tests'], 'test')}."
        + (f" Equivalent: within ±{margin:g} SD by two one-sided t tests, Holm-adjusted." if margin else "")
    )
    is_pooled = "omega" in found["effect_is"].iloc[0] and len(question.between) == 1 and bool(order_findings(found))
    if found.attrs["n_contrasts"] or is_pooled:
        _pairs(opened, question, found)


def _pairs(opened: OpenStudy, question: Question, found: pd.DataFrame) -> None:
    """Compare pairs of groups in the states that differ, or doses with the lowest."""
    pairs = work.outcome(
        "study-pairs", (opened.key, "pairs", question.key), lambda say: compare_pairs(opened.study, found),
        "Pairs could not be compared", words="Comparing pairs of groups",
    )  # fmt: skip
    if pairs is None:
        return
    st.html('<p class="gdm-panel-title gdm-study-part">Pairs of groups</p>')
    percent = question.measure in SHARES
    shown = {
        "state": pairs["name"],
        "pair": [f"{second} {MINUS} {first}" for first, second in zip(pairs["first"], pairs["second"], strict=True)],
        "effect (pp)" if percent else "effect": [format_effect(value, percent) for value in pairs["effect"]],
        "d": [format_d(value) for value in pairs["d"]], "p": [bare_p(value) for value in pairs["p"]],
        "adjusted p": [bare_p(value) for value in pairs["p_holm"]],
    }  # fmt: skip
    show_table(pd.DataFrame(shown), 420, "study-pairs-table")
