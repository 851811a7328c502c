"""Telemetry of laps over distance with their delta and states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import streamlit as st

from datasets.f1.minisectors import minisector_edges
from datasets.f1.time_won import SURE
from datasets.formula1 import UNITS, LapClock, Session, lap_clock
from gdm_core.errors import GdmError
from gdm_studio.plot import figures, palette
from gdm_studio.plot.figures import base
from gdm_studio.plot.figures.base import (
    FINE,
    TIME_MARGIN,
    Dict,
    Figure,
    axis,
    note,
    numbered,
    points,
    time_cursor,
    typed,
)
from gdm_studio.plot.figures.states import numbered_colours
from pages.formula1 import data, gain_panel, state_names, teams
from pages.formula1.controls import choose_one
from pages.formula1.data import TELEMETRY, Circuit, DriverReading, Floats, race_of
from pages.formula1.tables import clock
from pages.formula1.teams import LineStyle
from pages.formula1.time_gained import Gap
from pages.lab import Undecoded, View, together
from pages.lab.live.session import State
from pages.ui import settings, shell
from pages.ui.controls import one_of
from pages.ui.plot import plot

STEP_M = 10.0
FEWEST = 20  # minimum samples of a lap
BEHIND = 0.34  # opacity of background states
GAP = "gap"
# Heights in pixels.
PANELS = {"speed": 170, "throttle": 75, "brake": 45, "gear": 70, "rpm": 70, "drs": 45, GAP: 90}
STEPPED = ("brake", "gear", "drs")
SWITCHES = {"brake": ["off", "on"], "drs": ["shut", "open"]}
UNITS_SHOWN = {"speed": "km/h", "throttle": "%", GAP: "s"}


@dataclass(frozen=True, eq=False)
class Trace:
    """A lap on an even grid of D distances.

    clock     pinned to official times; None without lap times or speeds
    """

    name: str
    code: str
    distance: Floats  # [D] metres
    clock: LapClock | None
    states: Floats  # [D, K]
    car: Mapping[str, Floats]  # each [D]


def trace(session: Session, circuit: Circuit, here: DriverReading, lap: int) -> Trace | None:
    """Return the lap on the grid, or None if too few positions are known."""
    laps = here.laps
    part = np.flatnonzero(laps.lap == lap)
    if len(part) < FEWEST:
        return None
    # Drop backward steps at the line or from noise.
    distance = np.unwrap(laps.distance[part].astype(np.float64), period=circuit.length)
    distance -= circuit.length * round((np.median(distance) - circuit.length / 2) / circuit.length)
    ahead = np.append(True, np.diff(np.maximum.accumulate(distance)) > 0) & (distance > 0) & (distance < circuit.length)
    part, distance = part[ahead], distance[ahead]
    if len(part) < FEWEST:
        return None
    grid = np.arange(0, circuit.length, STEP_M)
    nearest = np.abs(distance[:, None] - grid).argmin(axis=0)
    return Trace(
        f"{laps.code} lap {lap}",
        laps.code,
        grid.astype(np.float32),
        lap_clock(session, laps.code, lap),
        np.column_stack([np.interp(grid, distance, column) for column in here.states[part].T]).astype(np.float32),
        {
            name: (values[part][nearest] if name in STEPPED else _between(grid, distance, values[part])).astype(
                np.float32
            )
            for name, values in laps.car.items()
        },
    )


def _between(grid: npt.NDArray[np.float64], distance: npt.NDArray[np.float64], values: Floats) -> Floats:
    """Interpolate values on the grid, NaN where unknown."""
    known = np.isfinite(values)
    if known.sum() < 2:
        return np.full(len(grid), np.nan, np.float32)
    return np.interp(grid, distance[known], values[known]).astype(np.float32)


def gap(one: Trace, other: Trace) -> Gap | None:
    """Return the gap between two laps; None if one has no clock."""
    return Gap(one.clock, other.clock) if one.clock is not None and other.clock is not None else None


def laid_over(
    circuit: Circuit, shown: Sequence[Trace], looks: Sequence[LineStyle], zoom: tuple[float, float] | None = None
) -> Figure:
    """Draw one panel per channel and one for the delta, with the states of each lap behind.

    zoom   range in metres; the whole lap by default
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
    cells = buckets.index.reshape(len(shown), -1)[::-1]  # first driver on top
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
        "Telemetry along the lap in team colours; states in the background, from top: "
        f"{', '.join(one.name for one in shown)}."
    )
    if GAP in channels:
        band = "; band: 95% interval." if len(shown) == 2 else "."
        caption += f" Gap to {shown[0].name} at the same distance, from speeds and official sector times{band}"
    place: Dict = {"annotations": marks, "margin": TIME_MARGIN | {"t": 20}}
    return base.figure(traces, caption, _alt(channels, shown), 40 + total, cursor=time_cursor(), **axes, **place)


