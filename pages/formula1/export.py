"""The tab Export: every figure and table of the page, and the picture to share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from datasets.f1.laps import is_qualifying, is_race
from gdm_studio.plot.figures.base import Figure
from pages import lab
from pages.formula1 import (
    compare,
    corners,
    differences,
    field,
    laps,
    scores,
    share,
    state_names,
    states,
    telemetry,
    time_gained,
)
from pages.formula1.comparison import Between
from pages.formula1.data import Race
from pages.formula1.driver_states import DriverReading, race_of, read
from pages.lab import Undecoded, View
from pages.ui import legend, shell

WAIT_S = 5.0  # for a fit of differences
Figures = dict[str, Callable[[], Figure | None]]
Tables = dict[str, Callable[[], pd.DataFrame]]


def export(view: View) -> None:
    """Show the files: the maps of both drivers first."""
    view = states.name_states(view)
    state_names.keep_in_address(view)
    race = race_of(view)
    both = [read(view, race.train, "train"), read(view, race.test, "test")]
    here = both[0]
    if isinstance(here, Undecoded):
        shell.empty(here.title, here.note)
        return
    drivers = lab.together(both)
    named, found = state_names.names(view), state_names.profiles(view)
    drawn, tables = field_files(race)
    compared = []
    if race.found is not None:
        pairs = replace(race.found, gains=time_gained.gains_of(view, race.found, drivers, list(here.names)))
        compared = [files(race, pairs) for files in (comparison_files, habit_files)]
    for figures, more in (lap_files(race), *compared):
        drawn, tables = drawn | figures, tables | more
    lab.show_export(
        view,
        here,
        lambda _: state_figures(race, drivers, list(here.names)) | drawn | scores.exported(view),
        after=[f"names = {named!r}  # of the columns of states"] if named else [],
        tables=tables if found.empty else tables | {"State profiles": lambda: state_names.in_numbers(found, named)},
    )


def state_figures(race: Race, drivers: Sequence[DriverReading], names: list[str]) -> Figures:
    """Return the figures of the tab States, with a legend where they have none."""
    key: dict[str, Any] = {"states": legend.states(len(names), names)}
    circuit, here, codes = race.circuit, drivers[0], [driver.laps.code for driver in drivers]

    def with_key(draw: Callable[..., Figure], *arguments: Any) -> Callable[[], Figure]:
        return lambda: legend.with_key(draw(*arguments), key)

    maps: Figures = {
        f"Map of {driver.laps.code}": with_key(states.track_map, circuit, driver, states.USUAL, names)
        for driver in drivers
    }
    more: Figures = {
        "States along the lap": with_key(states.strips, circuit, drivers, codes, names),
        "State proportions along the lap": with_key(states.shares, circuit, here, names),
        "Usage by lap": with_key(states.usage_by_lap, here),
    }
    if here.laps.segment is not None:
        more["Usage by segment"] = with_key(states.usage_by_segment, circuit, here)
    return maps | more


def comparison_files(race: Race, found: Between) -> tuple[Figures, Tables]:
    """Return the files of Compare and Corners."""
    drawn: Figures = {"Picture to share": lambda: share.draw(race, found), **time_gained.exported(race, found)}
    tables: Tables = {"Time gained": partial(time_gained.as_table, found)}
    if len(traces := compare.traces(race, found)) == 2:
        drawn["Telemetry"] = lambda: compare.draw_telemetry(race, found, traces, tuple(telemetry.PANELS))
        tables["Telemetry"] = partial(telemetry.as_table, traces)
    if "corner" in found.gains:
        sides = [corners.measure_corners(race.session, *side) for side in found.sides]
        tables["Corners"] = partial(corners.every_difference, found, *sides)
        tables["Corners, lap by lap"] = partial(corners.lap_by_lap, sides)
    pedals = [corners.measure_pedals(race.session, *side) for side in found.sides]
    tables["Driving style"] = partial(corners.pedals, found.names, *pedals)
    tables["Driving style, lap by lap"] = partial(corners.lap_by_lap, pedals)
    return drawn, tables


def habit_files(race: Race, found: Between) -> tuple[Figures, Tables]:
    """Return the files of Differences, which is fitted in the background; none before the end of the fit."""
    requested = differences.request(race, found)
    if requested is not None and not requested[1].wait(WAIT_S):
        shell.quiet("Differences are being fitted and not among the files yet. Open this tab again in a minute.")
    if requested is None or not requested[1].ended or requested[1].poll().message:
        return {}, {}
    habits = differences.Habits(race, found, requested[0], requested[1].result(0))
    return dict(habits.figures()), {"Differences": habits.table}


def lap_files(race: Race) -> tuple[Figures, Tables]:
    """Return the files of Laps."""
    session = race.session
    drawn: Figures = {"Tyres": partial(laps.strategy, session)}
    tables: Tables = {"Stints": partial(laps.stints_table, session)}
    if is_race(session):
        history = partial(laps.draw, session, laps.open_history(session), codes=race.codes)
        drawn |= {words: partial(history, kind) for kind, words in laps.KINDS.items()}
    else:
        drawn["Improvement"] = partial(laps.improvement, session, laps.fastest(session))
    if not is_qualifying(session):
        fuel, excluded = laps.kept_choices(race)
        tables["Long runs"] = partial(laps.runs_table, session, fuel, excluded)
        if runs := laps.long_runs(race, fuel, excluded):
            drawn["Long runs"] = partial(laps.against_age, session, runs)
    return drawn, tables


def field_files(race: Race) -> tuple[Figures, Tables]:
    """Return the files of Field."""
    session, circuit, drawn = race.session, race.circuit, Figures()
    tables: Tables = {"All drivers": partial(field.lap_times, session)}
    if (timed := field.measure_field(race.pick.place)) is not None:
        drawn["Field"] = partial(field.draw, session, circuit, timed)
        tables["Minisectors"] = partial(field.as_table, circuit, timed)
    if not is_race(session):
        tables["Best laps"] = partial(field.best_table, session)
        tables["Theoretical best"] = partial(field.ideal_table, session)
    return drawn, tables
