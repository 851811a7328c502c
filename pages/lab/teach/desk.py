"""The desk: a timeline under the player, on which keys, buttons and a drag mark; the browser owns it (desk.js).

What is marked there is painted at once and kept in the browser's own store. The page hears of it in entries, takes each once,
and hands back the lesson as it stands; nothing of what a hand holds comes from the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st
from streamlit.components.v2 import component

from gdm_core.analysis.teaching import Taught
from gdm_core.trials import Stretch
from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import typed
from pages.lab.data import go_to
from pages.lab.poses import player
from pages.lab.teach import lessons
from pages.lab.teach.lessons import Entry
from pages.lab.teach.taught_fit import Teaching
from pages.ui import player as players

KEY = "teach-desk"
MOST_DRAWN = 20_000  # marks that are handed to the browser
MOST_ENTRIES = 1_000  # that the browser may send at once

_HTML = """
<section class="mark" aria-label="Mark while it plays">
  <canvas data-role="line" role="img" tabindex="0" aria-label="What is marked, over time"></canvas>
  <div class="row">
    <button type="button" data-role="play">Play</button>
    <output data-role="now"></output>
    <span class="row end">
      <button type="button" data-role="wider" aria-label="Show more of the recording">−</button>
      <output data-role="window"></output>
      <button type="button" data-role="closer" aria-label="Show less, down to a second">+</button>
      <button type="button" data-role="whole">Whole</button>
    </span>
  </div>
  <div class="row"><span class="quiet">Next</span>
    <button type="button" data-role="doubt">doubt <kbd>N</kbd></button>
    <button type="button" data-role="differs">disagreement <kbd>D</kbd></button>
    <button type="button" data-role="bare">unmarked <kbd>U</kbd></button>
    <label><input type="checkbox" data-role="on" checked /> Keys</label>
  </div>
  <div class="ask" data-role="ask" hidden>
    <canvas data-role="loop" role="img" aria-label="The moment that is asked about"></canvas>
    <div class="row"><b data-role="question" style="width: 100%"></b>
      <button type="button" data-role="skip"><kbd>0</kbd> Another one</button>
      <button type="button" data-role="stop"><kbd>Esc</kbd> Stop asking</button></div>
  </div>
  <div class="row"><span data-role="words" class="row"></span>
    <button type="button" data-role="undo"><kbd>Ctrl Z</kbd> Undo</button>
    <button type="button" data-role="redo">Redo</button>
    <button type="button" data-role="begin" class="main">Ask me what to name</button></div>
  <div class="row">
    <label>From <input type="number" data-role="from" step="any" /></label>
    <label>To <input type="number" data-role="to" step="any" /></label>
    <input data-role="word" maxlength="{letters}" placeholder="another word" aria-label="Another word" />
    <button type="button" data-role="name">Name it so</button>
    <button type="button" data-role="add">Add the word</button>
  </div>
  <span data-role="said" class="said" role="status"></span>
</section>
""".replace("{letters}", str(lessons.MOST_WORD))
_CSS = """
.mark { display: grid; grid-template-columns: minmax(0, 1fr); gap: 0.45rem; font-size: 0.82rem;
  color: var(--gdm-ink, var(--st-text-color)); }
canvas { width: 100%; display: block; border-radius: 6px; background: var(--gdm-sunken, transparent);
  border: 1px solid var(--st-border-color); box-sizing: border-box; }
[data-role=line] { height: 92px; cursor: crosshair; touch-action: pan-y; }
[data-role=loop] { height: 190px; width: min(100%, 340px); color: var(--gdm-ink, var(--st-text-color));
  outline-color: var(--gdm-muted, var(--st-text-color)); }
.row { display: flex; align-items: center; gap: 0.35rem 0.5rem; flex-wrap: wrap; }
.end { margin-left: auto; }
.quiet, output { color: var(--gdm-muted, var(--st-text-color)); }
.ask { display: flex; flex-wrap: wrap; align-items: center; gap: 0.5rem 0.8rem; padding: 0.5rem; border-radius: 8px;
  border: 1px solid var(--st-primary-color); }
