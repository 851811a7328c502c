"""The tab Labelling: the user labels a few stretches, and a label model predicts the labels of all other samples."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from datasets.marks import Mark, Marks
from gdm_core.errors import DataError, GdmError
from gdm_core.labels.requests import next_clips
from gdm_core.text import plural
from gdm_core.trials import Stretch
from pages.lab import live
from pages.lab.dataset import go_to
from pages.lab.decoded import TrialView
from pages.lab.labelling import labels, results
from pages.lab.labelling.desk import show_desk
from pages.lab.labelling.results import Labelling
from pages.lab.view import View
from pages.ui import settings, shell
from pages.ui.tables import show_table
from pages.ui.uploads import Upload, uploader

CLIP_S, CLIP_STEPS = 2.0, 30.0
N_CLIPS = 6  # proposed at once, so the next one is ready


def panel(view: View, here: TrialView, under_player: Any) -> None:
    """Show the tab, and the desk in the picture."""
    data = view.dataset
    if name := labels.repeated_name(data):
        shell.empty("Labelling needs distinct names", f"Two training trials are called {name!r}. Rename one of them.")
        return
    scope = labels.key_of(data)
    kept = labels.load(scope)
    labelling = Labelling(
        view, scope, kept, labels.all_names(data, kept), labels.missing(kept.marks, data.fitted_recordings), here
    )
    answer = labelling.answers()
    with under_player:
        shell.section("Labelling")
        show_desk(labelling, answer.value)
        results.show_prediction_status(labelling, answer)
        _controls(labelling)
        if kept.error:
            shell.error("Not labelled", kept.error)
    left, right = st.columns(2, gap="small")
    with left, shell.panel("labels-list", "Your labels"):
        _list(labelling)
        _upload(labelling)
        results.offer_files(labelling, answer.value)
    with right, shell.panel("labels-trust", "Agreement"):
        results.show_trust(labelling)


def _controls(labelling: Labelling) -> None:
    """Controls under the desk: a new label, and the clip to label next."""
    view = labelling.view
    key, clips = settings.key("label-name", labelling.scope), _proposed(labelling)
    with st.form("add-label", clear_on_submit=True, border=False), st.container(horizontal=True):
        shown: dict[str, Any] = {"label_visibility": "collapsed", "placeholder": "New label", "width": 220}
        st.text_input("New label", key=key, max_chars=labels.MOST_LETTERS, **shown)
        st.form_submit_button("Add label", on_click=_add_label, args=(labelling, key))
    with st.container(horizontal=True):
        st.button(
            "Next clip", key="next-clip", disabled=not clips, on_click=_go_to_clip, args=(labelling, *clips[:1]),
            help="The clip whose label would help the predictions most.",
        )  # fmt: skip
        if view.is_new:
            st.button("Go to a training trial", key="go-to-training", on_click=go_to, args=(view.dataset, 0))


def _add_label(labelling: Labelling, key: str) -> None:
    labels.add_name(labelling.scope, str(st.session_state.get(key) or ""), labelling.names)


def _proposed(labelling: Labelling) -> list[Stretch]:
    """Return clips to label next, without those that were asked about or labelled since they were proposed."""
    view, asked = labelling.view, labelling.labels.asked
    if not labelling.has_fit:
        return []
    seconds = CLIP_STEPS if view.dataset.unit == "step" else CLIP_S
    before = labelling.to_trials(asked)
    answer = view.query("next-clips", next_clips, view.dataset.train, *labelling.question, before, N_CLIPS, seconds)
    live.show_failure(view.fit, answer, "The next clip could not be chosen")
    found = labelling.to_recordings((clip.trial, clip.start, clip.stop, 0) for clip in answer.value or ())
    return [clip for clip in found if clip not in asked and not labelling.is_labelled(clip)]


def _go_to_clip(labelling: Labelling, clip: Stretch) -> None:
    labels.change(labelling.scope, asked=(*labelling.labels.asked, clip))
    go_to(labelling.view.dataset, clip[0])


def _list(labelling: Labelling) -> None:
    """Show the labelled stretches, and how to remove one."""
    scope, marks, train = labelling.scope, labelling.labels.marks, labelling.view.dataset.fitted_recordings
    where = {trial.name: i for i, trial in enumerate(train)}
    rows = [_row(labelling, where[mark.recording], mark) for mark in marks.marks]
    if rows:
        show_table(pd.DataFrame(rows).round(2), 220, "labels-rows")
    n = len(rows)
    shell.quiet(f"{plural(n, 'labelled stretch', 'labelled stretches')}, {marks.seconds(train):.1f} s.")
    if not rows:
        return
    key = settings.key("remove-label", scope)
    chosen = st.selectbox(
        "Remove a label", range(n), index=None, key=key, placeholder="Choose a stretch",
        format_func=lambda i: "{label}, {from:.1f} to {to:.1f}, {trial}".format_map(rows[i]) if i < n else "",
    )  # fmt: skip
    if chosen is not None and chosen < n:
        st.button("Remove", key="remove-label-now", on_click=_remove, args=(labelling, marks.marks[chosen], key))


def _row(labelling: Labelling, index: int, mark: Mark) -> dict[str, Any]:
    """Return a mark, its time and its trial as a row of the table."""
    unit, trial = labelling.view.select_trial(index).unit, labelling.view.dataset.recording(index)
    first, stop = (unit.convert(trial.start_seconds + at / trial.rate_hz) for at in (mark.start, mark.stop))
    return {"label": mark.label, "from": first, "to": stop, "trial": mark.recording}


def _remove(labelling: Labelling, mark: Mark, key: str) -> None:
    left = tuple(one for one in labels.load(labelling.scope).marks.marks if one != mark)
    labels.replace_marks(labelling.scope, Marks(left), labelling.view.dataset.fitted_recordings)
    st.session_state.pop(key, None)


def _upload(labelling: Labelling) -> None:
    key = settings.key("labels-file", labelling.scope)
    help = "Labels saved here (JSON), or a BORIS file or table of bouts of this trial."
    uploader("Load labels", partial(load_file, labelling), key=key, help=help)


def load_file(labelling: Labelling, files: list[Upload]) -> None:
    """Add all labels of a file, or none."""
    (sent,), view, scope = files, labelling.view, labelling.scope
    trial = labelling.here.trial
    try:
        if sent.name.lower().endswith(".json"):
            more = Marks.from_json(sent.getvalue().decode("utf-8", errors="replace"))
        elif view.is_new:
            raise DataError("Choose a training trial first: this file labels the chosen trial.")
        else:
            more = Marks.from_annotation(sent, trial.name, trial.rate_hz, sent.name)
        both = tuple(dict.fromkeys((*labels.load(scope).marks.marks, *more.marks)))
        labels.replace_marks(scope, Marks(both), view.dataset.fitted_recordings)
    except GdmError as error:
        labels.change(scope, error=f"{sent.name}: {error}")
