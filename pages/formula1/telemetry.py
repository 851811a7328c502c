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
RANGES = {"throttle": (-4.0, 104.0), "brake": (-0.15, 1.15), "gear": (0.5, 8.5)}  # of axes
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
    zoom: Span | None = None,
) -> Figure:
    """Draw both laps over distance, one panel per known channel, with the delta of the second lap."""
    made = {channel: _panel(channel, laps, styles, delta) for channel in channels}
    panels = {channel: panel for channel, panel in made.items() if panel is not None}
    total = sum(PANELS[channel] + GAP_PX for channel in panels) - GAP_PX
    traces: list[Dict] = []
    axes: Dict = {}
    marks: list[Dict] = []
    top = 1.0
    for number, (channel, (lines, options)) in enumerate(panels.items(), start=1):
        suffix = "" if number == 1 else str(number)
        bottom = max(0.0, top - PANELS[channel] / total)
        traces += [line | {"yaxis": f"y{suffix}"} for line in lines]
        drs = channel == "drs"
        axes[f"yaxis{suffix}"] = axis(
            domain=[bottom, top], fixedrange=True, showgrid=not drs, automargin=False, nticks=4, **options
        )
        unit = f", {UNITS_SHOWN[channel]}" if channel in UNITS_SHOWN else ""
        title = f"{'DRS' if drs else channel}{unit}"
        at_left: Dict = {"xref": "paper", "yref": "paper"}
        middle: Dict = {"xanchor": "center", "yanchor": "middle", "xshift": -54, "textangle": 0 if drs else -90}
        marks.append(note(title, 0, (bottom + top) / 2, font=SMALL, **at_left, **middle))
        if channel == DELTA:
            ends = ("▲", top, "top"), ("▼", bottom, "bottom")
            for (sign, y, anchor), lap, style in zip(ends, laps, styles, strict=True):
                text = f"{style.mark(sign)} {lap.code} ahead"
                marks.append(note(text, 0, y, yanchor=anchor, font=SMALL, xanchor="left", xshift=4, **at_left))
        top = bottom - GAP_PX / total
    shapes = [
        shape("line", (tick, tick), (0, 1), yref="paper", layer="below", line={"color": "$grid", "width": 1})
        for tick, _ in circuit.ticks
    ]
    lowest, ends_m = f"y{'' if len(panels) == 1 else len(panels)}", list(zoom or (0, circuit.length))
    across = axis("distance (m)", showgrid=False, range=ends_m, anchor=lowest, tickformat=",d")
    names = " and ".join(f"{one.name} ({style.dash})" for one, style in zip(laps, styles, strict=True))
    caption = f"{names} over distance."
    if DELTA in panels:
        caption += f" Gap to {laps[1].code}: up = {laps[0].code} gaining. Band: 95% interval."
    if "drs" in channels and "drs" not in panels:
        caption += " No DRS on these laps." if any("drs" in one.car for one in laps) else " No DRS data."
    sizes: list[Dict] = []
    for least, apart, n_ticks in WIDTHS:
        layout = {"xaxis": across | {"nticks": n_ticks}, "annotations": [*marks, *_corner_names(circuit, apart)]}
        sizes.append({"least": least, "height": 56 + total, "layout": layout})
    axes |= {"shapes": shapes, "margin": TIME_MARGIN | {"t": 20, "b": 34}} | sizes[-1]["layout"]
    return figure(traces, caption, _alt([*panels], laps), 56 + total, cursor=time_cursor(), **axes) | {"widths": sizes}


def _corner_names(circuit: Circuit, apart: float) -> list[Dict]:
    """Return the names of corners above the panels, at least `apart` metres from each other."""
    marks: list[Dict] = []
    for tick, name in circuit.ticks:
        if not marks or tick - marks[-1]["x"] >= apart:
            marks.append(note(name, tick, 1, yref="paper", yanchor="bottom", font=SMALL, yshift=1))
    return marks


