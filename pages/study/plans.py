"""The plan of a study, locked before its results appear, and the log of questions."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from gdm_core.study.question import Question
from gdm_core.study.record import describe_plan
from pages.study.sources import OpenStudy
from pages.study.work import KEPT
from pages.ui import settings, shell
from pages.ui.controls import switch
from pages.ui.shell import Frame


def ask(page: Frame) -> bool:
    """Show the switch that hides results until a plan is locked."""
    about = "Results stay hidden until you lock the plan; later changes are listed in the methods paragraph."
    with page.advanced:
        return switch("Plan before results", False, key="plan", help=about)


def follow(opened: OpenStudy, question: Question, is_planned: bool, page: Frame) -> OpenStudy | None:
    """Return the study with its plan and log; None, with the plan to lock in place of results, until it is locked."""
    scope = settings.scope(opened.study.sheet.names)
    plan_key, log_key = f"{KEPT}plan-{scope}", f"{KEPT}tried-{scope}"
    plan = st.session_state.get(plan_key) or dict(opened.study.plan)
    tried: list[str] = st.session_state.setdefault(log_key, list(opened.study.tried))
    if is_planned and not plan:
        if not tried:
            _show(opened, question, plan_key, page)
            return None
        with page.card:
            shell.quiet("Results of this study were seen already, so no plan can be locked.")
    if question.key not in tried:
        tried.append(question.key)
    return replace(opened, study=replace(opened.study, plan=plan, tried=tuple(tried)))


def _show(opened: OpenStudy, question: Question, plan_key: str, page: Frame) -> None:
    plan = describe_plan(opened.study, question)
    with page.card:
        st.html('<p class="gdm-panel-title">Plan</p>')
        for name, value in plan.items():
            shell.quiet(f"{name.capitalize()}: {value}")
        st.button("Lock the plan", key="study-lock-plan", on_click=_lock, args=(plan_key, plan), type="primary")
    with page.picture:
        shell.empty("Results are hidden", "Choose the question on the left, then lock the plan.")


def _lock(plan_key: str, plan: dict[str, str]) -> None:
    st.session_state[plan_key] = plan
