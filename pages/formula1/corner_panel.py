"""Comparison of two drivers corner by corner."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st

from datasets.f1.corners import MEASURED_IN, MEASURES, PEDAL_MEASURES, Corners, LapMeasures, corners_of
from datasets.f1.traffic import describe_traffic, laps_to_compare
from gdm_core.analysis.tables import csv
from pages.formula1 import data
from pages.formula1.controls import Observation
from pages.formula1.data import Laps, Place, Race
from pages.formula1.tables import table_with_csv
from pages.ui import settings, shell
from pages.ui.controls import one_of
from pages.ui.downloads import download

WORDS = {measure: measure.capitalize() for measure in MEASURES} | {"gear": "Lowest gear"}
SHAPES = {"gear": "%.2f", "time": "%.3f"}  # number formats other than "%.1f"


@st.cache_resource(max_entries=48, show_spinner=False)
def corners(place: Place, code: str, looked: Observation) -> Corners:
    session = data.open_session(place)
    driven = np.unique(data.laps_of(place, code, looked).lap).tolist()
    return corners_of(session, code, laps_to_compare(session, code, driven))


def tab(race: Race) -> None:
    """Show one measure of both drivers per corner."""
    place, looked, session = race.pick.place, race.pick.looked, race.session
    if len(session.corners) < 2:
        shell.empty("No corners", "Corners need a corner table; the note on this session says how to add one.")
        return
    codes = list(dict.fromkeys(race.codes))
    measure = one_of("Measure", WORDS, "minimum speed", key="corner", as_ids=True, row=True)
    found = [corners(place, code, looked) for code in codes]
    table = compared(found, measure)
    shapes = {name: SHAPES.get(measure, "%.1f") for name in (*codes, "Difference", "95% CI ±") if name in table}
    title, unit = f"{WORDS[measure]} in each corner", MEASURED_IN[measure]
    with shell.panel("corners", f"{title}, {unit}" if unit else title):
        name = f"corners-{measure.replace(' ', '-')}"
        table_with_csv(table, name, race.stem, shapes=shapes, on_row=partial(_zoom, found[0].names))
        name = f"{race.stem}-corners-laps.csv"
        download("All measures, lap by lap (CSV)", lambda: csv(every(found)), name, key="corners-laps")
        if len(codes) == 2:
            shell.quiet(describe_differences(found, measure))
        shell.quiet(
            "Corner window: midpoint to midpoint between corners. Braking point: metres before the corner that the braking zone "
            "serves. Throttle-on point: metres after the corner. Exit speed: 100 m after it. "
            f"Resolution ±{looked_step(race.train)} m. Select a row to zoom the telemetry."
        )
        for code in codes:
            if said := describe_traffic(session, code, np.unique(data.laps_of(place, code, looked).lap).tolist()):
                shell.quiet(said)


def show_pedals(race: Race) -> None:
    """Show pedal shares and speeds of both drivers with their difference."""
    found = [data.measures_of(race.pick.place, code, race.pick.looked) for code in dict.fromkeys(race.codes)]
    table = pedals(found)
    if table.empty:
        return
    with shell.panel("pedals", "Pedals and speeds, mean per lap"):
        shapes = {str(name): "%.1f" for name in table if name not in ("Measure", "Unit")}
        table_with_csv(table, "pedals", race.stem, shapes=shapes)
        download("Lap by lap (CSV)", lambda: csv(lap_by_lap(found)), f"{race.stem}-pedals-laps.csv", key="pedals-laps")
        shell.quiet(
            "Full throttle: 98% or more. Coasting: off both pedals. Lift and coast: metres per lap off both pedals between "
            "full throttle and braking. Speed trap: the official one. ± 95% CI over laps."
        )


def pedals(found: Sequence[LapMeasures]) -> pd.DataFrame:
    """Return one row per known measure: means with intervals, and the difference of two drivers."""
    rows = []
    for measure, unit in PEDAL_MEASURES.items():
        means = [one.mean(measure) for one in found]
        if not any(np.isfinite(one.mean) for one in means):
            continue
        row: dict[str, object] = {"Measure": measure.capitalize(), "Unit": unit}
        for one, mean in zip(found, means, strict=True):
            row |= {one.code: float(mean.mean), f"{one.code} ±": float(mean.margin)}
        if len(means) == 2:
            apart = means[0] - means[1]
            row |= {"Difference": float(apart.mean), "95% CI ±": float(apart.margin)}
        rows.append(row)
    return pd.DataFrame(rows)


def lap_by_lap(found: Sequence[LapMeasures]) -> pd.DataFrame:
    """Return one row per driver and lap."""
    units = PEDAL_MEASURES.items()
    parts = [
        pd.DataFrame({"driver": one.code, "lap": one.laps} | {f"{m} ({unit})": one.values[m] for m, unit in units})
        for one in found
    ]
    return pd.concat(parts, ignore_index=True)


def _zoom(names: Sequence[str], row: int) -> None:
    """Show the corner in the telemetry."""
    if 0 <= row < len(names):  # the browser may send an outdated row
        settings.change("zoom", names[row])
        settings.change("view", None)


def looked_step(laps: Laps) -> int:
    """Return the median distance between samples in metres."""
    speed = laps.speed[np.isfinite(laps.speed)]
    return round(float(np.median(speed)) / 3.6 / laps.trials[0].rate_hz) if len(speed) else 0


def compared(found: list[Corners], measure: str) -> pd.DataFrame:
    """Return one row per corner: means, difference, 95% interval and significance."""
    columns: dict[str, object] = {"Corner": list(found[0].names), "Speed": list(found[0].kinds())}
    for one in found:
        columns[one.code] = one.mean(measure).mean
    if len(found) == 2:
        apart = found[0].mean(measure) - found[1].mean(measure)
        columns |= {
            "Difference": apart.mean,
            "95% CI ±": apart.margin,
            "Significant": ["yes" if sure else "" for sure in apart.sure],
        }
    return pd.DataFrame(columns)


def describe_differences(found: list[Corners], measure: str) -> str:
    """Describe the significant differences in one sentence."""
    one, other = found
    apart = one.mean(measure) - other.mean(measure)
    sure = [c for c in np.argsort(-np.abs(np.nan_to_num(apart.mean))) if apart.sure[c]]
    unit = MEASURED_IN[measure]
    if not sure:
        return f"No corner differs significantly between {one.code} and {other.code} (95% intervals include zero)."
    listed = ", ".join(f"{one.names[c]} {apart.mean[c]:+.2f} ± {apart.margin[c]:.2f} {unit}".rstrip() for c in sure[:4])
    return (
        f"{one.code} − {other.code}, significant in {len(sure)} of {len(one.names)} corners: {listed}. "
        f"From {len(one.laps)} and {len(other.laps)} laps."
    )


def every(found: list[Corners]) -> pd.DataFrame:
    """Return one row per driver, lap and corner."""
    parts = [
        pd.DataFrame(
            {"driver": one.code, "lap": np.repeat(one.laps, len(one.names)), "corner": list(one.names) * len(one.laps)}
            | {f"{m} ({MEASURED_IN[m]})" if MEASURED_IN[m] else m: one.values[m].ravel() for m in MEASURES}
        )
        for one in found
    ]
    return pd.concat(parts, ignore_index=True)
