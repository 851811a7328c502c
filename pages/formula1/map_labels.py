"""Corner numbers and labels of states on the circuit map, placed for one figure size.

Boxes are in pixels. Zooming in moves them apart and keeps their size, so they do not overlap then either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.segments import Part
from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import SMALL, Dict, bare, headline, note
from pages.formula1.circuit import Circuit

Floats = npt.NDArray[np.floating]
MARGIN = {"l": 4, "r": 4, "t": 26, "b": 22}  # of the figure: toolbar above, title below
SMALLEST_MAP = (300, 300)  # pixels; corner names that are clear here are clear on larger maps
TRACK_PX = 9.0  # minimum distance of boxes from the track's centre; the track is 13 wide
APART_PX = 2.0  # gap between boxes
SIDE, ENDS = 0.08, 0.11  # free margin around the track, as a share of the figure
NUMBER_PX = (8.0, 13.0)  # width of one character, and height
NUMBER_REACHES = (16.0, 24.0, 34.0, 46.0)  # from a corner to its number
DIRECTIONS = np.array([0, 1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6, 7, -7, 8]) * (2 * np.pi / 16)
LABEL_REACH = 15.0  # from the track to the nearer edge of a label
LABEL_HEIGHT = 21
SMALLEST, LARGER = 9, 7  # font size, and its increase for a weight of 1
ANCHORS = (0.5, 0.35, 0.65, 0.2, 0.8)  # shares of a segment beside which its label may be


def font_size(part: Part) -> float:
    """Return the font size of a state in a label."""
    return round(SMALLEST + LARGER * min(max(part.weight, 0.0), 1.0) ** 0.5, 1)


def half_size(parts: Sequence[Part]) -> Floats:
    """Return half the size of a label: a dot and one or two digits per state."""
    letters = sum(font_size(part) * (0.75 + 0.56 * len(str(part.state + 1))) for part in parts)
    return np.array([letters + 4 * (len(parts) - 1) + 10, LABEL_HEIGHT]) / 2


@dataclass(eq=False)
class Room:
    """Space for boxes beside the track.

    track   [M, 2] centre line
    ends    lower and upper corner of the figure
    taken   centre and half size of the boxes so far
    """

    track: Floats
    ends: tuple[Floats, Floats]
    taken: list[tuple[Floats, Floats]] = field(default_factory=list)

    def copy(self) -> Room:
        return replace(self, taken=[*self.taken])

    def has_room(self, middles: Floats, half: Floats) -> npt.NDArray[np.bool_]:
        """Return whether boxes around these centres [n, 2] are in the figure, off the track and off other boxes."""
        gap = np.maximum(np.abs(middles[:, None] - self.track) - half, 0)
        free = np.linalg.norm(gap, axis=-1).min(axis=1) > TRACK_PX
        free &= ((middles - half >= self.ends[0]) & (middles + half <= self.ends[1])).all(axis=1)
        for other, size in self.taken:
            free &= (np.abs(middles - other) > half + size + APART_PX).any(axis=1)
        return np.asarray(free)

    def take_first(self, middles: Floats, half: Floats) -> int | None:
        """Occupy the first of these places that is free; return its index."""
        free = self.has_room(middles, half)  # never for NaN
        if not free.any():
            return None
        self.taken.append((middles[free.argmax()], half))
        return int(free.argmax())


@dataclass(frozen=True, eq=False)
class MapLayout:
    """Placement for one figure size, in metres.

    x, y      axis ranges
    scale     pixels per metre
    numbers   [C, 2] centres of corner numbers; NaN without room
    anchors   [S, 2] points of the track that labels belong to; NaN without room for one state
    normals   [S, 2] directions from the track to labels
    room      space beside the track and the numbers
    """

    x: tuple[float, float]
    y: tuple[float, float]
    scale: float
    numbers: Floats
    anchors: Floats
    normals: Floats
    room: Room

    @property
    def axes(self) -> Dict:
        """Return hidden axes, and margins."""
        across = bare(range=list(self.x))
        return {"xaxis": across, "yaxis": bare(range=list(self.y), scaleanchor="x", scaleratio=1), "margin": MARGIN}

    def corner_names(self, circuit: Circuit) -> list[Dict]:
        """Return the names of the corners that have room."""
        return [
            note(name, float(x), float(y), xref="x", yref="y", name="corner", font=SMALL)
            for (name, *_), (x, y) in zip(circuit.corners, self.numbers, strict=True)
            if np.isfinite(x)
        ]

    def label_places(self, labels: Sequence[Sequence[Part]]) -> dict[int, Floats]:
        """Return the centres of the labels that are shown, by segment: of two that overlap, the one of more weight."""
        room, shown = self.room.copy(), dict[int, Floats]()
        filled = [segment for segment, parts in enumerate(labels) if parts]
        for segment in sorted(filled, key=lambda segment: -max(part.weight for part in labels[segment])):
            half = half_size(labels[segment])
            middle = beside(self.anchors[segment] * self.scale, self.normals[segment], half)
            if room.take_first(middle[None], half) is not None:
                shown[segment] = middle / self.scale
        return shown


def beside(anchor: Floats, normal: Floats, half: Floats) -> Floats:
    """Return the centre of a label whose edge is at a fixed distance from a point of the track."""
    return np.asarray(anchor + (LABEL_REACH + np.abs(normal) @ half) * normal)


@lru_cache(maxsize=32)
def lay_out(circuit: Circuit, width: int, height: int) -> MapLayout:
    """Return the placement for a figure of this size."""
    size = np.array([width, height], float) - (MARGIN["l"] + MARGIN["r"], MARGIN["t"] + MARGIN["b"])
    low, high = circuit.line.min(axis=0).astype(float), circuit.line.max(axis=0).astype(float)
    scale = float((size * (1 - 2 * np.array([SIDE, ENDS])) / (high - low)).min())
    start, end = (low + high) / 2 - size / scale / 2, (low + high) / 2 + size / scale / 2
    ranges = (float(start[0]), float(end[0])), (float(start[1]), float(end[1]))
    track = circuit.position_at(np.arange(0, circuit.length, 2 / scale))  # 2 pixels apart
    room = Room(track * scale, (start * scale, end * scale))
    numbers = _place_numbers(circuit, scale, room)
    return MapLayout(*ranges, scale, numbers, *_place_anchors(circuit, scale, room.copy()), room)


def _place_numbers(circuit: Circuit, scale: float, room: Room) -> Floats:
    """Return the centres [C, 2] of corner numbers in metres, near their official direction; NaN without room."""
    numbers = np.full((len(circuit.corners), 2), np.nan)
    for row, (name, x, y, _, angle) in enumerate(circuit.corners):
        turn = np.deg2rad(angle) + DIRECTIONS
        ways = np.column_stack([np.cos(turn), np.sin(turn)])
        middles = (np.array([x, y]) * scale + np.array(NUMBER_REACHES)[:, None, None] * ways).reshape(-1, 2)
        first = room.take_first(middles, np.array([NUMBER_PX[0] * len(name), NUMBER_PX[1]]) / 2)
        if first is not None:
            numbers[row] = middles[first] / scale
    return numbers


def _place_anchors(circuit: Circuit, scale: float, room: Room) -> tuple[Floats, Floats]:
    """Return anchors and normals [S, 2] of the segments' labels, with room for one state of full weight."""
    anchors, normals = np.full((2, len(circuit.segments), 2), np.nan)
    half, edges = half_size([Part(0, 1.0, 1.0, True)]), circuit.edges.astype(np.float64)
    for row, length in enumerate(np.mod(np.roll(edges, -1) - edges, circuit.length) if circuit.segments else ()):
        ways = list(product(edges[row] + np.array(ANCHORS) * length, (1, -1)))
        along, side = np.array(ways).T
        ahead = circuit.position_at(along + 5.0) - circuit.position_at(along - 5.0)
        across = side[:, None] * np.column_stack([-ahead[:, 1], ahead[:, 0]])
        across /= np.linalg.norm(ahead, axis=1, keepdims=True)
        points = circuit.position_at(along)
        middles = np.stack([beside(*one, half) for one in zip(points * scale, across, strict=True)])
        if (first := room.take_first(middles, half)) is not None:
            anchors[row], normals[row] = points[first], across[first]
    return anchors, normals


