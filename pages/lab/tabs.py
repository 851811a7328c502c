"""What lies below the picture. A page names its tabs; those that every fit can have are here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import streamlit as st

from gdm_core.analysis.envelopes import Envelope, envelope
from gdm_core.analysis.planes import plane_map
from gdm_core.trials import Trial
from gdm_studio.plot import figures
from pages.lab import figures as made
from pages.lab import live
from pages.lab.live.pictures import State
from pages.lab.view import Reading, Unread, View
from pages.ui import card, shell
from pages.ui.controls import one_of, slide, switch
from pages.ui.plot import plot

MAX_HORIZON = 50
NINE_OF_TEN = (90.0, 5.0)  # what a 90 % band should hold, and how far off is near enough, in per cent
FIRST_HORIZON = 20
HELD_WAIT_S = 1.0  # while a slider is held the page has nothing else to do
Tab = Callable[[View, Any], None]  # of a Reading; tabs that need no states may be given an Unread
STAYS_OF = {"expert": "Bouts of the expert", "true": "True stays"}


def show_tabs(
    view: View, named: Mapping[str, Tab], reading: Reading | Unread | None = None, *, early: Collection[str] = ()
) -> None:
    """The tabs; only the open one is worked out, and only once there are states to draw.

    reading   what the tabs are about, where that is more than the one trial that is looked at
    early     tabs that need no states
    """
    with view.frame.below:
        places = st.tabs(list(named), key="view", on_change="rerun", bind="query-params")
        for place, (name, draw) in zip(places, named.items(), strict=True):
            if place.open:
                with place:
                    reading = reading or view.read()
                    if name in early:
                        draw(view, reading)
                    elif isinstance(reading, Reading):
                        with shell.of(view.made_for if reading.state == "fresh" else ""):
                            draw(view, reading)
                    elif view.is_new:
                        shell.empty(reading.title, reading.note)
                    else:
                        shell.empty("Nothing fitted yet", "This fills in with the first result.")


def shares(view: View, reading: Reading) -> None:
    """Stacked shares over time, and the use of each state, beside what an expert saw."""
    left, right = st.columns([0.7, 0.3], gap="small")
    with left, shell.panel("shares", "Shares of each state"):
        plot(made.shares(reading), key="proportions", state=reading.state)
        plot(made.entropy(reading), key="entropy", state=reading.state)
    with right, shell.panel("usage", "Use of each state"):
        plot(made.usage(reading), key="usage", state=reading.state)
        if (known := reading.known) is not None and known.who == "expert":
            said = "The expert's labels of the same trial."
            figure = figures.usage(known.shares, names=known.names, caption=said)
            plot(made.remarked(figure, known), key="usage-expert")


def stays(view: View, reading: Reading) -> None:
    """How long states last; the true ones or the expert's bouts beside the inferred, on one axis, where they are known."""
    known, cut = reading.known, view.data.recorded
    places = st.columns(1 if known is None else 2, gap="small")
    if known is not None:
        with places[0], shell.panel(f"dwell-{known.who}", STAYS_OF[known.who]):
            plot(made.remarked(made.known_stays(reading, known), known), key=f"dwell-{known.who}")
    title = "Bouts of the model" if cut else "Stays" if known is None else "Inferred stays"
    with places[-1], shell.panel("dwell-inferred", title):
        plot(made.stays(reading), key="dwell-inferred", state=reading.state)
    if not cut and figures.flickers(reading.states if known is None else known.shares):
        shell.quiet(
            "Most stays are a sample or two because these states are soft: several have shares at once, chance decides anew at "
            "every sample which of them is strongest, and a stay ends there. Their shares, averaged over some samples, last "
            "much longer (see Shares)."
        )


def transitions(view: View, reading: Reading) -> None:
    """What follows what, in numbers, and which state wins where if the trial has places, else as a graph."""
    left, right = st.columns([0.55, 0.45], gap="small")
    with left:
        if reading.trial.position is None:
            with shell.panel("graph", "What follows what"):
                plot(made.graph(reading), key="graph", state=reading.state)
        else:
            _map(view, reading)
    with right, shell.panel("matrix", "What follows what, in numbers"):
        plot(made.matrix(reading), key="matrix", state=reading.state)
        if (known := reading.known) is not None and known.who == "expert":
            plot(made.remarked(made.known_matrix(known), known), key="matrix-expert")


