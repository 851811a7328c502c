"""Tabs below the picture: laps compared, usage, predictions, dwell times, many fits, export."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from datasets.f1.laps import is_qualifying, is_race
from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import Figure
from pages import lab
from pages.formula1 import (
    accuracy,
    all_drivers,
    corner_panel,
    data,
    findings,
    gain_panel,
    state_names,
    telemetry,
    tyres,
    weekend,
)
from pages.formula1.data import Circuit, DriverReading, race_of, read
from pages.formula1.picture import MapOptions, shares, strips, track_map
from pages.formula1.scorecard import rows_of
from pages.lab import Decoded, Undecoded, View
from pages.lab.figures import matrix
from pages.ui import legend, shell
from pages.ui.plot import plot

FIRST_LAPS = 3


def show(view: View, here: DriverReading | Undecoded, options: MapOptions) -> None:
    """Show the tabs for the driver on the map."""
    session = data.open_session(race_of(view).pick.place)
    best = "Qualifying" if is_qualifying(session) else "Best laps"
    tabs: dict[str, lab.tabs.Tab] = ({} if is_race(session) else {best: lambda view, _: weekend.tab(view)}) | {
        telemetry.TAB: lambda view, _: telemetry.tab(view),
        "Drivers compared": lambda view, _: gain_panel.tab(view),
        "Corners": corner_panel.tab,
        "Tyres and long runs": tyres.tab,
        "State profiles": lambda view, _: state_names.tab(view),
        "State usage": usage,
        "Prediction": prediction,
        "Dwell times": stays,
        "Recommended settings": lab.show_suggestion,
        "Accuracy against K": lambda view, _: accuracy.tab(view),
        "Export": lambda view, here: export(view, here, options),
    }
    lab.show_tabs(view, tabs, here, early=["Recommended settings", best])


def usage(view: View, here: DriverReading) -> None:
    """Show shares over the first laps, in each segment and over the race, and the table of all drivers."""
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
    all_drivers.panel(view)


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


def export(view: View, here: DriverReading, options: MapOptions) -> None:
    """Show exports: the maps of both drivers first."""
    race = race_of(view)
    drivers = lab.together([read(view, race.train, "train"), read(view, race.test, "test")])
    named, found, called = state_names.names(view), state_names.profiles(view), list(here.names)
    key = {"states": legend.states(len(called), called)}
    codes = [driver.laps.code for driver in drivers]
    maps: dict[str, Callable[[], Figure]] = {
        f"Map of {driver.laps.code}": partial(_map, race.circuit, driver, options, key, called) for driver in drivers
    }
    along = {
        "States along the lap": lambda: legend.with_key(strips(race.circuit, drivers, codes, called), key),
        "State proportions along the lap": lambda: legend.with_key(shares(race.circuit, here, called), key),
    }
    lab.show_export(
        view,
        here,
        rows_of(view),
        lambda _: maps | along | gain_panel.exported(view, drivers, called),
        facts=[
            *(("finding", said) for said in findings.sentences(view)),
            *((name, state_names.in_words(one)) for name, one in zip(called, found, strict=True)),
        ],
        after=[f"names = {named!r}  # of the columns of states"] if named else [],
        tables={"State profiles": lambda: state_names.in_numbers(found, named)},
    )


def _map(circuit: Circuit, driver: DriverReading, options: MapOptions, key: dict[str, Any], names: list[str]) -> Figure:
    """Draw the map of one driver with a legend."""
    return legend.with_key(track_map(circuit, driver, options, names), key)
