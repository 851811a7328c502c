"""The page's own figures: the map of the circuit, and lines along the lap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import (
    Dict,
    Figure,
    layout,
    path_cursor,
    plain,
    typed,
)
from gdm_studio.plot.figures.track import bucket_lines
from pages.formula1.badges import Badge, widths
from pages.formula1.data import Circuit, Floats
from pages.formula1.driver_states import Driver

STATIONS = 250  # places along the lap that a hover can point at: they fit into one byte
COLOURS = 40
DOT, LINE = 5.5, 9.0  # pixels wide
DOTS_ABOVE = 2_500  # samples; a line through several laps would only lie on itself
FIRST = 5  # column of the strongest state among the bytes of a sample


def _tips(
    circuit: Circuit,
    states: Floats,
    distance: Floats,
    lap: npt.NDArray[Any],
    speed: Floats,
    segment: npt.ArrayLike | None,
) -> tuple[npt.NDArray[np.uint8], str]:
    """([T, 9] bytes, template): station, lap, tens and ones of the speed, corner, two states and their percentages."""
    percent = np.round(np.nan_to_num(states) * 100)
    at = np.arange(len(percent))
    first = percent.argmax(axis=1)
    rest = percent.copy()
    rest[at, first] = -1
    second = rest.argmax(axis=1)
    whole = np.clip(np.nan_to_num(np.round(speed)), 0, 999).astype(np.int64)
    corner = np.zeros(len(at), np.int64) if segment is None else np.asarray(segment) + 1
    table = np.column_stack(
        [
            np.round(distance / circuit.length * STATIONS) % STATIONS,
            lap,
            whole // 10,
            whole % 10,
            corner,
            first + 1,
            percent[at, first],
            second + 1,
            np.maximum(percent[at, second], 0),
        ]
    )
    place = "after corner %{customdata[4]}" if segment is not None else ""
    where = "lap %{customdata[1]} · " if np.any(lap) else "all laps · "
    return table.astype(np.uint8), (
        f"{where}{place}<br>%{{customdata[2]}}%{{customdata[3]}} km/h<br>"
        "S%{customdata[5]} %{customdata[6]} % · S%{customdata[7]} %{customdata[8]} %<extra></extra>"
    )


def driven(circuit: Circuit, driver: Driver, **more: Any) -> Figure:
    """Every sample of a driver on the map."""
    laps = driver.laps
    return circuit_map(
        circuit,
        laps.place,
        driver.states,
        distance=laps.distance,
        lap=laps.lap,
        speed=laps.speed,
        segment=laps.segment,
        **more,
    )


def circuit_map(
    circuit: Circuit,
    place: Floats,
    states: Floats,
    *,
    distance: Floats,
    lap: npt.NDArray[Any],
    speed: Floats,
    segment: npt.ArrayLike | None,
    badges: Sequence[Badge] = (),
    title: str = "",
    caption: str = "",
    names: Sequence[str] = (),
) -> Figure:
    """Samples [T] on the map in the mixed colours of their states: a line, or dots where there are many laps.

    names   of the states, for who points at the map
    """
    soft = np.asarray(states, np.float32)
    dots = len(soft) > DOTS_ABOVE
    buckets = palette.quantise(soft, limit=COLOURS)
    tips, template = _tips(circuit, soft, distance, lap, speed, segment)
    # A name is said once for all samples of one colour that have the same strongest state, not with each of them.
    strongest = tips[:, FIRST].astype(np.int64) - 1 if names else np.zeros(len(soft), np.int64)
    looks, look_of = np.unique(buckets.index.astype(np.int64) * palette.MAX_STATES + strongest, return_inverse=True)
    x, y = place.T
    traces: list[Dict] = [_asphalt(circuit, "scattergl" if dots else "scatter")]
    if dots:
        order = np.argsort(look_of, kind="stable")
        parts = np.split(order, np.searchsorted(look_of[order], np.arange(1, len(looks))))
    else:
        parts = bucket_lines(x, y, look_of[:-1])
    for code, visit in zip(looks.tolist(), parts, strict=False):
        if not len(visit):
            continue
        colour, first = buckets.css[code // palette.MAX_STATES], code % palette.MAX_STATES
        said = template.replace("S%{customdata[5]}", plain(names[first])) if names else template
        look: Dict = (
            {"type": "scattergl", "mode": "markers", "marker": {"color": colour, "size": DOT, "line": {"width": 0}}}
            if dots
            else {"type": "scatter", "mode": "lines", "line": {"color": colour, "width": LINE, "simplify": False}}
        )
        lifted = visit < 0
        traces.append(
            look
            | {
                "x": typed(np.where(lifted, np.nan, x[visit])),
                "y": typed(np.where(lifted, np.nan, y[visit])),
                "customdata": typed(tips[visit], "u1"),
                "hovertemplate": said,
                "connectgaps": False,
            }
        )
    stations = circuit.at(np.arange(STATIONS + 1) * circuit.length / STATIONS)
    sizes = widths(circuit, badges, soft.shape[1], title)
    usage = np.nanmean(soft, axis=0)
    top = np.argsort(-usage)[:3]
    return {
        "data": traces,
        "layout": layout(**sizes[0]["layout"]),
        "widths": sizes,
        "caption": caption,
        "alt": f"Map of {circuit.title} with {len(circuit.corners)} corners, {len(soft)} samples in the colours of "
        f"{soft.shape[1]} states. Most used: " + ", ".join(f"S{k + 1} {usage[k]:.0%}" for k in top) + ".",
        "height": sizes[-1]["height"],
        "phone_height": sizes[0]["height"],
        "cursor": path_cursor(stations[:, 0], stations[:, 1], 0.0, circuit.length / STATIONS, True),
    }


def _asphalt(circuit: Circuit, kind: str) -> Dict:
    """The track itself beneath the states."""
    return {
        "type": kind,
        "mode": "lines",
        "x": typed(circuit.line[::3, 0]),
        "y": typed(circuit.line[::3, 1]),
        "line": {"color": "$grid", "width": 13},
        "hoverinfo": "skip",
    }


def without_title(figure: Figure) -> Figure:
    """The same figure with corners alone below its axis: their names say what it is."""
    figure["layout"]["xaxis"] |= {"title": None}
    return figure
