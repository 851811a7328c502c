"""The pose player: skeletons and a trail in mixed colours, linked to the time cursor of the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from datasets.calms21 import EDGES, PARTS
from datasets.keypoints import KeypointTable
from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import Dict, typed
from pages.lab.naming import LabelNames
from pages.ui import player as players

MAX_FRAMES = 8_000  # sent to the browser; longer recordings are thinned
LEVELS = 30_000
MISSING = -32_768

_BELOW = """
<div data-role="jumps" class="jumps"><span>Next bout of</span><span data-role="states"></span></div>
<details class="film">
  <summary>Video</summary>
  <div class="row">
    <label>Local file (not uploaded)
      <input type="file" accept="video/mp4,video/webm" data-role="fromDisk" /></label>
    <label>Offset (video frames) <input type="number" step="1" value="0" data-role="offset" /></label>
    <label>Frame rate (Hz) <input type="number" step="any" min="0.1" data-role="rate" /></label>
    <label><input type="checkbox" data-role="over" checked /> Overlay poses</label>
    <button type="button" data-role="without">Close video</button>
  </div>
  <p data-role="drift" role="status"></p>
</details>
"""
_CSS = """
.film summary { cursor: pointer; color: var(--gdm-muted); }
.film .row { flex-wrap: wrap; gap: 0.4rem 0.8rem; padding-top: 0.4rem; }
.film label { display: inline-flex; align-items: center; gap: 0.35rem; flex-wrap: wrap; }
.film input[type=number] { width: 5.5rem; min-height: 2rem; font: inherit; color: inherit; background: transparent;
  padding: 0 0.4rem; border: 1px solid var(--st-border-color); border-radius: 6px; }
.film input[type=file] { font: inherit; max-width: 100%; }
.film p { margin: 0.4rem 0 0; color: var(--gdm-muted); }
output { white-space: nowrap; }
.now, .jumps, .jumps [data-role=states] { display: flex; align-items: center; gap: 0.35rem 0.7rem; flex-wrap: wrap; }
.animals { display: inline-flex; gap: 0.8rem; color: var(--gdm-muted); margin-right: auto; }
.animals span, .chip { display: inline-flex; align-items: center; gap: 0.35rem; white-space: nowrap; }
.animals i { width: 0.9rem; height: 3px; border-radius: 2px; background: var(--gdm-muted); }
.animals .first i { background: var(--gdm-ink); height: 4px; }
.animals .dashed i { background: none; border-top: 3px dashed var(--gdm-muted); height: 0; }
.animals .dotted i { background: none; border-top: 3px dotted var(--gdm-muted); height: 0; }
.chip[hidden], .jumps[hidden] { display: none; }
.chip i, .jumps i { width: 0.75rem; height: 0.75rem; border-radius: 3px; display: inline-block; flex: none; }
[data-role=play] { min-width: 7.2rem; white-space: nowrap; }
.jumps span:first-child { color: var(--gdm-muted); }
.jumps button { display: inline-flex; align-items: center; gap: 0.35rem; padding: 0.1rem 0.55rem; }
"""
_player = players.player(
    "gdm_player",
    Path(__file__).parent / "poses.js",
    Path(__file__).parent / "video.js",
    Path(__file__).parent / "player.js",
    label="Time",
    speeds=(0.25, 0.5, 1, 2, 4, 16),
    above='<div class="now"><span data-role="animals" class="animals"></span><span data-role="expert" class="chip"></span>'
    '<span data-role="found" class="chip"></span></div>',
    below=_BELOW,
    css=_CSS,
)


def skeleton_edges(table: KeypointTable) -> tuple[tuple[int, int], ...]:
    """Return pairs of parts that a line joins: of the recording, of CalMS21, or in order."""
    if table.edges:
        return table.edges
    if table.parts == PARTS:
        return EDGES
    return tuple((p, p + 1) for p in range(len(table.parts) - 1))


def pack_poses(table: KeypointTable, frames: slice) -> dict[str, Any]:
    """Return frames for poses.js as 16-bit numbers, with their box and scale."""
    xy = np.asarray(table.xy[frames], np.float32)  # [F, A, 2, P]
    x, y = xy[:, :, 0], xy[:, :, 1]
    if table.image_size is not None:
        low, high = np.zeros(2), np.asarray(table.image_size, float)
    else:
        known = np.isfinite(xy).any()
        low = np.array([np.nanquantile(v, 0.002) if known else 0.0 for v in (x, y)])
        high = np.array([np.nanquantile(v, 0.998) if known else 1.0 for v in (x, y)])
    span = float(max((high - low).max(), 1e-6))
    unit = span / LEVELS
    levels = (xy - low[None, None, :, None]) / unit
    whole = np.where(np.isfinite(levels), np.clip(np.rint(levels), -LEVELS, 32_000), MISSING).astype(np.int16)
    pixels = {"low": low.tolist(), "unit": unit, "image": None if table.image_size is None else list(table.image_size)}
    return {
        "n": len(xy),
        "animals": list(table.animals),
        "parts": list(table.parts),
        "edges": [list(edge) for edge in skeleton_edges(table)],
        "xy": typed(whole, "i2"),
        "box": [0.0, 0.0, *((high - low) / unit).tolist()],
        "pixels": pixels if table.unit in ("", "px", "pixels") else None,
    }


def show_poses(
    table: KeypointTable,
    recording: str,
    *,
    states: npt.NDArray[Any] | None = None,
    bouts: npt.NDArray[Any] | None = None,
    names: Sequence[str] = (),
    words: LabelNames | None = None,
) -> None:
    """Draw the player.

    states  [T, K] colours of the trail
    bouts   [T] state of each sample, with its name in `names`
    words   names of the recording's labels
    """
    stride = -(-table.n_frames // MAX_FRAMES)
    what = "simulated animals" if table.simulated else "animals"
    data = pack_poses(table, slice(None, None, stride)) | {
        "recording": recording,
        "start": table.start_seconds,
        "step": stride / table.rate_hz,
        "stride": stride,
        "names": list(names),
        "colours": palette.colours(len(names)) if names else [],
        "group": "page",
        "alt": f"Poses of {len(table.animals)} {what} in {table.name}, {table.n_frames:,} frames. Space plays, arrows step.",
    }
    if table.labels is not None and words is not None:
        data["expert"] = pack_labels(words.grouped(table.labels[::stride]))
        data |= {"expertNames": list(words.names), "expertColours": words.colours}
    if states is not None and bouts is not None and len(states) == table.n_frames:
        rgb, opacity = palette.mix(np.asarray(states)[::stride])
        data |= {"rgb": typed(rgb, "u1"), "strength": typed(np.round(opacity * 255), "u1")}
        data["state"] = pack_labels(np.asarray(bouts)[::stride])
    _player(key="player", data=data)


def pack_labels(labels: npt.NDArray[Any]) -> Dict:
    """Return labels as bytes, 255 if missing."""
    return typed(np.where((labels < 0) | (labels > 254), 255, labels), "u1")
