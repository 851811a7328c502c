"""Players on a canvas: a button, a scrubber, time and speed (player.js)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from streamlit.components.v2 import component

_FOLDER = Path(__file__).parent
_HTML = """
<div class="player">
  <canvas data-role="canvas" role="img" tabindex="0"></canvas>
  {above}
  <div class="row">
    <button type="button" data-role="play">Play</button>
    <input type="range" data-role="scrub" min="0" max="1" value="0" step="1" aria-label="{label}" />
    <output data-role="time"></output>
    <select data-role="speed" aria-label="Speed">{speeds}</select>
  </div>
  {below}
  <p data-role="alt" class="alt"></p>
</div>
"""
CSS = """
.player { display: grid; grid-template-columns: minmax(0, 1fr); gap: 0.5rem; font-size: 0.8rem;
  color: var(--gdm-ink, var(--st-text-color)); }
canvas { width: 100%; height: 300px; display: block; border-radius: 8px; background: var(--gdm-sunken, transparent);
  color: var(--gdm-ink, var(--st-text-color)); outline-color: var(--gdm-surface, #ffffff); }
canvas:focus-visible, button:focus-visible, select:focus-visible { outline: 2px solid var(--st-primary-color);
  outline-offset: 1px; }
.row { display: flex; align-items: center; gap: 0.35rem 0.7rem; }
input { accent-color: var(--st-primary-color); }
[data-role=scrub] { flex: 1; min-width: 2rem; }
output { color: var(--gdm-muted, var(--st-text-color)); font-variant-numeric: tabular-nums; min-width: 4rem; text-align: right; }
button, select { font: inherit; cursor: pointer; padding: 0.25rem 0.7rem; border-radius: var(--st-button-radius, 8px);
  border: 1px solid var(--st-border-color); background: transparent; color: inherit; min-height: 2rem; }
option { color: #1d1f27; background: #ffffff; }
button:disabled { opacity: 0.45; }
button:hover { border-color: var(--st-primary-color); color: var(--st-primary-color); }
@media (max-width: 640px) { .row { gap: 0.35rem; } output { min-width: 2.8rem; } select { padding: 0.25rem; } }
.alt { position: absolute; width: 1px; height: 1px; margin: -1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
"""
_FRACTIONS = {0.25: "¼", 0.5: "½"}


def player(
    name: str,
    *js: Path,
    label: str,
    speeds: Sequence[float],
    above: str = "",
    below: str = "",
    css: str = "",
) -> Callable[..., Any]:
    """Return a player component; the last `js` calls `player` of player.js.

    label         label of the scrubber
    above, below  HTML around the scrubber
    """
    offered = "".join(
        f'<option value="{speed:g}"{" selected" * (speed == 1)}>{_FRACTIONS.get(speed, f"{speed:g}")}×</option>'
        for speed in speeds
    )
    html = _HTML.format(above=above, below=below, label=label, speeds=offered)
    return component(name, html=html, css=CSS + css, js=joined(_FOLDER / "player.js", *js))


def joined(*js: Path) -> str:
    """Join sources to one module, after canvas.js."""
    return "\n".join(path.read_text(encoding="utf-8") for path in (_FOLDER / "canvas.js", *js))
