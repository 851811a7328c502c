"""Long runs: tyre degradation, consistency, and the strategies of all drivers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from datasets.f1.long_runs import LongRun, explain_no_runs, fuel_effect, runs
from datasets.f1.traffic import RaceHistory
from datasets.formula1 import Session, stints
from gdm_core.errors import GdmError
from gdm_studio.plot.figures.base import Dict, Figure, axis, figure, key_above, note, points
from pages.formula1 import data, teams, weekend
from pages.formula1.data import Place, Race
from pages.formula1.history import open_history, shade_flags
from pages.formula1.tables import table_with_csv
from pages.ui import settings, shell
from pages.ui.controls import number as choose_number
from pages.ui.controls import whole
from pages.ui.plot import plot

COMPOUNDS = {"SOFT": "#d8434e", "MEDIUM": "#c99a06", "HARD": "#8b93a7", "INTERMEDIATE": "#2f9e62", "WET": "#3173c9"}
OTHER = "#a06bb0"
LEFT_OUT = "$faint"
EXCLUDED, APART = "not-counted", "~"  # URL parameter: driver and lap of each excluded lap


@st.cache_resource(max_entries=64, show_spinner=False)
def driver_runs(place: Place, code: str, fuel: float, excluded: tuple[int, ...]) -> tuple[LongRun, ...]:
    return runs(data.open_session(place), code, fuel, excluded)


def excluded_laps() -> dict[str, tuple[int, ...]]:
    """Return the laps that the user excluded, by driver code."""
    found: dict[str, tuple[int, ...]] = {}
    for one in (settings.text(EXCLUDED) or "").split(APART):
        code, _, lap = one.partition("-")
        if (number := whole(lap)) is not None:
            found[code] = (*found.get(code, ()), number)
    return found


def toggle_lap(found: Sequence[LongRun], point: Mapping[str, Any] | None) -> None:
    """Exclude a clicked lap, or include it again, before the page reruns."""
    custom = (point or {}).get("customdata")
    known = {(run.code, int(lap)) for run in found for lap in run.laps}
    asked = (str(custom[0]), whole(str(custom[1]))) if isinstance(custom, Sequence) and len(custom) == 2 else None
    if asked not in known:  # a browser may send anything
        return
    laps = {(code, lap) for code, laps in excluded_laps().items() for lap in laps} ^ {asked}
    settings.change(EXCLUDED, APART.join(f"{code}-{lap}" for code, lap in sorted(laps)) or None)


def tab(race: Race) -> None:
    """Show lap time against tyre age, all drivers' runs, and the strategies."""
    place, session = race.pick.place, race.session
    usual, source = fuel_effect(session)
    fuel = choose_number(
        "Fuel correction (s/lap)", 0.0, 0.2, round(usual, 3), key="fuel", of=settings.scope("fuel", place),
        step=0.005, format="%.3f", help=f"Lap time gained per lap of burnt fuel. {usual:.3f} s: {source}.",
    )  # fmt: skip
    codes = list(dict.fromkeys(race.codes))
    excluded = excluded_laps()
    settings.keep(EXCLUDED, settings.text(EXCLUDED))
    found = [run for code in codes for run in driver_runs(place, code, fuel, excluded.get(code, ()))]
    if found:
        with shell.panel("runs", "Lap time against tyre age, fuel-corrected"):
            plot(against_age(session, found), key="runs", clicked=partial(toggle_lap, found))
    with shell.panel("all-runs", "Long runs"):
        table = runs_table(place, session, fuel, excluded)
        if len(table):
            table_with_csv(
                table,
                "long-runs",
                race.stem,
                seconds=[name for name in map(str, table) if name.endswith(("s)", "/lap)", "±"))],
            )
            told = source if fuel == round(usual, 3) else "as set"
            shell.quiet(
                f"Deg: tyre degradation, corrected for fuel by {fuel:.3f} s/lap ({told}). "
                "Consistency: standard deviation of the residuals. Runs: consecutive green laps on one set of tyres; laps over "
                "7% slower than its best end a run."
            )
        else:
            shell.quiet(explain_no_runs(session))
    with shell.panel("strategy", "Tyre strategy"):
        made = strategy(session, open_history(place))
        plot(made, key="strategy", still=True, filename=f"{race.stem}-strategy")