def _map(view: View, reading: Reading) -> None:
    """Which state wins where."""
    with shell.panel("map", "Which state wins where"):
        answer = view.ask(f"map-{view.index}", plane_map, reading.trial)
        if answer.value is not None:  # the last one stays until there is another
            trial, order = answer.about
            state = reading.state if answer.fresh else "stale"
            drawn = view.shown.once(
                ("plane", view.index),
                lambda: made.plane(answer.value, trial.position, order),
                of=(answer.value, trial),
                settings=order,
            )
            plot(drawn, key="plane", state=state)
        if not live.unanswered(view.fit, answer, "The map could not be worked out") and answer.value is None:
            shell.quiet("The map is being worked out.")


def prediction(view: View, reading: Reading) -> None:
    """One prediction with its envelope, and what envelopes like it hold."""
    trial = reading.trial
    left, middle, right = st.columns(3, gap="medium")
    with left:
        moment, moving = _moment(view, trial)
    with middle:
        horizon, growing = slide("Horizon (steps)", 1, MAX_HORIZON, FIRST_HORIZON, key="horizon", live=True)
    names = {channel: view.data.called.get(channel, channel) for channel in trial.channels}
    channel = one_of("Channel", names, key="channel", at=right)
    adaptive = switch(
        "Bands learn on the way",
        True,
        key="adaptive",
        help="Once the outcome of an earlier prediction is known, the bands grow a little if they missed it and shrink if they "
        "held it. In the long run they hold their share whatever the data do, at the price of width. Off: the bands stay as "
        "they were calibrated on the fitted data.",
    )
    wait_s = HELD_WAIT_S if moving or growing else 0.0
    answer = view.ask(f"envelope-{view.index}", envelope, trial, moment, horizon, adaptive, wait_s=wait_s)
    with shell.panel("envelope"):
        if (
            answer.value is not None
        ):  # the last one stays until there is another, beside the observations of its own trial
            _envelope(view, answer.value, answer.about[0], channel, reading.state if answer.fresh else "stale")
        if not live.unanswered(view.fit, answer, "The prediction could not be worked out") and answer.value is None:
            shell.quiet("The prediction is being worked out.")


def _moment(view: View, trial: Trial) -> tuple[int, bool]:
    """(the sample to predict from, chosen in the unit of the data, whether its slider is held)."""
    last, step = max(trial.n_samples - 2, 1), float(view.timing["step"])
    help = "The model sees nothing after it."
    if view.data.unit == "step":
        return slide("From step", 0, last, trial.n_samples // 2, key="moment", help=help, live=True)
    label, end = f"From ({view.unit.plural})", last * step
    start = min(round(trial.n_samples // 2 * step, 2), end)
    seconds, held = slide(label, 0.0, end, start, step, key="moment", format="%.2f", help=help, live=True)
    return min(max(round(seconds / step), 0), last), held


def _envelope(view: View, found: Envelope, trial: Trial, channel: str, state: State) -> None:
    index = trial.channels.index(channel) if channel in trial.channels else 0
    timing, name = view.timing, view.data.called.get(channel, "")
    drawn = view.shown.once(
        ("envelope", view.index),
        lambda: made.prediction(found, trial, index, name=name, **timing),
        of=(found, trial),
        settings=index,
    )
    plot(drawn, key="envelope", state=state)
    kinds = {True: ("that learn on the way", found.learning), False: ("as calibrated", found.fixed)}
    (words, ours), (other, theirs) = kinds[found.adaptive], kinds[not found.adaptive]
    held = 100 * float(ours.nine_tenths[-1])
    said = card.held(held, *NINE_OF_TEN)
    shell.quiet(
        f"Measured over {found.n_origins} moments of {trial.name} and all channels, {len(found.mean)} steps ahead, with bands "
        f"{words}: the 50 % band holds {100 * ours.half[-1]:.1f} % of outcomes, the 90 % band {held:.1f} %, {said}. "
        f"{card.HELD[said]} 90 % bands {other} hold {100 * float(theirs.nine_tenths[-1]):.1f} %; those that learn are "
        f"{found.wider:.2f} times as wide."
    )
