"""All drivers: the fastest in each minisector, best and ideal laps, and lap times."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from datasets.f1.laps import best_laps, ideal_laps, is_race
from datasets.f1.time_won import FEWEST_LAPS, Minisectors, minisectors
from datasets.formula1 import Session
from gdm_studio.plot.figures.base import Figure, figure, key_above, points
from pages.formula1 import teams
from pages.formula1.circuit import Circuit
from pages.formula1.circuit_map import cursor
from pages.formula1.data import Race
from pages.formula1.map_labels import SMALLEST_MAP, lay_out
from pages.formula1.pairs import named_by_place
from pages.formula1.selection import Place
from pages.formula1.sessions import open_session
from pages.formula1.tables import table_with_csv
from pages.formula1.time_gained import draw_stretches
from pages.ui import shell
from pages.ui.plot import plot


@st.cache_resource(max_entries=4, show_spinner="Timing all drivers")
def measure_field(place: Place) -> Minisectors | None:
    session = open_session(place)
    enough = [one.code for one in session.drivers if not is_race(session) or one.laps.undisturbed.sum() >= FEWEST_LAPS]
    return minisectors(session, enough)


def show_minisectors(race: Race) -> None:
    """Show the map of the fastest drivers and their table."""
    found = measure_field(race.pick.place)
    laps = "Fastest on average, clear air (fuel and tyres corrected)" if is_race(race.session) else "Fastest, best laps"
    with shell.panel("field", laps):
        if found is None:
            shell.quiet("No official times or speeds, so minisectors are unknown.")
            return
        left, right = st.columns([0.55, 0.45], gap="small")
        with left:
            plot(draw(race.session, race.circuit, found), key="field-map", still=True, filename=f"{race.stem}-field")
        with right:
            table_with_csv(as_table(race.circuit, found), "minisectors", race.stem, seconds=["Time (s)", "Margin (s)"])


def as_table(circuit: Circuit, found: Minisectors) -> pd.DataFrame:
    """Return one row per minisector."""
    where = named_by_place(circuit, found.edges, [f"{n + 1}" for n in range(len(found.fastest))])
    fastest = np.where(found.lead.sure, np.array(found.codes)[found.fastest], "")
    begins = found.edges[:-1].round().astype(int)
    times = {"Time (s)": found.times.mean.min(axis=0), "Margin (s)": found.lead.mean}
    return pd.DataFrame({"Minisector": where, "From (m)": begins, "Fastest": fastest} | times)


def draw(session: Session, circuit: Circuit, found: Minisectors) -> Figure:
    """Draw the track in the colours of the fastest drivers."""
    styles, sure = teams.field_styles(session, found.codes), found.lead.sure
    hover = [
        f"{found.codes[row] if clear else 'nobody'}: {found.times.mean[row, part]:.3f} s<br>"
        f"{found.lead.mean[part]:.3f} ± {found.lead.margin[part]:.3f} s ahead of the next"
        f"<br>{found.edges[part]:.0f} to {found.edges[part + 1]:.0f} m"
        for part, (row, clear) in enumerate(zip(found.fastest, sure, strict=True))
    ]
    nobody = teams.LineStyle("$line", "solid")
    drawn = [styles[row] if clear else nobody for row, clear in zip(found.fastest, sure, strict=True)]
    traces = draw_stretches(circuit, found.edges, drawn, np.ones(len(sure)), hover)
    count = {found.codes[row]: int((found.fastest[sure] == row).sum()) for row in np.unique(found.fastest[sure])}
    ranked = sorted(count, key=lambda code: -count[code])
    caption = "Number of minisectors per driver. " if ranked else ""
    caption += f"Grey: nobody, the margin could be chance ({(~sure).sum()} of {len(sure)})."
    alt = f"Map of {circuit.title} coloured by the fastest driver in {len(sure)} minisectors: "
    alt += ", ".join(f"{code} {count[code]}" for code in ranked) or "nobody stands out"
    for code in ranked:
        style = styles[found.codes.index(code)]
        line = {"color": style.colour, "width": 4, "dash": style.dash}
        traces.append(points("lines", [np.nan], [np.nan], line=line, name=f"{code} {count[code]}"))
    layout = lay_out(circuit, *SMALLEST_MAP)
    place = {"annotations": layout.corner_names(circuit)} | layout.axes | key_above()
    return figure(traces, caption, alt, 440, phone_height=360, cursor=cursor(circuit), **place)


def show_lap_times(race: Race) -> None:
    """Show the lap times of all drivers."""
    with shell.panel("all-drivers", "All drivers"):
        times = ["Best lap", "Mean of clean laps"]
        table_with_csv(lap_times(race.session), "all-drivers", race.stem, times=times, seconds=["Gap"])
        slow = "" if is_race(race.session) else ", and laps over 7% slower than the best"
        shell.quiet(
            f"Raw averages; fuel and tyres differ. Clean laps: timed accurately, without in-laps, out-laps and safety cars{slow}."
        )


def lap_times(session: Session) -> pd.DataFrame:
    """Return one row per driver by best lap; times are in seconds."""
    rows = []
    for driver in session.drivers:
        laps = driver.laps
        timed, clean = laps.seconds[laps.timed], laps.seconds[laps.undisturbed if is_race(session) else laps.quick]
        best, mean = (float(each(laps)) if laps.size else np.nan for each, laps in ((np.min, timed), (np.mean, clean)))
        who = {"Driver": driver.code, "Team": driver.team}
        rows.append(who | {"Best lap": best, "Mean of clean laps": mean, "Clean laps": int(clean.size)})
    table = pd.DataFrame(rows).sort_values("Best lap", kind="stable", na_position="last", ignore_index=True)
    table.insert(3, "Gap", table["Best lap"] - table["Best lap"].min())
    return table


def show_best_laps(race: Race) -> None:
    """Show the best laps and the ideal laps of all drivers."""
    if not best_laps(race.session):
        shell.empty("No timed laps", "No times were set in this session. Choose another one.")
        return
    with shell.panel("best-laps", "Best laps"):
        seconds = ["Gap", "Sector 1", "Sector 2", "Sector 3"]
        table_with_csv(best_table(race.session), "best-laps", race.stem, times=["Time"], seconds=seconds)
    with shell.panel("ideal-laps", "Theoretical best (completed sectors)"):
        table = ideal_table(race.session)
        table_with_csv(table, "ideal-laps", race.stem, times=["Best", "Ideal"], seconds=["Gap to ideal"])


def best_table(session: Session) -> pd.DataFrame:
    """Return one row per driver and part of the session, the last part first."""
    laps = best_laps(session)
    fastest = {part: min(one.seconds for one in laps if one.part == part) for part in {one.part for one in laps}}
    return pd.DataFrame(
        {
            "Driver": one.code, "Part": one.part or "session", "Lap": one.number, "Time": one.seconds,
            "Gap": one.seconds - fastest[one.part], "Sector 1": one.sectors[0], "Sector 2": one.sectors[1],
            "Sector 3": one.sectors[2],
        }
        for one in sorted(laps, key=lambda one: one.part, reverse=True)
    )  # fmt: skip


def ideal_table(session: Session) -> pd.DataFrame:
    """Return one row per driver: the best sectors combined."""
    return pd.DataFrame(
        {
            "Driver": one.code, "Best": one.best, "Ideal": one.ideal, "Gap to ideal": one.best - one.ideal,
            "Laps": ", ".join(map(str, one.laps)),
        }
        for one in ideal_laps(session)
    )  # fmt: skip
