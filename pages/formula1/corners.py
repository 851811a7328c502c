"""Two drivers corner by corner: the tab Corners, the cards of the first view, and the average lap."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from html import escape

import numpy as np
import pandas as pd

from datasets.f1.corners import MEASURED_IN, MEASURES, PEDAL_MEASURES, Corners, LapMeasures, corners_of, lap_measures
from datasets.f1.time_won import Estimate
from gdm_core.analysis.tables import csv
from gdm_core.text import MINUS, format_signed
from pages.formula1 import time_gained
from pages.formula1.comparison import Between
from pages.formula1.data import Laps, Race
from pages.formula1.tables import table_with_csv
from pages.formula1.teams import LineStyle
from pages.ui import settings, shell
from pages.ui.controls import one_of
from pages.ui.downloads import download

measure_corners = lru_cache(maxsize=64)(corners_of)
measure_pedals = lru_cache(maxsize=48)(lap_measures)
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
    if (joined := measure_joint(race, found)) is not None and (words := lifting(found, joined)):
        shell.finding(words)
    measure = one_of("Measure", WORDS, "minimum speed", key="corner", as_ids=True, row=True)
    one, other = (measure_corners(race.session, *side) for side in found.sides)
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
def show_pedals(race: Race, found: Between) -> None:
    """Show pedal shares and speeds of both drivers with their difference."""
    laps = [measure_pedals(race.session, *side) for side in found.sides]
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


# ---- the corners that differ most, and why ------------------------------------------------------------------------------
N_CORNERS = 3
CARD_MEASURES = {
    "braking point": "Brakes, before the corner",
    "minimum speed": "Minimum speed",
    "exit speed": "Exit speed",
    "throttle-on point": "Back on throttle, after it",
}
# Sign of the difference that saves time, and its words.
REASONS = {
    "braking point": (-1, "later braking"),
    "minimum speed": (1, "a higher minimum speed"),
    "exit speed": (1, "a higher exit speed"),
    "throttle-on point": (-1, "earlier throttle"),
}


def measure_joint(race: Race, found: Between) -> tuple[Corners, Corners] | None:
    """Return both sides' points and speeds in corners, joined by braking zone; None without corners."""
    if (joint := found.gains.get("joint")) is None:
        return None
    one, other = (measure_corners(race.session, *side) for side in found.sides)
    return one.joined(found.joint, joint.names), other.joined(found.joint, joint.names)


def corners_that_matter(found: Between) -> list[int]:
    """Return the braking zones with the largest time differences, significant ones first."""
    gain = found.gains["joint"]
    return sorted(range(len(gain.names)), key=lambda part: (not gain.sure[part], -abs(float(gain.mean[part]))))[
        :N_CORNERS
    ]


def reason(found: Between, measured: tuple[Corners, Corners] | None) -> str:
    """Return the clearest reason for the largest difference; "" if none is significant."""
    most = time_gained.largest(found)
    if measured is None or most is None:
        return ""
    gain, part = most
    faster, slower = measured if gain.mean[part] > 0 else measured[::-1]
    strength = {}
    for name, (sign, words) in REASONS.items():
        apart = faster.difference(slower, name)[part]
        if apart.sure and apart.mean * sign > 0:
            strength[words] = abs(float(apart.mean)) / max(float(apart.margin), 1e-9)
    return max(strength, key=lambda words: strength[words], default="")


def lifting(found: Between, measured: tuple[Corners, Corners]) -> str:
    """Describe the clearest significant difference in lifting before a braking zone; "" without one."""
    one, other = measured
    coast, lift = (one.difference(other, name) for name in ("lift and coast", "lift point"))
    agree = coast.sure & lift.sure & (np.sign(coast.mean) == np.sign(lift.mean))
    if not agree.any():
        return ""
    part = int(np.argmax(np.where(agree, np.abs(lift.mean) / lift.margin, 0)))
    earlier = found.names[0] if lift.mean[part] > 0 else found.names[1]
    return f"{earlier} lifts {abs(lift.mean[part]):.0f} m earlier into {one.names[part]} (±{lift.margin[part]:.0f})."


def card_html(found: Between, measured: tuple[Corners, Corners], part: int, styles: Sequence[LineStyle]) -> str:
    """Return the numbers of both sides in a corner as a table."""
    one, other = measured
    gain = escape(time_gained.faster(found, found.gains["joint"], part))
    rows = []
    for name, words in CARD_MEASURES.items():
        a, b, apart = one.mean(name)[part], other.mean(name)[part], one.difference(other, name)[part]
        if not (np.isfinite(a.mean) or np.isfinite(b.mean)):
            continue
        digits = 0 if MEASURED_IN[name] == "m" else 1
        gap, spread = float(apart.mean), float(apart.margin)
        apart_words = format_signed(gap, digits) if np.isfinite(gap) else "–"
        apart_words += f" ± {spread:.{digits}f}" if np.isfinite(gap) and np.isfinite(spread) else ""
        means = (
            "".join(f"<td>{float(side.mean):.{digits}f}</td>" for side in (a, b))
            .replace("nan", "–")
            .replace("-", MINUS)
        )
        rows.append(
            f"<tr><th>{words} <small>{MEASURED_IN[name]}</small></th>{means}"
            f"<td{' class=sure' if apart.sure else ''}>{apart_words}</td></tr>"
        )
    heads = "".join(
        f'<th><i style="border-top: 3px {"solid" if style.dash == "solid" else "dashed"} {style.colour}"></i>{escape(name)}</th>'
        for name, style in zip(found.names, styles, strict=True)
    )
    return (
        f'<div role="listitem"><p><b>{escape(one.names[part])}</b> {gain}</p><table><thead><tr><td></td>{heads}'
        f"<th>difference</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
