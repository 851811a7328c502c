"""Checks of a comparison: its limitations, confounds, power and agreement."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from gdm_core.study import Power, Study
from gdm_core.study.followup import describe_assumptions
from gdm_core.study.states import CHANGE_MEASURES, SHARES, STATE_MEASURES
from gdm_core.study.text import format_difference
from pages.study import agreement, answer, pictures, work
from pages.study.bring import Brought
from pages.study.questions import Asked, StudyAnswer
from pages.study.work import Say
from pages.ui import settings, shell
from pages.ui.controls import one_of, pick, slide
from pages.ui.plot import plot
from pages.ui.tables import show_table

WHOLE = "whole recording"


def show(brought: Brought, asked: Asked, answers: StudyAnswer) -> None:
    """Show the limitations and one check; the others are not computed."""
    for note in answer.notes(answers):
        shell.quiet(note)
    if answers.table is not None:
        shell.quiet(describe_assumptions(brought.study.check_assumptions(answers.table)))
    chosen = one_of("Check", list(CHECKS), key="check", row=True, label_visibility="collapsed")
    CHECKS[chosen](brought, asked, answers)


def _power(brought: Brought, asked: Asked, answers: StudyAnswer) -> None:
    """Show power against the number of animals."""
    if len(asked.between) > 1:
        shell.empty("Power needs one factor", "Remove the second factor, or fix it under Filter by.")
        return
    if asked.measure in CHANGE_MEASURES:
        shell.empty("Power is not available for transitions", "Choose another measure on the left.")
        return
    study, state = brought.study, None
    left, right = st.columns(2, gap="medium")
    if asked.measure in STATE_MEASURES:
        words = {one: study.state_name(one) for one in study.states}
        with left:
            state = pick("Of", words, _first(study, answers), key=settings.key("power-of", brought.of), width=260)
    with right:
        about = f"In standard deviations between {study.sheet.subjects}; of differences if paired."
        effect = slide("Effect size (Cohen's d)", 0.1, 3.0, 1.0, 0.1, key="effect", help=about)
    asking = {**asked.design, "covariates": asked.covariates}

    def do(say: Say) -> Power:
        return study.power(asked.measure, asked.between[0], state, float(effect), **asking)

    key, words_ = (brought.key, "power", asked.key, state, effect), "Computing power"
    found = work.outcome("study-power", key, do, "Power could not be estimated", words=words_)
    if found is None:
        return
    needed = "more than 200" if found.needed is None else f"{found.needed}"
    what = WHOLE if state is None else study.state_name(state)
    raw = format_difference(found.raw, asked.measure in SHARES)
    pairs = "pairs" if asked.within else f"{study.sheet.subjects} per group"
    shell.finding(
        f"A difference of {found.effect:.1f} standard deviations in {what} ({raw}) is detected with "
        f"{found.power:.0%} power; {needed} {pairs} give 80%."
    )
    plot(pictures.power(found, study.sheet.subjects), key="study-power-curve", filename=f"{brought.name}-power")
    for one in found.notes:
        shell.quiet(one)


def _first(study: Study, answers: StudyAnswer) -> int:
    """Return the state with the smallest p."""
    return study.states[0 if answers.table is None else answer.surest(answers.table, len(study.states))]


def _confounds(brought: Brought, asked: Asked, answers: StudyAnswer) -> None:
    """List columns that are associated with the groups, with buttons to adjust for them."""
    found = answers.confounds
    if found is None or found.empty:
        shell.empty("No other columns", "The sheet has no column that could be associated with the groups.")
        return
    open_ = answer.unadjusted(found, asked)
    if open_.empty:
        shell.finding("No unadjusted column is associated with the groups (p < .05).")
    for _, row in open_.iterrows():
        left, right = st.columns([0.72, 0.28], vertical_alignment="center")
        with left:
            shell.finding(row["sentence"])
        name = row["column"]
        right.button(
            f"Adjust for {name}", key=f"study-adjust-{name}", on_click=settings.change,
            args=(settings.key("covariates", brought.of), [*asked.covariates, name]), width="stretch",
        )  # fmt: skip
    for reason in found["reason"].loc[found["reason"] != ""]:
        shell.quiet(reason)
    shown = found[["column", "kind", "association", "strength", "n"]].assign(
        strength=[answer.number_text(value, False) for value in found["strength"]],
        **{"adjusted p": [answer.p_cell(value) for value in found["p_holm"]]},
    )
    show_table(shown, 320, "study-confounds-table")


CHECKS: dict[str, Callable[[Brought, Asked, StudyAnswer], None]] = {
    "Confounds": _confounds,
    "Power": _power,
    "Agreement": agreement.show,
}