# ---- the labels of states ---------------------------------------------------------------------------------------------
GREY = "#868c9c"  # legible in both themes
# Minimum figure width: height, and states per label.
WIDTHS = ((0, 300, 0), (520, 520, 3), (900, 520, 4))
MOST = max(most for *_, most in WIDTHS)


@dataclass(frozen=True)
class Badge:
    """Label of one segment: its states by presence, and hover text."""

    parts: tuple[Part, ...]
    words: str


def badges(
    circuit: Circuit, parts: Sequence[Sequence[Part]], *, complementary: bool = False, most: int
) -> tuple[Badge, ...]:
    """Return the label of each segment.

    complementary   whether labels have other states than the main ones
    most            number of states per label; with 1, the state of most weight
    """
    found = []
    for name, states in zip(circuit.segments, parts, strict=True):
        shown = [part for part in states if part.main or complementary]
        if most == 1:
            shown.sort(key=lambda part: -part.weight)
        words = ", ".join(f"S{p.state + 1} in {p.presence:.0%} of samples, weight {p.weight:.0%}" for p in states)
        found.append(Badge(tuple(shown[:most]), f"{name}: {words}"))
    return tuple(found)


def widths(circuit: Circuit, shown: Sequence[Badge], n_states: int, title: str) -> list[Dict]:
    """Return map layouts for figure widths: corner numbers, and labels where there is room."""
    found, colours = [], palette.colours(n_states)
    for least, height, most in WIDTHS:
        layout = lay_out(circuit, max(least, 300), height)
        marks = layout.corner_names(circuit)
        labels = [badge.parts[:most] for badge in shown]
        for segment, middle in sorted(layout.label_places(labels).items()):
            text = " ".join(_letters(part, colours[part.state]) for part in labels[segment])
            x, y = map(float, middle)
            marks.append(
                note(text, x, y, xref="x", yref="y", name="badge", hovertext=shown[segment].words, captureevents=False,
                     height=LABEL_HEIGHT - 5, borderpad=1, bgcolor="$surface", bordercolor="$line")
            )  # fmt: skip
        if title:
            marks.append(headline(title) | {"y": 0, "yanchor": "top", "yshift": -2})
        found.append({"least": least, "height": height, "layout": {"annotations": marks} | layout.axes})
    return found


def _letters(part: Part, colour: str) -> str:
    size = font_size(part)
    if not part.main:
        return f'<span style="color:{GREY};font-size:{size}px">{part.state + 1}</span>'
    return f'<span style="font-size:{size}px"><span style="color:{colour}">●</span><b>{part.state + 1}</b></span>'
