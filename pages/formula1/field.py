"""Fastest driver of the field in each minisector, from best laps or the mean of clean laps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import streamlit as st

from datasets.f1.laps import best_laps, is_race
from datasets.formula1 import Session, lap_clock
from gdm_studio.plot.figures.base import Dict, Figure, figure, key_above, plane, points, typed
from pages.formula1 import data, teams, time_gained
from pages.formula1.circuit_map import STATIONS, cursor
from pages.formula1.data import Circuit, Place, Race
from pages.formula1.tables import table_with_csv
from pages.ui import shell
from pages.ui.plot import plot


@dataclass(frozen=True, eq=False)
class Field:
    """Seconds [D, P] of D drivers in P minisectors; `edges` [P + 1] in metres."""

    codes: tuple[str, ...]
    seconds: npt.NDArray[np.float64]
    edges: npt.NDArray[np.float64]

    @property
    def fastest(self) -> npt.NDArray[np.intp]:
        """[P] row of the fastest driver."""
        return self.seconds.argmin(axis=0)

    @property
    def margin(self) -> npt.NDArray[np.float64]:
        """[P] seconds by which the second-fastest driver is slower; NaN for one driver."""
        ordered = np.sort(self.seconds, axis=0)
        return ordered[1] - ordered[0] if len(ordered) > 1 else np.full(ordered.shape[1], np.nan)


@st.cache_resource(max_entries=4, show_spinner="Timing all drivers")
def measure_field(place: Place) -> Field | None:
    """Return the time of every driver in each minisector; None without lap times and speeds."""
    session, circuit = data.open_session(place), data.circuit(place)
    edges = time_gained.minisectors(circuit)
    share = np.clip(edges / circuit.length, 0, 1)
    found = {}
    for code, numbers in _laps_of(session).items():
        clocks = [one for number in numbers if (one := lap_clock(session, code, number)) is not None]
        if clocks:
            found[code] = np.mean([np.diff(one.seconds_at(share)) for one in clocks], axis=0)
    return Field(tuple(found), np.stack(list(found.values())), edges) if found else None


def _laps_of(session: Session) -> dict[str, list[int]]:
    """Return each driver's clean laps in a race, or else the best lap."""
    driven = [driver for driver in session.drivers if driver.has_position]
    if is_race(session):
        return {driver.code: driver.laps.number[driver.laps.undisturbed].tolist() for driver in driven}
    there = {driver.code for driver in driven}
    best = sorted(best_laps(session), key=lambda one: -one.seconds)  # the fastest comes last
    return {one.code: [one.number] for one in best if one.code in there}


def panel(race: Race) -> None:
    """Show the map of the fastest drivers and their table."""
    found = measure_field(race.pick.place)
    laps = "mean of clean laps" if is_race(race.session) else "best laps"
    with shell.panel("field", f"Fastest driver per minisector: {laps}"):
        if found is None:
            shell.quiet("No official times or speeds, so minisectors are unknown.")
            return
        left, right = st.columns([0.55, 0.45], gap="small")
        with left:
            plot(draw(race.session, race.circuit, found), key="field-map", still=True, filename=f"{race.stem}-field")
        with right:
            table_with_csv(as_table(race.circuit, found), "minisectors", race.stem, seconds=["Time (s)", "Margin (s)"])


def as_table(circuit: Circuit, found: Field) -> pd.DataFrame:
    """Return one row per minisector."""
    where = time_gained.named_by_place(circuit, found.edges, [f"{n + 1}" for n in range(len(found.fastest))])
    return pd.DataFrame(
        {
            "Minisector": where,
            "From (m)": found.edges[:-1].round().astype(int),
            "Fastest": [found.codes[row] for row in found.fastest],
            "Time (s)": found.seconds.min(axis=0),
            "Margin (s)": found.margin,
        }
    )


def draw(session: Session, circuit: Circuit, found: Field) -> Figure:
    """Draw the track in the colours of the fastest drivers."""
    looks = teams.team_looks(session, found.codes)
    at = np.linspace(0, circuit.length, len(circuit.line))
    traces: list[Dict] = []
    for part, (start, end) in enumerate(zip(found.edges[:-1], found.edges[1:], strict=True)):
        row = int(found.fastest[part])
        along = np.unique(np.concatenate([[start], at[(at > start) & (at < end)], [end]]))
        x, y = circuit.position_at(np.minimum(along, circuit.length * (1 - 1e-9))).T
        says = (
            f"{found.codes[row]} {found.seconds[row, part]:.3f} s<br>{found.margin[part]:.3f} s ahead of the next"
            f"<br>{start:.0f} to {end:.0f} m"
        )
        stations = typed(np.round(along / circuit.length * STATIONS)[:, None] % STATIONS, "u1")
        line = {"color": looks[row].colour, "width": 9, "dash": "solid" if looks[row].dash == "solid" else "6px,3px"}
        more: Dict = {"customdata": stations, "line": line, "cliponaxis": False, "showlegend": False}
        traces.append(points("lines", x, y, says, **more))
    count = {found.codes[row]: int((found.fastest == row).sum()) for row in np.unique(found.fastest)}
    ranked = sorted(count, key=lambda code: -count[code])
    caption = f"Fastest in most minisectors: {', '.join(f'{code} {count[code]}' for code in ranked[:4])}."
    alt = f"Map of {circuit.title} coloured by the fastest driver in {len(found.fastest)} minisectors. {caption}"
    named = {found.codes[row]: looks[row] for row in np.unique(found.fastest)}
    for code in ranked:
        line = {"color": named[code].colour, "width": 4, "dash": named[code].dash}
        traces.append(points("lines", [np.nan], [np.nan], line=line, name=f"{code} {count[code]}"))
    return figure(traces, caption, alt, 440, phone_height=360, cursor=cursor(circuit), **plane(), **key_above())
