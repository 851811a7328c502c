"""Tabs below the picture of a study, one per question."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from gdm_core.study.sheet import RECORDING
from pages.study import answer, checks, labels, leave, names, pictures
from pages.study.bring import Brought
from pages.study.questions import Asked, StudyAnswer
from pages.ui import settings, shell
from pages.ui.controls import pick, tabs
from pages.ui.plot import plot
from pages.ui.tables import show_table

BIN_S = 60.0
RESULTS, OVER_TIME, STATES, RECORDINGS, CHECKS, EXPORT = TABS = (
    "Results", "Transitions and time", "States", "Recordings", "Checks", "Export"
)  # fmt: skip


def show(brought: Brought, asked: Asked | None, answers: StudyAnswer | None) -> None:
    """Show the tabs; only the open one is drawn."""
    for name, place in tabs(TABS):
        if not place.open:
            continue
        with place:
            if name == STATES:
                _states(brought, asked, answers)
            elif name == RECORDINGS:
                _recordings(brought, asked)
            elif name == EXPORT:
                leave.panel(brought, asked, answers)
            elif asked is None:
                shell.empty("No result yet", "The sheet needs a column that differs between recordings.")
            elif answers is None:
                shell.empty("No result yet", "Wait for the comparison to finish.")
            elif name == CHECKS:
                checks.show(brought, asked, answers)
            elif answers.table is None:
                shell.empty("No result yet", "Choose another comparison on the left.")
            elif name == RESULTS:
                answer.table(brought, asked, answers.table)
            else:
                _transitions_and_time(brought, asked, answers, answers.table)


def _transitions_and_time(brought: Brought, asked: Asked, answers: StudyAnswer, table: pd.DataFrame) -> None:
    left, right = st.columns(2, gap="medium")
    with left:
        if answers.flow is None:
            shell.empty("No transitions to compare", answers.no_flow)
        else:
            made = pictures.changes(brought.study, answers.flow)
            plot(made, key="study-changes", filename=f"{brought.name}-changes")
    with right:
        _over_time(brought, asked, table)


def _over_time(brought: Brought, asked: Asked, table: pd.DataFrame) -> None:
    """Draw the usage of a state over the recording by group."""
    study = brought.study
    place = _state(brought, "Usage over time of", answer.surest(table, len(study.states)))
    counts, frame = study.counts, study.conditions
    longest = max(one.n_samples / one.rate_hz for one in counts.recordings)
    bin_s = BIN_S if longest >= 3 * BIN_S else max(longest / 6, 1e-9)
    unit = study.sheet.animal or RECORDING
    parts = []
    for row, usage in enumerate(counts.usage_over_time(bin_s)):
        its_row = frame.iloc[row]
        if its_row[list(asked.between)].notna().all() and all(its_row[c] in values for c, values in asked.where):
            seen = counts.recordings[row].n_samples / counts.rates[row] / bin_s
            usage = usage[: max(1, round(seen))]  # an incomplete minute would have the widest interval
            minutes = (np.arange(len(usage)) + 0.5) * bin_s / 60
            its = {name: its_row[name] for name in {unit, *asked.between}}
            parts.append(pd.DataFrame({"minute": minutes, "usage": usage[:, place], **its}))
    whole = pictures.with_groups(asked, pd.concat(parts, ignore_index=True))
    each = whole.groupby([pictures.GROUP, unit, "minute"], sort=False)["usage"].mean().reset_index()
    drawn = pictures.intervals(each, unit)
    drawn = drawn[drawn["count"] >= drawn["count"].max() / 2]  # only the longest recordings reach the end
    words = f"Usage of {study.state_name(study.states[place])}"
    made = pictures.over_time(drawn, pictures.groups_of(table), words, study.sheet.subject)
    plot(made, key="study-time", filename=f"{brought.name}-minutes")


def _state(brought: Brought, label: str, first: int) -> int:
    """Return the position of the chosen state."""
    words = {place: brought.study.state_name(state) for place, state in enumerate(brought.study.states)}
    return pick(label, words, first, key=settings.key("state", brought.of), width=260)


def _states(brought: Brought, asked: Asked | None, answers: StudyAnswer | None) -> None:
    """Show the states, their names and clips."""
    names.name_states(brought)
    table = None if answers is None else answers.table
    first = 0 if table is None else answer.surest(table, len(brought.study.states))
    st.html('<p class="gdm-panel-title gdm-study-part">Clips</p>')
    labels.show_clips(brought, asked, _state(brought, "Clips of", first))


def _recordings(brought: Brought, asked: Asked | None) -> None:
    """Show the strips and the sheet as read, with excluded and flagged recordings."""
    study = brought.study
    if asked is not None:  # else they are in the picture
        answer.draw_strips(brought, asked)
    counts = study.counts
    table = study.conditions.copy()
    table.insert(1, "labelled minutes", np.round(counts.labelled_minutes, 2))
    table.insert(2, "Hz", counts.rates)
    table.insert(3, "flagged", [study.flagged.get(name, "") for name in table[RECORDING]])
    if not study.flagged:
        table = table.drop(columns="flagged")
    for note in dict.fromkeys([*answer.left_out(brought), *study.notes]):
        shell.quiet(note)
    two = {"labelled minutes": st.column_config.NumberColumn(format="%.2f")}
    show_table(table, 460, "study-sheet-table", column_config=two)
