"""Results of a comparison: the figure of groups, sentences and the table of states."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from gdm_core.study import Flow
from gdm_core.study.classes import BEFORE
from gdm_core.study.comparing import write_sentence
from gdm_core.study.followup import assess_equivalence, order_findings
from gdm_core.study.rare import advise_fewer_states
from gdm_core.study.sheet import RECORDING, ROWS_WITHOUT, format_items, format_list
from gdm_core.study.states import SHARES
from gdm_core.study.text import MINUS, format_d, format_effect, format_p
from gdm_core.text import listed, plural
from pages.study import pictures, work
from pages.study.bring import Brought
from pages.study.files import group_by_reason
from pages.study.pictures import groups_of
from pages.study.questions import MEASURES, NOTHING, SHORT, Asked, StudyAnswer
from pages.ui import settings, shell
from pages.ui.controls import one_of, slide
from pages.ui.plot import coming, plot
from pages.ui.tables import show_table

LEVEL = 0.05
MOST_SENTENCES = 4
DOTS = 400  # height in pixels, with the caption


def draw(brought: Brought, asked: Asked | None, answers: StudyAnswer | None) -> None:
    """Draw the groups of a comparison, or all recordings without one, and list excluded recordings."""
    excluded, flagged = len(brought.study.sheet.set_aside), len(brought.study.flagged)
    if excluded or flagged or brought.notes:
        counts = [f"{n} {status}" for n, status in ((excluded, "excluded"), (flagged, "flagged")) if n]
        shell.quiet(f"{', '.join(counts) or 'Notes on the files'}: see Recordings.")
    if asked is None:
        draw_strips(brought, asked)
    elif answers is None:
        coming("study-dots", "Computing the comparison.", DOTS)
    elif answers.table is not None:
        plot(pictures.dots(brought.study, asked, answers), key="study-dots", filename=f"{brought.name}-animals")


def draw_strips(brought: Brought, asked: Asked | None) -> None:
    """Draw one strip of states per recording."""
    made = pictures.strips(brought.study, _sorted_by(brought, asked))
    plot(made, key="study-strips", revision=brought.key, filename=f"{brought.name}-recordings")


def _sorted_by(brought: Brought, asked: Asked | None) -> str:
    """Return the chosen column by which recordings are sorted."""
    columns = [str(c) for c in brought.study.conditions if c != RECORDING]
    first = asked.between[0] if asked is not None else NOTHING
    key = settings.key("sort", settings.key(brought.of, settings.scope(first)))
    found = one_of("Sort recordings by", [NOTHING, *columns], first, key=key, width=260)
    return "" if found == NOTHING else found


def left_out(brought: Brought) -> list[str]:
    """Return sentences about excluded and flagged recordings."""
    study = brought.study
    grouped = group_by_reason(study.sheet.set_aside.items())
    said = [f"{format_items(names, 'recording', 'excluded')} {why.capitalize()}." for why, names in grouped.items()]
    said += [f"{name} is {why}." for name, why in study.flagged.items()]
    return [*said, *brought.notes, *(one for one in study.notes if one.startswith(ROWS_WITHOUT))]


def flow_sentence(flow: Flow, column: str) -> str:
    """Return the result of the flow test as a sentence."""
    bare = all(name.replace(".", "").replace("-", "").isdigit() for name in flow.sizes)
    names = listed([f"{column} {name}" if bare else name for name in flow.sizes])
    if flow.p < LEVEL:
        return f"Transitions between states differ overall between {names}."
    return f"Transitions between states: no significant overall difference between {names}."


def p_cell(p: float) -> str:
    """Format a p value for a table."""
    return format_p(p).removeprefix("p ").removeprefix("= ")


def card(brought: Brought, asked: Asked, found: StudyAnswer, caution: str) -> None:
    """Show the result of a comparison, with what speaks against it."""
    st.html('<p class="gdm-panel-title">Result</p>')
    if found.flow is not None:
        flow = found.flow
        shell.finding(flow_sentence(flow, asked.between[0]))
        n = f"n = {plural(flow.n, flow.unit_word)}{'' if brought.study.sheet.animal else ' (no animal column chosen)'}"
        shell.quiet(f"Behavioural flow: z = {flow.z:.2f}, {format_p(flow.p)}, {n}.".replace("-", MINUS))
    elif found.no_flow and found.table is not None:
        shell.quiet(f"No overall test: {found.no_flow}")
    cautions = [one for one in (caution, found.flow and found.flow.caution) if one]
    confounds = None if found.confounds is None else unadjusted(found.confounds, asked)
    if confounds is not None and len(confounds):
        cautions.append(f"Groups also differ in {format_list(confounds['column'].tolist())}: see Checks.")
    cautions += advise_fewer_states(brought.study.occurrence)
    if cautions:
        shell.finding(" ".join(cautions))
    if found.table is None:
        shell.error("This comparison is not possible", found.trouble)
        return
    table, share = found.table, asked.measure in SHARES
    st.html(f'<p class="gdm-panel-title gdm-study-part">{escape(SHORT.get(asked.measure, asked.measure))}</p>')
    named = order_findings(table, asked.correction)
    for place in named[:MOST_SENTENCES]:
        shell.finding(write_sentence(table.iloc[place], share, asked.correction))
    tested = int(table["p"].notna().sum())
    if len(named) > MOST_SENTENCES:
        shell.quiet(f"{len(named) - MOST_SENTENCES} more: see Results.")
    if named and tested > len(named):
        shell.quiet(f"The other {tested - len(named)} of {tested} tests are not significant after correction.")
    elif not named and tested:
        shell.finding("No state differs after correction." if len(table) > 1 else "No significant difference.")
        smallest = table.iloc[int(table["p"].argmin())]
        shell.quiet(f"Smallest p value: {write_sentence(smallest, share, asked.correction)}")
    elif not tested:
        shell.finding("Nothing could be tested.")
    if asked.pooled:
        shell.quiet(asked.pooled)


def unadjusted(confounds: pd.DataFrame, asked: Asked) -> pd.DataFrame:
    """Return the columns from before the treatment that are associated with the groups and not accounted for."""
    names = confounds["column"] + ", " + confounds["same"]
    adjusted = [bool(set(asked.covariates).intersection(its.split(", "))) for its in names]
    return confounds[confounds["associated"] & (confounds["kind"] == BEFORE) & ~np.array(adjusted, dtype=bool)]


def surest(table: pd.DataFrame, n_states: int) -> int:
    """Return the position of the state with the smallest p."""
    if len(table) != n_states or table["p"].isna().all():
        return 0
    return int(table["p"].argmin())


def notes(found: StudyAnswer) -> list[str]:
    """Return the limitations of the design."""
    said = [*(found.flow.notes if found.flow else ()), *(found.table.attrs["notes"] if found.table is not None else ())]
    return [*dict.fromkeys(said)]


def number_text(value: float, percent: bool) -> str:
    """Format a number or a share for a table."""
    return "–" if not np.isfinite(value) else (f"{value:.1%}" if percent else f"{value:.3g}").replace("-", MINUS)


def table(brought: Brought, asked: Asked, found: pd.DataFrame) -> None:
    """Show one row per state: means, effect with interval, and p values."""
    percent = asked.measure in SHARES
    shown: dict[str, Any] = {}
    if "term" in found:
        shown["term"] = found["term"]
    shown["state"] = found["name"]
    for group in groups_of(found):
        header = f"mean {group}" if group in ("term", "state", "d", "p", "conclusion") else group
        shown[header] = [number_text(value, percent) for value in found[f"mean_{group}"]]
    # explained variance is not a share of time
    in_points = percent & ~found["effect_is"].str.contains("omega")
    header = "effect (pp, 95% CI)" if in_points.any() else "effect (95% CI)"
    shown[header] = [
        ("" if points or not in_points.any() else "ω² ")
        + f"{format_effect(effect, points)} ({format_effect(low, points)} to {format_effect(high, points)})"
        for effect, low, high, points in zip(
            found["effect"], found["effect_low"], found["effect_high"], in_points, strict=True
        )
    ]
    if found["d"].notna().any():
        shown["d"] = [format_d(value) for value in found["d"]]
    tests = {asked.correction: "adjusted p", "p_trend": "p (trend)", "p": "p", "p_classical": "classical p"}
    shown |= {words: [p_cell(value) for value in found[name]] for name, words in tests.items() if name in found}
    margin = 0.0
    if found["d"].notna().any():
        about = f"Smallest difference that matters, in standard deviations between {brought.study.sheet.subjects}."
        with st.columns([0.35, 0.65])[0]:
            margin = slide("Equivalence margin (SD)", 0.1, 2.0, 0.5, 0.1, key="margin", help=about)
        shown["conclusion"] = assess_equivalence(found, margin)["conclusion"].where(found["p"].notna(), "–")
    at_first = [column for column in shown if column not in ("p", "classical p")]  # the table's menu shows the others
    show_table(pd.DataFrame(shown), 560, "study-table", column_order=at_first)
    test = str(found["test"].iloc[0]).removeprefix("permutation, ")
    unit = ", in percentage points (pp)" if in_points.any() else ""
    shell.quiet(
        f"{MEASURES.get(asked.measure, asked.measure).capitalize()}. Means per group. Effect: {found['effect_is'].iloc[0]}{unit}. "
        f"p: {found.attrs['n_permutations']:,} label permutations; classical p: {test}."
        + (f" Equivalent: within ±{margin:g} SD by two one-sided t tests, Holm-adjusted." if margin else "")
    )
    if not found["d"].notna().any() and len(asked.between) == 1 and "p_trend" not in found:
        _pairs(brought, asked, found)


def _pairs(brought: Brought, asked: Asked, found: pd.DataFrame) -> None:
    """Compare pairs of groups in the states that differ."""
    if not order_findings(found):
        return
    key, words = (brought.key, "pairs", asked.key), "Comparing pairs of groups"
    pairs = work.outcome(
        "study-pairs", key, lambda say: brought.study.compare_pairs(found), "Pairs could not be compared", words=words
    )
    if pairs is None:
        return
    st.html('<p class="gdm-panel-title gdm-study-part">Pairs of groups</p>')
    percent = asked.measure in SHARES
    shown = {
        "state": pairs["name"],
        "pair": [f"{second} {MINUS} {first}" for first, second in zip(pairs["first"], pairs["second"], strict=True)],
        "effect (pp)" if percent else "effect": [format_effect(value, percent) for value in pairs["effect"]],
        "d": [format_d(value) for value in pairs["d"]],
        "p": [p_cell(value) for value in pairs["p"]],
        "adjusted p": [p_cell(value) for value in pairs["p_holm"]],
    }
    show_table(pd.DataFrame(shown), 420, "study-pairs-table")
