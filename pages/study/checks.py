"""Checks of a comparison: its limitations, confounds, power and agreement."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from gdm_core.study import Power, Study
from gdm_core.study.finding import Finding
from gdm_core.study.question import Question
from gdm_core.study.states import CHANGE_MEASURES, SHARES, STATE_MEASURES
from gdm_core.study.text import format_difference
from gdm_core.text import plural
from pages.study import agreement, answer, pictures, work
from pages.study.sources import OpenStudy
from pages.study.work import Say
from pages.ui import settings, shell
from pages.ui.controls import one_of, pick, slide
from pages.ui.plot import plot
from pages.ui.tables import show_table

WHOLE = "whole recording"


def show(opened: OpenStudy, question: Question, finding: Finding) -> None:
    """Show the limitations and one check; the others are not computed."""
    for note in answer.notes(finding):
        shell.quiet(note)
    chosen = one_of("Check", list(CHECKS), key="check", row=True, label_visibility="collapsed")
    CHECKS[chosen](opened, question, finding)


def _power(opened: OpenStudy, question: Question, finding: Finding) -> None:
    """Show power against the number of animals."""
    if len(question.between) > 1:
        shell.empty("Power needs one factor", "Remove the second factor, or fix it under Filter by.")
        return
    if question.measure in CHANGE_MEASURES:
        shell.empty("Power is not available for transitions", "Choose another measure on the left.")
        return
    study, state = opened.study, None
    left, right = st.columns(2, gap="medium")
    if question.measure in STATE_MEASURES:
        words = {one: study.state_name(one) for one in study.states}
        with left:
            state = pick("Of", words, _first(study, finding), key=settings.key("power-of", opened.of), width=260)
    with right:
        about = f"In standard deviations between {study.sheet.subjects}; of differences if paired."
        effect = slide("Effect size (Cohen's d)", 0.1, 3.0, 1.0, 0.1, key="effect", help=about)
    asking = question.options

    def do(say: Say) -> Power:
        return study.power(question.measure, question.between[0], state, float(effect), **asking)

    key, words_ = (opened.key, "power", question.key, state, effect), "Computing power"
    found = work.outcome("study-power", key, do, "Power could not be estimated", words=words_)
    if found is None:
        return
    needed = "more than 200" if found.needed is None else f"{found.needed}"
    what = WHOLE if state is None else study.state_name(state)
    raw = format_difference(found.raw, question.measure in SHARES)
    pairs = "pairs" if question.within else f"{study.sheet.subjects} per group"
    shell.finding(
        f"A difference of {found.effect:.1f} standard deviations in {what} ({raw}) is significant after "
        f"correction over {plural(found.n_tests, 'test')} with {found.power:.0%} probability; {needed} {pairs} give 80%."
    )
    plot(pictures.power(found, study.sheet.subjects), key="study-power-curve", filename=f"{opened.name}-power")
    for one in found.notes:
        shell.quiet(one)


def _first(study: Study, finding: Finding) -> int:
    """Return the state with the smallest p."""
    return study.states[0 if finding.table is None else answer.surest(finding.table, len(study.states))]


def _confounds(opened: OpenStudy, question: Question, finding: Finding) -> None:
    """List columns that are associated with the groups, with buttons to adjust for them."""
    found = finding.confounds
    if found is None or found.empty:
        shell.empty("No other columns", "The sheet has no column that could be associated with the groups.")
        return
    open_ = answer.unadjusted(found, question)
    if open_.empty:
        shell.finding("No unadjusted column is associated with the groups (p < .05).")
    for _, row in open_.iterrows():
        left, right = st.columns([0.72, 0.28], vertical_alignment="center")
        with left:
            shell.finding(row["sentence"])
        name = row["column"]
        right.button(
            f"Adjust for {name}", key=f"study-adjust-{name}", on_click=settings.change,
            args=(settings.key("covariates", opened.of), [*question.covariates, name]), width="stretch",
        )  # fmt: skip
    for reason in found["reason"].loc[found["reason"] != ""]:
        shell.quiet(reason)
    shown = found[["column", "kind", "association", "strength", "n"]].assign(
        strength=[answer.number_text(value, False) for value in found["strength"]],
        **{"adjusted p": [answer.p_cell(value) for value in found["p_holm"]]},
    )
    show_table(shown, 320, "study-confounds-table")


CHECKS: dict[str, Callable[[OpenStudy, Question, Finding], None]] = {
    "Confounds": _confounds,
    "Power": _power,
    "Agreement": agreement.show,
}
