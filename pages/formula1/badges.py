"""The states of each track segment as badges on the map, placed where they hide nothing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.segments import Part
from pages.formula1.data import Circuit, Floats
from pages.ui import palette

GREY = "#868c9c"  # reads on both themes
MAP_PX = (690.0, 460.0)


def badges(
    circuit: Circuit, parts: list[list[Part]], n_states: int, *, all_of_them: bool, most: int = 4
) -> list[dict[str, object]]:
    """A label beside each segment: its states as coloured numbers, larger where they weigh more; the rest in grey."""
    colours = palette.colours(n_states)
    kept = [[part for part in states if part.main or all_of_them][:most] for states in parts]
    widths = np.array([sum(_size(part) * 1.35 + 6 for part in states) for states in kept])
    shift = placed(circuit, widths)
    places = circuit.at(circuit.middles)
    return [
        {
            "text": " ".join(_mark(part, colours[part.state]) for part in states),
            "name": "wide",  # left out on a phone, where they would hide the map
            "x": float(places[c, 0]),
            "y": float(places[c, 1]),
            "xref": "x",
            "yref": "y",
            "showarrow": False,
            "xshift": float(shift[c, 0]),
            "yshift": float(shift[c, 1]),
            "font": {"size": 12, "color": "$ink"},
            "hovertext": f"{circuit.segments[c]}: "
            + ", ".join(f"S{p.state + 1} in {p.presence:.0%} of samples, weight {p.weight:.0%}" for p in parts[c]),
        }
        for c, states in enumerate(kept)
        if states
    ]


def _size(part: Part) -> int:
    return round(10 + 9 * float(np.sqrt(np.clip(part.weight, 0, 1))))


def _mark(part: Part, colour: str) -> str:
    size = _size(part)
    if not part.main:
        return f'<span style="color:{GREY};font-size:{size}px">{part.state + 1}</span>'
    return f'<span style="font-size:{size}px"><span style="color:{colour}">●</span><b>{part.state + 1}</b></span>'


def placed(circuit: Circuit, widths: npt.ArrayLike) -> Floats:
    """[C, 2] where labels of these widths stand, in pixels from the middle of their segments, on a map of usual size.

    Each takes the free place nearest to its segment: clear of the track, of corner numbers and of the labels before it.
    """
    spread = np.ptp(circuit.line, axis=0)
    scale = min(MAP_PX[0] / spread[0], MAP_PX[1] / spread[1])  # pixels a metre
    middles = circuit.at(circuit.middles) * scale
    track = circuit.line[::4] * scale
    angle = np.deg2rad([corner[4] for corner in circuit.corners])
    numbers = np.array([corner[1:3] for corner in circuit.corners]) * scale + 15 * np.column_stack(
        [np.cos(angle), np.sin(angle)]
    )
    turn = np.linspace(0, 2 * np.pi, 16, endpoint=False)
    reach = np.array([22.0, 32.0, 44.0, 58.0])
    shift = np.zeros((len(middles), 2), np.float32)
    taken = np.column_stack([numbers, np.full((len(numbers), 2), (8.0, 7.0))])  # [n, 4] centres and half sizes
    for c in np.argsort(-np.asarray(widths, float), kind="stable"):
        half = np.array([np.asarray(widths, float)[c] / 2, 9.0])
        # Wide labels start further out at the sides, where their own width would lie on the track.
        offset = np.stack([np.outer(reach + half[0] * 0.7, np.cos(turn)), np.outer(reach, np.sin(turn))], axis=-1)
        centre = middles[c] + offset.reshape(-1, 2)  # [P, 2]
        on_track = (np.abs(centre[:, None] - track) < half + 5).all(axis=-1).sum(axis=1)
        on_label = (np.abs(centre[:, None] - taken[:, :2]) < half + taken[:, 2:]).all(axis=-1).sum(axis=1)
        far = np.repeat(reach, len(turn)) / 20
        best = int((3.0 * on_track + 8.0 * on_label + far).argmin())
        shift[c] = offset.reshape(-1, 2)[best]
        taken = np.vstack([taken, [*centre[best], *half]])
    return shift
