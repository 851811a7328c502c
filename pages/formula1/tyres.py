"""Long runs: tyre degradation, consistency, and the strategies of all drivers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import streamlit as st

from datasets.f1.long_runs import LongRun, explain_no_runs, fuel_effect, runs
from datasets.formula1 import Session, stints
from gdm_core.errors import GdmError
from gdm_studio.plot.figures.base import Dict, Figure, axis, figure, key_above, note, points
from pages.formula1 import data, teams, weekend
from pages.formula1.data import Place, Race
from pages.formula1.tables import table_with_csv
from pages.ui import settings, shell
from pages.ui.controls import number as choose_number
from pages.ui.controls import whole
from pages.ui.plot import plot

if TYPE_CHECKING:
    import altair as alt

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
        chart, caption = strategy(session)
        st.altair_chart(chart, key="strategy")
        shell.quiet(caption)


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


def strategy(session: Session) -> tuple[alt.LayerChart | alt.FacetChart, str]:
    """Return a chart of all stints with safety-car laps, and its caption."""
    import altair as alt  # slow import, needed in this tab only

    drivers = [driver for driver in session.drivers if len(driver.laps)]
    codes = [driver.code for driver in drivers]
    rows = [
        {
            "driver": driver.code, "first": stint.first - 0.5, "end": stint.last + 0.5, "letter": (stint.compound or "?")[0],
            "tyres": (stint.compound or "unknown").capitalize(), "laps": f"{stint.first} to {stint.last}",
        }
        for driver in drivers for stint in stints(driver.laps)
    ]  # fmt: skip
    slow, wet = _neutralised(session), _in_rain(session)
    kinds = [
        name.capitalize() for name in (*COMPOUNDS, "unknown") if name.capitalize() in {row["tyres"] for row in rows}
    ]
    colours = [COMPOUNDS.get(kind.upper(), OTHER) for kind in kinds]
    x = alt.X("first:Q", title="lap", scale=alt.Scale(nice=False, zero=False), axis=alt.Axis(grid=False, tickMinStep=1))
    y = alt.Y(
        "driver:N",
        sort=codes,
        title=None,
        axis=alt.Axis(ticks=False, domain=False, labelOverlap=False, labelFlush=False),
    )
    shown = alt.Chart(pd.DataFrame(rows, columns=["driver", "first", "end", "letter", "tyres", "laps"]))
    layers = [
        shown.mark_bar(height={"band": 0.78}, cornerRadius=2).encode(
            x=x, x2="end:Q", y=y, tooltip=["driver", "tyres", "laps"],
            color=alt.Color("tyres:N", title=None, scale=alt.Scale(domain=kinds, range=colours), legend=alt.Legend(orient="top")),
        ),
        # Letters repeat what colours show.
        shown.mark_text(align="left", dx=4, color="#10131a", fontSize=11, fontWeight="bold").encode(x=x, y=y, text="letter:N"),
    ]  # fmt: skip
    for colour, laps in (("#808696", slow), (weekend.BANDS["rain"], wet)):
        if laps:  # an empty layer would have no accessible name
            spans = alt.Chart(pd.DataFrame({"first": [lap - 0.5 for lap in laps], "end": [lap + 0.5 for lap in laps]}))
            layers.append(spans.mark_rect(color=colour, opacity=0.35).encode(x="first:Q", x2="end:Q"))
    chart = alt.layer(*layers)
    told = (f"Shaded: laps under a safety car or red flag ({len(slow)})." if slow else "No SC/VSC.") + (
        f" Blue: rain on the winner's laps {wet[0]} to {wet[-1]}." if wet else ""
    )
    return chart.properties(height=60 + 22 * len(codes)).configure(
        background="transparent"
    ), f"One bar per set of tyres; drivers in finishing order. {told} {weekend.conditions(session)}"


def _in_rain(session: Session) -> list[int]:
    """Return the first driver's laps in rain."""
    laps = next(driver.laps for driver in session.drivers if len(driver.laps))
    rain = [spell for spell in session.spells if spell.what == "rain"]
    wet = [
        any(one.start < end and one.end > start for one in rain)
        for start, end in zip(laps.start, laps.end, strict=True)
    ]
    return [int(lap) for lap in laps.number[np.array(wet, bool)]]


def _neutralised(session: Session) -> list[int]:
    """Return the laps that a safety car or red flag disturbed for most drivers."""
    every = [pd.Series(driver.laps.neutralised, driver.laps.number, dtype=float) for driver in session.drivers]
    share = pd.concat(every).groupby(level=0).mean()
    return [int(lap) for lap in share.index[share > 0.5]]
