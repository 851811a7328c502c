"""What lies around and below the picture: annotations, usage, drivers side by side, predictions, stays, export."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import streamlit as st

from gdm_core.analysis import envelopes
from gdm_core.trials import Trial
from pages.formula1 import against_k, drivers, pictures, take_along, transfer
from pages.formula1.data import Circuit
from pages.formula1.view import Here, View
from pages.lab.live.pictures import State
from pages.ui import figures, shell
from pages.ui.card import Score
from pages.ui.plot import plot

FIRST_LAPS = 3
MAX_HORIZON = 40


def tabs(view: View, scores: Sequence[Score]) -> None:
    """The tabs; only the open one is worked out."""
    named: dict[str, Callable[[], None]] = {
        "Drivers compared": lambda: drivers.tab(view),
        "Segments and laps": lambda: usage(view),
        "Prediction": lambda: prediction(view),
        "Stays and transitions": lambda: stays(view),
        "Accuracy against K": lambda: against_k.tab(view),
        "All twenty drivers": lambda: transfer.tab(view),
        "Export & reproduce": lambda: take_along.tab(view, scores),
    }
    for tab, draw in zip(
        st.tabs(list(named), key="view", on_change="rerun", bind="query-params"), named.values(), strict=True
    ):
        if tab.open:
            with tab:
                if view.shown.wanted is None or not view.shown.train:
                    shell.empty("Nothing fitted yet", "This fills in with the first result.")
                else:
                    draw()


def seen(view: View) -> Here:
    """The driver that is on the map."""
    return view.of(view.where.test, "other") if st.session_state.get("who") == "test" else view.of(view.where.train, "")


def usage(view: View) -> None:
    """Shares over the first laps, in each segment, and over the race."""
    here = seen(view)
    if here.states is None:
        shell.empty("A moment", "The model is being applied to this driver.")
        return
    laps, states = here.laps, here.states
    first = np.isin(laps.lap, np.unique(laps.lap)[:FIRST_LAPS])
    starts = np.flatnonzero(np.diff(laps.lap[first], prepend=-1))
    seconds = laps.seconds[first] - laps.seconds[first][0]
    step = 1 / laps.trials[0].rate_hz
    with shell.panel("first-laps", f"{laps.code}: the first {len(starts)} laps"):
        plot(
            figures.proportions(
                states[first], step=step, unit="s", height=190,
                ticks=[(float(seconds[i]), f"lap {laps.lap[first][i]}") for i in starts],
                caption="The share of each state at every moment. A circuit that is understood repeats itself lap after lap.",
            ),
            key="first-laps", state=here.state,
        )  # fmt: skip
    left, right = st.columns([0.68, 0.32], gap="small")
    with left:
        if laps.segment is not None:
            with shell.panel("by-segment", "Use in each track segment"):
                plot(_by_segment(view.where.circuit, here), key="by-segment", state=here.state)
        with shell.panel("by-lap", "Use in each lap"):
            plot(
                figures.usage_by_segment(states, laps.lap, height=180, caption="Pit stops and safety cars stand out."),
                key="by-lap",
                state=here.state,
            )
    with right, shell.panel("usage", "Use over all laps"):
        plot(figures.usage(states), key="usage", state=here.state)


def _by_segment(circuit: Circuit, here: Here) -> figures.base.Figure:
    assert here.states is not None
    assert here.laps.segment is not None
    figure = figures.usage_by_segment(
        here.states, here.laps.segment, what="segment", height=200,
        caption="Which states make up the way from each corner to the next; each column adds up to 100 %.",
    )  # fmt: skip
    present = np.unique(here.laps.segment)
    names = [circuit.segments[c] for c in present]
    figure["layout"]["xaxis"] |= {
        "tickvals": present.tolist(), "ticktext": names, "dtick": None, "tickangle": -50, "title": None,
    }  # fmt: skip
    return figure


def stays(view: View) -> None:
    """How long states last, and what follows what."""
    here = seen(view)
    if here.states is None:
        shell.empty("A moment", "The model is being applied to this driver.")
        return
    labels, k = here.states.argmax(axis=1), here.states.shape[1]
    left, right = st.columns(2, gap="small")
    with left, shell.panel("dwell", f"{here.laps.code}: how long the strongest state lasts"):
        plot(figures.dwell(labels, k, step=1 / here.laps.trials[0].rate_hz, unit="s"), key="dwell", state=here.state)
    with right, shell.panel("matrix", "What follows what"):
        plot(pictures.what_follows(labels, k), key="matrix", state=here.state)


def prediction(view: View) -> None:
    """One prediction with its envelope, and what envelopes like it hold."""
    here = seen(view)
    trials = here.laps.trials
    trial = max(trials, key=lambda t: t.n_samples)
    left, middle, right = st.columns(3, gap="medium")
    last = trial.n_samples - 2
    moment = left.slider(
        "From (s)", 0.0, last / trial.rate_hz, min(200.0, last / trial.rate_hz / 2), 0.25, key=f"f1-moment-{last}",
        help=f"Seconds into {trial.name}. The model sees nothing after it.",
    )  # fmt: skip
    horizon = middle.slider("Horizon (steps)", 1, MAX_HORIZON, 20, key="horizon", bind="query-params")
    horizon = min(max(horizon, 1), MAX_HORIZON)
    channel = right.selectbox("Channel", list(trial.channels), key="f1-channel")
    index = trial.channels.index(channel) if channel in trial.channels else 0
    origin = round(moment * trial.rate_hz)
    answer = view.predict(trial, origin, horizon)
    if not view.where.pick.looked.channels:
        shell.quiet(
            "y1 to y10 are the paper's mixtures of X and Y. Choose Channels at the left to predict speed or place."
        )
    with shell.panel("envelope"):
        if answer.value is None:
            shell.quiet(answer.message or "The prediction is being worked out.")
            return
        _envelope(answer.value, trial, index, "fresh" if answer.fresh else "stale")


def _envelope(found: envelopes.Envelope, trial: Trial, channel: int, state: State) -> None:
    plot(pictures.envelope(found, trial, channel), key="envelope", state=state)
    shell.quiet(
        f"Measured over {found.n_origins} moments of {trial.name} and all channels, {len(found.mean)} steps ahead: the "
        f"50 % band holds {100 * found.held50[-1]:.1f} % of outcomes, the 90 % band {100 * found.held90[-1]:.1f} %."
    )
