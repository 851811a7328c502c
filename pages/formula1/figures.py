"""The page's own figures: the map of the circuit, and lines along the lap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import Dict, Figure, figure, path_cursor, plain, points, typed
from gdm_studio.plot.figures.states import top_two
from gdm_studio.plot.figures.track import bucket_lines
from pages.formula1.badges import Badge, widths
from pages.formula1.data import Circuit, Floats, Laps

STATIONS = 250  # places along the lap that a hover can point at: they fit into one byte
COLOURS = 40
DOT, LINE = 5.5, 9.0  # pixels wide
DOTS_ABOVE = 2_500  # samples; a line through several laps would only lie on itself
FIRST = 5  # column of the strongest state among the bytes of a sample


def cursor(circuit: Circuit) -> Dict:
    """What has a hover on a figure along the lap point at its place on the map."""
    x, y = circuit.at(np.arange(STATIONS + 1) * circuit.length / STATIONS).T
    return path_cursor(x, y, 0.0, circuit.length / STATIONS, True)


def _tips(circuit: Circuit, laps: Laps, states: Floats) -> tuple[npt.NDArray[np.uint8], str]:
    """([T, 9] bytes, template): station, lap, tens and ones of the speed, corner, two states and their percentages."""
    whole = np.clip(np.nan_to_num(np.round(laps.speed)), 0, 999).astype(np.int64)
    corner = np.zeros(len(states), np.int64) if laps.segment is None else laps.segment + 1
    table = np.column_stack(
        [
            np.round(laps.distance / circuit.length * STATIONS) % STATIONS,
            laps.lap,
            whole // 10,
            whole % 10,
            corner,
            top_two(states),
        ]
    )
    place = "after corner %{customdata[4]}" if laps.segment is not None else ""
    where = "lap %{customdata[1]} · " if np.any(laps.lap) else "all laps · "
    return table.astype(np.uint8), (
        f"{where}{place}<br>%{{customdata[2]}}%{{customdata[3]}} km/h<br>"
        "S%{customdata[5]} %{customdata[6]} % · S%{customdata[7]} %{customdata[8]} %<extra></extra>"
    )


def circuit_map(
    circuit: Circuit,
    laps: Laps,
    states: Floats,
    *,
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
    tips, template = _tips(circuit, laps, soft)
    # A name is said once for all samples of one colour that have the same strongest state, not with each of them.
    strongest = tips[:, FIRST].astype(np.int64) - 1 if names else np.zeros(len(soft), np.int64)
    looks, look_of = np.unique(buckets.index.astype(np.int64) * palette.MAX_STATES + strongest, return_inverse=True)
    x, y = laps.place.T
    asphalt: Dict = {"line": {"color": "$grid", "width": 13}, "type": "scattergl" if dots else "scatter"}
    traces: list[Dict] = [points("lines", *circuit.line[::3].T, **asphalt)]
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
    sizes = widths(circuit, badges, soft.shape[1], title)
    usage = np.nanmean(soft, axis=0)
    top = np.argsort(-usage)[:3]
    most = ", ".join(f"S{k + 1} {usage[k]:.0%}" for k in top)
    alt = (
        f"Map of {circuit.title} with {len(circuit.corners)} corners, {len(soft)} samples in the colours of "
        f"{soft.shape[1]} states. Most used: {most}."
    )
    small, high = sizes[0], sizes[-1]["height"]
    made = figure(traces, caption, alt, high, phone_height=small["height"], cursor=cursor(circuit), **small["layout"])
    return made | {"widths": sizes}
