"""Placement of corner numbers and labels on the map without overlap.

Positions are in map coordinates for a given figure size: zooming in moves them apart and keeps box sizes, so what is
clear at this size is clear at every larger scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.ndimage import distance_transform_edt

from pages.formula1.data import Circuit

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

MARGIN = {"l": 4, "r": 4, "t": 26, "b": 22}  # margin in pixels: toolbar above, title below
TRACK_PX = 10.0  # minimum distance of labels from the track's centre; the track is 13 wide
LEADER_PX = 8.0  # minimum distance of passing leader lines
STANDOFF_PX = 8.0  # start of leader lines, off the track
APART_PX = 3.0  # gap between labels
CELL_PX = 2.0
SIDE_PX, ENDS_PX = 0.08, 0.11  # free margin around the track, as a share of the figure
NUMBER_PX = (8.0, 13.0)  # width of one character
ANCHORS = (0.5, 0.35, 0.65, 0.2, 0.8, 0.08, 0.92)  # positions within a segment where leader lines may begin
DIRECTIONS = np.arange(32) * (2 * np.pi / 32)
REACHES = np.array([13, 17, 22, 28, 35, 43, 52, 62, 74, 88, 104, 122, 142, 165, 190, 220, 260], float)
CROSSING = 400.0  # cost of crossing the track, for enclosed segments
TRIES = 6
FAR_PX = 110.0  # longest good leader line
LONG_PX = 15.0  # cost grows faster than length
BLOCK = 96  # candidates per batch, nearest first


@dataclass(frozen=True, eq=False)
class Places:
    """Placement for one figure size.

    x, y      axis ranges
    scale     pixels per metre
    numbers   [C, 2] centres of corner numbers
    anchors   [S, 2] start of each leader line on the track
    middles   [S, 2] centres of labels; NaN without room
    cramped   [S] whether a label found no good position
    """

    x: tuple[float, float]
    y: tuple[float, float]
    scale: float
    numbers: Floats
    anchors: Floats
    middles: Floats
    cramped: Flags

    @property
    def missing(self) -> Flags:
        """[S] whether a label found no room."""
        return np.isnan(self.middles[:, 0])


def place(circuit: Circuit, size: tuple[int, int], boxes: Sequence[tuple[float, float]]) -> Places:
    """Return the placement for a figure and label sizes in pixels; width 0 means no label."""
    board = _board(circuit, size)
    ends = np.full((len(boxes), 2), np.nan)
    starts = board.screen(circuit.position_at(circuit.middles)) if len(boxes) else np.zeros((0, 2))
    free = {c: board.candidates(c, np.asarray(box) / 2) for c, box in enumerate(boxes) if box[0] > 0}
    # Labels with the fewest candidates choose first.
    order = sorted((c for c in free if len(free[c])), key=lambda c: int((free[c][:, 4] < CROSSING).sum()))
    best: tuple[float, dict[int, Floats]] = (np.inf, {})
    rng = np.random.default_rng(0)
    for _ in range(TRIES):
        chosen, poor = _choose(order, free, boxes)
        costs = {c: float(chosen[c][4]) if c in chosen else 10 * CROSSING for c in order}
        loss = sum(cost + (cost / LONG_PX) ** 2 for cost in costs.values())
        if loss < best[0]:
            best = loss, chosen
        # In the next round, unplaced labels choose first, then long lines.
        first = poor or sorted(order, key=lambda c: -costs[c])[:1]
        rest = [c for c in order if c not in first]
        order = [*first, *(rest if order[: len(first)] != first else rng.permutation(rest).tolist())]
    cramped = np.array([width > 0 for width, _ in boxes], bool)
    for c, found in best[1].items():
        starts[c], ends[c], cramped[c] = found[:2], found[2:4], found[4] > FAR_PX
    return Places(*board.ranges, board.scale, board.numbers, board.metres(starts), board.metres(ends), cramped)


def _choose(
    order: Sequence[int], free: dict[int, Floats], boxes: Sequence[tuple[float, float]]
) -> tuple[dict[int, Floats], list[int]]:
    """Return the candidate chosen for each label, and the labels without a good one."""
    chosen: dict[int, Floats] = {}
    poor = []
    taken = np.zeros((0, 6))  # start, end and half sizes of placed labels
    for c in order:
        half = np.asarray(boxes[c]) / 2
        found = next(
            (
                block[alone.argmax()]
                for block in np.array_split(free[c], range(BLOCK, len(free[c]), BLOCK))
                if (alone := ~_clashes(block, half, taken)).any()
            ),
            None,
        )
        if found is None or found[4] >= CROSSING > free[c][0, 4]:
            poor.append(c)
        if found is not None:
            chosen[c] = found
            taken = np.vstack([taken, [*found[:4], *half]])
    return chosen, poor


def _clashes(candidates: Floats, half: Floats, taken: Floats) -> Flags:
    """Return which labels or leader lines [n] overlap placed ones."""
    found = np.zeros(len(candidates), bool)
    for meets in (_boxes_meet, _lines_meet, _lines_meet_boxes):  # cheap checks first
        left = np.flatnonzero(~found)
        if len(left) and len(taken):
            found[left] = meets(candidates[left], half, taken).any(axis=1)
    return found


def _boxes_meet(candidates: Floats, half: Floats, taken: Floats) -> Flags:
    x, y, wide, high = candidates[:, 2, None], candidates[:, 3, None], *(taken[:, 4:].T + half[:, None] + APART_PX)
    met: Flags = (np.abs(x - taken[:, 2]) < wide) & (np.abs(y - taken[:, 3]) < high)
    return met


def _lines_meet(candidates: Floats, half: Floats, taken: Floats) -> Flags:
    return crosses(candidates[:, None, :2], candidates[:, None, 2:4], taken[None, :, :2], taken[None, :, 2:4])


def _lines_meet_boxes(candidates: Floats, half: Floats, taken: Floats) -> Flags:
    mine, line, theirs, end = candidates[:, None, :2], candidates[:, None, 2:4], taken[None, :, :2], taken[None, :, 2:4]
    return crosses_box(mine, line, end, taken[:, 4:] + APART_PX) | crosses_box(theirs, end, line, half + APART_PX)


def crosses(a: Floats, b: Floats, c: Floats, d: Floats) -> Flags:
    """Return whether segments a-b and c-d intersect; positions [..., 2]."""

    def side(p: Floats, q: Floats, r: Floats) -> Floats:
        found: Floats = (q[..., 0] - p[..., 0]) * (r[..., 1] - p[..., 1]) - (q[..., 1] - p[..., 1]) * (
            r[..., 0] - p[..., 0]
        )
        return found

    met: Flags = (side(a, b, c) * side(a, b, d) < 0) & (side(c, d, a) * side(c, d, b) < 0)
    return met


def crosses_box(a: Floats, b: Floats, middle: Floats, half: Floats) -> Flags:
    """Return whether segment a-b intersects a box; positions [..., 2]."""
    way, off = np.abs(b - a) / 2, (a + b) / 2 - middle
    turned = off[..., 0] * (b - a)[..., 1] - off[..., 1] * (b - a)[..., 0]
    met: Flags = (
        (np.abs(off[..., 0]) < half[..., 0] + way[..., 0])
        & (np.abs(off[..., 1]) < half[..., 1] + way[..., 1])
        & (np.abs(turned) < 2 * (half[..., 0] * way[..., 1] + half[..., 1] * way[..., 0]))
    )
    return met


class _Board:
    """Figure of one size with track and corner numbers, in pixels, y upwards."""

    def __init__(self, circuit: Circuit, size: tuple[int, int]) -> None:
        width = size[0] - MARGIN["l"] - MARGIN["r"]
        height = size[1] - MARGIN["t"] - MARGIN["b"]
        self.circuit, self.size = circuit, np.array([width, height], float)
        low, high = circuit.line.min(axis=0).astype(float), circuit.line.max(axis=0).astype(float)
        room = self.size * (1 - 2 * np.array([SIDE_PX, ENDS_PX]))
        self.scale = float((room / (high - low)).min())
        self.origin = (low + high) / 2 - self.size / self.scale / 2
        shape = np.ceil(self.size / CELL_PX).astype(int)
        far = np.full(shape, True)
        steps = circuit.position_at(np.arange(0, circuit.length, CELL_PX / self.scale / 2))
        far[tuple(self._cell(self.screen(steps)).T)] = False
        self.clear: Floats = distance_transform_edt(far) * CELL_PX  # [X, Y] distance to the track's centre
        self.clear_of_numbers = np.full_like(self.clear, np.inf)
        self.blocked = self.clear < TRACK_PX
        self.numbers = self.metres(self._place_numbers())
        self.sums = _sums(self.blocked)
        self.rays = [self._rays(c) for c in range(len(circuit.segments))]

    @property
    def ranges(self) -> tuple[tuple[float, float], tuple[float, float]]:
        top = self.origin + self.size / self.scale
        return (float(self.origin[0]), float(top[0])), (float(self.origin[1]), float(top[1]))

    def screen(self, metres: npt.ArrayLike) -> Floats:
        return (np.asarray(metres, float) - self.origin) * self.scale

    def metres(self, screen: Floats) -> Floats:
        return screen / self.scale + self.origin

    def _cell(self, screen: Floats) -> npt.NDArray[np.intp]:
        top = np.ceil(self.size / CELL_PX).astype(int) - 1
        return np.clip(np.floor(screen / CELL_PX).astype(int), 0, top)

    def _place_numbers(self) -> Floats:
        """Return a free position [C, 2] per corner, preferring the side given by the feed."""
        found = np.zeros((len(self.circuit.corners), 2))
        reach = np.arange(11.0, 130.0, 2.0)
        for i, (name, x, y, _, angle) in enumerate(self.circuit.corners):
            half = np.array([NUMBER_PX[0] * len(name), NUMBER_PX[1]]) / 2
            turn = np.deg2rad(angle) + DIRECTIONS
            ways = np.column_stack([np.cos(turn), np.sin(turn)])
            middles = (self.screen([x, y]) + reach[:, None, None] * ways).reshape(-1, 2)
            on_the_way = self._cell(self.screen([x, y]) + np.arange(12.0, reach[-1], 2.0)[:, None, None] * ways)
            beyond = np.maximum.accumulate(self.clear[on_the_way[..., 0], on_the_way[..., 1]] < CELL_PX * 2, axis=0)
            beyond = np.vstack([beyond[:1], beyond])[: len(reach)]  # on the far side of the track
            cost = (reach[:, None] + 9 * np.abs(np.angle(np.exp(1j * DIRECTIONS))) + 80 * beyond).ravel()
            free = self._free(middles, half, _sums(self.blocked))
            found[i] = middles[np.where(free, cost, cost + 1e6).argmin()]
            low, high = self._cell(found[i] - half - APART_PX), self._cell(found[i] + half + APART_PX)
            self.blocked[low[0] : high[0] + 1, low[1] : high[1] + 1] = True
            for far in (self.clear, self.clear_of_numbers):
                far[low[0] : high[0] + 1, low[1] : high[1] + 1] = 0.0
        return found

    def _free(self, middles: Floats, half: Floats, sums: npt.NDArray[np.int64]) -> Flags:
        """Return whether boxes around these centres [n, 2] are free."""
        inside = ((middles - half >= 0) & (middles + half <= self.size)).all(axis=1)
        low, high = self._cell(middles - half), self._cell(middles + half) + 1
        covered = (
            sums[high[:, 0], high[:, 1]]
            - sums[low[:, 0], high[:, 1]]
            - sums[high[:, 0], low[:, 1]]
            + sums[low[:, 0], low[:, 1]]
        )
        free: Flags = inside & (covered == 0)
        return free

    def _rays(self, segment: int) -> tuple[Floats, Floats, Floats]:
        """Return anchors [A, 2] of a segment and the free length [A, directions] of lines from them."""
        edges = self.circuit.edges
        length = float(np.mod(np.roll(edges, -1)[segment] - edges[segment], self.circuit.length))
        starts = self.screen(self.circuit.position_at(edges[segment] + np.array(ANCHORS) * length))
        along = np.arange(STANDOFF_PX + 6, REACHES[-1] + 2 * CELL_PX, CELL_PX)
        ways = np.column_stack([np.cos(DIRECTIONS), np.sin(DIRECTIONS)])
        cells = self._cell(starts[:, None, None] + along[:, None] * ways[:, None])  # [A, directions, along, 2]
        found = []
        for far in (self.clear, self.clear_of_numbers):
            met = far[cells[..., 0], cells[..., 1]] < LEADER_PX
            found.append(along[np.where(met.any(axis=-1), met.argmax(axis=-1), len(along) - 1)])
        return starts, found[0], found[1]

    def candidates(self, segment: int, half: Floats) -> Floats:
        """Return leader lines and label centres with their cost, cheapest first [n, 5]."""
        starts, free, passable = self.rays[segment]
        ways = np.column_stack([np.cos(DIRECTIONS), np.sin(DIRECTIONS)])
        with np.errstate(divide="ignore"):
            inner = np.min(half / np.abs(ways), axis=1)  # from the centre of the box to its edge
        middles = (
            starts[:, None, None] + (REACHES + inner[:, None])[..., None] * ways[:, None]
        )  # [A, directions, reaches, 2]
        cost = REACHES + 24 * np.abs(np.array(ANCHORS) - 0.5)[:, None, None] + CROSSING * (free[..., None] < REACHES)
        clear = passable[..., None] >= REACHES
        begin = np.broadcast_to(starts[:, None, None], middles.shape)[clear]
        middles, cost = middles[clear], cost[clear]
        stand = self._free(middles, half, self.sums)
        found = np.column_stack([begin, middles, cost])[stand]
        return found[found[:, 4].argsort(kind="stable")]


def _sums(blocked: Flags) -> npt.NDArray[np.int64]:
    """Return cumulative sums [X + 1, Y + 1], which give the content of any box."""
    return np.pad(blocked.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))


_board = lru_cache(maxsize=32)(_Board)