def against_age(session: Session, found: list[LongRun]) -> Figure:
    """Draw lap times against tyre age with a line per run."""
    traces: list[Dict] = []
    marks: list[Dict] = []
    codes = list(dict.fromkeys(run.code for run in found))
    looks = dict(zip(codes, teams.looks(session, codes), strict=True))
    for run in found:
        look = looks[run.code]
        middle = run.corrected_mean, float(run.age[run.counts].mean())
        ends = np.array([run.age.min(), run.age.max()])
        fit = middle[0] + run.slope.mean * (ends - middle[1])
        said = f"{run.code} stint {run.stint}, {run.compound.lower()}"
        short = f"{run.compound[:1]}{run.stint}"
        grows = f"{run.code} {run.compound.lower()} ({short}) {1000 * run.slope.mean:+.0f} ± {1000 * run.slope.margin:.0f} ms/lap"
        symbol = "circle" if look.dash == "solid" else "diamond-open"
        traces += [
            points("markers", run.age, run.adjusted, f"{said}, lap %{{customdata[1]}}<br>%{{y:.3f}} s, tyre age %{{x}} laps",
                   showlegend=False, customdata=[[run.code, int(lap)] for lap in run.laps],
                   marker={"color": np.where(run.counts, look.colour, LEFT_OUT).tolist(), "size": 6,
                           "symbol": np.where(run.counts, symbol, "x-thin-open").tolist()}),
            points("lines", ends, fit, line={"color": look.colour, "width": 2, "dash": look.dash}, name=grows),
        ]  # fmt: skip
        marks.append(note(short, float(ends[1]), float(fit[1]), xanchor="left", xshift=5, font={"color": look.colour}))
    axes: Dict = {"xaxis": axis("tyre age (laps)"), "yaxis": axis("lap time (s)")}
    caption = (
        "Green laps, corrected to the fuel of each run's first lap. Slope: tyre degradation (ms/lap, 95% CI). Crosses: outliers "
        "and excluded laps. Click a lap to exclude it, or to include it again."
    )
    told = "; ".join(f"{run.code} {run.compound.lower()} {1000 * run.slope.mean:+.0f} ms/lap" for run in found)
    alt = f"Lap times of {len(found)} long runs against tyre age: {told}."
    return figure(traces, caption, alt, 340, annotations=marks, **axes, **key_above())


def runs_table(
    place: Place, session: Session, fuel: float, excluded: Mapping[str, tuple[int, ...]] = MappingProxyType({})
) -> pd.DataFrame:
    """Return one row per long run of every driver."""
    rows = []
    for driver in session.drivers:
        try:
            found = driver_runs(place, driver.code, fuel, excluded.get(driver.code, ()))
        except GdmError:  # drivers without positions appear in the strategy chart only
            continue
        rows += [
            {
                "Driver": run.code, "Team": driver.team, "Stint": run.stint, "Compound": run.compound.capitalize(),
                "Laps": f"{run.laps[0]} to {run.laps[-1]}", "Counted": int(run.counts.sum()),
                "Mean, raw (s)": run.raw_mean, "Mean, fuel-corrected (s)": run.corrected_mean, "Deg (s/lap)": float(run.slope.mean),
                "95% CI ±": float(run.slope.margin), "Consistency (SD, s)": run.scatter,
            }
            for run in found
        ]  # fmt: skip
    return pd.DataFrame(rows)


def strategy(session: Session, found: RaceHistory) -> Figure:
    """Draw a bar for each set of tyres of every driver, with flags as shaded laps."""
    drivers = [driver for driver in session.drivers if len(driver.laps)]
    sets = [(row, driver.code, stint) for row, driver in enumerate(drivers) for stint in stints(driver.laps)]
    traces: list[Dict] = []
    for compound in (*COMPOUNDS, ""):
        shown = [one for one in sets if (one[2].compound if one[2].compound in COMPOUNDS else "") == compound]
        if not shown:
            continue
        name, laps = compound.capitalize() or "Unknown", [stint for _, _, stint in shown]
        traces.append(
            {
                "type": "bar", "orientation": "h", "name": name, "y": [row for row, _, _ in shown],
                "base": [one.first - 0.5 for one in laps], "x": [one.last - one.first + 1 for one in laps],
                # Letters repeat what colours show.
                "text": compound[:1] or "?", "textposition": "inside", "insidetextanchor": "start", "textangle": 0,
                "textfont": {"color": "#10131a"}, "marker": {"color": COMPOUNDS.get(compound, OTHER)},
                "customdata": [f"{code} {name.lower()}, laps {one.first} to {one.last}" for _, code, one in shown],
                "hovertemplate": "%{customdata}<extra></extra>",
            }
        )  # fmt: skip
    rows: Dict = {"tickvals": list(range(len(drivers))), "ticktext": [driver.code for driver in drivers]}
    axes: Dict = {
        "xaxis": axis("lap", showgrid=False, range=[0.5, len(found.laps) + 0.5]),
        "yaxis": axis(**rows, showgrid=False, fixedrange=True, range=[len(drivers) - 0.5, -0.5]),
    }
    clear = "" if any(driver.laps.neutralised.any() for driver in drivers) else " No SC/VSC."
    caption = f"One bar per set of tyres; drivers in finishing order.{clear} {weekend.conditions(session)}"
    alt = f"{len(sets)} sets of tyres of {len(drivers)} drivers over {len(found.laps)} laps."
    place: Dict = {"barmode": "overlay", "bargap": 0.22, "shapes": shade_flags(found)}
    return figure(traces, caption.strip(), alt, 70 + 22 * len(drivers), **axes, **place, **key_above())
