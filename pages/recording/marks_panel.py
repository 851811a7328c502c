"""The marks of a lesson as a list, from and to files, and the share of an expert's labels beside them."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from datasets.marks import Mark, Marks
from gdm_core.errors import DataError, GdmError
from gdm_core.trials import labels_of
from pages.recording import lessons
from pages.recording.tables import show_table
from pages.recording.teaching import CLIP_S, Teaching
from pages.recording.view import View
from pages.ui import settings, shell
from pages.ui.downloads import download


def share_of_expert(view: View, of: str) -> None:
    """How many of the expert's labels the visitor lets in; nothing where there are none."""
    train = view.data.train
    known = sum(float((z >= 0).sum()) / t.rate_hz for z, t in zip(labels_of(train), train, strict=True))
    if known < CLIP_S or view.data.unit == "step":
        return
    kept, most = lessons.lesson(of), float(int(known))
    many, which = settings.key("teach-share", of), settings.key("teach-order", of)
    st.session_state.setdefault(many, min(kept.seconds, most))
    st.session_state.setdefault(which, kept.order)
    st.slider(
        "Seconds of the expert's labels to use", 0.0, most, step=CLIP_S, key=many, on_change=_let_in, args=(of, many, which),
        help="Clips of 2 s of the fitted trials, beside your own marks. Of the new trials none is used.",
    )  # fmt: skip
    st.segmented_control(
        "Taken", list(lessons.LABELLED), format_func=lambda name: lessons.LABELLED.get(name, name), required=True,
        key=which, on_change=_let_in, args=(of, many, which), label_visibility="collapsed",
    )  # fmt: skip


def _let_in(of: str, many: str, which: str) -> None:
    lessons.change(of, seconds=float(st.session_state[many]), order=str(st.session_state[which]))


def listed(taught: Teaching) -> None:
    """What is marked, how to take it back, and marks from and to files."""
    view, of, own = taught.view, taught.of, taught.own
    train = view.data.train
    where = {trial.name: i for i, trial in enumerate(train)}
    if own.marks:
        rows = [
            {"word": mark.word, "from": begin, "to": end, "trial": mark.recording}
            for mark in own.marks
            for begin, end in [taught.clock(where[mark.recording]).times(mark.start, mark.stop)]
        ]
        show_table(pd.DataFrame(rows).round(2), 220, "teach-rows")
    more = taught.marks.seconds(train) - own.seconds(train)
    besides = f", beside {more:.1f} s of the expert's labels" if more > 0 else ""
    n = len(own.marks)
    shell.quiet(f"{n} {'mark' if n == 1 else 'marks'} of your own, {own.seconds(train):.1f} s{besides}.")
    with st.container(horizontal=True):
        st.button("Undo", key="teach-undo", on_click=_change_own, args=(of, "undo"), disabled=not own.marks)
        st.button("Redo", key="teach-redo", on_click=_change_own, args=(of, "redo"), disabled=not own.undone)
    if own.marks:
        spans = [taught.when(where[mark.recording], mark.start, mark.stop) for mark in own.marks]
        named = [f"{mark.word}, {mark.recording}, {span}" for mark, span in zip(own.marks, spans, strict=True)]
        chosen = st.selectbox("Take one away", range(n), index=None, key=settings.key("teach-away", of),
                              format_func=lambda i: named[i] if i < n else "", placeholder="choose a mark")  # fmt: skip
        if chosen is not None and chosen < n:
            st.button("Take it away", key="teach-remove", on_click=_remove, args=(of, own.marks[chosen]))


def _change_own(of: str, what: str) -> None:
    own = lessons.lesson(of).own
    lessons.change(of, own=own.undo() if what == "undo" else own.redo())


def _remove(of: str, mark: Mark) -> None:
    lessons.change(of, own=lessons.lesson(of).own.without(mark))
    st.session_state.pop(settings.key("teach-away", of), None)


def files(taught: Teaching) -> None:
    """Marks from files and to files."""
    view, of = taught.view, taught.of
    key = settings.key("teach-file", of)
    st.file_uploader(
        "Marks from a file", type=["json", "csv", "tsv", "txt", "annot"], key=key, on_change=_received, args=(taught, key),
        help="Marks saved here as JSON; or BORIS, Bento or a table of bouts, for the trial that is looked at.",
    )  # fmt: skip
    if not taught.marks.marks:
        return
    marks, train = taught.marks, view.data.train
    download("Marks (JSON)", lambda: marks.to_json().encode(), f"{view.page}-marks.json", key="teach-save-json")
    here = Marks(tuple(mark for mark in marks.marks if mark.recording == view.trial.name))
    if here.marks and not view.is_new:
        name = f"{view.page}-marks.csv"
        download("Marks of this trial (BORIS)", lambda: here.to_boris(train).encode(), name, key="teach-save-boris")


def _received(taught: Teaching, key: str) -> None:
    """Marks of a file, all of them or none."""
    sent = st.session_state.get(key)
    if sent is None:
        return
    view, of = taught.view, taught.of
    kept = lessons.lesson(of)
    try:
        if sent.name.lower().endswith(".json"):
            more = Marks.from_json(sent.getvalue().decode("utf-8", errors="replace"))
        elif view.is_new:
            raise DataError("Look at a fitted trial first: the marks of this file are for the trial that is looked at.")
        else:
            more = Marks.from_annotation(sent, view.trial.name, view.trial.rate_hz, sent.name)
        own = lessons.with_all(kept.own, more, view.data.train)
    except GdmError as error:
        lessons.change(of, said=f"{sent.name}: {error}")
        return
    lessons.change(of, own=own)
