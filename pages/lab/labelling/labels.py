"""Labels that the user gave to stretches of training trials: kept in the session under the recording, whatever model is fitted."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import streamlit as st

from datasets.marks import Marks
from gdm_core.errors import DataError, GdmError
from gdm_core.labels.checks import check_labels
from gdm_core.trials import Stretch, Trials, labels_of
from gdm_studio.plot import palette
from pages.lab import Dataset
from pages.ui import settings

MOST_LETTERS = 30
PLACE = "_labels-{}"  # the underscore keeps it while another page is open


@dataclass(frozen=True)
class Labels:
    """Labels of one recording.

    marks     labelled stretches
    names     labels that the user added, whether or not a stretch has them
    revision  how often the page, not the desk, has changed the marks
    asked     clips proposed so far; the last one is to be labelled now
    error     why the last change was refused
    """

    marks: Marks = field(default_factory=Marks)
    names: tuple[str, ...] = ()
    revision: int = 0
    asked: tuple[Stretch, ...] = ()
    error: str = ""


def key_of(data: Dataset) -> str:
    """Return a name for the recording. Other features or repairs of the same frames keep its labels."""
    frames = [(trial.name, trial.n_samples) for trial in data.fitted_recordings]
    labels = [] if data.scope else [hashlib.sha256(z.tobytes()).hexdigest() for z in labels_of(data.fitted_recordings)]
    return settings.scope("marks", data.scope, frames, labels)


def load(scope: str) -> Labels:
    """Return the labels of a recording."""
    kept: Labels = st.session_state.get(PLACE.format(scope), Labels())
    return kept


def change(scope: str, **fields: Any) -> None:
    """Keep the labels of a recording with other fields; an earlier error goes."""
    st.session_state[PLACE.format(scope)] = replace(load(scope), **{"error": "", **fields})


def replace_marks(scope: str, marks: Marks, trials: Trials, *, by_desk: bool = False) -> None:
    """Keep these marks, or the earlier ones and the error if they are invalid."""
    now = load(scope)
    try:
        marks.labels(trials)
        if short := next((mark for mark in marks.marks if mark.stop - mark.start < 2), None):
            raise DataError(f"A stretch of {short.label!r} has a single frame. Label at least 2 frames.")
        if len(marks.names) > palette.MAX_STATES:
            raise DataError(f"These are {len(marks.names)} labels; at most {palette.MAX_STATES} are possible.")
    except DataError as error:
        change(scope, revision=now.revision + 1, error=str(error))  # the desk then drops its own change
        return
    names = tuple(dict.fromkeys((*now.names, *marks.names)))
    change(scope, marks=marks, names=names, revision=now.revision + (not by_desk))


def add_name(scope: str, name: str, names: Sequence[str]) -> None:
    """Add a label to those that the desk offers, which are `names` so far."""
    name = name.strip()[:MOST_LETTERS]
    if not name or name in names:
        change(scope, error=f"{name!r} is already a label." if name else "Type the name of the label first.")
    elif len(names) >= palette.MAX_STATES:
        change(scope, error=f"There are {len(names)} labels; at most {palette.MAX_STATES} are possible.")
    else:
        change(scope, names=(*load(scope).names, name))


def repeated_name(data: Dataset) -> str:
    """Return a name that two training trials share, which marks cannot distinguish; "" without one."""
    names = [trial.name for trial in data.train]
    return next((name for name in names if names.count(name) > 1), "")


def missing(marks: Marks, trials: Trials) -> str:
    """Return the labels needed before a prediction; "" if there are enough."""
    if not marks.marks:
        return "Label a stretch of one behaviour, then one of another."
    codes, names = marks.labels(trials)
    try:
        check_labels(codes, trials, False, names)
    except GdmError as error:
        return str(error)
    return ""


def all_names(data: Dataset, kept: Labels) -> tuple[str, ...]:
    """Return all labels in the order of their colours: the expert's, then the user's."""
    expert = data.every_label if data.words is not None and not data.words.joined else ()
    return tuple(dict.fromkeys((*expert, *kept.names, *kept.marks.names)))


def expert_codes(data: Dataset, names: Sequence[str]) -> tuple[int, ...]:
    """Return the expert's label of the same name for each label, -1 for none."""
    expert = {name.strip().lower(): code for code, name in reversed([*enumerate(data.every_label)])}
    return tuple(expert.get(name.strip().lower(), -1) for name in names)
