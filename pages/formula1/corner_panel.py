"""Comparison of two drivers corner by corner."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st

from datasets.f1.corners import MEASURED_IN, MEASURES, PEDAL_MEASURES, Corners, LapMeasures, lap_measures
from datasets.f1.time_won import Estimate
from gdm_core.analysis.tables import csv
from pages.formula1.comparison import Between
from pages.formula1.corner_cards import lifting, measure_corners
from pages.formula1.corner_cards import measure as measure_joined
from pages.formula1.data import Laps, Race
from pages.formula1.selection import Place
from pages.formula1.sessions import open_session
from pages.formula1.tables import table_with_csv
from pages.ui import settings, shell
from pages.ui.controls import one_of
from pages.ui.downloads import download

WORDS = {measure: measure.capitalize() for measure in MEASURES} | {
    "gear": "Lowest gear", "braking point": "Brakes (m before the corner)",
    "throttle-on point": "Back on throttle (m after the corner)",
}  # fmt: skip
SHAPES = {"gear": "%.2f", "time": "%.3f"}  # number formats other than "%.1f"


def tab(race: Race, found: Between) -> None:
    """Show one measure of both drivers per corner."""
    if "corner" not in found.gains:
        shell.empty("No corners", "This session has no corners; the note below says why.")
        return
    if (joined := measure_joined(race, found)) is not None and (words := lifting(found, joined)):
        shell.finding(words)
    measure = one_of("Measure", WORDS, "minimum speed", key="corner", as_ids=True, row=True)
    one, other = (measure_corners(race.pick.place, *side) for side in found.sides)
    table = compared(found, one, other, measure)
    shapes = dict.fromkeys(map(str, table.columns[2:6]), SHAPES.get(measure, "%.1f"))
    unit = MEASURED_IN[measure]
    with shell.panel("corners", f"{WORDS[measure]}{f', {unit}' if unit and unit != 'm' else ''}"):
        name = f"corners-{measure.replace(' ', '-')}"
        table_with_csv(table, name, race.stem, shapes=shapes, on_row=partial(_zoom, one.names))
        name = f"{race.stem}-corners-laps.csv"
        download("All measures, lap by lap (CSV)", lambda: csv(lap_by_lap([one, other])), name, key="corners-laps")
        fuel = "" if found.won.trend is None else "Differences in time are corrected for fuel. "
        shell.quiet(
            "A corner's window reaches halfway to its neighbours. Exit speed: 100 m after the corner. "
            f"{fuel}Accurate to about ±{sample_spacing(race.train)} m. Tick a corner to see its telemetry."
        )


def difference(found: Between, one: Corners, other: Corners, measure: str) -> Estimate:
    """Return the mean over lap pairs, first side minus second; the time is the delta of the whole page."""
    gain = found.gains["corner"]
    return Estimate(-gain.mean, gain.error, gain.freedom) if measure == "time" else one.difference(other, measure)


def compared(found: Between, one: Corners, other: Corners, measure: str) -> pd.DataFrame:
    """Return one row per corner: means, difference, 95% interval and significance."""
    apart = difference(found, one, other, measure)
    means = {name: side.mean(measure).mean for name, side in zip(found.names, (one, other), strict=True)}
    return pd.DataFrame(
        {"Corner": list(one.names), "Speed": list(one.kinds())}
        | means
        | {"Difference": apart.mean, "95% interval ±": apart.margin}
        | {"Significant": ["yes" if sure else "" for sure in apart.sure]}
    )


def every_difference(found: Between, one: Corners, other: Corners) -> pd.DataFrame:
    """Return one row per measure and corner."""
    parts = (compared(found, one, other, name).assign(Measure=WORDS[name], Unit=MEASURED_IN[name]) for name in MEASURES)
    return pd.concat(parts, ignore_index=True)


def _zoom(names: Sequence[str], row: int) -> None:
    """Show the corner in the telemetry."""
    if 0 <= row < len(names):  # the browser may send an outdated row
        settings.change("zoom", names[row])
        settings.change("view", None)


def sample_spacing(laps: Laps) -> int:
    """Return the median distance between samples in metres."""
    speed = laps.speed[np.isfinite(laps.speed)]
    return round(float(np.median(speed)) / 3.6 / laps.trials[0].rate_hz) if len(speed) else 0


# ---- the average lap --------------------------------------------------------------------------------------------------
@st.cache_resource(max_entries=48, show_spinner=False)
def measure_pedals(place: Place, code: str, numbers: tuple[int, ...]) -> LapMeasures:
    return lap_measures(open_session(place), code, numbers)


def show_pedals(race: Race, found: Between) -> None:
    """Show pedal shares and speeds of both drivers with their difference."""
    laps = [measure_pedals(race.pick.place, *side) for side in found.sides]
    table = pedals(found.names, *laps)
    if table.empty:
        return
    with shell.panel("pedals", "Driving style, average lap"):
        shapes = {str(name): "%.1f" for name in table if name not in ("Measure", "Unit")}
        table_with_csv(table, "pedals", race.stem, shapes=shapes)
        download("Lap by lap (CSV)", lambda: csv(lap_by_lap(laps)), f"{race.stem}-pedals-laps.csv", key="pedals-laps")
        counted = ", ".join(
            f"{name} {len(one.laps)} laps (average lap {np.mean(one.laps):.0f})"
            for name, one in zip(found.names, laps, strict=True)
        )
        shell.quiet(
            ("" if found.single else f"{counted}. ")
            + "Full throttle: 98% or more. Coasting: off both pedals. Lift and coast: metres per lap off both pedals between "
            "full throttle and braking. Speed trap: the official one."
        )


def pedals(names: tuple[str, str], one: LapMeasures, other: LapMeasures) -> pd.DataFrame:
    """Return one row per known measure: means, and the difference with its interval."""
    rows = []
    for measure, unit in PEDAL_MEASURES.items():
        apart = one.difference(other, measure)
        if np.isfinite(apart.mean):
            means = {name: float(side.mean(measure).mean) for name, side in zip(names, (one, other), strict=True)}
            row = {"Measure": measure.replace(", distance", " (by distance)").capitalize(), "Unit": unit} | means
            rows.append(row | {"Difference": float(apart.mean), "95% interval ±": float(apart.margin)})
    return pd.DataFrame(rows)


def lap_by_lap(found: Sequence[LapMeasures]) -> pd.DataFrame:
    """Return one row per driver and lap, or per driver, lap and corner."""
    units, parts = MEASURED_IN | PEDAL_MEASURES, []
    for one in found:
        names = one.names if isinstance(one, Corners) else ()
        where = {"driver": one.code, "lap": np.repeat(one.laps, max(1, len(names)))}
        corner = {"corner": list(names) * len(one.laps)} if names else {}
        values = {f"{name} ({units[name]})" if units[name] else name: each.ravel() for name, each in one.values.items()}
        parts.append(pd.DataFrame(where | corner | values))
    return pd.concat(parts, ignore_index=True)