def _range(channel: str, values: Sequence[Floats]) -> tuple[float, float]:
    """Return the axis range of a channel."""
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


# ---- the tab ----------------------------------------------------------------------------------------------------------
TAB = "Telemetry"
WHOLE = "lap"
BEFORE_M, AFTER_M = 250.0, 200.0  # range around a corner in metres
DRAWN = "drawn together"  # key in the fit's memory
A_MOMENT = "Fitting", "Applying the fitted model to this driver."


@dataclass(frozen=True, eq=False)
class DrawnTogether:
    """Drivers last drawn, with the (fingerprint, lap) of each."""

    asked: tuple[tuple[str, int], ...]
    drivers: list[DriverReading]


def laps_by_time(session: Session, code: str, driven: npt.NDArray[np.int64]) -> list[tuple[int, float]]:
    """Return (lap, seconds) of a driver's timed laps, fastest first."""
    table = session.driver(code).laps
    there = np.isin(table.number, driven) & np.isfinite(table.seconds)
    order = np.argsort(table.seconds[there])
    return [(int(n), float(s)) for n, s in zip(table.number[there][order], table.seconds[there][order], strict=True)]


def zooms(circuit: Circuit) -> dict[str, tuple[float, float]]:
    """Return ranges in metres by corner, or of equal parts without corners."""
    if circuit.corners:
        spans = {f"T{name}": (at - BEFORE_M, at + AFTER_M) for name, _, _, at, _ in circuit.corners}
    else:
        edges = minisector_edges(circuit.length)
        spans = {f"{a:.0f} m": (a, b) for a, b in pairwise(edges.tolist())}
    return {name: (max(0.0, float(a)), min(circuit.length, float(b))) for name, (a, b) in spans.items()}


def zoom_to(name: str) -> None:
    """Zoom the telemetry to a corner before the page reruns."""
    settings.change("zoom", name)
    settings.change("view", TAB)


def clicked(circuit: Circuit, point: Mapping[str, object] | None) -> None:
    """Zoom to the corner nearest to a click on the map."""
    x, y = (None, None) if point is None else (point.get("x"), point.get("y"))
    if not (isinstance(x, int | float) and isinstance(y, int | float)):
        return
    place = int(np.argmin(np.linalg.norm(circuit.line - np.array([x, y]), axis=1)))
    at = place / (len(circuit.line) - 1) * circuit.length
    if circuit.corners:
        zoom_to(f"T{circuit.corners[int(circuit.nearest_corner(at))][0]}")
    else:
        zoom_to(next(name for name, (low, high) in zooms(circuit).items() if low <= at <= high))


def tab(view: View) -> None:
    """Show two to four chosen laps."""
    race = race_of(view)
    session = data.open_session(race.pick.place)  # of the displayed fit
    picked: list[DriverReading | Undecoded] = []
    asked: list[tuple[str, int]] = []
    lacking = ""
    for side, place in zip(gain_panel.SIDES, st.columns(4, gap="small"), strict=True):
        with place:
            code = gain_panel.pick_driver(view, session, side)
            if code == gain_panel.NOBODY:
                continue
            try:
                laps, here = gain_panel.chosen(view, side, code)
            except GdmError as error:
                lacking = str(error)
                continue
            timed = {str(n): f"{n} · {clock(took)}" for n, took in laps_by_time(session, code, laps.lap)}
            lap = choose_one(
                f"Lap of {code}" if side in "ab" else "Lap", f"lap-{side}", timed, next(iter(timed), ""), "Fastest first.",
                among=f"{code}-{race.pick.looked.laps}-{race.pick.place}",
            )  # fmt: skip
            if not lap:
                lacking = f"{code} has no timed lap in the selection. Choose other laps."
                continue
            picked.append(here)
            asked.append((laps.trials.fingerprint, int(lap)))
    spans = zooms(race.circuit)
    zoom = one_of(
        "Zoom", {WHOLE: "The whole lap"} | {name: name for name in spans}, key="zoom", as_ids=True,
        help="Or click the map, or a row under Corners.", among=str(race.pick.place),
    )  # fmt: skip
    if lacking:
        shell.empty("No timed lap", lacking)
        if not picked:
            return
    kept: DrawnTogether | None = view.fit.memory.get(DRAWN)
    show = partial(_draw, view, driven=[lap for _, lap in asked], zoom=spans.get(zoom))
    if len(drivers := together(picked)) == len(picked):
        view.fit.memory[DRAWN] = DrawnTogether(tuple(asked), drivers)
        show(drivers, state=drivers[-1].state, called=numbered(state_names.names(view)))
    elif kept is not None and kept.asked == tuple(asked):  # keep the previous states until all are known
        show(kept.drivers, state="stale", called=())
    else:
        missing = next((driver for driver in picked if isinstance(driver, Undecoded)), None)
        shell.empty(*(A_MOMENT if missing is None else (missing.title, missing.note)))


