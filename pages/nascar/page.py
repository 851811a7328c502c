"""NASCAR lab: simulated laps whose true soft states are known, beside what a model finds in them."""

from __future__ import annotations

import numpy as np
import streamlit as st

from gdm_core.errors import GdmError
from pages.nascar import depth, simulator
from pages.nascar.scorecard import score_rows
from pages.ui import bundle, card, figures, live, model_controls, shell
from pages.ui.plot import BADGES, plot

SIDE_BY_SIDE, STACKED = (310, 190), (195, 110)  # heights of a track and of the strips

page = shell.frame("nascar")
with page.controls:
    try:
        track = simulator.choose()
        train, test = simulator.simulate(track)
    except GdmError as error:
        track = None
        trouble = str(error)
    if track is not None:
        choice = model_controls.choose(n_channels=train.n_channels, n_samples=train.n_samples)

if track is None:
    page.header("no such track")
    with page.picture:
        shell.error("The track cannot be simulated", trouble)
    shell.footer(["Simulated data, no licence needed."])
    st.stop()

wanted = live.Wanted(
    choice.family, choice.config, train, test, truth=(train[0].states,), where={"track": track, "choice": choice}
)
cache = live.screen.engine().cache
ready = next((found for name in simulator.BUNDLED if (found := bundle.offer(name, wanted, cache))), None)
fit = live.fit("nascar", wanted)
shown = fit.poll()
ready = ready if ready is not None and ready.stands(shown.result) else None
look, looking = live.states_of(fit, shown) if ready is None else (ready.look, False)

with page.controls:
    live.transport(fit, "nascar")
with page.picture, st.container(key="nascar-head", horizontal=True, vertical_alignment="center"):
    which = st.segmented_control(
        "Trial",
        ["train", "test"],
        default="train",
        format_func={"train": "Fitted trial", "test": "New trial"}.get,
        required=True,
        key="trial",
        bind="query-params",
        label_visibility="collapsed",
        help="The model is fitted to one trial; the new one is another lap that it has never seen.",
    )
    shell.state_key(max(4, shown.n_states))

view = depth.View(fit, shown, look, "test" if which == "test" else "train", ready, looking)


def picture(now: live.Shown) -> None:
    """The two tracks and the strips. A track that is long and low has one above the other, as wide as the panel."""
    here = view.at(now)
    trial = here.trial
    span = np.ptp(np.asarray(trial.position), axis=0)
    height, low = STACKED if span[0] > 2 * span[1] else SIDE_BY_SIDE
    upper, lower = (st.container(), st.container()) if height == STACKED[0] else st.columns(2, gap="small")
    with upper:
        plot(
            now.once(
                ("true", which),
                lambda: figures.track(
                    trial.position, trial.states, title="true states", height=height, caption="What the car did."
                ),
            ),
            key="true-track",
            revision=str(track),
        )
    with lower:
        if here.states is None:
            shell.empty(here.title, here.note)
        else:
            plot(
                now.once(
                    ("inferred", which, here.note),
                    lambda: figures.track(
                        trial.position,
                        here.states,
                        title="inferred states",
                        height=height,
                        caption=here.note or "What the model found, in the colours of the true states that it matches.",
                    ),
                    of=(here.states,),
                ),
                key="inferred-track",
                state=here.state,
                revision=str(track),
            )
    rows = {"true": trial.states} | ({} if here.states is None else {"inferred": here.states})
    word = BADGES[here.state]
    # What is true stands whatever becomes of the fit, so that only the other strip fades.
    marks = {"inferred": (word, 0.5 if here.state == "stale" else 0.86)} if word else {}
    plot(
        now.once(
            ("strips", which, here.state),
            lambda: figures.state_strips(rows, height=low, marks=marks),
            of=(here.states,),
        ),
        key="strips",
        revision=str(track),
    )


def honest(now: live.Shown) -> None:
    """What the fit does while it runs."""
    live.progress(now, key="elbo")


with page.picture:
    live.problem(fit, shown, "nascar")
    live.region(fit, picture)
page.header(track.about, [("model", choice.label), *choice.facts])
live.share_colours(fit, shown)
with page.below:
    depth.tabs(view)
with page.card:  # last: what the open tab asks is answered before the scores, which take longest
    answer = depth.scores(view)
    if answer.fresh:
        fit.kept["scored"] = shown.wanted
    if answer.value is not None:
        rows, scored = score_rows(answer.value), fit.kept["scored"]
        if answer.fresh:
            card.scores(rows, status=shown.status)
        elif scored.train.fingerprint == train.fingerprint:
            model = scored.where["choice"]
            card.scores(rows, earlier=f"{model.label}, K\u00a0{model.n_states}")
        else:  # numbers of other data would mislead
            card.scores(rows, shown=False, status="Scores appear when the fit is done.")
    else:
        st.html('<p class="gdm-panel-title">How good is it</p>')
        waiting = "Being scored against baselines." if answer.pending else "Scores appear when the fit is done."
        shell.quiet(waiting)
    if answer.message and shell.error("The scores could not be worked out", answer.message, retry="nascar-rescore"):
        fit.answers.again("scores")
        st.rerun()
    live.region(fit, honest, patience=2)
shell.footer(["Simulated data, no licence needed."])
live.watch(fit)
