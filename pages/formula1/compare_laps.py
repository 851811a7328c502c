"""Two drivers over all laps that nothing disturbed: where one wins time on the other."""

from __future__ import annotations

import streamlit as st

from datasets.formula1 import Session
from gdm_studio.plot.figures.base import numbered
from pages.formula1 import data, gain_panel, state_names
from pages.formula1.choices import choose_one
from pages.formula1.driver_states import Driver, race_of, read, unanswered
from pages.lab import Unread, View
from pages.ui import shell

NOBODY = "nobody"
SIDES = {"a": "Driver", "b": "against", "c": "and", "d": "and also"}


def pick_driver(view: View, session: Session, side: str) -> str:
    """A driver of the session, by the side in `SIDES`; `NOBODY` is on offer beyond the first two."""
    pick = race_of(view).pick
    codes = [driver.code for driver in session.drivers if driver.has_position and len(driver.laps)]
    default = {"a": pick.train, "b": pick.test}.get(side, NOBODY)
    offered = ({} if side in "ab" else {NOBODY: "–"}) | {code: code for code in codes}
    return choose_one(SIDES[side], f"driver-{side}", offered, default, among=f"{pick.place}-{default}")


def chosen(view: View, side: str, code: str) -> tuple[data.Laps, Driver | Unread]:
    """The chosen laps of a driver, and their states. Raises where there are no such laps of this driver."""
    pick = race_of(view).pick
    laps = data.laps_of(pick.place, code, pick.looked)
    name = "test" if code == pick.test else f"driver-{side}"
    found = read(view, laps, name)
    unanswered(view, laps, name)
    return laps, found


def tab(view: View) -> None:
    """Pick two drivers."""
    session = data.open_session(race_of(view).pick.place)  # of the fit that is shown, which may be an earlier one
    codes = []
    for side, place in zip("ab", st.columns(2, gap="small"), strict=True):
        with place:
            codes.append(pick_driver(view, session, side))
    if codes[0] == codes[1]:
        shell.empty("One driver", "Choose another driver to compare with. Two laps of one driver: Telemetry.")
        return
    picked = [chosen(view, side, code)[1] for side, code in zip("ab", codes, strict=True)]
    gain_panel.show(view, session, (codes[0], codes[1]), picked, numbered(state_names.names(view)))
