"""Clips of one state from several recordings: a grid of loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets.keypoints import KeypointTable
from pages.lab.poses import player
from pages.ui import player as players

_CSS = """
canvas { height: auto; border-radius: 0; background: var(--gdm-surface, transparent);
  outline-color: var(--gdm-muted, var(--st-text-color)); }
"""
_FOLDER = Path(__file__).parent
_grid = players.player(
    "gdm_clips", _FOLDER / "poses.js", _FOLDER / "clips.js", label="Time", speeds=(0.25, 0.5, 1, 2), css=_CSS
)


def clip(pose: KeypointTable, start: int, stop: int, recording: str, caption: str) -> dict[str, Any]:
    """Return frames of a recording for `clip_grid`, with a title below them."""
    poses = player.pack_poses(pose, slice(start, stop))
    return {"recording": recording, "start": start, "caption": caption, "rate": pose.rate_hz, "poses": poses}


def clip_grid(clips: Sequence[Mapping[str, Any]], colour: str, what: str, key: str) -> None:
    """Show clips of `what` as loops."""
    alt = f"{len(clips)} clips of {what}, each played in a loop."
    shown = str([(one["recording"], one["start"]) for one in clips])
    _grid(key=key, data={"key": shown, "clips": list(clips), "colour": colour, "alt": alt})