def _draw(
    view: View, drivers: list[DriverReading], *, driven: Sequence[int], zoom: tuple[float, float] | None, state: State,
    called: Sequence[str],
) -> None:  # fmt: skip
    circuit, session = race_of(view).circuit, data.open_session(race_of(view).pick.place)
    every = view.state.memoize(
        "laps-laid-over",
        lambda: [trace(session, circuit, here, lap) for here, lap in zip(drivers, driven, strict=True)],
        of=tuple(here.states for here in drivers),
        settings=tuple(driven),
    )
    laps = [one for one in every if one is not None]
    if len(laps) < len(every):
        left_out = [
            f"{here.laps.code} lap {lap}" for here, lap, one in zip(drivers, driven, every, strict=True) if one is None
        ]
        shell.empty("Too little of this lap", f"Too few positions in {', '.join(left_out)}. Choose another lap.")
        if not laps:
            return
    names = [one.name for one in laps]
    names = [name if name not in names[:i] else f"{name} again ({i + 1})" for i, name in enumerate(names)]
    looks = teams.looks(session, [one.code for one in laps])
    with shell.panel("telemetry"):
        draw = partial(laid_over, circuit, laps, looks, zoom)
        plot(
            view.state.memoize("telemetry", draw, of=tuple(laps), settings=zoom),
            key="telemetry",
            state=state,
            revision=str(zoom),
        )
        plot(
            figures.state_strips(
                {name: one.states for name, one in zip(names, laps, strict=True)}, step=STEP_M, unit="m", ticks=circuit.ticks,
                names=called,
                caption="States along the lap; T1, T2, … are corners. Different colours mean different driving.",
            ),
            key="compared-states", state=state,
        )  # fmt: skip
        if lacks := [
            name for name in data.TELEMETRY if not any(np.isfinite(one.car.get(name, np.nan)).any() for one in laps)
        ]:
            shell.quiet(f"Not available for these cars: {', '.join(lacks)}.")
        unclocked = [one.name for one in laps if one.clock is None]
        if unclocked:
            shell.quiet(f"{' and '.join(unclocked)}: no lap time or speeds, so no delta.")
    if len(laps) == 2:
        with st.container():
            _words(circuit, names, laps)


def _words(circuit: Circuit, names: list[str], laps: Sequence[Trace]) -> None:
    """Describe where states and times of two laps differ most."""
    if not circuit.segments:
        return
    apart = 0.5 * np.abs(laps[0].states - laps[1].states).sum(axis=1)
    segment = circuit.segment_at(laps[0].distance)
    assert segment is not None
    count = np.bincount(segment, minlength=len(circuit.segments))
    differ = np.bincount(segment, apart, len(circuit.segments)) / np.maximum(count, 1)
    top = np.argsort(-differ)[:3]
    listed = ", ".join(f"{circuit.segments[c]} ({differ[c]:.0%})" for c in top)
    shell.quiet(f"Largest state differences between {names[0]} and {names[1]}: {listed}.")
    if (between := gap(laps[0], laps[1])) is not None:
        shell.quiet(time_words(circuit, names, between))


def time_words(circuit: Circuit, names: list[str], gap: Gap) -> str:
    """Describe the gap at the line and the segments where it changes significantly."""
    whole = float(gap.behind(1.0))
    total = f"{names[1]} was {abs(whole):.3f} s {'slower' if whole > 0 else 'faster'} over the lap"
    edges = circuit.edges / circuit.length
    lost = [(*gap.grown(float(a), float(b)), name) for a, b, name in
            zip(edges, np.roll(edges, -1), circuit.segments, strict=True)]  # fmt: skip
    sure = sorted((entry for entry in lost if abs(entry[0]) > SURE * entry[1]), key=lambda entry: -abs(entry[0]))[:3]
    if not sure:
        return f"{total}; no segment differs significantly."
    listed = ", ".join(f"{mean:+.2f} ± {SURE * sd:.2f} s in {name}" for mean, sd, name in sure)
    return f"{total}. Significant: {listed} (+ = second driver slower; ± 95% CI)."
