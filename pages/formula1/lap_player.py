"""A lap of two cars on the map, played in real time: where each is, what it does, and which state it is in."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from streamlit.components.v2 import component

from pages.formula1 import badges
from pages.formula1.data import Circuit
from pages.formula1.teams import Look
from pages.formula1.traces import Trace
from pages.ui import palette

HEIGHT = 320  # pixels of the picture

_HTML = """
<div class="player">
  <canvas data-role="canvas" role="img" tabindex="0"></canvas>
  <div data-role="cars" class="cars"></div>
  <div class="row">
    <button type="button" data-role="play">Play</button>
    <input type="range" data-role="scrub" min="0" max="1" value="0" step="0.1" aria-label="Seconds since the start line" />
    <output data-role="time"></output>
    <select data-role="speed" aria-label="Speed"><option value="0.5">½×</option><option value="1" selected>1×</option>
      <option value="2">2×</option><option value="4">4×</option></select>
  </div>
  <p data-role="alt" class="alt"></p>
</div>
"""
_CSS = """
.player { display: grid; grid-template-columns: minmax(0, 1fr); gap: 0.5rem; font-size: 0.82rem;
  font-variant-numeric: tabular-nums; color: var(--gdm-ink, var(--st-text-color)); }
canvas { width: 100%; height: 320px; display: block; border-radius: 8px; background: var(--gdm-sunken, transparent);
  color: var(--gdm-ink, var(--st-text-color)); outline-color: var(--gdm-surface, #ffffff); }
canvas:focus-visible, button:focus-visible, select:focus-visible { outline: 2px solid var(--st-primary-color);
  outline-offset: 1px; }
.row { display: flex; align-items: center; gap: 0.35rem 0.7rem; }
.row input { flex: 1; min-width: 2rem; accent-color: var(--st-primary-color); }
output { color: var(--gdm-muted, var(--st-text-color)); min-width: 4rem; text-align: right; }
.cars { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr)); gap: 0.25rem 1.2rem; }
.car { display: flex; flex-wrap: wrap; gap: 0.15rem 0.7rem; align-items: baseline; min-height: 2.7rem; }
.car b { white-space: nowrap; }
.car .line { width: 1.4rem; border-top: 3px solid; align-self: center; }
.car span { white-space: nowrap; color: var(--gdm-muted); }
.car .state { color: inherit; flex-basis: 100%; }
.car i { display: inline-block; width: 0.75rem; height: 0.75rem; border-radius: 3px; margin-right: 0.35rem; }
button, select { font: inherit; cursor: pointer; padding: 0.25rem 0.7rem; border-radius: var(--st-button-radius, 8px);
  border: 1px solid var(--st-border-color); background: transparent; color: inherit; min-height: 2rem; }
option { color: #1d1f27; background: #ffffff; }
button:hover { border-color: var(--st-primary-color); color: var(--st-primary-color); }
[data-role=play] { min-width: 4.6rem; }
@media (max-width: 640px) { .row { gap: 0.35rem; } output { min-width: 3rem; } select { padding: 0.25rem; }
  canvas { height: 250px; } }
.alt { position: absolute; width: 1px; height: 1px; margin: -1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
"""
_player = component(
    "gdm_lap_player", html=_HTML, css=_CSS, js=(Path(__file__).parent / "lap_player.js").read_text(encoding="utf-8")
)


def show(data: Mapping[str, Any], *, key: str) -> None:
    """Draw the player with what `played` gives; it shares the page's cursor."""
    _player(key=key, data=data)


def played(circuit: Circuit, shown: Sequence[Trace], looks: Sequence[Look], names: Sequence[str]) -> dict[str, Any]:
    """What the browser is sent: the circuit once, and each car at even distances; `names` of the states as in the legend."""
    n_states = shown[0].states.shape[1]
    # Numbers stand clear of the track at the scale they were placed for and at any larger one.
    numbers = [badges.places(circuit, width, HEIGHT, 0)[0] for width in (0, 450, 700)]
    called = [corner[0] for corner in circuit.corners]
    closed = np.append(shown[0].distance, np.float32(circuit.length))
    return {
        "lap": " / ".join(one.name for one in shown),
        "length": float(circuit.length),
        "step": float(shown[0].distance[1] - shown[0].distance[0]),
        "line": _packed(circuit.at(closed), np.float32),  # [D + 1, 2]
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
        "seconds": _packed(one.seconds, np.float32),
        "rgb": _packed(rgb, np.uint8),
        "strength": _packed(np.round(opacity * 255), np.uint8),
        "state": _packed(strongest, np.uint8),
        "share": _packed(np.round(100 * np.take_along_axis(one.states, strongest[:, None], 1)[:, 0]), np.uint8),
        "car": {name: _packed(values, np.float32) for name, values in one.car.items()},
    }


def _packed(values: npt.ArrayLike, kind: type) -> str:
    array = np.ascontiguousarray(values, dtype=np.dtype(kind).newbyteorder("<"))
    return base64.b64encode(array.tobytes()).decode("ascii")
