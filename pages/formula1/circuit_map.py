"""Circuit map with samples in the colours of their states."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import Dict, Figure, figure, path_cursor, plain, points, typed
from gdm_studio.plot.figures.states import top_two
from gdm_studio.plot.figures.track import bucket_lines
from pages.formula1.circuit import Circuit
from pages.formula1.data import Laps
from pages.formula1.map_labels import Badge, widths

Floats = npt.NDArray[np.floating]

STATIONS = 250  # hover positions along the lap; fit into one byte
COLOURS = 40
DOT, LINE = 5.5, 9.0  # pixels wide
DOTS_ABOVE = 2_500  # samples; lines of many laps would overlap
FIRST = 5  # column of the strongest state


def cursor(circuit: Circuit) -> Dict:
    """Link hovering over figures along the lap to a position on the map."""
    x, y = circuit.position_at(np.arange(STATIONS + 1) * circuit.length / STATIONS).T
    return path_cursor(x, y, 0.0, circuit.length / STATIONS)


def _tips(circuit: Circuit, laps: Laps, states: Floats) -> tuple[npt.NDArray[np.uint8], str]:
    """Return [T, 9] bytes of hover data and their template."""
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
    lap = "lap %{customdata[1]} · " if laps.lap.any() else ""  # an average lap has no number
    return table.astype(np.uint8), (
        f"{lap}{place}<br>%{{customdata[2]}}%{{customdata[3]}} km/h<br>"
        "S%{customdata[5]} %{customdata[6]}% · S%{customdata[7]} %{customdata[8]}%<extra></extra>"
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
    """Draw samples [T] on the map in mixed state colours: a line, or dots for many laps.

    names   names of the states for hover text
    """
    soft = np.asarray(states, np.float32)
    asphalt: Dict = {"line": {"color": "$grid", "width": 13}}
    asphalt["type"] = "scattergl" if len(soft) > DOTS_ABOVE else "scatter"
    traces = [points("lines", *circuit.line[::3].T, **asphalt), *_state_traces(circuit, laps, soft, names)]
    sizes = widths(circuit, badges, soft.shape[1], title)
    usage = np.nanmean(soft, axis=0)
    most = ", ".join(f"S{k + 1} {usage[k]:.0%}" for k in np.argsort(-usage)[:3])
    alt = (
        f"Map of {circuit.title} with {len(circuit.corners)} corners, {len(soft)} samples in the colours of "
        f"{soft.shape[1]} states. Most used: {most}."
    )
    made = figure(traces, caption, alt, sizes[-1]["height"], cursor=cursor(circuit), **sizes[0]["layout"])
    return made | {"widths": sizes}


def _state_traces(circuit: Circuit, laps: Laps, soft: npt.NDArray[np.float32], names: Sequence[str]) -> list[Dict]:
    """Return one trace per colour and strongest state, which keeps names out of the hover data of samples."""
    dots = len(soft) > DOTS_ABOVE
    buckets = palette.quantise(soft, limit=COLOURS)
    tips, template = _tips(circuit, laps, soft)
    strongest = tips[:, FIRST].astype(np.int64) - 1 if names else np.zeros(len(soft), np.int64)
    codes, code_of = np.unique(buckets.index.astype(np.int64) * palette.MAX_STATES + strongest, return_inverse=True)
    if dots:
        order = np.argsort(code_of, kind="stable")
        parts = np.split(order, np.searchsorted(code_of[order], np.arange(1, len(codes))))
    else:
        parts = bucket_lines(laps.place[:, 0], laps.place[:, 1], code_of[:-1])
    traces: list[Dict] = []
    for code, visit in zip(codes.tolist(), parts, strict=False):
        if not len(visit):
            continue
        colour, first = buckets.css[code // palette.MAX_STATES], code % palette.MAX_STATES
        hover = template.replace("S%{customdata[5]}", plain(names[first])) if names else template
        style: Dict = {"type": "scatter", "mode": "lines", "line": {"color": colour, "width": LINE, "simplify": False}}
        if dots:
            marker = {"color": colour, "size": DOT, "line": {"width": 0}}
            style = {"type": "scattergl", "mode": "markers", "marker": marker}
        x, y = np.where(visit < 0, np.nan, laps.place[visit].T)
        tip = {"customdata": typed(tips[visit], "u1"), "hovertemplate": hover}
        traces.append(style | tip | {"x": typed(x), "y": typed(y), "connectgaps": False})
    return traces
