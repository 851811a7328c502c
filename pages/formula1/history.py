"""Gaps, positions and lap times over a race, with pit stops and flags."""

from __future__ import annotations

import numpy as np
import streamlit as st

from datasets.f1.traffic import RaceHistory, race_history
from datasets.formula1 import Session
from gdm_studio.plot.figures.base import Dict, Figure, axis, figure, note, points, shape
from pages.formula1 import data, teams
from pages.formula1.data import Place, Race
from pages.formula1.weekend import BANDS
from pages.ui import shell
from pages.ui.controls import one_of
from pages.ui.plot import plot

KINDS = {"gap": "Gap to leader", "position": "Position", "pace": "Lap time"}
TITLES = {"gap": "gap to leader (s)", "position": "position", "pace": "lap time (s)"}
FAR_S = 100.0  # larger gaps are outside the axis
SLOW = 1.12  # times the median lap; slower laps are outside the axis
FADED = 0.4  # opacity of drivers that are not compared


@st.cache_resource(max_entries=4, show_spinner=False)
def open_history(place: Place) -> RaceHistory:
    return race_history(data.open_session(place))


def panel(race: Race) -> None:
    """Show one measure of all drivers lap by lap."""
    with shell.panel("history", "Race history"):
        kind = one_of("Race history", KINDS, key="over-laps", as_ids=True, row=True, label_visibility="collapsed")
        made = draw(race.session, open_history(race.pick.place), kind, race.codes)
        plot(made, key="race-history", still=True, revision=kind, filename=f"{race.stem}-{kind}")


def draw(session: Session, found: RaceHistory, kind: str, codes: tuple[str, str]) -> Figure:
    """Draw one line per driver, with pit stops as markers and flags as shaded laps."""
    values = {"gap": found.gap, "position": found.position, "pace": lap_seconds(session, found)}[kind]
    looks = dict(zip(found.codes, teams.team_looks(session, found.codes), strict=True))
    limits = _range(kind, values)
    traces: list[Dict] = []
    marks: list[Dict] = []
    for code, line in sorted(zip(found.codes, values, strict=True), key=lambda one: one[0] in codes):
        if not np.isfinite(line).any():
            continue
        look, chosen = looks[code], code in codes
        drawn = {"color": look.colour, "dash": look.dash, "width": 2.6 if chosen else 1.4}
        says = f"{code} lap %{{x}}<br>{TITLES[kind]} %{{y:.6~g}}"
        opacity = 1.0 if chosen else FADED
        traces.append(points("lines", found.laps, line, says, line=drawn, opacity=opacity, connectgaps=False))
        stops = np.isin(found.laps, found.stops.get(code, ())) & np.isfinite(line)
        if stops.any():
            marker = {"color": look.colour, "size": 8 if chosen else 6, "symbol": "circle-open", "line": {"width": 2}}
            says = f"{code} pit stop, lap %{{x}}"
            traces.append(points("markers", found.laps[stops], line[stops], says, marker=marker, opacity=opacity))
        low, high = sorted(limits)
        inside = np.flatnonzero(np.isfinite(line) & (line >= low) & (line <= high))
        if inside.size and (chosen or kind == "position"):
            last = int(inside[-1])
            ink = {"size": 11, "color": look.colour}
            marks.append(note(code, float(found.laps[last]), float(line[last]), xanchor="left", xshift=4, font=ink))
    shapes = [
        shape(
            "rect", (first - 0.5, last + 0.5), (0, 1), yref="paper", layer="below", fillcolor=BANDS[what], opacity=0.2
        )
        for first, last, what in found.flags
    ]
    flags = {what for *_, what in found.flags}
    told = f" Shaded: {', '.join(sorted(flags))}." if flags else " No flags."
    caption = f"Thick: {' and '.join(dict.fromkeys(codes))}. Circles: pit stops.{told}"
    alt = f"{KINDS[kind]} of {len(traces)} drivers over {len(found.laps)} laps."
    axes: Dict = {
        "xaxis": axis("lap", showgrid=False, range=[0.5, len(found.laps) + 0.5]),
        "yaxis": axis(TITLES[kind], range=list(limits)),
    }
    place: Dict = {"annotations": marks, "shapes": shapes, "margin": {"l": 8, "r": 42, "t": 8, "b": 8}}
    return figure(traces, caption, alt, 380, **axes, **place)


def lap_seconds(session: Session, found: RaceHistory) -> np.ndarray:
    """Return [D, N] lap times, NaN where not timed."""
    times = np.full((len(found.codes), len(found.laps)), np.nan)
    tables = {driver.code: driver.laps for driver in session.drivers}
    for row, code in enumerate(found.codes):
        times[row, tables[code].number - 1] = tables[code].seconds
    return times


def _range(kind: str, values: np.ndarray) -> tuple[float, float]:
    """Return the ends of the axis; the leader is at the top."""
    known = values[np.isfinite(values)]
    if kind == "position":
        return float(known.max(initial=1)) + 0.6, 0.4
    if kind == "gap":
        return min(FAR_S, float(known.max(initial=1))) + 1, -2.0
    low, middle = float(known.min(initial=np.inf)), float(np.median(known)) if known.size else 0.0
    return min(low, middle) - 0.3, SLOW * middle
