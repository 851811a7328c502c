"""Circuit map with the states of each track segment as labels with leader lines, placed without overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.ndimage import distance_transform_edt

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
Flags = npt.NDArray[np.bool_]

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


def _sizes(circuit: Circuit, shown: Sequence[Badge]) -> list[tuple[int, int, Places, tuple[int, ...]]]:
    """Return the layout for each figure width: width, height, positions and states per label."""
    needed = max((badge.most for badge in shown), default=0)
    return [(least, high, *places(circuit, least, high, min(most, needed))) for least, high, most in WIDTHS]


def widths(circuit: Circuit, shown: Sequence[Badge], n_states: int, title: str) -> list[Dict]:
    """Return map layouts for figure widths: corner numbers always, labels where there is room."""
    found, colours = [], palette.colours(n_states)
    for least, height, at, room in _sizes(circuit, shown):
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
    return {
        least: [name for name, gone in zip(circuit.segments, at.missing, strict=True) if gone]
        for least, _, at, room in _sizes(circuit, shown)
        if any(room)
    }


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
    x, y = zip(board.origin.tolist(), (board.origin + board.size / board.scale).tolist(), strict=True)
    return Places(x, y, board.scale, board.numbers, board.metres(starts), board.metres(ends), cramped)


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
    if not len(taken):
        return np.zeros(len(candidates), bool)
    start, middle = candidates[:, None, :2], candidates[:, None, 2:4]
    others, ends, size = taken[:, :2], taken[:, 2:4], taken[:, 4:] + APART_PX
    met = (np.abs(middle - ends) < size + half).all(axis=-1) | crosses(start, middle, others, ends)
    met |= crosses_box(start, middle, ends, size) | crosses_box(others, ends, middle, half + APART_PX)
    return np.asarray(met.any(axis=1))


def crosses(a: Floats, b: Floats, c: Floats, d: Floats) -> Flags:
    """Return whether segments a-b and c-d intersect; positions [..., 2]."""
    apart = _cross(b - a, c - a) * _cross(b - a, d - a) < 0
    return np.asarray(apart & (_cross(d - c, a - c) * _cross(d - c, b - c) < 0))


def crosses_box(a: Floats, b: Floats, middle: Floats, half: Floats) -> Flags:
    """Return whether segment a-b intersects a box; positions [..., 2]."""
    way, off = np.abs(b - a) / 2, (a + b) / 2 - middle
    near = (np.abs(off) < half + way).all(axis=-1)
    far = 2 * (half[..., 0] * way[..., 1] + half[..., 1] * way[..., 0])
    return np.asarray(near & (np.abs(_cross(off, b - a)) < far))


def _cross(one: Floats, other: Floats) -> Floats:
    return np.asarray(one[..., 0] * other[..., 1] - one[..., 1] * other[..., 0])


class _Board:
    """Figure of one size with track and corner numbers, in pixels, y upwards."""

    def __init__(self, circuit: Circuit, size: tuple[int, int]) -> None:
        margin = MARGIN["l"] + MARGIN["r"], MARGIN["t"] + MARGIN["b"]
        self.circuit, self.size = circuit, np.array(size, float) - margin
        low, high = circuit.line.min(axis=0).astype(float), circuit.line.max(axis=0).astype(float)
        room = self.size * (1 - 2 * np.array([SIDE_PX, ENDS_PX]))
        self.scale = float((room / (high - low)).min())
        self.origin = (low + high) / 2 - self.size / self.scale / 2
        far = np.full(np.ceil(self.size / CELL_PX).astype(int), True)
        steps = circuit.position_at(np.arange(0, circuit.length, CELL_PX / self.scale / 2))
        far[tuple(self._cell(self.screen(steps)).T)] = False
        self.clear: Floats = distance_transform_edt(far) * CELL_PX  # [X, Y] distance to the track's centre
        self.clear_of_numbers = np.full_like(self.clear, np.inf)
        self.blocked = self.clear < TRACK_PX
        self.numbers = self.metres(self._place_numbers())
        self.sums = _sums(self.blocked)
        self.rays = [self._rays(c) for c in range(len(circuit.segments))]

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
