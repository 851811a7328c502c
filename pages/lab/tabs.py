"""What lies below the picture. A page names its tabs; those that every fit can have are here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import streamlit as st

from gdm_core.analysis.bouts import median_bout, runs
from gdm_core.analysis.envelopes import Envelope, envelope
from gdm_core.analysis.planes import plane_map
from gdm_core.trials import Trial
from pages.lab import figures as lab_figures
from pages.lab import live
from pages.lab.live.pictures import State
from pages.lab.view import Reading, View
from pages.ui import card, figures, limits, shell
from pages.ui.figures.base import Figure
from pages.ui.plot import plot
from pages.ui.slider import slider
from pages.ui.units import Unit, unit_of_stays

MAX_HORIZON = 50
NINE_OF_TEN = (90.0, 5.0)  # what a 90 % band should hold, and how far off is near enough, in per cent
FIRST_HORIZON = 20
HELD_WAIT_S = 1.0  # while a slider is held the page has nothing else to do
Tab = Callable[[View, Reading], None]


def show_tabs(
    view: View, named: Mapping[str, Tab], reading: Reading | None = None, *, early: Collection[str] = ()
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
                    made_for = view.made_for if reading.state == "fresh" else ""
                    if name in early:
                        draw(view, reading)
                    elif reading.states is None and not view.is_new:
                        shell.empty("Nothing fitted yet", "This fills in with the first result.")
                    elif reading.states is None:
                        shell.empty(reading.title, reading.note)
                    else:
                        with shell.of(made_for):
                            draw(view, reading)


def shares(view: View, reading: Reading) -> None:
    """Stacked shares over time, and the use of each state."""
    assert reading.states is not None
    left, right = st.columns([0.7, 0.3], gap="small")
    with left, shell.panel("shares", "Shares of each state"):
        plot(figures.proportions(reading.states, **view.timing), key="proportions", state=reading.state)
        plot(figures.entropy_strip(reading.states, **view.timing), key="entropy", state=reading.state)
    with right, shell.panel("usage", "Use of each state"):
        plot(usage(reading), key="usage", state=reading.state)


def usage(reading: Reading, names: Sequence[str] | None = None) -> Figure:
    """How much each state is used, beside the true use where the model has as many states."""
    assert reading.states is not None
    truth = reading.trial.states
    if truth is None or truth.shape[1] != reading.states.shape[1]:
        return figures.usage(reading.states, names=names)
    return figures.usage(
        reading.states,
        names=names,
        reference=np.asarray(truth, np.float32).mean(axis=0),
        caption="Bars: the model's states. Ticks: the true ones of the same colour.",
    )


def stays_of(view: View, reading: Reading, names: Sequence[str] | None = None) -> Figure:
    """How long the strongest states last."""
    assert reading.states is not None
    return _dwell(view, reading.labels, reading.states.shape[1], names=names)


def stays(view: View, reading: Reading, names: Sequence[str] | None = None) -> None:
    """How long states last; the true ones beside the inferred, on one axis, where they are known."""
    assert reading.states is not None
    truth = reading.trial.states
    true = None if truth is None else np.asarray(truth.argmax(axis=1), np.int64)
    places = st.columns(1 if true is None else 2, gap="small")
    if truth is not None and true is not None:
        with places[0], shell.panel("dwell-true", "True stays"):
            plot(_dwell(view, true, truth.shape[1], reading.labels), key="dwell-true")
    with places[-1], shell.panel("dwell-inferred", "Inferred stays" if true is not None else "Stays"):
        figure = _dwell(view, reading.labels, reading.states.shape[1], true, names)
        plot(figure, key="dwell-inferred", state=reading.state)
    if figures.flickers(reading.states if truth is None else np.asarray(truth, np.float32)):
        shell.quiet(
            "Most stays are a sample or two because these states are soft: several have shares at once, chance decides anew at "
            "every sample which of them is strongest, and a stay ends there. Their shares, averaged over some samples, last "
            "much longer (see Shares)."
        )


def _dwell(
    view: View,
    labels: npt.NDArray[np.int64],
    n_states: int,
    beside: npt.NDArray[np.int64] | None = None,
    names: Sequence[str] | None = None,
) -> Figure:
    step, unit = stay_step(view, labels)
    others = None if beside is None else runs(beside)[1]
    return figures.dwell(labels, n_states, step=step, unit=unit.plural, beside=others, names=names)


def stay_step(view: View, labels: npt.NDArray[np.int64]) -> tuple[float, Unit]:
    """(length of a sample, in the unit for lengths of these stays; that unit)."""
    step = view.data.step(view.trial)
    unit = unit_of_stays(median_bout([labels]) * step, view.unit)
    return unit.of(step), unit


def transitions(view: View, reading: Reading) -> None:
    """What follows what, and which state wins where if the trial has places."""
    assert reading.states is not None
    n_states = reading.states.shape[1]
    if reading.trial.position is None:
        with shell.panel("matrix", "What follows what"):
            plot(lab_figures.matrix(reading.labels, n_states), key="matrix", state=reading.state)
        return
    left, right = st.columns([0.55, 0.45], gap="small")
    with left, shell.panel("map", "Which state wins where"):
        answer = view.ask(f"map-{view.index}", plane_map, reading.trial)
        if answer.value is not None:  # the last one stays until there is another
            trial, order = answer.about
            state = reading.state if answer.fresh else "stale"
            made = view.shown.once(
                ("plane", view.index),
                lambda: lab_figures.plane(answer.value, trial.position, order),
                of=(answer.value, trial),
                settings=order,
            )
            plot(made, key="plane", state=state)
        if not live.unanswered(view.fit, answer, "The map could not be worked out") and answer.value is None:
            shell.quiet("The map is being worked out.")
    with right, shell.panel("matrix", "What follows what"):
        plot(lab_figures.matrix(reading.labels, n_states), key="matrix", state=reading.state)


def prediction(view: View, reading: Reading) -> None:
    """One prediction with its envelope, and what envelopes like it hold."""
    trial = reading.trial
    left, middle, right = st.columns(3, gap="medium")
    with left:
        moment, moving = _moment(view, trial)
    with middle:
        limits.within("horizon", "Horizon", 1, MAX_HORIZON)
        horizon, growing = slider(
            "Horizon (steps)", 1, MAX_HORIZON, FIRST_HORIZON, key="horizon", bind="query-params", live=True
        )
    called = view.data.called
    channel = right.selectbox(
        "Channel", list(trial.channels), key="channel", bind="query-params", format_func=lambda c: called.get(c, c)
    )
    adaptive = st.toggle(
        "Bands learn on the way",
        True,
        key="adaptive",
        bind="query-params",
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
        limits.within("moment", "From step", 0, last)
        return slider(
            "From step", 0, last, trial.n_samples // 2, key="moment", bind="query-params", help=help, live=True
        )
    label, end = f"From ({view.unit.plural})", last * step
    limits.within("moment", label, 0.0, end, float)
    seconds, held = slider(
        label, 0.0, end, min(round(trial.n_samples // 2 * step, 2), end), step, key="moment", bind="query-params",
        format="%.2f", help=help, live=True,
    )  # fmt: skip
    return min(max(round(seconds / step), 0), last), held


def _envelope(view: View, found: Envelope, trial: Trial, channel: str, state: State) -> None:
    index = trial.channels.index(channel) if channel in trial.channels else 0
    timing, name = view.timing, view.data.called.get(channel, "")
    made = view.shown.once(
        ("envelope", view.index),
        lambda: lab_figures.prediction(found, trial, index, name=name, **timing),
        of=(found, trial),
        settings=index,
    )
    plot(made, key="envelope", state=state)
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
