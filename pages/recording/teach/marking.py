"""Marking while it plays: a timeline under the player, and keys 1 to 9 that begin and end stretches or answer a proposal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2 import component

from gdm_core.analysis.teaching import Stretch
from gdm_core.errors import GdmError
from pages.recording.teach import lessons
from pages.recording.teach.taught_model import Teaching
from pages.recording.trial_choice import go_to, release
from pages.ui import palette, slider

KEY = "teach-keys"
MOST_DRAWN = 2_000  # marks of one trial that the timeline shows
MOST_ENTRIES = 1_000  # that the browser may send at once

_HTML = """
<section class="mark" aria-label="Mark while it plays">
  <canvas data-role="line" role="img" aria-label="What is marked around the present moment"></canvas>
  <div class="row">
    <button type="button" data-role="play">Play</button>
    <output data-role="now"></output>
    <span data-role="said" class="said" role="status"></span>
    <label><input type="checkbox" data-role="on" checked /> Keys</label>
  </div>
  <div class="row"><span data-role="words" class="row"></span>
    <button type="button" data-role="skip" hidden><kbd>0</kbd> Another one</button>
    <button type="button" data-role="stop" hidden><kbd>Esc</kbd> Stop asking</button></div>
</section>
"""
_CSS = """
.mark { display: grid; grid-template-columns: minmax(0, 1fr); gap: 0.4rem; font-size: 0.82rem;
  color: var(--gdm-ink, var(--st-text-color)); }
canvas { width: 100%; height: 34px; display: block; border-radius: 6px; background: var(--gdm-sunken, transparent);
  border: 1px solid var(--st-border-color); box-sizing: border-box; }
.row { display: flex; align-items: center; gap: 0.35rem 0.6rem; flex-wrap: wrap; }
.said { flex: 1; min-width: 12rem; }
output { font-variant-numeric: tabular-nums; min-width: 4rem; }
label { display: inline-flex; gap: 0.3rem; align-items: center; cursor: pointer; }
input { accent-color: var(--st-primary-color); }
button { font: inherit; cursor: pointer; padding: 0.15rem 0.6rem; border-radius: var(--st-button-radius, 8px); min-height: 2rem;
  border: 1px solid var(--st-border-color); background: transparent; color: inherit; display: inline-flex; align-items: center;
  gap: 0.4rem; }
button[hidden] { display: none; }
button:hover { border-color: var(--st-primary-color); }
button[aria-pressed=true] { border-color: var(--st-primary-color); box-shadow: inset 0 0 0 1px var(--st-primary-color); }
button:focus-visible, input:focus-visible { outline: 2px solid var(--st-primary-color); outline-offset: 1px; }
kbd { font: inherit; font-weight: 600; border: 1px solid var(--st-border-color); border-radius: 4px; padding: 0 0.35rem;
  background: var(--gdm-sunken, transparent); }
