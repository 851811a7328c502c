"""Circuit map with the states of each track segment as labels beside the track."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

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
from pages.formula1.data import Circuit, Laps

Floats = npt.NDArray[np.floating]

# ---- badges -----------------------------------------------------------------------------------------------------------
GREY = "#868c9c"  # legible in both themes
SMALLEST, LARGER = 9, 7  # font size in pixels, and its increase for a weight of 1
HEIGHT = 21
# Minimum figure width: height, and states per label.
WIDTHS = ((0, 300, 0), (520, 520, 3), (900, 520, 4))
MOST = max(most for *_, most in WIDTHS)


@dataclass(frozen=True)
class Badge:
    """Label of one segment: its states by presence, and hover text."""

    parts: tuple[Part, ...]
    words: str


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
        )
        for name, states in zip(circuit.segments, parts, strict=True)
    )


def width_of(sizes: Sequence[float], states: Sequence[int]) -> float:
    """Return the width of a label in pixels: a dot and one or two digits per state."""
    letters = sum(size * (0.75 + 0.56 * len(str(k + 1))) for size, k in zip(sizes, states, strict=True))
    return letters + 4 * (len(sizes) - 1) + 10


def widths(circuit: Circuit, shown: Sequence[Badge], n_states: int, title: str) -> list[Dict]:
    """Return map layouts for figure widths: corner numbers, and labels where there is room."""
    found, colours = [], palette.colours(n_states)
    for least, height, most in WIDTHS:
        at = place(circuit, max(least, 300), height)
        marks = name_corners(circuit, at)
        kept = [badge.parts[:most] for badge in shown]
        for segment, middle in sorted(at.without_collisions(kept).items()):
            text = " ".join(_letters(part, colours[part.state]) for part in kept[segment])
            x, y = map(float, middle)
            marks.append(
                note(text, x, y, xref="x", yref="y", name="badge", hovertext=shown[segment].words, captureevents=False,
                     height=HEIGHT - 5, borderpad=1, bgcolor="$surface", bordercolor="$line")
            )  # fmt: skip
        if title:
            marks.append(headline(title) | {"y": 0, "yanchor": "top", "yshift": -2})
        look = {"annotations": marks, "margin": MARGIN} | map_axes(at)
        found.append({"least": least, "height": height, "layout": look})
    return found


def name_corners(circuit: Circuit, at: Places) -> list[Dict]:
    """Return the names of the corners that have room, off the track."""
    return [
        note(name, float(x), float(y), xref="x", yref="y", name="corner", font=SMALL)
        for (name, *_), (x, y) in zip(circuit.corners, at.numbers, strict=True)
        if np.isfinite(x)
    ]


def map_axes(at: Places) -> Dict:
    """Return hidden axes with the ranges of a placement."""
    return {"xaxis": bare(range=list(at.x)), "yaxis": bare(range=list(at.y), scaleanchor="x", scaleratio=1)}


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
    asphalt: Dict = {"line": {"color": "$grid", "width": 13}, "type": "scattergl" if dots else "scatter"}
    traces: list[Dict] = [points("lines", *circuit.line[::3].T, **asphalt)]
    if dots:
        order = np.argsort(look_of, kind="stable")
        parts = np.split(order, np.searchsorted(look_of[order], np.arange(1, len(looks))))
    else:
        parts = bucket_lines(laps.place[:, 0], laps.place[:, 1], look_of[:-1])
    for code, visit in zip(looks.tolist(), parts, strict=False):
        if not len(visit):
            continue
        colour, first = buckets.css[code // palette.MAX_STATES], code % palette.MAX_STATES
        said = template.replace("S%{customdata[5]}", plain(names[first])) if names else template
        look: Dict = {
            "type": "scattergl",
            "mode": "markers",
            "marker": {"color": colour, "size": DOT, "line": {"width": 0}},
        }
        if not dots:
            look = {"type": "scatter", "mode": "lines", "line": {"color": colour, "width": LINE, "simplify": False}}
        x, y = np.where(visit < 0, np.nan, laps.place[visit].T)
        tip = {"customdata": typed(tips[visit], "u1"), "hovertemplate": said}
        traces.append(look | tip | {"x": typed(x), "y": typed(y), "connectgaps": False})
    sizes = widths(circuit, badges, soft.shape[1], title)
    usage = np.nanmean(soft, axis=0)
    top = np.argsort(-usage)[:3]
    most = ", ".join(f"S{k + 1} {usage[k]:.0%}" for k in top)
    alt = (
        f"Map of {circuit.title} with {len(circuit.corners)} corners, {len(soft)} samples in the colours of "
        f"{soft.shape[1]} states. Most used: {most}."
    )
    made = figure(traces, caption, alt, sizes[-1]["height"], cursor=cursor(circuit), **sizes[0]["layout"])
    return made | {"widths": sizes}


# ---- placing of corner numbers and labels -----------------------------------------------------------------------------
# Positions are in map coordinates for a given figure size: zooming in moves them apart and keeps box sizes, so what is
# clear at this size is clear at every larger scale.
MARGIN = {"l": 4, "r": 4, "t": 26, "b": 22}  # margin in pixels: toolbar above, title below
TRACK_PX = 9.0  # minimum distance of labels from the track's centre; the track is 13 wide
APART_PX = 2.0  # gap between labels
SIDE_PX, ENDS_PX = 0.08, 0.11  # free margin around the track, as a share of the figure
NUMBER_PX = (8.0, 13.0)  # width of one character
NUMBER_REACHES = (16.0, 24.0, 34.0, 46.0)
LABEL_REACH = 15.0  # from the track to the nearer edge of a label
ANCHORS = (0.5, 0.35, 0.65, 0.2, 0.8)  # shares of a segment beside which its label may be
DIRECTIONS = np.array([0, 1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6, 7, -7, 8]) * (2 * np.pi / 16)


@dataclass(frozen=True, eq=False)
class Places:
    """Placement for one figure size.

    x, y      axis ranges
    scale     pixels per metre
    numbers   [C, 2] centres of corner numbers; NaN without room
    anchors   [S, 2] points of the track beside which labels stand; NaN without room for one state
    normals   [S, 2] directions from the track to labels
    track     [M, 2] the track in pixels
    """

    x: tuple[float, float]
    y: tuple[float, float]
    scale: float
    numbers: Floats
    anchors: Floats
    normals: Floats
    track: Floats

    def label(self, segment: int, half: Floats) -> Floats:
        """Return the centre in pixels of a label of half this size, whose edge is at a fixed distance from the track."""
        normal = self.normals[segment]
        return np.asarray(self.anchors[segment] * self.scale + (LABEL_REACH + np.abs(normal) @ half) * normal)

    def without_collisions(self, kept: Sequence[Sequence[Part]]) -> dict[int, Floats]:
        """Return the centres of the labels that are shown, by segment: of two that overlap, the one of more weight."""
        halves = [
            np.array([width_of([_size(p) for p in parts], [p.state for p in parts]), HEIGHT]) / 2 for parts in kept
        ]
        numbers = self.numbers[np.isfinite(self.numbers[:, 0])] * self.scale
        taken = [(number, np.array(NUMBER_PX) / 2) for number in numbers]
        shown: dict[int, Floats] = {}
        for segment in sorted((s for s in range(len(kept)) if kept[s]), key=lambda s: -max(p.weight for p in kept[s])):
            middle, half = self.label(segment, halves[segment]), halves[segment]
            if np.isfinite(middle).all() and _is_free(middle[None], half, self.track, taken)[0]:
                shown[segment] = middle / self.scale
                taken.append((middle, half))
        return shown


@lru_cache(maxsize=32)
def place(circuit: Circuit, width: int, height: int) -> Places:
    """Return the placement for a figure of this size in pixels."""
    size = np.array([width, height], float) - (MARGIN["l"] + MARGIN["r"], MARGIN["t"] + MARGIN["b"])
    low, high = circuit.line.min(axis=0).astype(float), circuit.line.max(axis=0).astype(float)
    scale = float((size * (1 - 2 * np.array([SIDE_PX, ENDS_PX])) / (high - low)).min())
    origin = (low + high) / 2 - size / scale / 2
    track = circuit.position_at(np.arange(0, circuit.length, 2 / scale)) * scale
    inside = origin * scale, origin * scale + size
    numbers, taken = np.full((len(circuit.corners), 2), np.nan), list[tuple[Floats, Floats]]()
    for row, (name, x, y, _, angle) in enumerate(circuit.corners):
        half, turn = np.array([NUMBER_PX[0] * len(name), NUMBER_PX[1]]) / 2, np.deg2rad(angle) + DIRECTIONS
        ways = np.column_stack([np.cos(turn), np.sin(turn)])
        middles = (np.array([x, y]) * scale + np.array(NUMBER_REACHES)[:, None, None] * ways).reshape(-1, 2)
        free = _is_free(middles, half, track, taken) & _is_inside(middles, half, inside)
        if free.any():
            numbers[row] = middles[free.argmax()] / scale
            taken.append((middles[free.argmax()], half))
    half = np.array([width_of([SMALLEST + LARGER], [0]), HEIGHT]) / 2
    ends = origin + size / scale
    anchors, normals = np.full((2, len(circuit.segments), 2), np.nan)
    ranges = (float(origin[0]), float(ends[0])), (float(origin[1]), float(ends[1]))
    places = Places(*ranges, scale, numbers, anchors, normals, track)
    edges = circuit.edges.astype(np.float64)
    lengths = np.mod(np.roll(edges, -1) - edges, circuit.length)
    for row in range(len(edges) if circuit.segments else 0):
        for share, side in product(ANCHORS, (1, -1)):
            at = edges[row] + share * lengths[row]
            ahead = circuit.position_at(at + 5.0) - circuit.position_at(at - 5.0)
            places.anchors[row] = circuit.position_at(at)
            places.normals[row] = side * np.array([-ahead[1], ahead[0]]) / np.linalg.norm(ahead)
            middle = places.label(row, half)
            if _is_free(middle[None], half, track, taken)[0] and _is_inside(middle[None], half, inside)[0]:
                taken.append((middle, half))
                break
        else:
            places.anchors[row] = np.nan
    return places


def _is_inside(middles: Floats, half: Floats, inside: tuple[Floats, Floats]) -> npt.NDArray[np.bool_]:
    """Return whether boxes around these centres [n, 2] lie in the figure."""
    return np.asarray(((middles - half >= inside[0]) & (middles + half <= inside[1])).all(axis=1))


def _is_free(
    middles: Floats, half: Floats, track: Floats, taken: Sequence[tuple[Floats, Floats]]
) -> npt.NDArray[np.bool_]:
    """Return whether boxes around these centres [n, 2] are off the track and off taken boxes."""
    free = clearance(track, middles, half) > TRACK_PX
    for other, size in taken:
        free &= (np.abs(middles - other) > half + size + APART_PX).any(axis=1)
    return free


def clearance(track: Floats, middles: Floats, half: Floats) -> Floats:
    """Return the distance in pixels of boxes around these centres [n, 2] from the track's centre."""
    apart = np.maximum(np.abs(middles[:, None] - track) - half, 0)
    return np.asarray(np.linalg.norm(apart, axis=-1).min(axis=1))
