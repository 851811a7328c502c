"""Clips of one state or expert label from several recordings: a grid of loops that can be saved as a video."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import streamlit as st
from streamlit.components.v2 import component

from datasets.keypoints import KeypointTable
from gdm_core.analysis.bouts import find_bouts
from gdm_studio.plot import palette
from pages.lab.decoded import Decoded
from pages.lab.poses import player
from pages.lab.view import View
from pages.ui import player as players
from pages.ui import shell
from pages.ui.controls import number, one_of
from pages.ui.exports import slug

MAX_CLIPS, START, LONGEST_S, SHORTEST_S = 24, 9, 3.0, 0.3
_HTML = """
<div class="player clips">
  <canvas data-role="canvas" role="img"></canvas>
  <div class="row"><button type="button" data-role="play">Pause the clips</button>
    <button type="button" data-role="save">Save as one video</button><span data-role="said" role="status"></span></div>
</div>
"""
_CSS = """
canvas { height: auto; border-radius: 0; background: var(--gdm-surface, transparent);
  outline-color: var(--gdm-muted, var(--st-text-color)); }
.row { flex-wrap: wrap; }
"""
_FOLDER = Path(__file__).parent
_grid = component(
    "gdm_clips",
    html=_HTML,
    css=players.CSS + _CSS,
    js=players.joined(players.RECORDER, _FOLDER / "poses.js", _FOLDER / "clips.js"),
)
Stretch = tuple[int, int, int]  # trial, first frame, the frame after the last


def clips_tab(view: View, here: Decoded) -> None:
    """Show the tab: choose a state or label and see its longest bouts."""
    labels = view.dataset.every_label
    named = {f"S{k}": here.names[k] for k in here.used} | {f"L{j}": f"expert: {word}" for j, word in enumerate(labels)}
    with shell.panel("clips", "Clips"):
        left, right, _ = st.columns([0.4, 0.25, 0.35], gap="medium")
        with left:
            of = one_of("State or label", named, key="clips")
        with right:
            most = number("Number of clips", 1, MAX_CLIPS, START, key="nclips")
        kind, column = of[0], int(of[1:])
        found = choose(
            [_where(view.select_trial(i), kind, column) for i in range(len(view.dataset.trials))], view, most
        )
        if not found:
            shell.empty("No clips", f"No bout of {named[of]} lasts {SHORTEST_S} s or longer.")
            return
        shown = [_make_clip(view, one) for one in found]
        clip_grid(shown, palette.colours(column + 1)[column], f"{view.stem}-clips-{slug(named[of])}", named[of])
        shell.quiet("The middle of the longest bouts, one recording after the other.")


def _where(at: View, kind: str, column: int) -> npt.NDArray[np.bool_]:
    """Return [T] whether each sample has the state or label; False without states."""
    here = at.read_samples()
    if kind == "L":
        return np.zeros(here.trial.n_samples, bool) if here.expert is None else here.expert == column
    return here.bouts == column if isinstance(here, Decoded) else np.zeros(here.trial.n_samples, bool)


def choose(where: list[npt.NDArray[np.bool_]], view: View, most: int) -> list[Stretch]:
    """Return the middle of the longest bouts, alternating between trials."""
    turns = zip_longest(*(_longest(view, i, part) for i, part in enumerate(where)))
    return [found for turn in turns for found in turn if found is not None][:most]


def _longest(view: View, index: int, part: npt.NDArray[np.bool_]) -> Iterator[Stretch]:
    rate = view.dataset.recording(index).rate_hz
    bouts = [(stop - start, start) for start, stop in find_bouts(part.astype(np.int64)).tolist() if part[start]]
    for length, start in sorted(bouts, reverse=True):
        if length < max(2, SHORTEST_S * rate):
            return
        n = min(length, round(LONGEST_S * rate))
        first = start + (length - n) // 2
        yield index, first, first + n


def _make_clip(view: View, found: Stretch) -> dict[str, Any]:
    index, start, stop = found
    trial = view.dataset.recording(index)
    said = f"{trial.name}, {trial.start_seconds + start / trial.rate_hz:.1f} s"
    return clip(view.dataset.poses[index], start, stop, f"{view.dataset.key}/{index}", said)


def clip(pose: KeypointTable, start: int, stop: int, recording: str, said: str) -> dict[str, Any]:
    """Return frames of a recording for `clip_grid`, with a title below them."""
    poses = player.pack_poses(pose, slice(start, stop))
    return {"recording": recording, "start": start, "said": said, "rate": pose.rate_hz, "poses": poses}


def clip_grid(clips: Sequence[Mapping[str, Any]], colour: str, name: str, what: str, key: str = "clips-grid") -> None:
    """Show clips of `what` as loops, which are saved in the file `name`."""
    alt = f"{len(clips)} clips of {what}, each played in a loop."
    _grid(key=key, data={"clips": list(clips), "colour": colour, "name": name, "alt": alt})