.ask .row { flex: 1; min-width: 13rem; }
.ask[hidden] { display: none; }
.said { min-height: 1.3em; }
.said[data-wrong] { color: var(--gdm-error, #b3261e); font-weight: 600; }
output { font-variant-numeric: tabular-nums; min-width: 3.5rem; text-align: center; }
label { display: inline-flex; gap: 0.3rem; align-items: center; cursor: pointer; }
input { accent-color: var(--st-primary-color); font: inherit; color: inherit; }
input:not([type=checkbox]) { background: transparent; border: 1px solid var(--st-border-color); border-radius: 6px;
  padding: 0.2rem 0.4rem; min-height: 2rem; width: 6.5rem; box-sizing: border-box; }
input[data-role=word] { width: 9rem; }
button { font: inherit; cursor: pointer; padding: 0.15rem 0.55rem; border-radius: var(--st-button-radius, 8px); min-height: 2rem;
  border: 1px solid var(--st-border-color); background: transparent; color: inherit; display: inline-flex; align-items: center;
  gap: 0.4rem; }
button[hidden] { display: none; }
button:disabled { opacity: 0.45; cursor: default; }
button.main { border-color: var(--st-primary-color); }
button:hover:not(:disabled) { border-color: var(--st-primary-color); }
button[aria-pressed=true] { border-color: var(--st-primary-color); box-shadow: inset 0 0 0 1px var(--st-primary-color); }
button:focus-visible, input:focus-visible, canvas:focus-visible { outline: 2px solid var(--st-primary-color); outline-offset: 1px; }
kbd { font: inherit; font-weight: 600; border: 1px solid var(--st-border-color); border-radius: 4px; padding: 0 0.3rem;
  background: var(--gdm-sunken, transparent); }
i { width: 0.75rem; height: 0.75rem; border-radius: 3px; display: inline-block; flex: none; }
@media (max-width: 640px) { .end { margin-left: 0; } [data-role=now] { margin-left: auto; } }
"""
_FOLDER = Path(__file__).parent
_desk = component(
    "gdm_desk",
    html=_HTML,
    css=_CSS,
    js=players.joined(_FOLDER.parent / "poses" / "poses.js", _FOLDER / "marks.js", _FOLDER / "desk.js"),
)


def show(taught: Teaching, found: Taught | None, clips: Sequence[Stretch]) -> None:
    """Draw it, and take what was done on it.

    found  what the model makes of the trial that is looked at
    clips  stretches that are asked about
    """
    view, lesson = taught.view, taught.lesson
    trial, train, axis = view.trial, view.data.train, taught.axis(view.index)
    data = {
        "of": taught.of,
        "recording": f"{taught.of}/{view.index}",
        "trial": trial.name,
        "fitted": not view.is_new,
        **axis,
        "end": axis["begin"] + axis["step"] * trial.n_samples,
        "n": trial.n_samples,
        "perSecond": axis["step"] * trial.rate_hz if view.data.unit == "s" else 30.0,
        "group": "page",
        "player": view.data.pose(view.index) is not None,
        "words": list(taught.words.words),
        "keys": lessons.keys_of(taught.words.words, lesson.keys),
        "colours": palette.colours(palette.MAX_STATES),
        "lesson": lessons.to_plain(lesson),
        "undone": [lessons.plain_mark(mark) for mark in taught.own.undone[-MOST_DRAWN:]],
        "touched": lesson.touched,
        "heard": list(lesson.heard),
        "refused": lesson.said,
        "clips": [_clip(taught, clip) for clip in clips],
        "lengths": {trial.name: trial.n_samples for trial in train},
        **_seen(taught, found),
    }
    _desk(key=KEY, data=data, on_keyed_change=partial(hear, taught))


def _clip(taught: Teaching, clip: Stretch) -> dict[str, Any]:
    """A proposed stretch, with the poses in it: it is answered without a look at its trial."""
    trial, start, stop, _ = clip
    pose = taught.view.data.pose(trial)
    return {
        "recording": taught.view.data.train[trial].name,
        "start": start,
        "stop": stop,
        "said": taught.place(trial, start, stop),
        "rate": taught.view.data.train[trial].rate_hz,
        "poses": None if pose is None else player.posed(pose, slice(start, stop)),
    }


def _seen(taught: Teaching, found: Taught | None) -> dict[str, Any]:
    """What the model and the expert call the moments of the trial, thinned where it is long."""
    stride = -(-taught.here.trial.n_samples // player.MAX_FRAMES)
    expert, words = None, taught.words
    if taught.here.expert is not None and not (taught.here.words is None or taught.here.words.joined):
        expert = player.codes(taught.here.expert[::stride])  # the words of the expert come first among all
    if found is None:
        return {"stride": stride, "expert": expert, "model": None, "sure": None, "rgb": None}
    proba = words.spread(found.proba[::stride], found.words)
    rgb, _ = palette.mix(proba)
    known = np.array([words.words.index(word) for word in found.words])
    return {
        "stride": stride,
        "expert": expert,
        "model": player.codes(known[found.proba[::stride].argmax(axis=1)]),
        "sure": typed(np.round(found.proba[::stride].max(axis=1) * 255), "u1"),
        "rgb": typed(rgb, "u1"),
    }


def hear(taught: Teaching) -> None:
    """Take all entries of its message that are new, in their order."""
    token, entries = entries_of((st.session_state.get(KEY) or {}).get("keyed"))
    known, last = lessons.lesson(taught.of).heard
    new = [(number, entry) for number, entry in entries if known != token or number > last]
    if not new:
        return
    train = taught.view.data.train
    names = [trial.name for trial in train]
    for _, entry in new:
        if entry.kind == "look" and entry.recording in names:
            go_to(taught.view.data, names.index(entry.recording))
    done = [entry for _, entry in new if entry.kind != "look"]
    lessons.take(taught.of, train, *done, heard=(token, new[-1][0]))


def entries_of(sent: Any) -> tuple[str, list[tuple[int, Entry]]]:
    """What a browser sent, which may be anything: what is no entry is left out."""
    if not isinstance(sent, Mapping) or not isinstance(sent.get("token"), str):
        return "", []
    found = []
    raw = sent.get("entries")
    for one in raw[:MOST_ENTRIES] if isinstance(raw, list) else []:
        if not isinstance(one, Mapping) or type(number := one.get("n")) is not int:
            continue
        kind, recording, word, text = (str(one.get(name) or "") for name in ("kind", "recording", "word", "text"))
        start, stop = (at if type(at := one.get(name)) is int else -1 for name in ("start", "stop"))
        found.append((number, Entry(kind, recording, start, stop, word, text)))
    return sent["token"][:40], found
