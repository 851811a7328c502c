"""Formula 1: states of laps by circuit, session and driver."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NoReturn

import streamlit as st

from datasets.f1.laps import remarks_on_laps, remarks_on_session
from datasets.formula1 import Reason
from gdm_core.errors import GdmError
from pages import lab
from pages.formula1 import (
    controls,
    data,
    findings,
    gain_panel,
    loading,
    picture,
    state_names,
    tabs,
)
from pages.formula1.scorecard import show_card
from pages.lab.live import background
from pages.ui import model_controls, settings, shell
from pages.ui.theme import ASSETS

MODELS = ("gdm", "gdm-rnn", "slds-sticky", "rslds-sticky", "rslds-ro", "arhmm-sticky")
FEED = "Formula 1 data from FastF1; unofficial, not associated with Formula 1."
SIMULATED = "Simulated laps; circuits are approximate."

st.html(ASSETS / "formula1.css")
page = shell.frame("formula1", card_share=0.36)


def waiting(wait: controls.Waiting) -> NoReturn:
    """Show a session that is loading or failed, and end the run."""
    load = wait.load
    with page.picture:
        if wait.ask:
            shell.empty(
                wait.title,
                "This session is not stored on this server yet. Fetching it takes 10 to 60 s, once.",
            )
            st.button(
                "Load this session", type="primary", key="f1-load", icon=":material/download:",
                on_click=loading.again, args=wait.key,
            )  # fmt: skip
        elif load is None:
            shell.empty(wait.title, wait.advice)
        elif load.done and load.error is not None:
            title, text = loading.explain(load.error)
            shell.error(title, wait.advice or text, retry="f1-retry", again=partial(loading.again, *wait.key))
        else:
            shell.empty(wait.title, "The first load takes about 10 s; after that the session opens instantly.")
            background.show_progress("f1-loading", load, done=False)
            if wait.key[0] == "session":
                st.button("Cancel", key="f1-cancel", on_click=load.cancel, icon=":material/close:")
        # An alternative without network.
        simulated = ("source", "simulated")
        st.button("Open the simulated race", key="f1-simulated", on_click=settings.change, args=simulated)
        for number, (what, other) in enumerate(loading.others_under_way(*wait.key)):
            shell.quiet(f"Also loading: {what}.")
            st.button(f"Cancel {what}", key=f"f1-cancel-{number}", on_click=other.cancel, icon=":material/close:")
    with page.card:
        hint = controls.account_hint()
        if hint and (load is None or load.error is None or getattr(load.error, "reason", None) is Reason.ACCOUNT):
            shell.quiet(hint)
    page.header(wait.title)
    shell.footer([FEED])
    shell.end_page()


try:
    with page.controls:
        place = controls.choose_place()
        session = controls.ready(place)
        pick = controls.choose_drivers(place, session)
except controls.Waiting as wait:
    waiting(wait)
hints = [hint] if (hint := controls.account_hint()) else []
licences = (SIMULATED,) if session.simulated else (FEED, *hints)
try:
    with page.controls:
        fitted = data.fitted_data(pick, session, licences)
except GdmError as error:
    with page.picture:
        shell.error("These laps cannot be shown", str(error))
    page.header(session.title)
    shell.footer()
    shell.end_page()
with page.controls:
    drives = pick.looked.drives
    choice = model_controls.choose(
        n_channels=fitted.train.n_channels,
        n_samples=fitted.train.n_samples,
        n_states=data.FIRST_STATES if drives else data.PAPER_STATES,
        defined_by=data.FIRST_DEFINED_BY if drives else data.PAPER_DEFINED_BY,
        models=MODELS,
        of="" if drives else "map",  # position states have their own K
    )

view = lab.begin(page, fitted, choice, ships=[data.SHIPPED])
with page.picture, st.container(key="formula1-head", horizontal=True, vertical_alignment="center"):
    options = picture.choose_options(pick.train, pick.test)
with page.picture:
    legend, said_above = st.container(), st.container(key="formula1-said")
with page.picture, st.container(key="formula1-remarks"):
    if session.simulated:
        st.html(
            '<p class="gdm-quiet"><b>Simulated race</b> on an approximate layout. '
            "Choose <b>Real sessions</b> on the left for recorded ones.</p>"
        )
    about_laps = [said for laps in {pick.train: fitted.source.train, pick.test: fitted.source.test}.values()
                  for said in remarks_on_laps(session, laps.code, laps.lap.tolist())]  # fmt: skip
    for remark in () if session.simulated else (*session.notes, *remarks_on_session(session), *about_laps):
        shell.quiet(remark)
    if not fitted.source.circuit.segments and not any("no corners" in remark for remark in session.notes):
        shell.quiet("No corner data for this circuit: no segments and no state scores.")
stands = data.standing(view)
stands = replace(stands, naming=state_names.naming(stands))
called = () if stands.naming is None else stands.naming.names
named = {} if view.state.result is None else {view.state.result.key: called}
lab.picture(view, lambda now: picture.make_panels(view, now, options, named))
lab.preview(view, picture.make_preview(view, options))

shown = data.on_map(stands, options.which)
race = data.race_of(shown)
with legend, shell.made_for(view.made_for):
    n_states = max(2, view.state.n_states or choice.n_states)
    shell.state_key(n_states, called or None)
with said_above, shell.made_for(view.made_for):
    for said in findings.sentences(shown):
        shell.finding(said)
with page.card:
    gain_panel.show_delta(shown)
state_names.keep_in_address(view)
tabs.show(shown, data.read(shown, race.test if options.which == "test" else race.train, options.which), options)
show_card(view)
lab.end(view)
