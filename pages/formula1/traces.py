"""What drivers do along one lap: what their cars sent and the gap between them against distance, over the states they are in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from datasets.formula1 import UNITS, LapClock, Session, lap_clock
from gdm_studio.plot import palette
from gdm_studio.plot.figures import base
from gdm_studio.plot.figures.base import FINE, TIME_MARGIN, Dict, Figure, axis, note, points, time_cursor, typed
from gdm_studio.plot.figures.states import numbered_colours
from pages.formula1.data import TELEMETRY, Circuit, Floats
from pages.formula1.driver_states import Driver
from pages.formula1.teams import Look
from pages.formula1.time_gained import SURE

STEP_M = 10.0
FEWEST = 20  # samples of a lap
BEHIND = 0.34  # opacity of the states behind the lines
GAP = "gap"
# Parts of the figure's height, in pixels.
PANELS = {"speed": 170, "throttle": 75, "brake": 45, "gear": 70, "rpm": 70, "drs": 45, GAP: 90}
STEPPED = ("brake", "gear", "drs")
SWITCHES = {"brake": ["off", "on"], "drs": ["shut", "open"]}
UNITS_SHOWN = {"speed": "km/h", "throttle": "%", GAP: "s"}


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


@dataclass(frozen=True, eq=False)
class Gap:
    """How far one lap is behind another, in seconds, at shares of the lap."""

    one: LapClock
    other: LapClock

    def behind(self, share: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """[...] seconds that the other takes longer from the start line."""
        return self.other.at(share) - self.one.at(share)

    def deviation(self, first: npt.ArrayLike, last: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """[...] standard deviation of what the gap grows by from one share of the lap to another."""
        found: npt.NDArray[np.float64] = np.sqrt(self.one.variance(first, last) + self.other.variance(first, last))
        return found

    def grown(self, first: float, last: float) -> tuple[float, float]:
        """(seconds that the other loses between two shares of the lap, standard deviation); over the line if need be."""
        if last < first:
            (late, a), (early, b) = self.grown(first, 1.0), self.grown(0.0, last)
            return late + early, float(np.hypot(a, b))
        lost = self.behind([first, last])
        return float(lost[1] - lost[0]), float(self.deviation(first, last))


def gap(one: Trace, other: Trace) -> Gap | None:
    """The gap between two laps; None where one lacks what pins its clock."""
    return Gap(one.clock, other.clock) if one.clock is not None and other.clock is not None else None


def figure(
    circuit: Circuit, shown: Sequence[Trace], looks: Sequence[Look], zoom: tuple[float, float] | None = None
) -> Figure:
    """A panel for each channel that a driver's car has sent, and one for the gap to the first lap. Behind the lines each lap's
    states have a row, the first one on top.

    zoom   metres from and to which the lap is shown; all of it unless given
    """
    channels = [name for name in TELEMETRY if any(np.isfinite(one.car.get(name, np.nan)).any() for one in shown)]
    gaps = [gap(shown[0], one) for one in shown]
    if len(shown) > 1 and any(one is not None for one in gaps[1:]):
        channels.append(GAP)
    share = shown[0].distance / circuit.length
    behind = [np.asarray(np.nan * share if one is None else one.behind(share), np.float32) for one in gaps]
    total = sum(PANELS[name] for name in channels)
    between = 10 / total
    buckets = palette.quantise(np.concatenate([one.states for one in shown]), limit=60)
    coloured = numbered_colours(buckets.css)
    cells = buckets.index.reshape(len(shown), -1)[::-1]  # the first driver on top
    traces: list[Dict] = []
    axes: Dict = {}
    marks: list[Dict] = []
    top = 1.0
    for number, channel in enumerate(channels, start=1):
        suffix = "" if number == 1 else str(number)
        nothing = np.full(len(shown[0].distance), np.nan, np.float32)
        values = behind if channel == GAP else [one.car.get(channel, nothing) for one in shown]
        low, high = _range(channel, values)
        low_at = top - PANELS[channel] / total
        bottom = max(0.0, low_at + between * (number < len(channels)))
        axes[f"yaxis{suffix}"] = axis(
            range=[low, high], domain=[bottom, top], fixedrange=True, showgrid=False, automargin=False, nticks=4
        )
        if channel in SWITCHES:
            axes[f"yaxis{suffix}"] |= {"tickvals": [0, 1], "ticktext": SWITCHES[channel]}
        rows = len(shown)
        states: Dict = {
            "type": "heatmap", "x0": 0, "dx": STEP_M, "y0": low + (high - low) / rows / 2, "dy": (high - low) / rows,
            "z": typed(cells, "u1"), "opacity": BEHIND, "hoverinfo": "skip", "yaxis": f"y{suffix}",
        }  # fmt: skip
        traces.append(states | coloured)
        if channel == GAP and len(shown) == 2 and gaps[1] is not None:
            wide = SURE * gaps[1].deviation(np.zeros_like(share), share)
            for edge, fill in ((behind[1] - wide, {}), (behind[1] + wide, {"fill": "tonexty", "fillcolor": "$band"})):
                traces.append(points("lines", shown[0].distance, edge, yaxis=f"y{suffix}", line={"width": 0}, **fill))
        unit = UNITS.get(channel, "s")
        for one, known, look in zip(shown, values, looks, strict=True):
            turns = "hv" if channel in STEPPED else "linear"
            drawn = {"color": look.colour, "width": 2, "dash": look.dash, "shape": turns}
            says = f"%{{x:.0f}} m · {one.name}<br>{channel} %{{y:.4~g}} {unit}"
            traces.append(points("lines", one.distance, known, says, yaxis=f"y{suffix}", line=drawn))
        called = channel.upper() if channel == "drs" else channel
        shown_unit = f", {UNITS_SHOWN[channel]}" if channel in UNITS_SHOWN else ""
        marks.append(
            note(
                f"{called}{shown_unit}", 0, (bottom + top) / 2, xref="paper", yref="paper", xanchor="center", yanchor="middle",
                xshift=-54, textangle=-90, font=FINE,
            )
        )  # fmt: skip
        top = low_at
    last = max(1, len(shown) - 1)
    for number, (one, look) in enumerate(zip(shown, looks, strict=True)):
        dashed = "" if look.dash == "solid" else f" ({look.dash})"
        side = "left" if not number else "right" if number == last else "center"
        marks.append(
            note(
                f"{one.name}{dashed}", number / last, 1, xref="paper", yref="paper", xanchor=side, yanchor="bottom",
                font={"size": 11, "color": look.colour},
            )
        )  # fmt: skip
    ticks: Dict = {"tickvals": [t for t, _ in circuit.ticks], "ticktext": [s for _, s in circuit.ticks]}
    lowest = f"y{'' if len(channels) == 1 else len(channels)}"
    axes["xaxis"] = axis(showgrid=True, range=list(zoom or (0, circuit.length)), anchor=lowest, **ticks)
    caption = (
        "What the cars do along the lap. Behind the lines the states of each lap, from above: "
        f"{', '.join(one.name for one in shown)}. Lines have the colours of the teams. Point at it: the map follows."
    )
    if GAP in channels:
        band = "; the true gap lies within the band at 95 % of places." if len(shown) == 2 else "."
        caption += (
            f" Gap: behind {shown[0].name} at the same place; speeds, integrated between the official times at the line and at "
            f"both sector lines{band}"
        )
    place: Dict = {"annotations": marks, "margin": TIME_MARGIN | {"t": 20}}
    return base.figure(traces, caption, _alt(channels, shown), 40 + total, cursor=time_cursor(), **axes, **place)


def _range(channel: str, values: Sequence[Floats]) -> tuple[float, float]:
    """What the axis of a channel spans: all of it where that is known, with some room around what moves."""
    if channel == "throttle":
        return -4.0, 104.0
    if channel in SWITCHES:
        return -0.15, 1.15
    if channel == "gear":
        return 0.5, 8.5
    known = np.concatenate([one[np.isfinite(one)] for one in values])
    low, high = float(known.min()), float(known.max())
    room = 0.06 * max(high - low, 0.1)
    return low - room, high + room


def _alt(channels: Sequence[str], shown: Sequence[Trace]) -> str:
    parts = []
    for one in shown:
        speed = one.car.get("speed", np.zeros(0))
        known = speed[np.isfinite(speed)]
        if len(known):
            parts.append(f"{one.name}: {known.min():.0f} to {known.max():.0f} km/h")
    return f"{', '.join(channels)} along the lap. {'; '.join(parts)}."
