"""What lies below the picture: shares, stays, transitions and predictions of the fit that is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import streamlit as st

from gdm_core.analysis import envelopes, looks, planes
from gdm_core.analysis.bouts import transition_shares
from gdm_core.trials import Trial, Trials
from pages.nascar.scorecard import score_rows
from pages.ui import exports, figures, live, shell
from pages.ui.bundle import Bundle
from pages.ui.figures.base import Figure
from pages.ui.live.pictures import State
from pages.ui.plot import plot

Array = npt.NDArray[np.float32]
MAX_HORIZON = 50
SCORING_S = 300.0  # a second of work, on a machine that may have much else to do
BEFORE = 40  # samples of the past beside a prediction


@dataclass(frozen=True)
class Here:
    """A trial and the states to draw on it; `title` and `note` say why there are none, or why they are not newer."""

    trial: Trial
    states: Array | None
    state: State
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class View:
    """The page's picture: which fit, and which of its two trials.

    looking  whether the look at the new trial is being worked out
    ready    if the fit ships with the app
    """

    fit: live.Live
    shown: live.Shown
    look: looks.Look | None
    which: str
    ready: Bundle | None = None
    looking: bool = False

    def at(self, shown: live.Shown) -> Here:
        """The trial and its states. The new trial is looked at once a fit is done; until then the earlier look stays."""
        wanted = shown.wanted
        assert wanted is not None
        read = self._new_trial(shown, wanted)
        if self.which == "train":
            states = shown.train[0] if shown.train else None
            return Here(wanted.train[0], states, shown.state, *("", "") if shown.train else _first(shown))
        assert wanted.test is not None
        if read is not None:
            return read
        title, note = self._unread(shown)
        earlier: Here | None = self.fit.kept.get("test")
        if earlier is not None and earlier.trial.fingerprint == wanted.test[0].fingerprint:
            return Here(earlier.trial, earlier.states, "stale", title, f"As the earlier fit read it. {note}")
        return Here(wanted.test[0], None, shown.state, title, note)

    def _new_trial(self, shown: live.Shown, wanted: live.Wanted) -> Here | None:
        """The new trial as the fit that is shown reads it, if it has; kept for when another fit has not."""
        if self.look is None or shown.result is not self.shown.result or not shown.train or wanted.test is None:
            return None
        kept, key = self.fit.kept, (self.look, shown.order)
        if kept.get("test-of") != key:  # the same arrays as long as nothing changes, so that figures are made once
            kept["test-of"] = key
            kept["test"] = Here(wanted.test[0], live.in_order(self.look.test, shown.order)[0], "fresh")
        here: Here = kept["test"]
        return replace(here, state=shown.state)

    def _unread(self, shown: live.Shown) -> tuple[str, str]:
        """Why there is no look at the new trial."""
        if shown.fitting:
            paused = " The fit is paused: Play or Step lets it go on." if shown.held else ""
            return "The new trial comes last", f"It is read when the fit is done.{paused}"
        if shown.result is None:
            return "The new trial was not read", "It is read when a fit is done."
        if self.looking:
            return "The new trial is being read", "The fit is done; this takes a moment."
        return "The new trial could not be read", "Reset and Play fit the model anew."

    @property
    def trial(self) -> Trial:
        return self.at(self.shown).trial

    def ask(self, name: str, function: Callable[..., Any], *args: Any, deadline_s: float = 60.0) -> live.Answer:
        """A question about the fit that is shown."""
        result = self.shown.result
        if result is None:
            return live.Answer()
        key = "/".join([result.key, *(a.fingerprint if isinstance(a, Trial | Trials) else str(a) for a in args)])
        return self.fit.ask(name, key, function, result.model_bytes, *args, deadline_s=deadline_s)


def _first(shown: live.Shown) -> tuple[str, str]:
    """What to say while no fit has given anything to draw."""
    if shown.message:
        return "Nothing fitted yet", "Another setting, or Try again, starts another fit."
    return "The first fit is on its way", "The workers start with the server; this takes a few seconds."


def scores(view: View) -> live.Answer:
    """Everything measured about the fit that is shown, beside its baselines."""
    shown = view.shown
    if view.ready is not None:
        view.fit.answers.learn("scores", view.ready.more["scores"])
        return live.Answer(view.ready.more["scores"], fresh=True)
    if shown.wanted is None or shown.wanted.test is None or shown.state != "fresh":
        return view.fit.answers.latest("scores")
    wanted = shown.wanted
    seed = wanted.config["seed"]
    return view.ask("scores", looks.scores, wanted.train, wanted.test, seed, deadline_s=SCORING_S)


def tabs(view: View) -> None:
    """The tabs; only the open one is worked out."""
    named: dict[str, Callable[[View, Here], None]] = {
        "Shares": shares,
        "How long": stays,
        "Transitions": transitions,
        "Prediction": prediction,
        "Export & reproduce": export,
    }
    for tab, draw in zip(
        st.tabs(list(named), key="view", on_change="rerun", bind="query-params"), named.values(), strict=True
    ):
        if tab.open:
            with tab:
                here = view.at(view.shown)
                if here.states is None and view.which == "train":
                    shell.empty("Nothing fitted yet", "This fills in with the first result.")
                elif here.states is None:
                    shell.empty(here.title, here.note)
                else:
                    draw(view, here)


def shares(view: View, here: Here) -> None:
    """Stacked shares over time, and the use of each state."""
    assert here.states is not None
    left, right = st.columns([0.7, 0.3], gap="small")
    with left, shell.panel("shares", "Shares of each state"):
        plot(figures.proportions(here.states), key="proportions", state=here.state)
        plot(figures.entropy_strip(here.states), key="entropy", state=here.state)
    with right, shell.panel("usage", "Use of each state"):
        plot(
            figures.usage(
                here.states,
                reference=_true_usage(here),
                caption="Bars: the model's states. Ticks: the true ones of the same colour.",
            ),
            key="usage",
            state=here.state,
        )


def _true_usage(here: Here) -> Array | None:
    """[K] the use of the true states, where the model has as many."""
    truth = here.trial.states
    if truth is None or here.states is None or truth.shape[1] != here.states.shape[1]:
        return None
    return np.asarray(truth, np.float32).mean(axis=0)


def stays(view: View, here: Here) -> None:
    """How long states last, true beside inferred."""
    assert here.states is not None
    assert here.trial.states is not None
    true, inferred = here.trial.states.argmax(axis=1), here.states.argmax(axis=1)
    left, right = st.columns(2, gap="small")
    with left, shell.panel("dwell-true", "True stays"):
        plot(figures.dwell(true, here.trial.states.shape[1]), key="dwell-true")
    with right, shell.panel("dwell-inferred", "Inferred stays"):
        plot(figures.dwell(inferred, here.states.shape[1]), key="dwell-inferred", state=here.state)


def transitions(view: View, here: Here) -> None:
    """Which state wins where, and what follows what."""
    assert here.states is not None
    left, right = st.columns([0.55, 0.45], gap="small")
    with left, shell.panel("map", "Which state wins where"):
        answer = view.ask("map", planes.plane_map, here.trial)
        kept, slot = view.fit.kept, ("map", view.which)
        if answer.fresh:
            found: planes.PlaneMap = answer.value
            kept[slot] = map_figure(found, here, view.shown.order)
        if slot in kept:  # the last one stays until there is another
            plot(kept[slot], key="plane", state=here.state if answer.fresh else "stale")
        if not answer.fresh and (answer.message or slot not in kept):
            shell.quiet(answer.message or "The map is being worked out.")
    with right, shell.panel("matrix", "What follows what"):
        plot(matrix_figure(here.states), key="matrix", state=here.state)


def map_figure(found: planes.PlaneMap, here: Here, order: Sequence[int]) -> Figure:
    """Which state wins where, in the order of colours."""
    caption = (
        "Where the model's transition leads from each place, in mixed colours; the line is the path."
        if found.source == "transition"
        else "This model's transitions do not look at the place: shown are the states found nearby."
    )
    return figures.transition_map(
        found.xs, found.ys, found.probabilities[..., list(order)], path=here.trial.position, caption=caption
    )


def matrix_figure(states: Array) -> Figure:
    """What follows what."""
    return figures.transition_matrix(
        transition_shares(states.argmax(axis=1), states.shape[1]),
        caption="Among changes of the strongest state: from the row to the column. Rows add up to 100\u00a0%.",
    )


def prediction(view: View, here: Here) -> None:
    """One prediction with its envelope, and what envelopes like it hold."""
    trial = here.trial
    left, middle, right = st.columns(3, gap="medium")
    last = trial.n_samples - 2
    moment = left.slider(
        "From step", 0, last, trial.n_samples // 2, key="moment", bind="query-params",
        help="The model sees nothing after it.",
    )  # fmt: skip
    moment = min(max(moment, 0), last)
    horizon = middle.slider("Horizon (steps)", 1, MAX_HORIZON, 20, key="horizon", bind="query-params")
    horizon = min(max(horizon, 1), MAX_HORIZON)
    channel = right.selectbox("Channel", list(trial.channels), key="channel", bind="query-params")
    answer = view.ask("envelope", envelopes.envelope, trial, int(moment), horizon)
    kept, slot = view.fit.kept, ("envelope", view.which)
    if answer.fresh:
        kept[slot] = answer.value, trial
    with shell.panel("envelope"):
        if slot in kept:  # the last one stays until there is another, beside the observations of its own trial
            found, of = kept[slot]
            index = of.channels.index(channel) if channel in of.channels else 0
            _envelope(found, of, index, here.state if answer.fresh else "stale")
        if not answer.fresh and (answer.message or slot not in kept):
            shell.quiet(answer.message or "The prediction is being worked out.")


def _envelope(found: envelopes.Envelope, trial: Trial, channel: int, state: State) -> None:
    plot(envelope_figure(found, trial, channel), key="envelope", state=state)
    h = len(found.mean)
    shell.quiet(
        f"Measured over {found.n_origins} moments of this trial and all channels, {h} steps ahead: the 50 % band holds "
        f"{100 * found.held50[-1]:.1f} % of outcomes, the 90 % band {100 * found.held90[-1]:.1f} %."
    )


def envelope_figure(found: envelopes.Envelope, trial: Trial, channel: int) -> Figure:
    """The prediction of one channel, from its moment on."""
    n, first = found.origin, max(0, found.origin - BEFORE)
    time = np.arange(n + 1, n + 1 + len(found.mean))
    past = np.arange(first, min(trial.n_samples, n + 1 + len(found.mean)))
    last = np.full(len(time), trial.y[n, channel])
    spread = 3 * found.std[:, channel]
    return figures.envelope(
        time,
        found.mean[:, channel],
        band90=(found.lower90[:, channel], found.upper90[:, channel]),
        band50=(found.lower50[:, channel], found.upper50[:, channel]),
        three_sigma=(found.mean[:, channel] - spread, found.mean[:, channel] + spread),
        observed=(past, trial.y[past, channel]),
        persistence=(time, last),
        now=float(n),
        channel=trial.channels[channel],
    )


def asked(view: View, here: Here, ready: bool) -> dict[str, Callable[[], Figure | None]]:
    """The figures that a worker has to be asked for, the map and the prediction: None until they are there.

    ready   whether the states are there, which come first
    """
    trial = here.trial
    plane = envelope = live.Answer()
    if ready:
        plane = view.ask("map", planes.plane_map, trial)
        last: envelopes.Envelope | None = view.fit.answers.latest("envelope").value  # the moment last looked at, if any
        moment, horizon = (trial.n_samples // 2, 20) if last is None else (last.origin, len(last.mean))
        envelope = view.ask("envelope", envelopes.envelope, trial, moment, horizon)
    channel = st.session_state.get("channel")
    index = trial.channels.index(channel) if channel in trial.channels else 0
    return {
        "Which state wins where": lambda: map_figure(plane.value, here, view.shown.order) if plane.fresh else None,
        "Prediction": lambda: envelope_figure(envelope.value, trial, index) if envelope.fresh else None,
    }


def export(view: View, here: Here) -> None:
    """Everything to take along."""
    shown = view.shown
    measured = scores(view)
    look = live.states_of(view.fit, shown)[0]  # not those of a bundle, which are rounded
    assert shown.wanted is not None
    assert here.states is not None
    track, choice = shown.wanted.where["track"], shown.wanted.where["choice"]
    trial, states = here.trial, here.states
    truth = np.asarray(trial.states)
    key = {"states": exports.legend.states(max(truth.shape[1], states.shape[1]))}
    with_key = exports.legend.with_key
    exports.panel(
        exports.Export(
            page="nascar",
            title=f"NASCAR lab: {track.about}",
            about=f"{choice.label} fitted to a simulated track; figures show {trial.name}.",
            shown=shown,
            look=look,
            recipe=exports.Recipe(
                ["from gdm_studio.datasets.nascar import train_test"],
                [f"train, test = ([trial] for trial in {track.call})  # two laps, seen through the same channels"],
            ),
            figures={
                "Inferred states": lambda: with_key(
                    figures.track(trial.position, states, title="inferred states"), key
                ),
                "True states": lambda: with_key(figures.track(trial.position, truth, title="true states"), key),
                "States over time": lambda: with_key(figures.state_strips({"true": truth, "inferred": states}), key),
                "Shares of each state": lambda: with_key(
                    figures.proportions(states), {"states": exports.legend.states(states.shape[1])}
                ),
                "Use of each state": lambda: figures.usage(states, reference=_true_usage(here)),
                "Stays": lambda: figures.dwell(states.argmax(axis=1), states.shape[1]),
                "What follows what": lambda: matrix_figure(states),
                **asked(view, here, look is not None),
            },
            scores=score_rows(measured.value) if measured.fresh else (),
            facts=[("track", track.call), *choice.facts],
            link=exports.link(),
            trial=0 if view.which == "train" else len(shown.wanted.train),
            unit="step",
        )
    )