def _panel(
    channel: str, laps: Sequence[Trace], styles: Sequence[LineStyle], delta: Delta | None
) -> tuple[list[Dict], Dict] | None:
    """Return the traces of a panel and the options of its axis; None if no lap has the channel."""
    if channel == DELTA:
        return None if delta is None else _delta_panel(laps, delta)
    traces = []
    if channel == "drs":
        spans = [_open_spans(one) for one in laps]
        for row, (one, opened, style) in enumerate(zip(laps, spans, styles, strict=True)):
            along = [value for start, end in opened for value in (start, end, np.nan)]
            line = {"color": style.colour, "width": 7, "dash": "6px,2px" if style.dash != "solid" else "solid"}
            hover = f"{one.name}<br>DRS open at %{{x:.0f}} m"
            traces.append(points("lines", along, [-row] * len(along), hover, line=line, connectgaps=False))
        return (traces, {"range": [-1.6, 0.6], "showticklabels": False}) if any(spans) else None
    sent = [one.car.get(channel, np.full(len(one.distance), np.nan, np.float32)) for one in laps]
    known = np.concatenate([values[np.isfinite(values)] for values in sent])
    if not known.size:
        return None
    for one, values, style in zip(laps, sent, styles, strict=True):
        hover = f"%{{x:.0f}} m · {one.name}<br>{channel} %{{y:.4~g}} {UNITS.get(channel, '')}"
        line = {"color": style.colour, "width": 2, "dash": style.dash}
        line["shape"] = "hv" if channel in STEPPED else "linear"
        traces.append(points("lines", one.distance, values, hover, line=line))
    low, high = float(known.min()), float(known.max())
    room = 0.06 * max(high - low, 0.1)
    more: Dict = {"tickvals": [0, 1], "ticktext": ["off", "on"]} if channel == "brake" else {}
    return traces, more | {"range": list(RANGES.get(channel, (low - room, high + room)))}


def _delta_panel(laps: Sequence[Trace], delta: Delta) -> tuple[list[Dict], Dict]:
    low, high = delta.behind - delta.margin, delta.behind + delta.margin
    hover = f"%{{x:.0f}} m<br>{laps[1].code} − {laps[0].code} %{{y:+.3f}} s"
    traces = [
        points("lines", delta.distance, low, line={"width": 0}),
        points("lines", delta.distance, high, line={"width": 0}, fill="tonexty", fillcolor="$band"),
        points("lines", delta.distance, delta.behind, hover, line={"color": "$ink", "width": 2}),
    ]
    lowest, highest = float(low.min()), float(high.max())
    room = 0.3 * (highest - lowest) or 0.02
    span = [min(lowest - room, -room), max(highest + room, room)]
    return traces, {"range": span, "zeroline": True, "zerolinecolor": "$line"}


def _open_spans(one: Trace) -> list[Span]:
    """Return the ranges in metres in which DRS is open, on at least half of the laps."""
    if "drs" not in one.car:
        return []
    is_open = np.concatenate([[False], one.car["drs"] >= 0.5, [False]]).astype(np.int8)
    along, change = np.append(one.distance, one.distance[-1:]).astype(float), np.diff(is_open)
    return list(zip(along[change > 0].tolist(), along[change < 0].tolist(), strict=True))


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
        f"T{name}": (max(0.0, apex - BEFORE_M), min(circuit.length, apex + AFTER_M))
        for name, _, _, apex, _ in circuit.corners
    }


def corner_at(circuit: Circuit, point: Mapping[str, object] | None) -> str:
    """Return the corner nearest to a clicked point of the map; "" if there is none."""
    x, y = (None, None) if point is None else (point.get("x"), point.get("y"))
    if not (isinstance(x, int | float) and isinstance(y, int | float) and circuit.corners):
        return ""
    place = int(np.argmin(np.linalg.norm(circuit.line - np.array([x, y]), axis=1)))
    along = place / (len(circuit.line) - 1) * circuit.length
    return f"T{circuit.corners[int(circuit.nearest_corner(along))][0]}"
