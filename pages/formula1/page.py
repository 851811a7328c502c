"""Formula 1: pick a circuit and a driver, see how the lap divides into states."""

from __future__ import annotations

import numpy as np
import streamlit as st

from gdm_core.errors import GdmError
from pages.formula1 import cascade, data, depth, loading, opening, pictures, segments
from pages.formula1.meaning import explain_meaning
from pages.formula1.scorecard import score_card
from pages.formula1.view import Here, View, Where, lap_average
from pages.ui import figures, live, model_controls, shell
from pages.ui.plot import plot

MODELS = ("gdm", "gdm-rnn", "slds-sticky", "rslds-sticky", "rslds-ro", "arhmm-sticky")
LOOK_EVERY_S = 0.4
FEED = "Formula 1 data through FastF1; unofficial and not associated with Formula 1."
SHOWS = {"all": "Every sample", "mean": "Average lap"}

page = shell.frame("formula1")


def waiting(wait: cascade.Waiting) -> None:
    """A session that still loads, or what went wrong and how to go on. Ends the run."""
    load = wait.load
    with page.picture:
        if load is None:
            shell.empty(wait.title, wait.advice)
        elif load.done and load.error is not None:
            title, text = loading.explain(load.error)
            if shell.error(title, wait.advice or text, retry="f1-retry"):
                loading.again(*wait.key)
                st.rerun()
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
    with page.card:
        st.html('<p class="gdm-panel-title">Meanwhile</p>')
        shell.quiet("The simulated race needs no network: choose Simulated at the left.")
        if hint := cascade.account_hint():
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
    badge = depth.annotation_controls()
    shell.state_key(max(2, shown.n_states or choice.n_states))


def picture(now: live.Shown) -> None:
    """The map and the strips along the lap."""
    if now.wanted is None or not now.train:
        shell.empty("The first fit is on its way", "The workers start with the server; this takes a few seconds.")
        return
    where: Where = now.wanted.where
    ours, theirs = view.of(where.train, "other", now), view.of(where.test, "other", now)
    here = theirs if which == "test" else ours
    if here.states is None:
        shell.empty(
            f"{where.pick.test} comes in a moment", "The fitted model is applied without learning anything new."
        )
    else:
        plot(
            now.once(("map", which, drawn, badge, id(here.states)), lambda: track_map(where, here)),
            key="map",
            state=here.state,
            revision=str(where.pick.place),
        )
    strips(now, where, ours, theirs, here)


def track_map(where: Where, here: Here) -> figures.base.Figure:
    """The map of one driver."""
    assert here.states is not None
    laps, line = here.laps, where.circuit
    states, marks = here.states, []
    if laps.segment is not None:
        parts = segments.composition(
            states, laps.segment, len(line.segments), weight=badge.weight, presence=badge.presence,
            complementary=badge.complementary,
        )  # fmt: skip
        marks = segments.badges(line, parts, states.shape[1], all_of_them=badge.all_of_them) if badge.on else []
    what = f"{laps.code}, {laps.n_laps} lap{'s' * (laps.n_laps > 1)}"
    if drawn == "mean":
        distance = (np.arange(line.n_bins + 1) + 0.5) * line.length / line.n_bins
        mean = lap_average(line, here)
        speed = data.along_lap(laps.distance, laps.speed, line.n_bins, line.length)
        at = np.arange(line.n_bins + 1) % line.n_bins
        return pictures.circuit_map(
            line, line.at(distance), mean[at], distance=distance % line.length, lap=np.zeros(len(at)), speed=speed[at],
            segment=depth.segment_at(line, distance % line.length), badges=marks, title=f"{what}, averaged",
            caption=depth.map_caption(badge, marks, averaged=True),
        )  # fmt: skip
    return pictures.circuit_map(
        line, laps.place, states, distance=laps.distance, lap=laps.lap, speed=laps.speed, segment=laps.segment,
        badges=marks, title=what, caption=depth.map_caption(badge, marks, averaged=False),
    )  # fmt: skip


def strips(now: live.Shown, where: Where, ours: Here, theirs: Here, here: Here) -> None:
    """Both drivers along the lap, and the shares of the one on the map."""
    line = where.circuit
    both = {h.laps.code: h for h in (ours, theirs) if h.states is not None}
    step = line.length / line.n_bins
    plot(
        now.once(
            ("strips", tuple((code, id(h.states)) for code, h in both.items())),
            lambda: figures.state_strips(
                {code: lap_average(line, h) for code, h in both.items()}, start=step / 2, step=step, unit="m",
                ticks=line.ticks, caption="The average lap of either driver from start line to start line; T1, T2, … are corners.",
            ),
        ),
        key="strips",
        state=here.state,
        revision=str(where.pick.place),
    )  # fmt: skip
    if here.states is not None:
        plot(
            now.once(
                ("shares", which, id(here.states)),
                lambda: figures.proportions(
                    lap_average(line, here), start=step / 2, step=step, unit="m", ticks=line.ticks, height=150,
                    caption=f"{here.laps.code}: the mean share of each state at every place of the lap.",
                ),
            ),
            key="shares",
            state=here.state,
            revision=str(where.pick.place),
        )  # fmt: skip


with page.picture:
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
    live.region(fit, picture)
with page.card:
    rows = score_card(view, wanted)
    live.region(fit, lambda now: live.progress(now, key="elbo"))
    explain_meaning(view.where if shown.wanted is not None else wanted.where)

page.header(f"{session.title} · {pick.about}", [*choice.facts])
live.share_colours(fit, shown)
with page.below:
    depth.tabs(view, session, rows)
if session.simulated:
    shell.footer(["Simulated laps by invented drivers; circuits are approximate."])
else:
    shell.footer([FEED, *([hint] if (hint := cascade.account_hint()) else [])])
live.watch(fit)
