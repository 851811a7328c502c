"""Clips of states with labels by the user, and a label model that predicts the labels of all recordings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from gdm_core.analysis.tables import harmless
from gdm_core.labels.requests import label_model_bytes
from gdm_core.study import Study, fitting
from gdm_core.study.fitting import Mark
from gdm_core.study.question import Question
from gdm_core.study.sheet import RECORDING
from gdm_core.study.states import Recording
from gdm_core.study.tables import choose_clips
from gdm_core.text import plural
from gdm_core.trials import Trial
from pages.lab import live
from pages.lab.live import panels
from pages.lab.poses.clips import clip, clip_grid
from pages.study import fits, pictures, work
from pages.study.names import typed_cells
from pages.study.pictures import word
from pages.study.sources import OpenStudy
from pages.study.work import KEPT, Say
from pages.ui import settings, shell
from pages.ui.controls import one_of
from pages.ui.plot import plot

MOST_LETTERS = 30
COMPARED = {"states": "States", "labels": "Labels"}


def marks_of(opened: OpenStudy) -> list[Mark]:
    """Return the labelled clips of this page, or of the opened study."""
    mine: list[Mark] | None = st.session_state.get(_place(opened))
    return _saved_marks(opened) if mine is None else mine


def _saved_marks(opened: OpenStudy) -> list[Mark]:
    return [(str(a), int(b), int(c), str(d)) for a, b, c, d in opened.study.marks]


def have_changed(opened: OpenStudy) -> bool:
    """Return whether clips were labelled on this page."""
    return marks_of(opened) != _saved_marks(opened)


def _place(opened: OpenStudy) -> str:
    return f"{KEPT}marks-{settings.scope(opened.study.sheet.names)}"


def with_labels(page: shell.Frame, opened: OpenStudy) -> OpenStudy | None:
    """Return the study with labels in place of states if the user chose that; None while they are predicted."""
    marks = marks_of(opened)
    if opened.trials is None or not marks:
        return opened
    with page.controls:
        about = "Your labels from the States tab, predicted for all recordings."
        compared = one_of("Compare", COMPARED, row=True, key="compared", help=about)
    if compared != "labels":
        return opened
    with page.picture:
        key = (opened.key, "labels", tuple(marks))
        failed, what = "Labels could not be predicted", "the classification"
        study = work.outcome("study-labels", key, _predict(opened, marks), failed, what=what)
    if study is None:
        return None
    code = (*opened.code, f"marks = {marks!r}", "study = study.with_labels(recordings, marks)")
    about = f"{opened.about.rpartition(', ')[0]}, {len(study.states)} labels"
    return replace(
        opened, study=study, key=f"{opened.key}/labels {settings.scope(marks)}", about=about, code=code, refit=None
    )


def _predict(opened: OpenStudy, marks: list[Mark]) -> Callable[[Say], Study]:
    engine, session = panels.engine(), f"{live.visitor()}/study"  # available only in the script's thread

    def do(say: Say) -> Study:
        def predict(kept: Mapping[str, Trial], *question: Any) -> dict[str, Recording]:
            model = b"" if opened.study.model is None else opened.study.model.to_bytes()
            job = engine.submit(label_model_bytes, model, *question, session=session)
            work = fitting.decode_labels, fits.wait_for(job, "Fitting a label model", say), kept
            return fits.read_all(engine, *work, session, "Fitted. Classifying", say)

        assert opened.trials is not None
        return opened.study.with_labels(opened.trials(), marks, predict=predict)

    return do


# ---- the tab --------------------------------------------------------------------------------------------------------
def show_clips(opened: OpenStudy, question: Question | None, place: int) -> None:
    """Show clips of a state from different animals, with a column for labels."""
    study, state = opened.study, opened.study.states[place]
    clips = choose_clips(study, state)
    if clips.empty:
        shell.empty("No clips", f"No recording has a bout of {study.state_name(state)}.")
        return
    open_ = st.toggle(f"Show {study.sheet.subjects} and groups", key=settings.key("whose", opened.of))
    names = [f"clip {i + 1}" for i in range(len(clips))]
    if open_:
        frame = study.conditions.set_index(RECORDING)
        shown = [c for c in (study.sheet.animal, *(question.between if question else ())) if c is not None]
        names = [", ".join(word(frame.loc[one, c]) for c in shown) or one for one in clips[RECORDING]]
        names = [f"{i + 1}: {name}" for i, name in enumerate(names)]
    if opened.trials is None:
        shell.quiet("The study contains no recordings, so clips are listed by time only.")
    else:
        _pictures(opened, clips, names, place)
    _label_clips(opened, clips, names, open_, state)


def _pictures(opened: OpenStudy, clips: pd.DataFrame, names: list[str], place: int) -> None:
    """Show clips as animated poses, or as channels side by side."""

    def do(say: Say) -> list[dict[str, Any]]:
        found = []
        for i, (name, first, after) in enumerate(clips[[RECORDING, "first", "after"]].itertuples(index=False)):
            say(f"Loading clip {i + 1} of {len(clips)}", i / len(clips))
            poses = opened.poses(name)
            if poses is None:
                return []
            near = replace(poses, image_size=None)  # scale each clip to its grid cell
            frames = poses.rate_hz / opened.study.recordings[name].rate_hz  # more than one for windows
            cut = round(opened.starts.get(name, 0.0) * poses.rate_hz)
            found.append(clip(near, cut + round(first * frames), cut + round(after * frames), name, ""))
        return found

    found = work.outcome("study-clips", (opened.key, "clips", place), do, "These clips cannot be shown")
    if found is None:
        return
    name = f"{opened.name}-clips"
    if not found:
        assert opened.trials is not None
        plot(pictures.clips(opened.study, opened.trials(), clips, names, place), key="study-clips", filename=name)
        return
    what, colour = opened.study.state_name(opened.study.states[place]), pictures.colour_of(opened.study, place)
    shown = [one | {"said": said} for one, said in zip(found, names, strict=True)]
    with shell.panel("study-clips"):
        clip_grid(shown, colour, what, "study-clips-grid")
        shell.quiet(f"{len(clips)} bouts of {what}, with 0.5 s before and after.")


def _label_clips(opened: OpenStudy, clips: pd.DataFrame, names: list[str], open_: bool, state: int) -> None:
    """Show a table of clips with a column for labels."""
    study, marks = opened.study, marks_of(opened)
    rates = [study.recordings[name].rate_hz for name in clips[RECORDING]]
    known = {mark[:3]: mark[3] for mark in marks}
    keys = [
        (str(a), int(b), int(c)) for a, b, c in clips[[RECORDING, "bout_first", "bout_after"]].itertuples(index=False)
    ]
    table = pd.DataFrame({"clip": names})
    if open_:
        table[RECORDING] = [harmless(name) for name in clips[RECORDING]]
    table["from (s)"] = np.round(clips["bout_first"] / rates, 2)
    table["seconds"] = np.round((clips["bout_after"] - clips["bout_first"]) / rates, 2)
    drawn = [known.get(key, "") for key in keys]
    table["label"] = pd.array(drawn, dtype="string")
    editor = f"{_place(opened)}-{state}-{open_}-{settings.scope(marks)}"
    able = opened.trials is not None
    st.data_editor(
        table, key=editor, hide_index=True, width="stretch",
        disabled=True if not able else [str(c) for c in table if c != "label"], height="content",
        column_config={
            "label": st.column_config.TextColumn("label", help="Click to type a label", max_chars=MOST_LETTERS),
            **{name: st.column_config.NumberColumn(format="%.2f") for name in ("from (s)", "seconds")},
        },
    )  # fmt: skip
    if not able:
        shell.quiet("Labelling needs the recordings.")
        return

    def keep() -> None:
        typed = dict(zip(keys, typed_cells(editor, "label", drawn), strict=True))
        st.session_state[_place(opened)] = merge_marks(marks, typed)

    left, right = st.columns([0.3, 0.7], gap="medium", vertical_alignment="center")
    left.button("Save labels", key="study-keep-labels", width="stretch", on_click=keep)
    animals = {study.sheet.animals[mark[0]] for mark in marks if mark[0] in study.sheet.animals}
    count = pd.Series([mark[3] for mark in marks], dtype=str).value_counts()
    then = "Label clips of at least two behaviours to continue."
    if len(count) > 1:
        then = "Choose Labels under Compare to predict them for all recordings."
    with right:
        of = plural(len(animals), study.sheet.subject, study.sheet.subjects)
        shell.quiet(
            f"{len(marks)} labelled clips of {of}{''.join(f'; {name} {n}' for name, n in count.items())}. {then}"
        )


def merge_marks(marks: list[Mark], typed: dict[tuple[str, int, int], str]) -> list[Mark]:
    """Replace marks that overlap new ones; an empty label removes a mark."""

    def stays(mark: Mark) -> bool:
        return not any(name == mark[0] and first < mark[2] and mark[1] < after for name, first, after in typed)

    return [*filter(stays, marks), *((*where, name) for where, name in typed.items() if name)]
