"""Which states a track segment is made of, as the paper's figure says it: by presence, in order, sized by weight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from pages.formula1.data import Circuit, Floats
from pages.ui import palette

GREY = "#868c9c"  # reads on both themes
NEAR_M = 60.0


@dataclass(frozen=True)
class Part:
    """One state in one segment. Presence: share of samples in which it has weight. Weight: its mean share."""

    state: int
    presence: float
    weight: float
    main: bool


def composition(
    states: npt.ArrayLike,
    segment: npt.ArrayLike,
    n_segments: int,
    *,
    weight: float = 0.01,
    presence: float = 0.2,
    complementary: float = 0.05,
) -> list[list[Part]]:
    """The states of each segment that hold more than `weight` in more than `presence` of its samples, most present first.

    Those that only pass `complementary` follow, marked as not main.
    """
    soft, where = np.asarray(states, np.float64), np.asarray(segment, np.int64)
    if len(soft) != len(where):
        raise DataError(f"There are {len(soft)} states but {len(where)} segment numbers.")
    count = np.bincount(where, minlength=n_segments)[:n_segments]
    safe = np.maximum(count, 1)[:, None]
    k = soft.shape[1]
    there = np.column_stack([np.bincount(where, soft[:, j] > weight, n_segments) for j in range(k)]) / safe  # [C, K]
    mean = np.column_stack([np.bincount(where, soft[:, j], n_segments) for j in range(k)]) / safe
    found = []
    for c in range(n_segments):
        order = np.lexsort((-mean[c], -there[c]))
        found.append(
            [
                Part(int(j), float(there[c, j]), float(mean[c, j]), bool(there[c, j] > presence))
                for j in order
                if count[c] and there[c, j] > min(presence, complementary)
            ]
        )
    return found


def badges(
    circuit: Circuit, parts: list[list[Part]], n_states: int, *, all_of_them: bool, most: int = 4
) -> list[dict[str, object]]:
    """A label beside each segment: its states as coloured numbers, larger where they weigh more; the rest in grey."""
    colours = palette.colours(n_states)
    out = outwards(circuit)
    found: list[dict[str, object]] = []
    for c, states in enumerate(parts):
        kept = [part for part in states if part.main or all_of_them][:most]
        if not kept:
            continue
        x, y = circuit.at(circuit.middles[c])
        text = " ".join(_mark(part, colours[part.state]) for part in kept)
        found.append(
            {
                "text": text,
                "x": float(x),
                "y": float(y),
                "xref": "x",
                "yref": "y",
                "showarrow": False,
                "xshift": float(out[c, 0] * 30),
                "yshift": float(out[c, 1] * 20),
                "font": {"size": 12, "color": "$ink"},
                "hovertext": f"{circuit.segments[c]}: "
                + ", ".join(f"S{p.state + 1} in {p.presence:.0%} of samples, weight {p.weight:.0%}" for p in states),
            }
        )
    return found


def _mark(part: Part, colour: str) -> str:
    size = round(10 + 9 * float(np.sqrt(np.clip(part.weight, 0, 1))))
    if not part.main:
        return f'<span style="color:{GREY};font-size:{size}px">{part.state + 1}</span>'
    return f'<span style="font-size:{size}px"><span style="color:{colour}">●</span><b>{part.state + 1}</b></span>'


def outwards(circuit: Circuit) -> Floats:
    """[C, 2] for the middle of each segment, the side of the track with more room, as a unit vector."""
    ahead = circuit.at(circuit.middles + 15) - circuit.at(circuit.middles - 15)
    side = np.column_stack([-ahead[:, 1], ahead[:, 0]])
    side = side / np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-9)
    here = circuit.at(circuit.middles)
    reach = 0.06 * float(np.ptp(circuit.line, axis=0).max())

    def room(points: Floats) -> Floats:
        """[C] distance to the nearest part of the track."""
        gap = np.linalg.norm(points[:, None] - circuit.line[None, ::5], axis=-1)
        nearest: Floats = gap.min(axis=1)
        return nearest

    left, right = room(here + reach * side), room(here - reach * side)
    return np.where((left >= right)[:, None], side, -side).astype(np.float32)
