"""Circuit map with the states of each track segment as labels with leader lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.segments import Part
from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import (
    SMALL,
    Dict,
    Figure,
    bare,
    figure,
    headline,
    note,
    path_cursor,
    plain,
    points,
    typed,
)
from gdm_studio.plot.figures.states import top_two
from gdm_studio.plot.figures.track import bucket_lines
from pages.formula1.data import Circuit, Floats, Laps
from pages.formula1.placing import MARGIN, STANDOFF_PX, Places, place
from pages.formula1.teams import LineStyle

# ---- badges -----------------------------------------------------------------------------------------------------------
GREY = "#868c9c"  # legible in both themes
SMALLEST, LARGER = 9, 7  # font size in pixels, and its increase for a weight of 1
HEIGHT = 21
# Minimum figure width: height, and states per label.
WIDTHS = ((0, 300, 0), (520, 520, 3), (900, 520, 4))
MOST = max(most for *_, most in WIDTHS)


@dataclass(frozen=True)
class Badge:
    """Label of one segment: its states by presence, and hover text.

    most   number of states it has room for
    """

    parts: tuple[Part, ...]
    words: str
    most: int = MOST


def badges(circuit: Circuit, parts: Sequence[Sequence[Part]], *, all_of_them: bool, most: int) -> tuple[Badge, ...]:
    """Return the label of each segment.

    most   number of states per label; with 1, the state of most weight
    """

    def select(states: Sequence[Part]) -> tuple[Part, ...]:
        shown = [part for part in states if part.main or all_of_them]
        return tuple(sorted(shown, key=lambda part: -part.weight)[:1] if most == 1 else shown[:most])

    return tuple(
        Badge(
            select(states),
            f"{name}: "
            + ", ".join(f"S{p.state + 1} in {p.presence:.0%} of samples, weight {p.weight:.0%}" for p in states),
            most,
        )
        for name, states in zip(circuit.segments, parts, strict=True)
    )


def width_of(sizes: Sequence[float], states: Sequence[int]) -> float:
    """Return the width of a label in pixels: a dot and one or two digits per state."""
    letters = sum(size * (0.75 + 0.56 * len(str(k + 1))) for size, k in zip(sizes, states, strict=True))
    return letters + 4 * (len(sizes) - 1) + 10


def slot_width(most: int) -> float:
    """Return the width reserved for a label of `most` states, whatever its content."""
    alone = width_of([SMALLEST + LARGER], [palette.MAX_STATES - 1])
    return round(max(alone, width_of([SMALLEST + LARGER * most**-0.5] * most, [0] * most)))


def fitting_states(badge: Badge, most: int) -> list[Part]:
    """Return the states that fit into a label."""
    kept = list(badge.parts[:most])
    while kept and width_of([_size(part) for part in kept], [part.state for part in kept]) > slot_width(most) + 1:
        kept.pop()
    return kept


@lru_cache(maxsize=64)
def places(circuit: Circuit, width: int, height: int, most: int) -> tuple[Places, tuple[int, ...]]:
    """Return label positions for a figure size, and the number of states per label that fit."""
    size = max(width, 300), height
    room = [most] * len(circuit.segments)
    best = None
    while True:
        at = place(circuit, size, [(slot_width(n) if n else 0.0, float(HEIGHT)) for n in room])
        merit = -int(at.missing.sum()), -int(at.cramped.sum()), sum(room)
        if best is None or merit > best[0]:
            best = merit, at, tuple(room)
        smaller = [n - bool(poor) if n > 1 else n for n, poor in zip(room, at.cramped, strict=True)]
        if smaller == room:
            return best[1:]
        room = smaller


def widths(circuit: Circuit, shown: Sequence[Badge], n_states: int, title: str) -> list[Dict]:
    """Return map layouts for figure widths: corner numbers always, labels where there is room."""
    found = []
    colours = palette.colours(n_states)
    needed = max((badge.most for badge in shown), default=0)
    for least, height, most in WIDTHS:
        at, room = places(circuit, least, height, min(most, needed))
        marks = name_corners(circuit, at)
        for badge, start, middle, n, missing in zip(shown, at.anchors, at.middles, room, at.missing, strict=False):
            kept = fitting_states(badge, n)
            if kept and not missing:
                marks.append(_mark(" ".join(_letters(p, colours[p.state]) for p in kept), start, middle, badge.words))
        if title:
            marks.append(headline(title) | {"y": 0, "yanchor": "top", "yshift": -2})
        look = {"annotations": marks, "margin": MARGIN} | map_axes(at)
        found.append({"least": least, "height": height, "layout": look})
    return found


def name_corners(circuit: Circuit, at: Places) -> list[Dict]:
    """Return the names of the corners, off the track."""
    return [
        note(name, float(x), float(y), xref="x", yref="y", name="corner", font=SMALL)
        for (name, *_), (x, y) in zip(circuit.corners, at.numbers, strict=True)
    ]


def map_axes(at: Places) -> Dict:
    """Return hidden axes with the ranges of a placement."""
    return {"xaxis": bare(range=list(at.x)), "yaxis": bare(range=list(at.y), scaleanchor="x", scaleratio=1)}


def without_room(circuit: Circuit, shown: Sequence[Badge]) -> dict[int, list[str]]:
    """Return the segments without room for a label, by figure width."""
    found = {}
    needed = max((badge.most for badge in shown), default=0)
    for least, height, most in WIDTHS:
        if most and needed:
            at, _ = places(circuit, least, height, min(most, needed))
            found[least] = [name for name, gone in zip(circuit.segments, at.missing, strict=True) if gone]
    return found


def _mark(text: str, start: Sequence[float], middle: Sequence[float], words: str) -> Dict:
    """Return a label at `middle` with a line to `start`."""
    (x, y), (ax, ay) = map(float, start), map(float, middle)
    return note(
        text, x, y, ax=ax, ay=ay, xref="x", yref="y", axref="x", ayref="y", name="badge", hovertext=words, captureevents=False,
        showarrow=True, arrowhead=0, arrowwidth=1, arrowcolor=GREY, standoff=STANDOFF_PX, height=HEIGHT - 5, borderpad=1,
        bgcolor="$surface", bordercolor="$line",
    )  # fmt: skip


def _size(part: Part) -> float:
    return round(SMALLEST + LARGER * min(max(part.weight, 0.0), 1.0) ** 0.5, 1)


def _letters(part: Part, colour: str) -> str:
    size = _size(part)
    if not part.main:
        return f'<span style="color:{GREY};font-size:{size}px">{part.state + 1}</span>'
    return f'<span style="font-size:{size}px"><span style="color:{colour}">●</span><b>{part.state + 1}</b></span>'


# ---- the map itself ---------------------------------------------------------------------------------------------------
STATIONS = 250  # hover positions along the lap; fit into one byte
COLOURS = 40
DOT, LINE = 5.5, 9.0  # pixels wide
DOTS_ABOVE = 2_500  # samples; lines of many laps would overlap
FIRST = 5  # column of the strongest state


def cursor(circuit: Circuit) -> Dict:
    """Link hovering over figures along the lap to a position on the map."""
    x, y = circuit.position_at(np.arange(STATIONS + 1) * circuit.length / STATIONS).T
    return path_cursor(x, y, 0.0, circuit.length / STATIONS)


def draw_stretches(
    circuit: Circuit,
    edges: npt.NDArray[np.float64],
    looks: Sequence[LineStyle],
    opacity: Iterable[float],
    says: Sequence[str],
) -> list[Dict]:
    """Return a line for each stretch of the lap between `edges` [M + 1], in the look of its driver."""
    grid = np.linspace(0, circuit.length, len(circuit.line))
    traces: list[Dict] = []
    for start, end, look, strength, text in zip(edges[:-1], edges[1:], looks, opacity, says, strict=True):
        along = np.unique(np.concatenate([[start], grid[(grid > start) & (grid < end)], [end]]))
        x, y = circuit.position_at(np.minimum(along, circuit.length * (1 - 1e-9))).T
        stations = typed(np.round(along / circuit.length * STATIONS)[:, None] % STATIONS, "u1")
        line = {"color": look.colour, "width": LINE, "dash": "solid" if look.dash == "solid" else "6px,3px"}
        more: Dict = {"customdata": stations, "line": line, "opacity": float(strength), "cliponaxis": False}
        traces.append(points("lines", x, y, text, showlegend=False, **more))
    return traces


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
    return table.astype(np.uint8), (
        f"lap %{{customdata[1]}} · {place}<br>%{{customdata[2]}}%{{customdata[3]}} km/h<br>"
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
    """Draw samples [T] on the map in mixed state colours: a line, or dots for many laps.

    names   names of the states for hover text
    """
    soft = np.asarray(states, np.float32)
    dots = len(soft) > DOTS_ABOVE
    buckets = palette.quantise(soft, limit=COLOURS)
    tips, template = _tips(circuit, laps, soft)
    # One trace per colour and strongest state keeps names out of the per-sample data.
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
    made = figure(traces, caption, alt, high, cursor=cursor(circuit), **small["layout"])
    return made | {"widths": sizes}
