"""Formula 1: two drivers compared by circuit, session and laps, and the states of their driving."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import streamlit as st

from datasets.f1.laps import is_qualifying, is_race, remarks_on_laps, remarks_on_session
from datasets.formula1 import Reason
from gdm_core.errors import GdmError
from pages import lab
from pages.formula1 import (
    compare,
    controls,
    corners,
    data,
    differences,
    export,
    field,
    laps,
    pairs,
    sessions,
    states,
)
from pages.formula1.comparison import INTERVALS, describe
from pages.formula1.data import Race
from pages.formula1.selection import Place
from pages.lab.live import background
from pages.ui import model_controls, navigation, settings, shell
from pages.ui.controls import tabs
from pages.ui.theme import ASSETS

MODELS = ("gdm", "gdm-rnn", "slds-sticky", "rslds-sticky", "rslds-ro", "arhmm-sticky")
FEED = "Formula 1 data from FastF1; unofficial, not associated with Formula 1."
SIMULATED = "Simulated laps; circuits are approximate."
NAMES = ("Compare", "Differences", "Corners", "Laps", "States", "Field", "Export")
COMPARE, DIFFERENCES, CORNERS, LAPS, STATES, FIELD, EXPORT = NAMES
COMPARED = (COMPARE, DIFFERENCES, CORNERS)  # tabs about pairs of laps
FITTED = (STATES, EXPORT)  # tabs with a fit, and controls of its model


def choose_tab() -> tuple[str, Any]:
    """Show the tabs; return the name and the container of the open one."""
    places = tabs(NAMES)
    return next(((name, place) for name, place in places if place.open), places[0])


def show_tab(name: str, race: Race) -> None:
    """Show an open tab that needs no fit."""
    if name in COMPARED and race.found is None:
        shell.empty(
            "No comparison", "One of the drivers has no timed lap with speeds in this selection. Choose other laps."
        )
    elif name == COMPARE and race.found is not None:
        compare.tab(race, race.found)
    elif name == DIFFERENCES and race.found is not None:
        differences.tab(race, race.found)
    elif name == CORNERS and race.found is not None:
        corners.tab(race, race.found)
        corners.show_pedals(race, race.found)
    elif name == LAPS:
        laps.show_history(race) if is_race(race.session) else laps.show_improvement(race)
        laps.tab(race)
    else:
        field.show_minisectors(race)
        if not is_race(race.session):
            field.show_best_laps(race)
        field.show_lap_times(race)


def lay_out() -> tuple[str, shell.Frame]:
    """Show the tabs below the header; return the open one and the frame in it."""
    head = shell.show_top("formula1")
    opened, place = choose_tab()
    with place:
        if opened == STATES:
            return opened, shell.lay_out("formula1", head, card_share=0.36)
        main = st.container(key=f"formula1-{opened.lower()}")
    title = navigation.info("formula1").title
    return opened, shell.Frame("formula1", title, head, st.sidebar, main, main, main)


st.html(ASSETS / "formula1.css")
opened, page = lay_out()


def waiting(wait: controls.Waiting) -> NoReturn:
    """Show a session that is loading or failed, and end the run."""
    load = wait.load
    with page.picture:
        if wait.ask:
            shell.empty(
                wait.title, "This session is not stored on this server yet. Fetching it takes 10 to 60 s, once."
            )
            st.button(
                "Load this session", type="primary", key="f1-load", icon=":material/download:",
                on_click=sessions.request_again, args=(wait.what,),
            )  # fmt: skip
        elif load is None:
            shell.empty(wait.title, wait.advice)
        elif load.ended and load.error is not None:
            title, text = sessions.explain(load.error)
            shell.error(title, wait.advice or text, retry="f1-retry", again=partial(sessions.request_again, wait.what))
        else:
            shell.empty(wait.title, "The first load takes about 10 s; after that the session opens instantly.")
            background.show_progress("f1-loading", load, ended=False)
            if isinstance(wait.what, Place):
                st.button("Cancel", key="f1-cancel", on_click=load.cancel, icon=":material/close:")
        # An alternative without network.
        simulated = ("source", "simulated")
        st.button("Open the simulated race", key="f1-simulated", on_click=settings.change, args=simulated)
    with page.card:
        hint = controls.account_hint()
        if hint and (load is None or load.error is None or getattr(load.error, "reason", None) is Reason.ACCOUNT):
            shell.quiet(hint)
    page.header(wait.title)
    shell.footer([FEED])
    shell.end_page()


def remark(race: Race) -> None:
    """Show how intervals are made, and what the session and the chosen laps lack."""
    session = race.session
    if not (is_qualifying(session) and race.found is not None and race.found.single):  # timing error only
        shell.quiet(INTERVALS)
    if session.simulated:
        shell.quiet("Simulated race on an approximate layout. Choose Real sessions for recorded ones.")
        return
    driven = {race.train.code: race.train, race.test.code: race.test}
    about_laps = [text for code, one in driven.items() for text in remarks_on_laps(session, code, one.lap.tolist())]
    with st.container(key="formula1-remarks", gap=None):
        for text in (*session.notes, *remarks_on_session(session), *about_laps):
            shell.quiet(text)


fits = opened in FITTED
try:
    with page.controls, controls.section_of_data(folded=fits):
        place = controls.choose_place()
        session = controls.ready(place)
        pick = controls.choose_drivers(place, session)
    with page.controls:
        pick = controls.choose_channels(session, pick) if fits else pick
except controls.Waiting as wait:
    waiting(wait)
hints = [hint] if (hint := controls.account_hint()) else []
licences = (SIMULATED,) if session.simulated else (FEED, *hints)
try:
    with page.controls:
        race = data.open_race(pick, session)
        with st.expander("Laps compared", icon=":material/compare_arrows:") if fits else nullcontext():
            race = replace(race, found=pairs.choose(race))
except GdmError as error:
    with page.picture:
        shell.error("These laps cannot be shown", str(error))
    page.header(session.title)
    shell.footer()
    shell.end_page()
if not fits:
    which = pick.selection.which.about if opened not in COMPARED or race.found is None else describe(race.found)
    named = [f"{session.driver(code).name} ({code})" for code in dict.fromkeys(race.codes)]
    page.header(f"{session.title} · {' vs '.join(named)} · {which}")
    with page.below:
        show_tab(opened, race)
        remark(race)
    shell.footer(licences)
else:
    fitted = data.fitted_data(race, licences)
    with page.controls:
        drives = pick.selection.drives
        choice = model_controls.choose(
            (fitted.train.n_samples, fitted.train.n_channels),
            n_states=data.FIRST_STATES if drives else data.PAPER_STATES,
            defined_by=data.FIRST_DEFINED_BY if drives else data.PAPER_DEFINED_BY,
            kept_by="position",  # where brake and gear are, not how they change
            models=MODELS,
            scope="" if drives else "map",  # position states have their own K
            frame=page,
        )
    view = lab.begin(page, fitted, choice)
    with page.below:
        states.tab(view) if opened == STATES else export.export(view)
        remark(race)
    lab.end(view)
