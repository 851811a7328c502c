"""A lap of two cars on the map, played in real time: where each is, what it does, and which state it is in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import typed
from pages.formula1 import badges
from pages.formula1.data import CAR_CHANNELS, Circuit
from pages.formula1.teams import Look
from pages.formula1.traces import Trace
from pages.ui.exports import slug
from pages.ui.player import RECORDER, player

HEIGHT = 320  # pixels of the picture

_CSS = """
.player { font-variant-numeric: tabular-nums; }
canvas { height: 320px; }
.cars { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr)); gap: 0.25rem 1.2rem; }
.car { display: flex; flex-wrap: wrap; gap: 0.15rem 0.7rem; align-items: baseline; min-height: 2.7rem; }
.car b { white-space: nowrap; }
.car .line { width: 1.4rem; border-top: 3px solid; align-self: center; }
.car span { white-space: nowrap; color: var(--gdm-muted); }
.car .state { color: inherit; flex-basis: 100%; }
.wraps { flex-wrap: wrap; }
[data-role=said] { color: var(--gdm-muted); }
.car i { display: inline-block; width: 0.75rem; height: 0.75rem; border-radius: 3px; margin-right: 0.35rem; }
[data-role=play] { min-width: 4.6rem; }
@media (max-width: 640px) { canvas { height: 250px; } }
"""
show = player(  # draws what `played` gives; it shares the page's cursor
    "gdm_lap_player",
    RECORDER,
    Path(__file__).parent / "lap_player.js",
    label="Seconds since the start line",
    speeds=(0.5, 1, 2, 4),
    step=0.1,
    above='<div data-role="cars" class="cars"></div>',
    below='<div class="row wraps"><button type="button" data-role="save">Save as video</button>'
    '<span data-role="said" role="status">Played once at the speed chosen, with gap and states.</span></div>',
    css=_CSS,
)


def played(circuit: Circuit, shown: Sequence[Trace], looks: Sequence[Look], names: Sequence[str]) -> dict[str, Any]:
    """What the browser is sent: the circuit once, and each car at even distances; `names` of the states as in the legend."""
    n_states = shown[0].states.shape[1]
    # Numbers stand clear of the track at the scale they were placed for and at any larger one.
    numbers = [badges.places(circuit, width, HEIGHT, 0)[0] for width in (0, 450, 700)]
    called = [corner[0] for corner in circuit.corners]
    closed = np.append(shown[0].distance, np.float32(circuit.length))
    return {
        "lap": " / ".join(one.name for one in shown),
        "file": f"formula1-{slug(circuit.title)}-{slug(' '.join(one.name for one in shown))}",
        "length": float(circuit.length),
        "step": float(shown[0].distance[1] - shown[0].distance[0]),
        "line": typed(circuit.at(closed)),  # [D + 1, 2]
        "corners": [
            {
                "scale": at.scale,
                "marks": [[name, *map(float, xy)] for name, xy in zip(called, at.numbers, strict=True)],
            }
            for at in numbers
        ],
        "names": list(names) or [f"S{k + 1}" for k in range(n_states)],
        "colours": palette.colours(n_states),
        "group": "page",
        "cars": [_car(one, look) for one, look in zip(shown, looks, strict=True)],
        "alt": f"{' and '.join(one.name for one in shown)} on {circuit.title}, from the start line. Space plays, arrows step.",
    }


def _car(one: Trace, look: Look) -> dict[str, Any]:
    rgb, opacity = palette.mix(one.states)
    strongest = one.states.argmax(axis=1)
    return {
        "name": one.name,
        "code": one.code,
        "colour": look.colour,
        "dash": look.dash,
        "seconds": typed(one.seconds),
        "rgb": typed(rgb, "u1"),
        "strength": typed(np.round(opacity * 255), "u1"),
        "state": typed(strongest, "u1"),
        "share": typed(np.round(100 * np.take_along_axis(one.states, strongest[:, None], 1)[:, 0]), "u1"),
        "car": {name: typed(values) for name, values in one.car.items() if name in CAR_CHANNELS},
    }
