"""The question of a study: its controls, stored in the URL, its plan, and its cached results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st

from gdm_core.errors import GdmError
from gdm_core.study.design import AFTER, BEFORE, is_nested, is_number
from gdm_core.study.finding import Finding, answer_question
from gdm_core.study.methods import describe_plan
from gdm_core.study.question import Question
from gdm_core.study.sheet import ANIMAL, RECORDING
from gdm_core.study.states import MEASURES
from gdm_core.study.text import format_value
from pages.study import work
from pages.study.cropping import NOTHING
from pages.study.sources import OpenStudy
from pages.study.work import KEPT, Say
from pages.ui import settings, shell
from pages.ui.controls import one_of, several, switch
from pages.ui.shell import Frame

SHORT = {
    "usage": "Usage",
    "log_ratio": "Usage, log-ratios",
    "bouts_per_min": "Bouts per minute",
    "bouts": "Number of bouts",
    "mean_bout_s": "Mean bout duration",
    "median_bout_s": "Median bout duration",
    "transitions": "Transition rates",
    "transition_shares": "Transition probabilities",
    "entropy": "Usage entropy",
    "changes_per_min": "Transitions per minute",
}
CORRECTIONS = {"p_holm": "Holm (family-wise)", "p_bh": "Benjamini-Hochberg (FDR)"}
TRENDS = {"trend": "Trend, and contrasts with the lowest", "any": "Any difference, levels in no order"}
USUAL_GROUPS = ("group", "treatment", "condition", "dose", "genotype")
N_PERMUTATIONS = 10_000
POOLED = "all, pooled"
Where = dict[str, list[Any]]


def choose(opened: OpenStudy, page: Frame) -> Question | None:
    """Show the controls of a comparison; return None if the sheet has nothing to compare."""
    shell.section("Question")
    study, scope = opened.study, opened.scope
    frame, animal = study.conditions, study.sheet.animal
    offered = [str(c) for c in frame if c not in (RECORDING, "file") and frame[c].nunique() > 1]  # columns with groups
    groups = [c for c in offered if c != animal]
    if not groups:
        shell.quiet(
            "No column of the sheet differs between recordings. Add one to compare, such as group, dose or session."
        )
        return None
    saved: dict[str, Any] = dict(study.questions[0]) if study.questions else {}  # from a saved study
    usual = next((c for c in groups if c.casefold() in USUAL_GROUPS), groups[0])
    first, other = [*saved.get("between", [usual]), NOTHING][:2]
    about = "A column of the sheet, such as group, dose or session."
    between = one_of(
        "Compare groups by", groups, first if first in groups else usual, key=settings.key("between", scope), help=about
    )
    measures = [*MEASURES, *[c for c in groups if pd.api.types.is_numeric_dtype(frame[c].dtype) and c != between]]
    called = {one: SHORT.get(one, one) for one in measures}
    measure = one_of("Measure", called, saved.get("measure", "usage"), key=settings.key("measured", scope))
    filters = list(dict(saved.get("where") or {}).items())
    where = _filter(opened, offered, *(filters[0] if filters else (NOTHING, [])))
    where |= _choose_experiment(opened, between, where, saved)
    its_own, same = settings.key(scope, settings.scope(between)), bool(saved) and between == first
    with page.advanced:
        second = one_of(
            "Second factor", [NOTHING, *[c for c in groups if c != between]], other, key=settings.key("and", scope)
        )
        others, trend = [c for c in groups if c not in (between, second)], None
        if second == NOTHING and is_number(frame[between]) and frame[between].nunique() > 2:
            start = "any" if saved.get("trend") is False else "trend"
            trend = (
                False
                if one_of(f"Levels of {between}", TRENDS, start, key=settings.key("trend", its_own)) == "any"
                else None
            )
        comes_again = animal is not None and bool((frame.groupby(animal)[between].nunique() > 1).any())
        start = (saved.get("within") or NOTHING) if same else str(animal) if comes_again else NOTHING
        about = f"The {study.sheet.subject}, if each was recorded under several conditions."
        paired = [NOTHING, *([animal] if animal else []), *others]
        within = one_of("Repeated measures within", paired, start, key=settings.key("within", its_own), help=about)
        unit, litters = ANIMAL, _find_litters(frame, animal, between, others)
        if litters and within == NOTHING:
            about = f"A column whose {study.sheet.subjects} are alike, such as the litter or cage; its values are then compared."
            called, start = {ANIMAL: study.sheet.subject, **{c: c for c in litters}}, saved.get("unit", ANIMAL)
            unit = one_of("Statistical unit", called, start, key=settings.key("unit", its_own), help=about)
        about = "Labels are permuted within blocks only."
        blocks = one_of(
            "Blocks", [NOTHING, *others], saved.get("blocks") or NOTHING, key=settings.key("blocks", scope), help=about
        )
        within_, blocks_ = (None if one == NOTHING else one for one in (within, blocks))
        covariates, planned = _choose_covariates(opened, between, within_, (second, blocks), saved)
        correction = one_of(
            "Correction", CORRECTIONS, saved.get("correction", "p_holm"), key=settings.key("correct", scope)
        )
    compared = (between,) if second in (NOTHING, between) else (between, second)
    return Question(
        measure, compared, unit, within_, blocks_, tuple(covariates), tuple(planned), where, trend, correction
    )  # fmt: skip


def _find_litters(frame: pd.DataFrame, animal: str | None, between: str, columns: list[str]) -> list[str]:
    """Return the columns of which each value has several animals of one group."""
    if animal is None:
        return []
    nested, n_groups = [c for c in columns if is_nested(frame, animal, c)], frame[between].nunique()
    return [c for c in nested if frame[c].nunique() > n_groups and (frame.groupby(c)[between].nunique() == 1).all()]


def _choose_covariates(
    opened: OpenStudy, between: str, within: str | None, taken: tuple[str, ...], saved: dict[str, Any]
) -> tuple[list[str], list[str]]:
    """Show the controls of covariates by class; columns of the design are not offered, as they erase the question."""
    try:
        classes = opened.study.classify_columns(between, within=within)
    except GdmError:  # the comparison says why
        classes = {}
    kinds = {name: one.kind for name, one in classes.items() if one.kind in (BEFORE, AFTER) and name not in taken}
    later = [name for name, kind in kinds.items() if kind == AFTER or name in saved.get("planned", [])]
    about = "Columns that may follow from the groups, such as a severity score."
    scope = settings.key(opened.scope, settings.scope(between))
    more: dict[str, Any] = {"key": settings.key("after", scope), "help": about}
    later, found = several("Outcomes or mediators", list(kinds), later, placeholder="none", **more), []
    for label, key, options, about in (
        ("Covariates", "covariates", [c for c in kinds if c not in later], "Known before the treatment, such as age."),
        ("Planned covariates", "planned", later, "Outcomes or mediators to adjust for, as planned in advance."),
    ):
        kept = [c for c in saved.get(key, []) if c in options]
        more = {"key": settings.key(key, opened.scope), "help": about}
        found.append(several(label, options, kept, placeholder="none", **more) if options else [])
    return found[0], found[1]


def _choose_experiment(opened: OpenStudy, between: str, where: Where, saved: dict[str, Any]) -> Where:
    """Ask which experiment to analyse if the sheet has several; return its filter."""
    blocks = settings.text(settings.key("blocks", opened.scope)) or saved.get("blocks") or ""
    second = settings.text(settings.key("and", opened.scope)) or ""
    pooling = opened.study.find_pooling(between, where, [blocks, second])
    if pooling is None:
        return {}
    its_own = settings.key(opened.scope, settings.scope(between, pooling.column))
    start, key = POOLED if saved else pooling.default, settings.key("experiment", its_own)
    chosen = one_of(f"{pooling.column} to analyse", [*pooling.choices, POOLED], start, key=key)
    shell.quiet(pooling.question)
    return {} if chosen == POOLED else {pooling.column: pooling.choices[chosen]}


def _filter(opened: OpenStudy, offered: list[str], column: str, values: list[Any]) -> Where:
    """Show the filter of recordings, which starts with the values of a column."""
    frame, scope = opened.study.conditions, opened.scope
    where = one_of("Filter by", [NOTHING, *offered], column, key=settings.key("where", scope))
    if where == NOTHING:
        return {}
    by_word = {format_value(value): value for value in sorted(frame[where].dropna().unique().tolist(), key=str)}
    kept = [format_value(value) for value in values if where == column and format_value(value) in by_word]
    its_own = settings.key(scope, settings.scope(where))
    chosen = several(f"{where} is", list(by_word), kept or list(by_word)[:1], key=settings.key("values", its_own))
    return {where: [by_word[word] for word in chosen]} if chosen else {}


def find(opened: OpenStudy, question: Question) -> Finding | None:
    """Return the finding of a question once it is computed."""

    def do(say: Say) -> Finding:
        return answer_question(opened.study, question, N_PERMUTATIONS, report=say)

    return work.outcome("study-asking", (opened.key, "finding", question.key), do, "This cannot be answered")


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
        st.button("Lock the plan", key="study-lock-plan", on_click=st.session_state.update, args=({plan_key: plan},))
    with page.picture:
        shell.empty("Results are hidden", "Choose the question on the left, then lock the plan.")
