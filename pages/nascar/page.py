"""NASCAR lab: simulated laps whose true soft states are known, beside what a model finds in them."""

from __future__ import annotations

import streamlit as st

from gdm_core.errors import GdmError
from pages.nascar import depth, simulator
from pages.nascar.scorecard import score_rows
from pages.ui import bundle, card, figures, live, model_controls, shell
from pages.ui.plot import plot

TRACK_HEIGHT = 230

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
ready = bundle.offer("nascar", wanted, live.screen.engine().cache)
fit = live.fit("nascar", wanted)
shown = fit.poll()
ready = ready if ready is not None and ready.stands(shown.result) else None
look = live.states_of(fit, shown)[0] if ready is None else ready.look

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

view = depth.View(fit, shown, look, "test" if which == "test" else "train", ready)


def picture(now: live.Shown) -> None:
    """The two tracks and the strips."""
    here = view.at(now)
    trial = here.trial
    left, right = st.columns(2, gap="small")
    with left:
        plot(
            now.once(
                ("true", which),
                lambda: figures.track(
                    trial.position, trial.states, title="true states", height=TRACK_HEIGHT, caption="What the car did."
                ),
            ),
            key="true-track",
            revision=str(track),
        )
    with right:
        if here.states is None:
            shell.empty("The first fit is on its way", "The workers start with the server; this takes a few seconds.")
        else:
            plot(
                now.once(
                    ("inferred", which, id(here.states)),
                    lambda: figures.track(
                        trial.position,
                        here.states,
                        title="inferred states",
                        height=TRACK_HEIGHT,
                        caption="What the model found, in the colours of the true states that it matches.",
                    ),
                ),
                key="inferred-track",
                state=here.state,
                revision=str(track),
            )
    rows = {"true": trial.states} | ({} if here.states is None else {"inferred": here.states})
    plot(
        now.once(("strips", which, id(here.states)), lambda: figures.state_strips(rows, height=150)),
        key="strips",
        state=here.state if here.states is not None else "fresh",
        revision=str(track),
    )


def honest(now: live.Shown) -> None:
    """What the fit does while it runs."""
    live.progress(now, key="elbo")


with page.picture:
    live.problem(fit, shown, "nascar")
    live.region(fit, picture)
page.header(track.about, [*choice.facts])
live.share_colours(fit, shown)
with page.below:
    depth.tabs(view)
with page.card:  # last: what the open tab asks is answered before the scores, which take longest
    answer = depth.scores(view)
    if answer.value is not None:
        card.scores(score_rows(answer.value), status=shown.status)
        if not answer.fresh:
            shell.quiet("These are the scores of the earlier result.")
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
