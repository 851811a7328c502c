"""Telemetry of two drivers along the lap: speed, pedals, gear, DRS and cumulative delta."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from datasets.f1.corners import LapSamples, lap_samples
from datasets.f1.session import STEPPED
from datasets.formula1 import UNITS, Session, TimeWon
from gdm_core.maths.gaps import known_mean
from gdm_studio.plot.figures.base import (
    SMALL,
    TIME_MARGIN,
    Dict,
    Figure,
    axis,
    figure,
    note,
    points,
    shape,
    time_cursor,
)
from pages.formula1.circuit import Circuit, Floats
from pages.formula1.teams import LineStyle

STEP_M = 10.0
DELTA = "delta"
# Heights in pixels.
PANELS = {"speed": 190, "throttle": 65, "brake": 40, "drs": 34, DELTA: 100, "gear": 70, "rpm": 70}
FIRST_CHANNELS = ("speed", "throttle", "brake", "drs", DELTA)
GAP_PX = 12
WIDTHS = ((0, 450.0, 5), (520, 0.0, 12))  # least width in pixels, metres between corner names, ticks
UNITS_SHOWN = {"speed": "km/h", "throttle": "%", DELTA: "s"}
BEFORE_M, AFTER_M = 300.0, 250.0  # range around a corner in metres
Span = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Trace:
    """Channels at D distances: raw samples of a lap, or the mean of laps on an even grid.

    name  for the legend, such as "LEC lap 20"
    """

    name: str
    code: str
    distance: Floats  # [D] metres
    car: Mapping[str, Floats]  # each [D]


@dataclass(frozen=True, eq=False)
class Delta:
    """Seconds by which the second driver is behind at D distances, and half the width of their 95% intervals."""

    distance: Floats
    behind: npt.NDArray[np.float64]
    margin: npt.NDArray[np.float64]


def grid(circuit: Circuit) -> Floats:
    return np.arange(0, circuit.length, STEP_M).astype(np.float32)


def trace(circuit: Circuit, session: Session, code: str, numbers: Iterable[int], name: str) -> Trace | None:
    """Return the samples of a lap as the feed sent them, or the mean of several laps; None without samples."""
    found = list(lap_samples(session, code, numbers).values())
    if not found:
        return None
    if len(found) == 1:
        (lap,) = found
        values = {channel: sent[lap.inside].astype(np.float32) for channel, sent in lap.channels.items()}
        return Trace(name, code, lap.distance[lap.inside].astype(np.float32), values)
    along = grid(circuit)
    known = {channel: np.stack([_on_grid(lap, channel, along) for lap in found]) for channel in found[0].channels}
    return Trace(name, code, along, {channel: known_mean(each).astype(np.float32) for channel, each in known.items()})


def _on_grid(lap: LapSamples, channel: str, along: Floats) -> npt.NDArray[np.float64]:
    """Return a channel of a lap on the grid: interpolated, or held until the next sample."""
    known = np.isfinite(lap.channels[channel])
    distance, values = lap.distance[known], lap.channels[channel][known]
    if len(values) < 2:
        return np.full(len(along), np.nan)
    if channel in STEPPED:
        return values[np.clip(np.searchsorted(distance, along, side="right") - 1, 0, None)]
    return np.interp(along, distance, values)


def delta_of_pairs(circuit: Circuit, won: TimeWon) -> Delta:
    """Return the mean cumulative delta over lap pairs on the grid."""
    found = won.sum_parts(np.triu(np.ones((len(won.edges) - 1,) * 2)))
    along = grid(circuit)
    behind, margin = (
        np.interp(along / circuit.length, won.edges, np.append(0.0, one)) for one in (found.mean, found.margin)
    )
    return Delta(along, behind, margin)


def as_table(traces: Sequence[Trace]) -> pd.DataFrame:
    """Return one row per driver and distance."""
    parts = (
        pd.DataFrame({"driver": one.code, "lap": one.name, "distance_m": one.distance} | dict(one.car))
        for one in traces
    )
    return pd.concat(parts, ignore_index=True)


# ---- the figure -------------------------------------------------------------------------------------------------------
def draw(
    circuit: Circuit,
    laps: Sequence[Trace],
    styles: Sequence[LineStyle],
    delta: Delta | None,
    channels: Sequence[str] = FIRST_CHANNELS,
    zoom: tuple[float, float] | None = None,
) -> Figure:
    """Draw both laps over distance, one panel per channel, with the delta of the second lap."""
    open_drs = [_open_spans(one) for one in laps]
    known = [name for name in channels if _is_known(name, laps, delta, open_drs)]
    total = sum(PANELS[name] + GAP_PX for name in known) - GAP_PX
    traces: list[Dict] = []
    axes: Dict = {}
    marks: list[Dict] = []
    shapes: list[Dict] = [
        shape("line", (at, at), (0, 1), yref="paper", layer="below", line={"color": "$grid", "width": 1})
        for at, _ in circuit.ticks
    ]
    top = 1.0
    for number, channel in enumerate(known, start=1):
        suffix = "" if number == 1 else str(number)
        bottom = max(0.0, top - PANELS[channel] / total)
        panel, low_high = _panel(channel, laps, styles, delta, open_drs, f"y{suffix}")
        traces += panel
        axes[f"yaxis{suffix}"] = axis(
            domain=[bottom, top], fixedrange=True, showgrid=channel != "drs", automargin=False, nticks=4, **low_high
        )
        called = channel.upper() if channel == "drs" else channel
        unit = f", {UNITS_SHOWN[channel]}" if channel in UNITS_SHOWN else ""
        marks.append(
            note(
                f"{called}{unit}", 0, (bottom + top) / 2, xref="paper", yref="paper", xanchor="center", yanchor="middle",
                xshift=-54, textangle=0 if channel == "drs" else -90, font=SMALL,
            )
        )  # fmt: skip
        if channel == DELTA:
            ahead = {"xref": "paper", "yref": "paper", "xanchor": "left", "xshift": 4}
            above, below = (f"▲ {laps[0].code} ahead", f"▼ {laps[1].code} ahead")
            for text, y, anchor, style in ((above, top, "top", styles[0]), (below, bottom, "bottom", styles[1])):
                marks.append(note(text, 0, y, yanchor=anchor, font={"size": 11, "color": style.colour}, **ahead))
        top = bottom - GAP_PX / total
    lowest = f"y{'' if len(known) == 1 else len(known)}"
    across = axis(
        "distance (m)", showgrid=False, range=list(zoom or (0, circuit.length)), anchor=lowest, tickformat=",d"
    )
    names = " and ".join(f"{one.name} ({style.dash})" for one, style in zip(laps, styles, strict=True))
    caption = f"{names} over distance."
    if DELTA in known:
        caption += f" Gap to {laps[1].code}: up = {laps[0].code} gaining. Band: 95% interval."
    if "drs" in channels and "drs" not in known:
        caption += " No DRS on these laps." if any("drs" in one.car for one in laps) else " No DRS data."
    sizes: list[Dict] = []
    for least, apart, n_ticks in WIDTHS:
        layout = {"xaxis": across | {"nticks": n_ticks}, "annotations": [*marks, *_corner_names(circuit, apart)]}
        sizes.append({"least": least, "height": 56 + total, "layout": layout})
    place: Dict = {"shapes": shapes, "margin": TIME_MARGIN | {"t": 20, "b": 34}}
    made = figure(
        traces, caption, _alt(known, laps), 56 + total, cursor=time_cursor(), **axes, **place, **sizes[-1]["layout"]
    )
    return {**made, "widths": sizes}


def _corner_names(circuit: Circuit, apart: float) -> list[Dict]:
    """Return the names of corners above the panels, at least `apart` metres from each other."""
    marks: list[Dict] = []
    for at, name in circuit.ticks:
        if not marks or at - marks[-1]["x"] >= apart:
            marks.append(note(name, at, 1, yref="paper", yanchor="bottom", font=SMALL, yshift=1))
    return marks


def _is_known(name: str, laps: Sequence[Trace], delta: Delta | None, open_drs: Sequence[Sequence[Span]]) -> bool:
    if name == DELTA:
        return delta is not None
    if name == "drs":
        return any(open_drs)
    return any(name in one.car and np.isfinite(one.car[name]).any() for one in laps)


def _panel(
    channel: str,
    laps: Sequence[Trace],
    styles: Sequence[LineStyle],
    delta: Delta | None,
    open_drs: Sequence[Sequence[Span]],
    y: str,
) -> tuple[list[Dict], Dict]:
    """Return the traces of a panel and the options of its axis."""
    if channel == DELTA and delta is not None:
        return _delta_traces(laps, styles, delta, y)
    traces = []
    if channel == "drs":
        for row, (one, spans, style) in enumerate(zip(laps, open_drs, styles, strict=True)):
            at = [value for start, end in spans for value in (start, end, np.nan)]
            line = {"color": style.colour, "width": 7, "dash": "6px,2px" if style.dash != "solid" else "solid"}
            hover = f"{one.name}<br>DRS open at %{{x:.0f}} m"
            traces.append(points("lines", at, [-row] * len(at), hover, line=line, yaxis=y, connectgaps=False))
        return traces, {"range": [-1.6, 0.6], "showticklabels": False}
    values = [one.car.get(channel, np.full(len(one.distance), np.nan, np.float32)) for one in laps]
    unit = UNITS.get(channel, "")
    for one, known, style in zip(laps, values, styles, strict=True):
        hover = f"%{{x:.0f}} m · {one.name}<br>{channel} %{{y:.4~g}} {unit}"
        line = {
            "color": style.colour,
            "width": 2,
            "dash": style.dash,
            "shape": "hv" if channel in STEPPED else "linear",
        }
        traces.append(points("lines", one.distance, known, hover, yaxis=y, line=line))
    more: Dict = {"tickvals": [0, 1], "ticktext": ["off", "on"]} if channel == "brake" else {}
    return traces, more | {"range": list(_range(channel, values))}


def _delta_traces(laps: Sequence[Trace], styles: Sequence[LineStyle], delta: Delta, y: str) -> tuple[list[Dict], Dict]:
    at, wide = delta.distance, delta.margin
    traces = [
        points("lines", at, delta.behind + side, yaxis=y, line={"width": 0}, **fill)
        for side, fill in ((-wide, {}), (wide, {"fill": "tonexty", "fillcolor": "$band"}))
    ]
    hover = f"%{{x:.0f}} m<br>{laps[1].code} − {laps[0].code} %{{y:+.3f}} s"
    traces.append(points("lines", at, delta.behind, hover, yaxis=y, line={"color": "$ink", "width": 2}))
    reach = 1.08 * max(0.02, float(np.nanmax(np.abs(delta.behind) + wide)))
    low, high = float((delta.behind - wide).min()), float((delta.behind + wide).max())
    room = 0.3 * (high - low) or reach
    span = [min(low - room, -room), max(high + room, room)]
    return traces, {"range": span, "zeroline": True, "zerolinecolor": "$line"}


def _open_spans(one: Trace) -> list[Span]:
    """Return the ranges in metres in which DRS is open, on at least half of the laps."""
    if "drs" not in one.car:
        return []
    is_open = np.concatenate([[False], one.car["drs"] >= 0.5, [False]]).astype(np.int8)
    at, change = np.append(one.distance, one.distance[-1:]).astype(float), np.diff(is_open)
    return list(zip(at[change > 0].tolist(), at[change < 0].tolist(), strict=True))


def _range(channel: str, values: Sequence[Floats]) -> tuple[float, float]:
    """Return the axis range of a channel."""
    fixed = {"throttle": (-4.0, 104.0), "brake": (-0.15, 1.15), "gear": (0.5, 8.5)}
    if channel in fixed:
        return fixed[channel]
    known = np.concatenate([one[np.isfinite(one)] for one in values])
    low, high = float(known.min()), float(known.max())
    room = 0.06 * max(high - low, 0.1)
    return low - room, high + room


def _alt(channels: Sequence[str], laps: Sequence[Trace]) -> str:
    parts = []
    for one in laps:
        speed = one.car.get("speed", np.zeros(0))
        known = speed[np.isfinite(speed)]
        if len(known):
            parts.append(f"{one.name}: {known.min():.0f} to {known.max():.0f} km/h")
    return f"{', '.join(channels)} along the lap. {'; '.join(parts)}."


# ---- zoom -------------------------------------------------------------------------------------------------------------
def zooms(circuit: Circuit) -> dict[str, tuple[float, float]]:
    """Return the range in metres around each corner."""
    return {
        f"T{name}": (max(0.0, at - BEFORE_M), min(circuit.length, at + AFTER_M))
        for name, _, _, at, _ in circuit.corners
    }


def corner_at(circuit: Circuit, point: Mapping[str, object] | None) -> str:
    """Return the corner nearest to a clicked point of the map; "" if there is none."""
    x, y = (None, None) if point is None else (point.get("x"), point.get("y"))
    if not (isinstance(x, int | float) and isinstance(y, int | float) and circuit.corners):
        return ""
    place = int(np.argmin(np.linalg.norm(circuit.line - np.array([x, y]), axis=1)))
    at = place / (len(circuit.line) - 1) * circuit.length
    return f"T{circuit.corners[int(circuit.nearest_corner(at))][0]}"
