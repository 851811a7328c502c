"""What two drivers do along one lap: speed, throttle, brake and gear against distance, over the states they are in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from datasets.formula1 import UNITS, LapClock, Session, lap_clock
from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import TIME_MARGIN, Dict, Figure, axis, layout, note, time_cursor, typed
from gdm_studio.plot.figures.strips import discrete
from pages.formula1.data import CAR_CHANNELS, Circuit, Floats
from pages.formula1.driver_states import Driver
from pages.formula1.teams import Look

STEP_M = 10.0
FEWEST = 20  # samples of a lap
BEHIND = 0.34  # opacity of the states behind the lines
PANELS = {"speed": 0.46, "throttle": 0.2, "brake": 0.14, "gear": 0.2}  # shares of the figure's height
STEPPED = ("brake", "gear")


@dataclass(frozen=True, eq=False)
class Trace:
    """One lap of one driver on an even grid of D distances.

    seconds   [D] since the start line: as the clock says, or else the feed's own times of positions
    clock     pinned to official times; None where the lap's times or speeds are not known well enough
    """

    name: str
    code: str
    distance: Floats  # [D] metres
    seconds: npt.NDArray[np.float64]
    clock: LapClock | None
    states: Floats  # [D, K]
    car: Mapping[str, Floats]  # each [D]


def trace(session: Session, circuit: Circuit, here: Driver, lap: int) -> Trace | None:
    """A lap on the grid, or None where too little of it was driven with positions."""
    laps = here.laps
    part = np.flatnonzero(laps.lap == lap)
    if len(part) < FEWEST:
        return None
    # A step back (the line itself, or noise while standing) has no place on the grid.
    distance = np.unwrap(laps.distance[part].astype(np.float64), period=circuit.length)
    distance -= circuit.length * round((np.median(distance) - circuit.length / 2) / circuit.length)
    ahead = np.append(True, np.diff(np.maximum.accumulate(distance)) > 0) & (distance > 0) & (distance < circuit.length)
    part, distance = part[ahead], distance[ahead]
    if len(part) < FEWEST:
        return None
    grid = np.arange(0, circuit.length, STEP_M)
    nearest = np.abs(distance[:, None] - grid).argmin(axis=0)
    clock = lap_clock(session, laps.code, lap)
    seconds = laps.seconds[part]
    return Trace(
        f"{laps.code} lap {lap}",
        laps.code,
        grid.astype(np.float32),
        np.interp(grid, distance, seconds - seconds[0]) if clock is None else clock.at(grid / circuit.length),
        clock,
        np.column_stack([np.interp(grid, distance, column) for column in here.states[part].T]).astype(np.float32),
        {
            name: (values[part][nearest] if name in STEPPED else _between(grid, distance, values[part])).astype(
                np.float32
            )
            for name, values in laps.car.items()
        },
    )


def _between(grid: npt.NDArray[np.float64], distance: npt.NDArray[np.float64], values: Floats) -> Floats:
    """Values on the grid, NaN where none is known."""
    known = np.isfinite(values)
    if known.sum() < 2:
        return np.full(len(grid), np.nan, np.float32)
    return np.interp(grid, distance[known], values[known]).astype(np.float32)


def figure(circuit: Circuit, shown: Sequence[Trace], looks: Sequence[Look], height: int = 430) -> Figure:
    """A panel for each channel that a driver's car has sent; the upper half behind the lines is the first driver's states,
    the lower half the second's."""
    channels = [name for name in CAR_CHANNELS if any(np.isfinite(one.car.get(name, np.nan)).any() for one in shown)]
    total = sum(PANELS[name] for name in channels)
    gap = 0.03
    buckets = palette.quantise(np.concatenate([one.states for one in shown]), limit=60)
    scale = discrete(buckets.css)
    cells = buckets.index.reshape(len(shown), -1)[::-1]  # the first driver on top
    traces: list[Dict] = []
    axes: Dict = {}
    marks: list[Dict] = []
    top = 1.0
    for number, channel in enumerate(channels, start=1):
        suffix = "" if number == 1 else str(number)
        values = [one.car.get(channel, np.full(len(one.distance), np.nan, np.float32)) for one in shown]
        low, high = _range(channel, values)
        low_at = top - PANELS[channel] / total
        bottom = max(0.0, low_at + gap * (number < len(channels)))
        axes[f"yaxis{suffix}"] = axis(
            range=[low, high], domain=[bottom, top], fixedrange=True, showgrid=False, automargin=False, nticks=4
        )
        if channel == "brake":
            axes[f"yaxis{suffix}"] |= {"tickvals": [0, 1], "ticktext": ["off", "on"]}
        rows = len(shown)
        traces.append(
            {
                "type": "heatmap", "x0": 0, "dx": STEP_M, "y0": low + (high - low) / rows / 2, "dy": (high - low) / rows,
                "z": typed(cells, "u1"), "zmin": -0.5, "zmax": len(scale) / 2 - 0.5, "colorscale": scale, "showscale": False,
                "opacity": BEHIND, "hoverinfo": "skip", "yaxis": f"y{suffix}",
            }
        )  # fmt: skip
        for one, known, look in zip(shown, values, looks, strict=True):
            traces.append(
                {
                    "type": "scatter", "mode": "lines", "x": typed(one.distance), "y": typed(known), "yaxis": f"y{suffix}",
                    "line": {"color": look.colour, "width": 2, "dash": look.dash}
                    | ({"shape": "hv"} if channel in STEPPED else {}),
                    "hovertemplate": f"%{{x:.0f}} m · {one.name}<br>{channel} %{{y:.4~g}} {UNITS[channel]}<extra></extra>",
                }
            )  # fmt: skip
        unit = f", {UNITS[channel]}" if channel in ("speed", "throttle") else ""
        marks.append(
            note(
                f"{channel}{unit}", 0, (bottom + top) / 2, xref="paper", yref="paper", xanchor="center", yanchor="middle",
                xshift=-54, textangle=-90, font={"size": 11, "color": "$muted"},
            )
        )  # fmt: skip
        top = low_at
    for number, (one, look) in enumerate(zip(shown, looks, strict=True)):
        dashed = "" if look.dash == "solid" else f" ({look.dash})"
        marks.append(
            note(
                f"{one.name}{dashed}", number, 1, xref="paper", yref="paper", xanchor="right" if number else "left",
                yanchor="bottom", font={"size": 11, "color": look.colour},
            )
        )  # fmt: skip
    return {
        "data": traces,
        "layout": layout(
            xaxis=axis(
                showgrid=True, range=[0, circuit.length], anchor=f"y{'' if len(channels) == 1 else len(channels)}",
                tickvals=[t for t, _ in circuit.ticks], ticktext=[s for _, s in circuit.ticks],
            ),
            annotations=marks, margin=TIME_MARGIN | {"t": 20}, **axes,
        ),
        "caption": f"What the car does along the lap. Behind the lines the states: above those of {shown[0].name}, below those of "
        f"{shown[-1].name}. Lines have the colours of the teams. Point at it: map and strips follow.",
        "alt": _alt(channels, shown),
        "height": height,
        "cursor": time_cursor(),
    }  # fmt: skip


def _range(channel: str, values: Sequence[Floats]) -> tuple[float, float]:
    """What the axis of a channel spans: all of it where that is known, with some room around what moves."""
    if channel == "throttle":
        return -4.0, 104.0
    if channel == "brake":
        return -0.15, 1.15
    if channel == "gear":
        return 0.5, 8.5
    known = np.concatenate([one[np.isfinite(one)] for one in values])
    low, high = float(known.min()), float(known.max())
    room = 0.06 * max(high - low, 1.0)
    return low - room, high + room


def _alt(channels: Sequence[str], shown: Sequence[Trace]) -> str:
    parts = []
    for one in shown:
        speed = one.car.get("speed", np.zeros(0))
        known = speed[np.isfinite(speed)]
        if len(known):
            parts.append(f"{one.name}: {known.min():.0f} to {known.max():.0f} km/h")
    return f"{', '.join(channels)} along the lap. {'; '.join(parts)}."
