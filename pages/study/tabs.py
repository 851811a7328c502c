"""Tabs below the picture of a study, one per question."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from gdm_core.study.finding import Finding
from gdm_core.study.means import tabulate_means
from gdm_core.study.question import Question
from gdm_core.study.sheet import RECORDING
from pages.study import answer, checks, export, pictures, states
from pages.study.sources import OpenStudy
from pages.ui import settings, shell
from pages.ui.controls import pick, tabs
from pages.ui.plot import plot
from pages.ui.tables import show_table

BIN_S = 60.0
RESULTS, OVER_TIME, STATES, RECORDINGS, CHECKS, EXPORT = TABS = (
    "Results", "Transitions and time", "States", "Recordings", "Checks", "Export"
)  # fmt: skip


def show(opened: OpenStudy, question: Question | None, finding: Finding | None) -> None:
    """Show the tabs; only the open one is drawn."""
    for name, place in tabs(TABS):
        if not place.open:
            continue
        with place:
            if name == STATES:
                _states(opened, question, finding)
            elif name == RECORDINGS:
                _recordings(opened, question)
            elif name == EXPORT:
                export.panel(opened, question, finding)
            elif question is None:
                shell.empty("No result yet", "The sheet needs a column that differs between recordings.")
            elif finding is None:
                shell.empty("No result yet", "Wait for the comparison to finish.")
            elif name == CHECKS:
                checks.show(opened, question, finding)
            elif finding.table is None:
                shell.empty("No result yet", "Choose another comparison on the left.")
            elif name == RESULTS:
                answer.table(opened, question, finding)
            else:
                _transitions_and_time(opened, question, finding, finding.table)


def _transitions_and_time(opened: OpenStudy, question: Question, finding: Finding, table: pd.DataFrame) -> None:
    left, right = st.columns(2, gap="medium")
    with left:
        if finding.flow is None:
            shell.empty("No transitions to compare", finding.no_flow)
        else:
            made = pictures.changes(opened.study, finding.flow)
            plot(made, key="study-changes", filename=f"{opened.name}-changes")
    with right:
        _over_time(opened, question, table)


def _over_time(opened: OpenStudy, question: Question, table: pd.DataFrame) -> None:
    """Draw the usage of a state over the recording by group."""
    study, counts, design = opened.study, opened.study.counts, opened.study.design(question)
    place = _state(opened, "Usage over time of", answer.find_surest(table, len(study.states)))
    lengths = np.array([one.n_samples for one in counts.recordings]) / counts.rates
    bin_s = BIN_S if lengths.max() >= 3 * BIN_S else max(lengths.max() / 6, 1e-9)
    full = np.maximum(1, np.round(lengths / bin_s)).astype(int)  # an incomplete minute would have the widest interval
    values = np.full((len(full), full.max()), np.nan)
    for row, usage in enumerate(counts.usage_over_time(bin_s)):
        values[row, : full[row]] = usage[: full[row], place]
    minutes = pd.DataFrame({"minute": (np.arange(full.max()) + 0.5) * bin_s / 60})
    means = pictures.with_groups(question, tabulate_means(design, design.average(values), minutes, "usage"))
    drawn = means[means["n"] >= means["n"].max() / 2]  # only the longest recordings reach the end
    words = f"Usage of {study.state_name(study.states[place])}"
    plot(
        pictures.over_time(drawn, pictures.groups_of(table), words, study.sheet.subject), key="study-time",
        filename=f"{opened.name}-minutes",
    )  # fmt: skip


def _state(opened: OpenStudy, label: str, first: int) -> int:
    """Return the position of the chosen state."""
    words = {place: opened.study.state_name(state) for place, state in enumerate(opened.study.states)}
    return pick(label, words, first, key=settings.key("state", opened.scope), width=260)


def _states(opened: OpenStudy, question: Question | None, finding: Finding | None) -> None:
    """Show the states, their names and clips."""
    states.name_states(opened)
    table = None if finding is None else finding.table
    first = 0 if table is None else answer.find_surest(table, len(opened.study.states))
    st.html('<p class="gdm-panel-title gdm-study-part">Clips</p>')
    states.show_clips(opened, question, _state(opened, "Clips of", first))


def _recordings(opened: OpenStudy, question: Question | None) -> None:
    """Show the strips and the sheet as read, with excluded and flagged recordings."""
    study = opened.study
    if question is not None:  # else they are in the picture
        answer.draw_strips(opened, question)
    counts = study.counts
    table = study.conditions.copy()
    table.insert(1, "labelled minutes", np.round(counts.labelled_minutes, 2))
    table.insert(2, "Hz", counts.rates)
    table.insert(3, "flagged", [study.flagged.get(name, "") for name in table[RECORDING]])
    if not study.flagged:
        table = table.drop(columns="flagged")
    for note in dict.fromkeys([*answer.describe_left_out(opened), *study.notes]):
        shell.quiet(note)
    two = {"labelled minutes": st.column_config.NumberColumn(format="%.2f")}
    show_table(table, 460, "study-sheet-table", column_config=two)
