"""The tab States: picture, difference between the drivers, scores and details of a fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import Figure, numbered
from pages import lab
from pages.formula1 import (
    accuracy,
    data,
    gain_panel,
    picture,
    state_differences,
    state_names,
    teams,
    time_gained,
)
from pages.formula1.data import Circuit, DriverReading, race_of, read
from pages.formula1.picture import MapOptions, shares, strips, track_map
from pages.formula1.scorecard import show_card
from pages.lab import Decoded, Undecoded, View
from pages.lab.figures import matrix
from pages.ui import controls, legend, shell
from pages.ui.plot import plot

FIRST_LAPS = 3


def name_states(view: View) -> View:
    """Return the view of the displayed race, with the names of its states."""
    shown = data.standing(view)
    return replace(shown, naming=state_names.naming(shown))


def tab(view: View) -> None:
    """Show the picture, what the states say about the drivers, the scores and the details."""
    page = view.frame
    with page.picture, st.container(key="formula1-head", horizontal=True, vertical_alignment="center"):
        race = race_of(view)
        options = picture.choose_options(race.train.code, race.test.code)
    with page.picture:
        key = st.container()
    shown = name_states(view)
    called = () if shown.naming is None else shown.naming.names
    named = {} if view.state.result is None else {view.state.result.key: called}
    lab.picture(view, lambda now: picture.make_panels(view, now, options, named))
    lab.preview(view, picture.make_preview(view, options))
    shown = data.on_map(shown, options.which)
    with key, shell.made_for(view.made_for):
        shell.state_key(max(2, view.state.n_states or view.choice.n_states), called or None)
    with page.card, shell.made_for(view.made_for):
        for said in state_differences.sentences(shown):
            shell.finding(said)
    show_card(view)
    state_names.keep_in_address(view)
    laps = race_of(shown).test if options.which == "test" else race_of(shown).train
    _show_details(shown, read(shown, laps, options.which))


DETAILS: dict[str, Callable[[View, Any], None]] = {
    "Usage": lambda view, here: usage(view, here),
    "Names": lambda view, _: state_names.tab(view),
    "Delta by state": lambda view, _: delta_by_state(view),
    "Dwell times": lambda view, here: stays(view, here),
    "Prediction": lambda view, here: prediction(view, here),
    "Accuracy against K": lambda view, _: accuracy.tab(view),
    "Recommended settings": lab.show_suggestion,
}


def _show_details(view: View, here: DriverReading | Undecoded) -> None:
    """Show the open detail, once there are states."""
    with view.frame.below:
        for name, place in controls.tabs(list(DETAILS), "detail"):
            if not place.open:
                continue
            with place:
                if isinstance(here, DriverReading):
                    with shell.made_for(view.made_for if here.state == "fresh" else ""):
                        DETAILS[name](view, here)
                else:
                    shell.empty(here.title, here.note)


def usage(view: View, here: DriverReading) -> None:
    """Show shares over the first laps, in each segment and over the race."""
    laps, states, names = here.laps, here.states, here.names
    first = np.isin(laps.lap, np.unique(laps.lap)[:FIRST_LAPS])
    starts = np.flatnonzero(np.diff(laps.lap[first], prepend=-1))
    seconds = laps.seconds[first] - laps.seconds[first][0]
    with shell.panel("first-laps", f"{laps.code}: first {len(starts)} laps"):
        plot(
            figures.proportions(
                states[first], step=view.dataset.step(here.trial), unit="s", height=190,
                ticks=[(float(seconds[i]), f"lap {laps.lap[first][i]}") for i in starts],
                names=names, labels=here.naming.short,
                caption="State proportions over time. States should repeat from lap to lap.",
            ),
            key="first-laps", state=here.state,
        )  # fmt: skip
    left, right = st.columns([0.68, 0.32], gap="small")
    with left:
        if laps.segment is not None:
            with shell.panel("by-segment", "Usage by segment"):
                plot(_by_segment(race_of(view).circuit, here), key="by-segment", state=here.state)
        with shell.panel("by-lap", "Usage by lap"):
            plot(
                figures.usage_by_segment(
                    states,
                    laps.lap,
                    names=names,
                    height=180,
                    caption="Pit stops and safety cars are visible as outliers.",
                ),
                key="by-lap",
                state=here.state,
            )
    with right, shell.panel("usage", "Usage over all laps"):
        plot(figures.usage(states, names=names), key="usage", state=here.state)


def _by_segment(circuit: Circuit, here: DriverReading) -> Figure:
    assert here.laps.segment is not None
    figure = figures.usage_by_segment(
        here.states, here.laps.segment, names=here.names, what="segment", height=200,
        caption="State proportions from each corner to the next; columns sum to 100%.",
    )  # fmt: skip
    present = np.unique(here.laps.segment)
    segments = [circuit.segments[c] for c in present]
    figure["layout"]["xaxis"] |= {
        "tickvals": present.tolist(), "ticktext": segments, "dtick": None, "tickangle": -50, "title": None,
    }  # fmt: skip
    return figure


def delta_by_state(view: View) -> None:
    """Show the delta between the drivers by state."""
    race = race_of(view)
    found = time_gained.usual_of(race)
    drivers = [read(view, race.train, "train"), read(view, race.test, "test")]
    gains = {} if found is None else time_gained.gains_of(view, found, drivers, numbered(state_names.names(view)))
    if found is None or "state" not in gains:
        shell.empty("No delta by state", "It needs lap pairs of two drivers in a race.")
        return
    with shell.panel("gain-by-state", f"Delta by state: {race.codes[0]} vs {race.codes[1]}"):
        looks = teams.looks(race.session, race.codes)
        plot(gain_panel.bars(race.codes, gains["state"], "state", looks), key="gain-by-state")


def stays(view: View, reading: Decoded) -> None:
    left, right = st.columns(2, gap="small")
    with left:
        lab.show_dwell_times(view, reading)
    with right, shell.panel("matrix", "Transition matrix"):
        plot(matrix(reading), key="matrix", state=reading.state)


def prediction(view: View, reading: Decoded) -> None:
    if not race_of(view).pick.looked.channels:
        shell.quiet(
            "The model sees ten random mixtures of X and Y, as in the paper, and predicts those. To predict speed, choose Car "
            "telemetry under The model sees."
        )
    lab.show_prediction(view, reading)


# ---- export -----------------------------------------------------------------------------------------------------------
def export(view: View) -> None:
    """Show the files of the fit: the maps of both drivers first."""
    view = name_states(view)
    state_names.keep_in_address(view)
    race = race_of(view)
    read_both = [read(view, race.train, "train"), read(view, race.test, "test")]
    here = read_both[0]
    if isinstance(here, Undecoded):
        shell.empty(here.title, here.note)
        return
    drivers = lab.together(read_both)
    named, found, called = state_names.names(view), state_names.profiles(view), list(here.names)
    key = {"states": legend.states(len(called), called)}
    codes = [driver.laps.code for driver in drivers]
    maps: dict[str, Callable[[], Figure]] = {
        f"Map of {driver.laps.code}": partial(_map, race.circuit, driver, picture.USUAL, key, called)
        for driver in drivers
    }
    along = {
        "States along the lap": lambda: legend.with_key(strips(race.circuit, drivers, codes, called), key),
        "State proportions along the lap": lambda: legend.with_key(shares(race.circuit, here, called), key),
    }
    lab.show_export(
        view,
        here,
        lambda _: maps | along | gain_panel.exported(view, drivers, called),
        after=[f"names = {named!r}  # of the columns of states"] if named else [],
        tables={"State profiles": lambda: state_names.in_numbers(found, named)},
    )


def _map(circuit: Circuit, driver: DriverReading, options: MapOptions, key: dict[str, Any], names: list[str]) -> Figure:
    """Draw the map of one driver with a legend."""
    return legend.with_key(track_map(circuit, driver, options, names), key)
