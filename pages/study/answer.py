"""Results of a comparison: figures, sentences, tables and limitations."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from gdm_core.study import Flow
from gdm_core.study.sheet import ANIMAL, RECORDING, ROWS_WITHOUT
from gdm_core.study.states import SHARES
from pages.study import pictures
from pages.study.bring import Brought
from pages.study.pictures import MINUS, groups_of, label_of
from pages.study.questions import MEASURES, NOTHING, SHORT, Asked, StudyAnswer
from pages.ui import settings, shell
from pages.ui.controls import one_of
from pages.ui.plot import coming, plot
from pages.ui.tables import show_table

LEVEL = 0.05
MOST_SENTENCES = 4
ON_THE_PAGE = ("study-dots", "study-strips")  # figures above the tabs
DOTS = 370  # height in pixels, with the caption
MOST_ABSENT = 3  # listed above the picture


def draw(brought: Brought, asked: Asked | None, answers: StudyAnswer | None) -> None:
    """Draw the groups of a comparison and all recordings, and list excluded recordings."""
    absent = left_out(brought)
    for one in absent[:MOST_ABSENT]:
        shell.quiet(one)
    if len(absent) > MOST_ABSENT:
        shell.quiet(f"{len(absent) - MOST_ABSENT} more are excluded or flagged: see Recordings.")
    if asked is not None and answers is None:
        coming("study-dots", "Computing the comparison.", DOTS)
    elif asked is not None and answers is not None and answers.table is not None:
        plot(pictures.dots(brought.study, asked, answers), key="study-dots", filename=f"{brought.name}-animals")
    made = pictures.strips(brought.study, sorted_by(brought, asked))
    plot(made, key="study-strips", revision=brought.key, filename=f"{brought.name}-recordings")


def left_out(brought: Brought) -> list[str]:
    """Return one sentence per excluded or flagged recording."""
    study = brought.study
    said = [f"{name} is excluded: {why}." for name, why in study.sheet.set_aside.items()]
    said += [f"{name} is {why}." for name, why in study.flagged.items()]
    return [*dict.fromkeys([*said, *brought.notes, *(one for one in study.notes if one.startswith(ROWS_WITHOUT))])]


def sorted_by(brought: Brought, asked: Asked | None) -> str:
    """Return the chosen column by which recordings are sorted."""
    columns = [str(c) for c in brought.study.conditions if c != RECORDING]
    first = asked.between[0] if asked is not None else NOTHING
    key = settings.key("sort", settings.key(brought.of, settings.scope(first)))
    options = [NOTHING, *columns]
    found = one_of("Sort recordings by", options, first, key=key, width=260)
    return "" if found == NOTHING else found


def flow_sentence(flow: Flow, column: str) -> str:
    """Return the result of the flow test as a sentence."""
    bare = all(name.replace(".", "").replace("-", "").isdigit() for name in flow.sizes)
    names = [f"{column} {name}" if bare else name for name in flow.sizes]
    between = f"{', '.join(names[:-1])} and {names[-1]}"
    if flow.p < LEVEL:
        return f"Overall, behaviour differs between {between}."
    return f"Overall, no significant difference between {between}."


def p_text(p: float) -> str:
    """Format a p value in APA style."""
    return "not tested" if np.isnan(p) else "< .001" if p < 0.001 else f"= {p:.3f}".replace("0.", ".")


def card(asked: Asked, found: StudyAnswer) -> None:
    """Show the result of a comparison."""
    st.html('<p class="gdm-panel-title">Result</p>')
    if found.flow is not None:
        shell.finding(flow_sentence(found.flow, asked.between[0]))
        flow = found.flow
        st.html(
            f'<dl class="gdm-facts"><div><dt>flow distance</dt><dd>{flow.distance:.4g}</dd></div>'
            f"<div><dt>z</dt><dd>{flow.z:.1f}</dd></div><div><dt>p</dt><dd>{p_text(flow.p).removeprefix('= ')}</dd></div>"
            f"<div><dt>n</dt><dd>{flow.n}</dd></div></dl>"
        )
        shell.quiet(
            f"Behavioural flow: distance between mean transition matrices ({flow.unit}), tested with 10,000 label "
            "permutations."
        )
    elif found.no_flow and found.table is not None:
        shell.quiet(f"No overall test: {found.no_flow}")
    if found.table is None:
        shell.error("This comparison is not possible", found.trouble)
        return
    table = found.table
    st.html(f'<p class="gdm-panel-title gdm-study-part">{escape(SHORT.get(asked.measure, asked.measure))}</p>')
    named = differing(table, asked.correction)
    if len(named):
        sentences = table.attrs["sentences"]
        for place in named[:MOST_SENTENCES]:
            shell.finding(sentences[place])
        if len(named) > MOST_SENTENCES:
            shell.quiet(f"{len(named) - MOST_SENTENCES} more: see Results by state.")
        if (tested := int(table[asked.correction].notna().sum())) > len(named):
            shell.quiet(f"The other {tested - len(named)} of {tested} tests are not significant after correction.")
    elif table["p"].notna().any():
        best = int(table["p"].argmin())
        alone = "No significant difference."
        shell.finding("No state differs after correction." if len(table) > 1 else alone)
        shell.quiet(f"Smallest p value: {table.attrs['sentences'][best]}")
    else:
        shell.finding("Nothing could be tested.")
    notes(found)


def differing(table: pd.DataFrame, correction: str) -> list[int]:
    """Return the positions of significant rows, smallest p first."""
    p = table[correction].fillna(1.0).to_numpy()
    return [int(place) for place in np.argsort(p, kind="stable") if p[place] < LEVEL]


def notes(found: StudyAnswer) -> None:
    """Show the limitations of the design."""
    said = [*(found.flow.notes if found.flow else ()), *(found.table.attrs["notes"] if found.table is not None else ())]
    if said:
        st.html('<p class="gdm-panel-title gdm-study-part">Limitations</p>')
        for one in dict.fromkeys(said):
            shell.quiet(one)


def table(brought: Brought, asked: Asked, found: pd.DataFrame) -> None:
    """Show one row per state: effect with interval, then p values."""
    groups = groups_of(found)
    percent = asked.measure in SHARES
    shown: dict[str, Any] = {}
    if "term" in found:
        shown["term"] = found["term"]
    shown["state"] = [label_of(brought.study, row) for _, row in found.iterrows()]

    def number(value: float, share: bool = percent) -> str:
        return "–" if not np.isfinite(value) else (f"{value:.1%}" if share else f"{value:.3g}").replace("-", MINUS)

    bare = [
        percent and "omega" not in words for words in found["effect_is"]
    ]  # explained variance is not a share of time
    low_high = zip(found["effect_low"], found["effect_high"], bare, strict=True)
    shown["effect"] = [number(value, share) for value, share in zip(found["effect"], bare, strict=True)]
    shown["95% CI"] = [f"{number(low, share)} to {number(high, share)}" for low, high, share in low_high]
    for name, words in (("p", "p"), (asked.correction, "adjusted p")):
        shown[words] = [p_text(value).removeprefix("= ") for value in found[name]]
    if "p_trend" in found:
        shown["p (trend)"] = [p_text(value).removeprefix("= ") for value in found["p_trend"]]
    for group in groups:
        shown[f"mean {group}"] = [number(value) for value in found[f"mean_{group}"]]
    if found["d"].notna().any():
        shown["d"] = [number(value, False) for value in found["d"]]
    shown["classical p"] = [p_text(value).removeprefix("= ") for value in found["p_classical"]]
    shown["n"] = found["n"].astype(str)
    show_table(pd.DataFrame(shown), 560, "study-table")
    test = str(found["test"].iloc[0]).removeprefix("permutation, ")
    shell.quiet(
        f"{MEASURES.get(asked.measure, asked.measure).capitalize()}. Effect: {found['effect_is'].iloc[0]}. p: 10,000 "
        f"label permutations; classical p: {test}. d: Cohen's d between {ANIMAL}s."
    )