i { width: 0.75rem; height: 0.75rem; border-radius: 3px; display: inline-block; flex: none; }
"""
_timeline = component(
    "gdm_marking", html=_HTML, css=_CSS, js=(Path(__file__).parent / "marking.js").read_text(encoding="utf-8")
)


@dataclass(frozen=True)
class Entry:
    """What one key said. `kind` is mark, answer, skip, stop, undo or redo; `clip` names the proposal that was meant."""

    kind: str
    word: str = ""
    clip: str = ""
    trial: int = -1
    begin: float = math.nan
    end: float = math.nan


def clip_name(clip: Stretch) -> str:
    return "-".join(map(str, clip[:3]))


def timeline(taught: Teaching) -> None:
    """Show it, and take what its keys say."""
    view, lesson = taught.view, taught.lesson
    clock = taught.clock(view.index)
    colours = palette.colours(max(1, len(taught.words.names)))
    keys = lessons.keys_of(taught.words.words, lesson.keys)
    columns = dict(zip(taught.words.words, taught.words.columns, strict=True))
    asking = lesson.asking if lesson.asking is not None and lesson.asking[0] == view.index else None
    begin, end = clock.times(0, clock.trial.n_samples)
    clip = None
    if asking is not None:
        first, last = clock.times(*asking[1:3])
        said = f"{taught.place(*asking[:3])}."
        clip = {"id": clip_name(asking), "begin": first, "end": last, "said": said}
    here = [mark for mark in taught.own.marks if mark.recording == clock.trial.name][-MOST_DRAWN:]
    data = {
        "recording": f"{taught.of}/{view.index}",
        "trial": view.index,
        "begin": begin,
        "end": end,
        "unit": clock.unit,
        "perSecond": (end - begin) / clock.trial.n_samples * clock.trial.rate_hz if view.data.unit == "s" else 30.0,
        "group": "page",
        "player": view.data.pose(view.index) is not None,
        "words": [{"word": w, "key": keys.get(w), "colour": colours[columns[w]]} for w in taught.words.words],
        "colours": colours,
        "marks": [[*clock.times(m.start, m.stop), columns[m.word]] for m in here],
        "clip": clip,
        "heard": list(lesson.heard),
    }

    def take() -> None:
        sent = (st.session_state.get(KEY) or {}).get("keyed")
        hear(taught, sent)

    _timeline(key=KEY, data=data, on_keyed_change=take)


def hear(taught: Teaching, sent: Any) -> None:
    """Take all entries of a message that are new, in their order."""
    token, entries = entries_of(sent)
    known, last = lessons.lesson(taught.of).heard
    wrong = []
    for number, entry in entries:
        if known == token and number <= last:
            continue
        take(taught, entry)
        known, last = token, number
        wrong.append(lessons.lesson(taught.of).said)
    said = " ".join(dict.fromkeys(filter(None, wrong))) if wrong else lessons.lesson(taught.of).said
    lessons.change(taught.of, heard=(known, last), said=said)


def entries_of(sent: Any) -> tuple[str, list[tuple[int, Entry]]]:
    """What a browser sent, which may be anything: what is no entry is left out."""
    if not isinstance(sent, Mapping) or not isinstance(sent.get("token"), str):
        return "", []
    found = []
    raw = sent.get("entries")
    for one in raw[:MOST_ENTRIES] if isinstance(raw, list) else []:
        if not isinstance(one, Mapping) or type(number := one.get("n")) is not int:
            continue
        kind, word, clip = (str(one.get(name) or "") for name in ("kind", "word", "clip"))
        begin, end = (slider.number(one.get(name)) for name in ("begin", "end"))
        trial = one.get("trial")
        if begin is None or end is None:
            begin = end = math.nan
        found.append((number, Entry(kind, word, clip, trial if type(trial) is int else -1, begin, end)))
    return sent["token"][:40], found


def take(taught: Teaching, entry: Entry) -> None:
    """What one key does to the lesson."""
    of, kept = taught.of, lessons.lesson(taught.of)
    asking = kept.asking
    if entry.kind in ("undo", "redo"):
        lessons.change(of, own=kept.own.undo() if entry.kind == "undo" else kept.own.redo())
    elif entry.kind == "stop":
        stop_asking(taught)
    elif asking is not None and entry.clip == clip_name(asking):
        if entry.kind == "skip":
            next_clip(taught, tuple(clip for clip in kept.shown if clip != asking))
        elif entry.kind == "answer":
            add(taught, *asking[:3], entry.word)
    elif entry.kind == "mark" and 0 <= entry.trial < len(taught.view.data.train):
        try:
            start, stop = taught.clock(entry.trial).frames(entry.begin, entry.end)
        except GdmError as error:
            lessons.change(of, said=str(error))
            return
        add(taught, entry.trial, start, stop, entry.word)


def add(taught: Teaching, trial: int, start: int, stop: int, word: str) -> bool:
    """One more mark, if it can be; what it covers of the proposals is answered."""
    if not lessons.add(taught.of, taught.view.data.train, (trial, start, stop), word):
        return False
    kept = lessons.lesson(taught.of)
    if kept.asking is not None and kept.asking not in kept.shown:
        next_clip(taught, kept.shown)
    return True


# ---- one proposal after the other --------------------------------------------------------------------------------
def ask_for(taught: Teaching, clip: Stretch, *, keep: bool = False) -> None:
    """The page goes to that clip, plays it, and asks for its word; From and To are the clip's.

    keep  unless the visitor has a stretch of his own in hand
    """
    begin, end = taught.clock(clip[0]).times(clip[1], clip[2])
    go_to(taught.view.data, clip[0], hold=True)
    if keep and lessons.lesson(taught.of).in_hand:
        lessons.change(taught.of, asking=clip)
    else:
        stretch = clip[0], round(begin, 3), round(end, 3)
        lessons.set_controls(taught.of, asking=clip, following=True, stretch=stretch, in_hand=False)


def next_clip(taught: Teaching, left: tuple[Stretch, ...]) -> None:
    """What comes after a clip that was answered or passed over: the next of those proposed, or new ones once they are known."""
    lessons.change(taught.of, shown=left, asking=None)
    if left:
        ask_for(taught, left[0], keep=True)


def stop_asking(taught: Teaching) -> None:
    release(taught.view.data)
    lessons.change(taught.of, asking=None, following=False)
