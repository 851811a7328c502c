"""How bouts are read: the rule in words, and its controls; in seconds, or in steps where nobody said how fast a recording was."""

from __future__ import annotations

import streamlit as st

from gdm_core.analysis.bouts import LONGEST_S, BoutRule
from gdm_core.units import unit_for
from pages.ui import settings, shell
from pages.ui.controls import slide

LONGEST_STEPS = 50.0


def longest(counted: str) -> float:
    """The most that bouts are smoothed over."""
    return LONGEST_STEPS if counted == "step" else LONGEST_S


def rule_words(rule: BoutRule, counted: str) -> str:
    """How bouts are read, as a part of a sentence."""
    if rule.plain:
        return "as fitted"
    unit = "steps" if counted == "step" else "s"
    return f"smoothed over {rule.smooth_s:g} {unit}, none below {rule.shortest_s:g} {unit}"


def bout_controls(start: BoutRule, counted: str, rate_hz: float, of: str, *, labelled: bool) -> tuple[BoutRule, bool]:
    """(how bouts are read from soft states, whether a slider of it is held).

    start, labelled  how they are read at first, and whether an expert's labels say so
    counted, of      "s" or "step", and what the controls belong to
    """
    shell.section("Bouts")
    if longest(counted) * rate_hz < 2:
        shell.quiet("As fitted: with so long from one sample to the next, there is nothing to smooth within seconds.")
        return BoutRule(), False
    unit, most, step = unit_for(0.0, counted), longest(counted), 1.0 if counted == "step" else 0.1
    why = " Starts at half of the median bout in the expert's labels." if labelled else ""
    if not labelled and not start.plain:
        shell.quiet(
            f"No labels say how long bouts are. At first they are {rule_words(start, counted)}; 0 reads them as fitted."
        )
    said = "Soft states are averaged over so long before the strongest counts. 0: as fitted."
    smooth, smoothing = slide(
        f"Smooth over ({unit.plural})", 0.0, most, start.smooth_s, step, key="smooth", of=of, live=True, help=said + why
    )
    said = "Bouts below it go to their neighbours."
    shortest, cutting = slide(
        f"Shortest bout ({unit.plural})",
        0.0,
        most,
        start.shortest_s,
        step,
        key="shortest",
        of=of,
        live=True,
        help=said + why,
    )
    return BoutRule(smooth, shortest), smoothing or cutting


def read_as_fitted(of: str) -> None:
    """Set the controls so that bouts are those of the fit: for a button's `on_click`."""
    for name in ("smooth", "shortest"):
        st.session_state[settings.key(name, of)] = 0.0
