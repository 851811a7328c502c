"""Formula 1: pick a circuit and a driver, see how the lap divides into states."""

from __future__ import annotations

import streamlit as st

from datasets.formula1 import Reason
from gdm_core.errors import GdmError
from pages.formula1 import cascade, choices, data, depth, loading, opening
from pages.formula1.board import Board, annotation_controls
from pages.formula1.meaning import explain_meaning
from pages.formula1.scorecard import score_card
from pages.formula1.view import View, Where
from pages.lab import live
from pages.ui import model_controls, shell

MODELS = ("gdm", "gdm-rnn", "slds-sticky", "rslds-sticky", "rslds-ro", "arhmm-sticky")
LOOK_EVERY_S = 0.4
FEED = "Formula 1 data through FastF1; unofficial and not associated with Formula 1."
SHOWS = {"all": "Every sample", "mean": "Average lap"}

page = shell.frame("formula1")


def simulated_instead() -> None:
    """A way on that needs no network."""
    st.button(
        "Open the simulated race", key="f1-simulated", on_click=choices.choose_for_visitor, args=("source", "simulated")
    )


def waiting(wait: cascade.Waiting) -> None:
    """A session that still loads, or what went wrong and how to go on. Ends the run."""
    load = wait.load
    with page.picture:
        if wait.ask:
            shell.empty(
                wait.title,
                "This session is not on this server yet. Fetching it takes from ten seconds to a minute, once; then it opens "
                "at once, for everybody here.",
            )
            st.button(
                "Load this session", type="primary", key="f1-load", icon=":material/download:",
                on_click=loading.session, args=wait.key[1:],
            )  # fmt: skip
            simulated_instead()
        elif load is None:
            shell.empty(wait.title, wait.advice)
            simulated_instead()
        elif load.done and load.error is not None:
            title, text = loading.explain(load.error)
            if shell.error(title, wait.advice or text, retry="f1-retry"):
                loading.again(*wait.key)
                if wait.key[0] == "session":
                    loading.session(*wait.key[1:])
                st.rerun()
            simulated_instead()
        else:

            @st.fragment(run_every=LOOK_EVERY_S)
            def under_way() -> None:
                if load.done:
                    st.rerun()
                shell.empty(wait.title, "A first load takes some ten seconds; after that the session opens at once.")
                shell.running(load.text, load.share)

            under_way()
            if wait.key[0] == "session":
                st.button("Cancel", key="f1-cancel", on_click=load.cancel, icon=":material/close:")
            simulated_instead()
        for number, (what, other) in enumerate(loading.others_under_way(*wait.key)):
            shell.quiet(f"Also being loaded: {what}.")
            st.button(f"Cancel {what}", key=f"f1-cancel-{number}", on_click=other.cancel, icon=":material/close:")
    with page.card:
        if corrected := choices.corrections():
            shell.quiet(corrected)
        hint = cascade.account_hint()
        if hint and (load is None or load.error is None or getattr(load.error, "reason", None) is Reason.ACCOUNT):
            shell.quiet(hint)
    page.header(wait.title)
    shell.footer([FEED])
    st.stop()


with page.controls:
    place = cascade.choose_place()
if isinstance(place, cascade.Waiting):
    waiting(place)
with page.controls:
    session = cascade.ready(place)
if isinstance(session, cascade.Waiting):
    waiting(session)
trouble = ""
with page.controls:
    pick = cascade.choose_drivers(place, session)
    if isinstance(pick, cascade.Waiting):
        waiting(pick)
    try:
        circuit = data.circuit(place)
        train = data.laps_of(place, pick.train, pick.looked)
        test = data.laps_of(place, pick.test, pick.looked)
    except GdmError as error:
        trouble = str(error)
if trouble:
    with page.picture:
        shell.error("These laps cannot be shown", trouble)
    page.header(session.title)
    shell.footer()
    st.stop()
with page.controls:
    choice = model_controls.choose(
        n_channels=train.trials.n_channels, n_samples=train.trials.n_samples, n_states=8, models=MODELS
    )

wanted = live.Wanted(
    choice.family, choice.config, train.trials, test.trials, where=Where(pick, circuit, train, test, choice)
)
opening.lay_out(wanted)
fit = live.fit("formula1", wanted)
shown = fit.poll()
view = View(fit, shown)
with page.controls:
    live.transport(fit, "formula1")

with page.picture, st.container(key="formula1-head", horizontal=True, vertical_alignment="center"):
    which = st.segmented_control(
        "Driver",
        ["train", "test"],
        default="train",
        format_func={"train": f"{pick.train}, fitted", "test": f"{pick.test}, applied"}.get,
        required=True,
        key="who",
        bind="query-params",
        label_visibility="collapsed",
        help="The model learns from the first driver; the second it has never seen.",
    )
    drawn = st.segmented_control(
        "Drawn",
        list(SHOWS),
        default="all",
        format_func=SHOWS.get,
        required=True,
        key="drawn",
        bind="query-params",
        label_visibility="collapsed",
        help="Every sample of the chosen laps, or their mean at each place of the lap.",
    )
    badge = annotation_controls()
    shell.state_key(max(2, shown.n_states or choice.n_states))


board = Board(view, which or "train", drawn or "all", badge)


with page.picture:
    if corrected := choices.corrections():
        shell.quiet(corrected)
    if session.simulated:
        st.html(
            '<p class="gdm-quiet"><b>Simulated race</b>: invented drivers on an approximate layout. '
            "Choose <b>Real sessions</b> at the left for real ones.</p>"
        )
    for remark in session.notes if not session.simulated else ():
        shell.quiet(remark)
    if not circuit.segments:
        shell.quiet("The corner service had no corners for this circuit, so there are no segments and no state scores.")
    live.problem(fit, shown, "formula1")
    live.region(fit, board.draw)
with page.card:
    rows = score_card(view, wanted)
    live.region(fit, lambda now: live.progress(now, key="elbo"), patience=2)
    explain_meaning(view.where if shown.wanted is not None else wanted.where)

page.header(f"{session.title} · {pick.about}", [*choice.facts])
live.share_colours(fit, shown)
with page.below:
    depth.tabs(view, rows)
if session.simulated:
    shell.footer(["Simulated laps by invented drivers; circuits are approximate."])
else:
    shell.footer([FEED, *([hint] if (hint := cascade.account_hint()) else [])])
live.watch(fit)
