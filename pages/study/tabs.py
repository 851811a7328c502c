"""Tabs below the picture of a study."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import streamlit as st

from gdm_core.study import Power
from gdm_core.study.comparing import format_difference
from gdm_core.study.sheet import RECORDING
from gdm_core.study.states import SHARES, STATE_MEASURES
from pages.study import answer, labels, leave, names, pictures, questions, work
from pages.study.bring import Brought
from pages.study.questions import Asked, StudyAnswer
from pages.study.work import Say
from pages.ui import settings, shell
from pages.ui.controls import pick, slide, tabs
from pages.ui.plot import plot
from pages.ui.tables import show_table

BIN_S = 60.0
ALL = "whole recording"


def show(brought: Brought, asked: Asked | None, answers: StudyAnswer | None) -> None:
    """Show the tabs; only the open one is drawn."""
    table = None if answers is None else answers.table
    for name, place in tabs(TABS):
        if not place.open:
            continue
        with place:
            if name in (*OF_AN_ANSWER, "Transitions") and asked is not None and answers is None:
                shell.empty("No answer yet", "Wait for the comparison to finish.")
            elif name not in OF_AN_ANSWER:
                OTHERS[name](brought, asked, answers)
            elif asked is None or table is None:
                shell.empty("No answer yet", "Choose a comparison on the left.")
            else:
                OF_AN_ANSWER[name](brought, asked, table)


def _changes(brought: Brought, asked: Asked | None, answers: StudyAnswer | None) -> None:
    if asked is None or answers is None or answers.flow is None:
        shell.empty("No flow to show", "" if answers is None else answers.no_flow)
        return
    flow = answers.flow
    shell.finding(answer.flow_sentence(flow, asked.between[0]))
    left, right = st.columns(2, gap="medium")
    with left:
        plot(pictures.changes(brought.study, flow), key="study-changes", filename=f"{brought.name}-changes")
    with right:
        plot(pictures.graph(brought.study, flow), key="study-graph", filename=f"{brought.name}-graph")
    shell.quiet(f"Distance {flow.distance:.4g}, z = {flow.z:.2f}, p {answer.p_text(flow.p)}: {flow.test}.")


def _over_time(brought: Brought, asked: Asked, table: pd.DataFrame) -> None:
    study = brought.study
    place = _state(brought, "Usage of", _surest(table, len(study.states)))
    counts, frame = study.counts, study.conditions
    longest = max(one.n_samples / one.rate_hz for one in counts.recordings)
    bin_s = BIN_S if longest >= 3 * BIN_S else max(longest / 6, 1e-9)
    unit = study.sheet.animal or RECORDING
    parts = []
    for row, usage in enumerate(counts.usage_over_time(bin_s)):
        if not frame.iloc[row][list(asked.between)].isna().any() and (
            asked.where is None or frame.iloc[row][asked.where[0]] in asked.where[1]
        ):
            seen = counts.recordings[row].n_samples / counts.rates[row] / bin_s
            usage = usage[: max(1, round(seen))]  # an incomplete minute would have the widest interval
            minutes = (np.arange(len(usage)) + 0.5) * bin_s / 60
            its = {name: frame.iloc[row][name] for name in {unit, *asked.between}}
            parts.append(pd.DataFrame({"minute": minutes, "usage": usage[:, place], **its}))
    whole = pictures.with_groups(asked, pd.concat(parts, ignore_index=True))
    each = whole.groupby([pictures.GROUP, unit, "minute"], sort=False)["usage"].mean().reset_index()
    drawn = pictures.intervals(each, [pictures.GROUP, "minute"], "usage").reset_index()
    drawn = drawn[drawn["count"] >= drawn["count"].max() / 2]  # only the longest recordings reach the end
    words = f"Usage of {study.state_name(study.states[place])}"
    plot(
        pictures.over_time(drawn, pictures.groups_of(table), words),
        key="study-time",
        filename=f"{brought.name}-minutes",
    )


def _state(brought: Brought, label: str, first: int) -> int:
    """Return the position of the chosen state."""
    words = {place: brought.study.state_name(state) for place, state in enumerate(brought.study.states)}
    return pick(label, words, first, key=settings.key("state", brought.of), width=260)


def _surest(table: pd.DataFrame, n_states: int) -> int:
    """Return the position of the state with the smallest p."""
    if len(table) != n_states or table["p"].isna().all():
        return 0
    return int(table["p"].argmin())


def _power(brought: Brought, asked: Asked, table: pd.DataFrame) -> None:
    """Show power against the number of animals."""
    if len(asked.between) > 1:
        shell.empty("Power needs one factor", "Remove the second factor, or fix it under Filter by.")
        return
    left, right = st.columns(2, gap="medium")
    by_state = asked.measure in STATE_MEASURES
    with left:
        place = _state(brought, "Of", _surest(table, len(brought.study.states))) if by_state else 0
    with right:
        effect = slide(
            "Effect size (Cohen's d)", 0.1, 3.0, 1.0, 0.1, key="effect",
            help="In standard deviations between animals; of differences if paired.",
        )  # fmt: skip
    if asked.measure in questions.CHANGE_MEASURES:
        shell.empty("Power is not available for transitions", "Choose another measure on the left.")
        return
    state = brought.study.states[place] if by_state else None
    asking = {**asked.design, "covariates": asked.covariates}

    def do(say: Say) -> Power:
        return brought.study.power(asked.measure, asked.between[0], state, float(effect), **asking)

    key, words = (brought.key, "power", asked.key, state, effect), "Simulating 1,000 studies per sample size"
    found = work.outcome("study-power", key, do, "Power could not be estimated", words=words)
    if found is not None:
        needed = "more than 200" if found.needed is None else f"{found.needed}"
        what = ALL if state is None else brought.study.state_name(state)
        raw = format_difference(found.raw, asked.measure in SHARES)
        pairs = "pairs" if asked.within else "animals per group"
        shell.finding(
            f"A difference of {found.effect:.1f} standard deviations in {what} ({raw}) is detected with "
            f"{found.power:.0%} power; {needed} {pairs} give 80%."
        )
        plot(pictures.power(found), key="study-power-curve", filename=f"{brought.name}-power")
        for one in found.notes:
            shell.quiet(one)


def _frames(brought: Brought, asked: Asked, table: pd.DataFrame) -> None:
    """Compare p values with frames and with animals as units."""
    if len(asked.between) > 1 or asked.within:
        shell.empty("This check needs one factor", "Remove the repeated measures or the second factor.")
        return
    found = questions.by_frames(brought, asked)
    if found is None:
        return
    claimed, true = int((found["p"] < answer.LEVEL).sum()), int((found["p_by_animal"] < answer.LEVEL).sum())
    shell.finding(
        f"With frames as units, {claimed} of {len(found)} states have p < .05 (uncorrected); with animals as units, {true}."
    )
    shown = pd.DataFrame(
        {
            "state": [brought.study.state_name(state) for state in found["state"]],
            "p (frames)": [answer.p_text(p).removeprefix("= ") for p in found["p"]],
            "p (animals)": [answer.p_text(p).removeprefix("= ") for p in found["p_by_animal"]],
            "frames": [f"{n:,}" for n in found["n"]],
        }
    )
    show_table(shown, 560, "study-frames-table")
    shell.quiet(found.attrs["notes"][0].replace("p_by_animal", "p (animals)"))


def _clips(brought: Brought, asked: Asked | None, answers: StudyAnswer | None) -> None:
    table = None if answers is None else answers.table
    labels.show_clips(
        brought, asked, _state(brought, "State", 0 if table is None else _surest(table, len(brought.study.states)))
    )


def _recordings(brought: Brought, asked: Asked | None, answers: StudyAnswer | None) -> None:
    """Show the sheet as read, with excluded and flagged recordings."""
    study = brought.study
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


OF_AN_ANSWER: dict[str, Callable[[Brought, Asked, pd.DataFrame], None]] = {
    "Results by state": answer.table,
    "Over time": _over_time,
    "Sample size and power": _power,
    "Pseudoreplication check": _frames,
}
OTHERS: dict[str, Callable[[Brought, Asked | None, StudyAnswer | None], None]] = {
    "Transitions": _changes,
    "Clips": _clips,
    "Names": lambda brought, asked, _: names.name_states(brought, asked),
    "Recordings": _recordings,
    "Export": leave.panel,
}
TABS = (
    "Results by state", "Transitions", "Over time", "Clips", "Sample size and power", "Pseudoreplication check", "Names",
    "Recordings", "Export",
)  # fmt: skip
