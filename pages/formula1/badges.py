"""The states of each track segment as badges on the map, tied to their segment by a leader line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from gdm_core.analysis.segments import Part
from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import FINE, Dict, bare, headline, note
from pages.formula1.data import Circuit
from pages.formula1.placing import MARGIN, STANDOFF_PX, Places, place

GREY = "#868c9c"  # reads on both themes
SMALLEST, LARGER = 9, 7  # pixels of a state's letters, and how much larger those of one that is all there is
HEIGHT = 21
# From a width of the figure on: its height, and how many states a badge may hold. Narrower figures have no badges.
WIDTHS = ((0, 300, 0), (400, 430, 2), (520, 520, 3), (700, 520, 4), (900, 520, 4))
MOST = max(most for *_, most in WIDTHS)


@dataclass(frozen=True)
class Badge:
    """What stands beside one segment: its states, most present first, and words for who points at it.

    most   states that it is given room for, however many it holds
    """

    parts: tuple[Part, ...]
    words: str
    most: int = MOST


def badges(circuit: Circuit, parts: Sequence[Sequence[Part]], *, all_of_them: bool, most: int) -> tuple[Badge, ...]:
    """A badge for each segment: its main states, or also the complementary ones.

    most   states in a badge: with one, that of most weight
    """

    def kept(states: Sequence[Part]) -> tuple[Part, ...]:
        shown = [part for part in states if part.main or all_of_them]
        return tuple(sorted(shown, key=lambda part: -part.weight)[:1] if most == 1 else shown[:most])

    return tuple(
        Badge(
            kept(states),
            f"{name}: "
            + ", ".join(f"S{p.state + 1} in {p.presence:.0%} of samples, weight {p.weight:.0%}" for p in states),
            most,
        )
        for name, states in zip(circuit.segments, parts, strict=True)
    )


def width_of(sizes: Sequence[float], states: Sequence[int]) -> float:
    """Pixels of a badge with these letters: a dot and one or two digits for each state."""
    letters = sum(size * (0.75 + 0.56 * len(str(k + 1))) for size, k in zip(sizes, states, strict=True))
    return letters + 4 * (len(sizes) - 1) + 10


def slot_width(most: int) -> float:
    """Pixels kept for a badge of `most` states of one digit, at its widest: shares add up to one, so letters are largest
    together where all shares are alike. Kept whatever is in it, so that it stays in its place while states change."""
    alone = width_of([SMALLEST + LARGER], [palette.MAX_STATES - 1])
    return round(max(alone, width_of([SMALLEST + LARGER * most**-0.5] * most, [0] * most)))


def held(badge: Badge, most: int) -> list[Part]:
    """The states of a badge that its slot has room for."""
    kept = list(badge.parts[:most])
    while kept and width_of([_size(part) for part in kept], [part.state for part in kept]) > slot_width(most) + 1:
        kept.pop()
    return kept


@lru_cache(maxsize=64)
def places(circuit: Circuit, width: int, height: int, most: int) -> tuple[Places, tuple[int, ...]]:
    """(where numbers and badges stand on a figure of this size, how many states each badge holds): fewer than `most`
    where more would find no room."""
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
    """The layouts of the map for figures from some width on: corner numbers everywhere, badges where there is room."""
    found = []
    colours = palette.colours(n_states)
    needed = max((badge.most for badge in shown), default=0)
    for least, height, most in WIDTHS:
        at, room = places(circuit, least, height, min(most, needed))
        marks = [
            note(name, float(x), float(y), xref="x", yref="y", name="corner", font=FINE)
            for (name, *_), (x, y) in zip(circuit.corners, at.numbers, strict=True)
        ]
        for badge, start, middle, n, missing in zip(shown, at.anchors, at.middles, room, at.missing, strict=False):
            kept = held(badge, n)
            if kept and not missing:
                marks.append(_mark(" ".join(_letters(p, colours[p.state]) for p in kept), start, middle, badge.words))
        if title:
            marks.append(headline(title) | {"y": 0, "yanchor": "top", "yshift": -2})
        axes = {"xaxis": bare(range=list(at.x)), "yaxis": bare(range=list(at.y), scaleanchor="x", scaleratio=1)}
        look = {"annotations": marks, "margin": MARGIN} | axes
        found.append({"least": least, "height": height, "layout": look})
    return found


def without_room(circuit: Circuit, shown: Sequence[Badge]) -> dict[int, list[str]]:
    """By the least width of a layout, the segments whose badge is left out there."""
    found = {}
    needed = max((badge.most for badge in shown), default=0)
    for least, height, most in WIDTHS:
        if most and needed:
            at, _ = places(circuit, least, height, min(most, needed))
            found[least] = [name for name, gone in zip(circuit.segments, at.missing, strict=True) if gone]
    return found


def _mark(text: str, start: Sequence[float], middle: Sequence[float], words: str) -> Dict:
    """A label at `middle` with a line to `start`."""
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
