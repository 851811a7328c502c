"""The labelling desk under the player: a timeline on which keys, buttons and drags label stretches (desk.js)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st
from streamlit.components.v2 import component

from datasets.marks import Marks
from gdm_core.errors import DataError
from gdm_core.labels.requests import LabelAnswers
from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import typed
from pages.lab.labelling import labels
from pages.lab.labelling.results import Labelling
from pages.lab.poses import player
from pages.ui import player as players

KEY = "label-desk"

_HTML = """
<section class="desk" aria-label="Labelling desk">
  <canvas data-role="line" role="img" tabindex="0" aria-label="Timeline: your labels, predicted labels, expert labels"></canvas>
  <div class="row">
    <output data-role="now"></output>
    <span class="row end">
      <button type="button" data-role="wider" aria-label="Zoom out">−</button>
      <output data-role="window"></output>
      <button type="button" data-role="closer" aria-label="Zoom in">+</button>
      <button type="button" data-role="whole">Whole trial</button>
    </span>
  </div>
  <div class="row"><span data-role="labels" class="row"></span>
    <button type="button" data-role="undo"><kbd>Ctrl Z</kbd> Undo</button></div>
  <div class="row"><span class="quiet">Next</span>
    <button type="button" data-role="doubt"><kbd>N</kbd> doubtful</button>
    <button type="button" data-role="unlabelled"><kbd>U</kbd> unlabelled</button>
    <label><input type="checkbox" data-role="on" checked /> Keys</label></div>
  <span data-role="message" role="status"></span>
</section>
"""
_CSS = """
.desk { display: grid; grid-template-columns: minmax(0, 1fr); gap: 0.45rem; font-size: 0.82rem;
  color: var(--gdm-ink, var(--st-text-color)); }
canvas { height: 92px; border: 1px solid var(--st-border-color); box-sizing: border-box; cursor: crosshair; touch-action: pan-y; }
.row { flex-wrap: wrap; }
.end { margin-left: auto; }
.quiet { color: var(--gdm-muted, var(--st-text-color)); }
output { text-align: center; }
[data-role=message] { min-height: 1.3em; }
[data-wrong] { color: var(--gdm-error, #b3261e); font-weight: 600; }
label { display: inline-flex; gap: 0.3rem; align-items: center; cursor: pointer; }
button { padding: 0.15rem 0.55rem; display: inline-flex; align-items: center; gap: 0.4rem; }
button:disabled { cursor: default; }
button[aria-pressed=true] { border-color: var(--st-primary-color); box-shadow: inset 0 0 0 1px var(--st-primary-color); }
input:focus-visible { outline: 2px solid var(--st-primary-color); outline-offset: 1px; }
kbd { font: inherit; font-weight: 600; border: 1px solid var(--st-border-color); border-radius: 4px; padding: 0 0.3rem;
  background: var(--gdm-sunken, transparent); }
i { width: 0.75rem; height: 0.75rem; border-radius: 3px; display: inline-block; flex: none; }
@media (max-width: 640px) { .end { margin-left: 0; } }
"""
_JS = players.joined(Path(__file__).parent / "desk.js")
desk_component = component("gdm_desk", html=_HTML, css=players.CSS + _CSS, js=_JS)


def show_desk(labelling: Labelling, answers: LabelAnswers | None) -> None:
    """Draw the desk for the chosen trial, with its predicted labels where there are any."""
    view, kept = labelling.view, labelling.labels
    trial, timing = labelling.here.trial, labelling.here.timing
    data = {
        "trial": trial.name,
        "fitted": not view.is_new,
        "n": trial.n_samples,
        "begin": timing["start"],
        "step": timing["step"],
        "end": timing["start"] + timing["step"] * trial.n_samples,
        "unit": timing["unit"],
        "perSecond": timing["step"] * trial.rate_hz if view.dataset.unit == "s" else 30.0,
        "group": "page",
        "names": list(labelling.names),
        "colours": palette.colours(palette.MAX_STATES),
        "marks": [[mark.start, mark.stop, mark.label] for mark in kept.marks.marks if mark.recording == trial.name],
        "revision": kept.revision,
        "clip": _clip_here(labelling),
        **_strips(labelling, answers),
    }
    desk_component(key=KEY, data=data, on_marks_change=partial(receive_marks, labelling))


def _clip_here(labelling: Labelling) -> dict[str, int] | None:
    """Return the unlabelled clip to label now, if it is in the trial in view."""
    asked = labelling.labels.asked
    if not asked or asked[-1][0] != labelling.view.index or labelling.is_labelled(asked[-1]):
        return None
    return {"number": len(asked), "start": asked[-1][1], "stop": asked[-1][2]}


def _strips(labelling: Labelling, answers: LabelAnswers | None) -> dict[str, Any]:
    """Return predicted and expert labels of the trial, thinned where it is long."""
    here = labelling.here
    stride = -(-here.trial.n_samples // player.MAX_FRAMES)
    found: dict[str, Any] = {"stride": stride, "expert": None, "sure": None, "rgb": None}
    if here.expert is not None and not (here.words is None or here.words.joined):
        found["expert"] = player.pack_labels(here.expert[::stride])
    if answers is not None:
        rgb, _ = palette.mix(labelling.in_colours(answers)[::stride])
        found["sure"] = typed(np.round(answers.confidence[::stride] * 255), "u1")
        found["rgb"] = typed(rgb, "u1")
    return found


def receive_marks(labelling: Labelling) -> None:
    """Keep the marks that the desk sent."""
    message = (st.session_state.get(KEY) or {}).get("marks")
    kept, train = labels.load(labelling.scope), labelling.view.dataset.fitted_recordings
    if not isinstance(message, Mapping) or message.get("revision") != kept.revision:
        return  # the page has changed the marks since
    trial, rows = message.get("trial"), message.get("marks")
    try:
        sent = Marks.from_rows([trial, *row] for row in rows or ())
    except (DataError, TypeError) as error:
        labels.change(labelling.scope, revision=kept.revision + 1, error=str(error))
        return
    others = tuple(mark for mark in kept.marks.marks if mark.recording != trial)
    labels.replace_marks(labelling.scope, Marks((*others, *sent.marks)), train, by_desk=True)
