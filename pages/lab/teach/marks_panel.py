"""The marks of a lesson as a list, from and to files, and the share of an expert's labels beside them."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from datasets.marks import Mark, Marks
from gdm_core.errors import DataError, GdmError
from gdm_core.trials import labels_of
from pages.lab.teach import lessons
from pages.lab.teach.lessons import Entry
from pages.lab.teach.taught_fit import CLIP_S, AnyTeaching
from pages.lab.view import View
from pages.ui import settings, shell
from pages.ui.downloads import download
from pages.ui.slider import slider
from pages.ui.tables import show_table

ANNOTATIONS = ("csv", "tsv", "txt", "annot")


def share_of_expert(view: View, of: str) -> None:
    """How many of the expert's labels the visitor lets in; nothing where there are none."""
    train = view.data.train
    known = sum(float((z >= 0).sum()) / t.rate_hz for z, t in zip(labels_of(train), train, strict=True))
    if known < CLIP_S or view.data.unit == "step":
        return
    kept, most = lessons.lesson(of), float(int(known))
    stands = min(kept.seconds, most)
    seconds, _ = slider(
        "Seconds of the expert's labels to use", 0.0, most, stands, CLIP_S, key=settings.key(f"teach-share-{kept.turn}", of),
        help="Clips of 2 s of the fitted trials, at random, beside your own marks. Of the new trials none is used.",
    )  # fmt: skip
    first = st.toggle(
        "From the beginning, not at random", kept.from_start, key=settings.key(f"teach-first-{kept.turn}", of)
    )
    if (seconds, first) != (stands, kept.from_start):  # what is above has been drawn without it
        lessons.change(of, seconds=seconds, from_start=first)
        st.rerun()


def listed(taught: AnyTeaching) -> None:
    """What is marked, and how to take one away."""
    view, of, own = taught.view, taught.of, taught.own
    train = view.data.train
    where = {trial.name: i for i, trial in enumerate(train)}
    if own.marks:
        rows = [
            {"word": mark.word} | taught.columns(where[mark.recording], mark.start, mark.stop) for mark in own.marks
        ]
        show_table(pd.DataFrame(rows).round(2), 220, "teach-rows")
    more = taught.marks.seconds(train) - own.seconds(train)
    besides = f", beside {more:.1f} s of the expert's labels" if more > 0 else ""
    n = len(own.marks)
    shell.quiet(f"{n} {'mark' if n == 1 else 'marks'} of your own, {own.seconds(train):.1f} s{besides}.")
    if own.marks:
        named = [f"{mark.word}, {taught.place(where[mark.recording], mark.start, mark.stop)}" for mark in own.marks]
        chosen = st.selectbox("Take one away", range(n), index=None, key=settings.key("teach-away", of),
                              format_func=lambda i: named[i] if i < n else "", placeholder="choose a mark")  # fmt: skip
        if chosen is not None and chosen < n:
            st.button("Take it away", key="teach-remove", on_click=_remove, args=(taught, own.marks[chosen]))


def _remove(taught: AnyTeaching, mark: Mark) -> None:
    lessons.take(taught.of, taught.view.data.train, Entry("away", mark.recording, mark.start, mark.stop, mark.word))
    st.session_state.pop(settings.key("teach-away", taught.of), None)


def files(taught: AnyTeaching, *, annotations: bool = True) -> None:
    """Marks from files and to files; with `annotations`, also those of annotation programs."""
    view, of = taught.view, taught.of
    key = settings.key("teach-file", of)
    others = " BORIS, Bento or a table of bouts too, for the trial that is looked at." if annotations else ""
    st.file_uploader(
        "Marks from a file", type=["json", *(ANNOTATIONS if annotations else ())], key=key, on_change=_received,
        args=(taught, key, annotations), help=f"Marks saved here as JSON.{others}",
    )  # fmt: skip
    if not taught.marks.marks:
        return
    marks, train = taught.marks, view.data.train
    download("Marks (JSON)", lambda: marks.to_json().encode(), f"{view.stem}-marks.json", key="teach-save-json")
    here = Marks(tuple(mark for mark in marks.marks if mark.recording == view.trial.name))
    if annotations and here.marks and not view.is_new:
        name = f"{view.stem}-marks.csv"
        download("Marks of this trial (BORIS)", lambda: here.to_boris(train).encode(), name, key="teach-save-boris")


def _received(taught: AnyTeaching, key: str, annotations: bool) -> None:
    """Marks of a file, all of them or none."""
    sent = st.session_state.get(key)
    if sent is None:
        return
    view, of = taught.view, taught.of
    kept = lessons.lesson(of)
    try:
        if sent.name.lower().endswith(".json"):
            more = Marks.from_json(sent.getvalue().decode("utf-8", errors="replace"))
        elif not annotations:
            raise DataError("Marks come as the JSON that is saved here.")
        elif view.is_new:
            raise DataError("Look at a fitted trial first: the marks of this file are for the trial that is looked at.")
        else:
            more = Marks.from_annotation(sent, view.trial.name, view.trial.rate_hz, sent.name)
        own = lessons.with_all(kept.own, more, view.data.train)
    except GdmError as error:
        lessons.change(of, said=f"{sent.name}: {error}")
        return
    lessons.change(of, own=own)
