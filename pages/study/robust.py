"""Robustness of a conclusion: refits with other settings, in the background."""

from __future__ import annotations

import json
from functools import partial
from html import escape
from typing import Any

import pandas as pd
import streamlit as st

from gdm_core.engine.estimate import Estimate, format_duration
from gdm_core.study import Question, Study
from gdm_core.study.finding import Finding
from gdm_core.study.robustness import check_robustness, describe_contradictions, describe_robustness
from gdm_core.study.text import bare_p
from pages.lab.live.background import Task, show_progress, visitor_jobs
from pages.study.sources import OpenStudy
from pages.study.work import KEPT
from pages.ui import shell

NAME = "study-robustness"
STEPS = 10  # of a refit, to estimate the time that is left
_REFITS, _ROWS = f"{KEPT}refits", "robustness"  # refits of the current fit; key in a study file


def show(opened: OpenStudy, question: Question, finding: Finding) -> None:
    """Show whether the conclusion holds under other seeds, numbers of states and definitions of states."""
    rows, task = find_rows(opened, question), None
    if opened.refit is not None and finding.table is not None:
        task = _start(opened, question, finding)
        rows = task.value
    if rows is None or not len(rows):
        return
    st.html('<p class="gdm-panel-title gdm-study-part">Robustness</p>')
    if len(rows) > 1 or task is not None:
        shell.finding(describe_robustness(rows, len(opened.variants)))
    st.html(_table(rows))
    if task is None:
        return
    show_progress(f"{NAME}-progress", task, task.ended)
    if not task.ended:
        st.button("Cancel", key=f"{NAME}-stop", on_click=task.cancel, icon=":material/stop:")
    elif task.cancelled.is_set():
        again = partial(visitor_jobs().forget, _key(opened, question))
        st.button("Continue the refits", key=f"{NAME}-again", on_click=again, icon=":material/refresh:")


def caution(opened: OpenStudy, question: Question) -> str:
    """Return a warning if refits contradict the comparison; "" if none does so far."""
    rows = find_rows(opened, question)
    return "" if rows is None else describe_contradictions(rows)


def find_rows(opened: OpenStudy, question: Question) -> pd.DataFrame | None:
    """Return the finished fits of a comparison, or those in the opened study file; None without any."""
    task = visitor_jobs().find(_key(opened, question))
    if task is not None:
        found: pd.DataFrame | None = task.value
        return found
    saved = dict(opened.study.questions[0]) if opened.study.questions else {}
    kept = saved.pop(_ROWS, None)
    return pd.DataFrame(kept) if kept and saved == json.loads(question.key) else None


def to_save(opened: OpenStudy, question: Question) -> dict[str, Any]:
    """Return the finished fits as JSON values for a study file."""
    rows = find_rows(opened, question)
    return {} if rows is None else {_ROWS: json.loads(rows.to_json(orient="records"))}


def _key(opened: OpenStudy, question: Question) -> tuple[Any, ...]:
    return (NAME, opened.key, question.key)


def _start(opened: OpenStudy, question: Question, finding: Finding) -> Task:
    """Return the task of a comparison, which replaces that of an earlier one."""
    jobs, key = visitor_jobs(), _key(opened, question)
    if st.session_state.get(_REFITS, ("", {}))[0] != opened.fit:
        st.session_state[_REFITS] = opened.fit, {}
    refits: dict[str, Study] = st.session_state[_REFITS][1]
    labels, refit, begin = list(opened.variants), opened.refit, {}
    assert refit is not None
    if jobs.find(key) is None:
        jobs.end(NAME)
        begin = {label: refit(settings) for label, settings in opened.variants.items()}  # in the script's thread

    def run(task: Task) -> pd.DataFrame | None:
        estimate, n = Estimate(), len(labels)

        def fit(label: str) -> Study:
            def report(text: str, share: float) -> None:
                done = labels.index(label) + share
                left = estimate.left_s(int(STEPS * done), STEPS * n)
                words = "" if left is None else f", {format_duration(left)} left"
                task.checkpoint(f"Refit {labels.index(label) + 1} of {n}, {label}{words}", done / n)

            if label not in refits:
                refits[label] = begin[label](report)
            return refits[label]

        assert finding.table is not None
        for rows in check_robustness(opened.study, finding.table, finding.flow, fit, labels):
            task.value, task.news = rows, len(rows)
        return task.value

    made: Task = jobs.get(key, lambda: Task(run, "Refitting with other settings"))
    made.wait(0.1)  # the row of this fit
    return made


def _table(rows: pd.DataFrame) -> str:
    """Return the rows as HTML: one line per fit."""
    lines = []
    for _, row in rows.iterrows():
        if row["trouble"]:
            line = f"<td colspan='3'>failed: {escape(row['trouble'])}</td>"
        else:
            tested = f"{row['significant']:.0f} of {row['tested']:.0f}"
            cells = bare_p(row["flow_p"]), tested, "yes" if row["agrees"] else "no"
            line = "".join(f"<td>{cell}</td>" for cell in cells)
        lines.append(f"<tr><th scope='row'>{escape(row['fit'])}</th>{line}</tr>")
    head = "<tr><th scope='col'>fit</th><th scope='col'>flow p</th><th scope='col'>states</th><th scope='col'>agrees</th></tr>"
    return f'<table class="gdm-study-fits"><thead>{head}</thead><tbody>{"".join(lines)}</tbody></table>'
