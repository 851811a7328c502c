"""Predicted labels of the trial in view, and their agreement with known labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from datasets.marks import Marks
from gdm_core.analysis.tables import csv
from gdm_core.labels.requests import LabelAnswers, Trust, label_answers, trust
from gdm_core.text import listed
from gdm_core.trials import Stretch, Trial
from gdm_studio.plot import palette
from pages.lab import live
from pages.lab.decoded import TrialView
from pages.lab.export import add_time
from pages.lab.labelling.labels import Labels, expert_codes
from pages.lab.live.state import is_fit_of
from pages.lab.view import View
from pages.ui import shell
from pages.ui.downloads import download
from pages.ui.tables import show_table


@dataclass(frozen=True, eq=False)
class Labelling:
    """The labels of a recording in one run of its page.

    scope    key of the recording
    names    all labels, in the order of their colours
    missing  labels needed before a prediction; "" if there are enough
    here     trial in view
    """

    view: View
    scope: str
    labels: Labels
    names: tuple[str, ...]
    missing: str
    here: TrialView

    @property
    def has_fit(self) -> bool:
        """True if there is a fit of these trials."""
        return self.view.state.result is not None and is_fit_of(self.view.state, self.view.spec)

    @cached_property
    def question(self) -> tuple[tuple[Stretch, ...], tuple[str, ...]]:
        """Labelled stretches in the order of time, and names of labels."""
        marks = Marks(tuple(sorted(self.labels.marks.marks, key=lambda mark: (mark.recording, mark.start, mark.stop))))
        return self.to_trials(marks.stretches(self.view.dataset.train)), marks.names

    def to_trials(self, stretches: Iterable[Stretch]) -> tuple[Stretch, ...]:
        """Return stretches of recordings as stretches of the fitted trials, which may be windows."""
        data = self.view.dataset
        return tuple(_move(one, data.recording(one[0]), data.trials[one[0]]) for one in stretches)

    def to_recordings(self, stretches: Iterable[Stretch]) -> tuple[Stretch, ...]:
        """Return stretches of the fitted trials as stretches of recordings."""
        data = self.view.dataset
        return tuple(_move(one, data.trials[one[0]], data.recording(one[0])) for one in stretches)

    def query(self, name: str, function: Callable[..., Any], *args: Any, about: Any = None) -> live.Query:
        """Ask a worker, once labels can be predicted."""
        return live.Query() if self.missing or not self.has_fit else self.view.query(name, function, *args, about=about)

    def answers(self) -> live.Query:
        """Return the labels of the trial in view, or earlier ones until new ones are computed."""
        data, trial = self.view.dataset, self.view.trial
        found = self.query("labels", label_answers, data.train, *self.question, trial, about=trial.fingerprint)
        if found.value is None or found.about != trial.fingerprint or not set(found.value.names) <= set(self.names):
            return replace(found, value=None)
        proba = data.to_samples(self.view.index, found.value.proba)
        return replace(found, value=replace(found.value, proba=proba))

    def is_labelled(self, clip: Stretch) -> bool:
        """Return whether part of a clip has a label."""
        name = self.view.dataset.train[clip[0]].name
        marks = self.labels.marks.marks
        return any(m.recording == name and m.start < clip[2] and clip[1] < m.stop for m in marks)

    def in_colours(self, answers: LabelAnswers) -> npt.NDArray[np.float32]:
        """Return probabilities [T, colours] of labels; labels beyond the palette share its last colour."""
        found = np.zeros((len(answers.proba), min(len(self.names), palette.MAX_STATES)), np.float32)
        for j, name in enumerate(answers.names):
            found[:, min(self.names.index(name), palette.MAX_STATES - 1)] += answers.proba[:, j]
        return found


def _move(stretch: Stretch, source: Trial, target: Trial) -> Stretch:
    """Return the same time of `source` as a stretch of `target`, which has another sampling rate."""
    number, start, stop, label = stretch
    first, after = (min(round(at * target.rate_hz / source.rate_hz), target.n_samples) for at in (start, stop))
    return number, min(first, target.n_samples - 1), max(first + 1, after), label


def show_prediction_status(labelling: Labelling, answer: live.Query) -> None:
    """Show why there are no predicted labels, or that the trial differs from the labelled ones."""
    if labelling.missing:
        shell.empty("No predicted labels yet", labelling.missing)
        return
    live.show_failure(labelling.view.fit, answer, "Labels could not be predicted")
    if answer.value is not None and answer.value.unfamiliar is not None:
        shell.quiet(answer.value.unfamiliar)
    elif answer.value is None and not answer.message:
        shell.quiet("Predicting labels." if labelling.has_fit else "Labels are predicted when fitting finishes.")


def show_trust(labelling: Labelling) -> None:
    """Show agreement with held-back and with expert labels, next to the majority baseline."""
    if labelling.missing or not labelling.has_fit:
        shell.quiet("Label two behaviours to measure agreement.")
        return
    data, (stretches, names) = labelling.view.dataset, labelling.question
    answer = labelling.query("label-trust", trust, data.train, data.test, stretches, names, expert_codes(data, names))
    if not answer.fresh:
        if not live.show_failure(labelling.view.fit, answer, "Agreement could not be measured"):
            shell.quiet("Measuring agreement.")
        return
    single = [name for code, name in enumerate(names) if sum(one[3] == code for one in stretches) == 1]
    found = replace(answer.value, held_out=None) if single else answer.value
    table = trust_table(found)
    if len(table):
        show_table(table, 140, "label-trust-rows")
        shell.quiet("The majority baseline always predicts the most common label.")
    if found.held_out is None:
        where = listed(single) if single else "each behaviour"
        shell.quiet(f"Agreement with your labels cannot be measured yet: label {where} in two places or more.")


def trust_table(found: Trust) -> pd.DataFrame:
    """Return a row for each kind of known labels."""
    kinds = {"your labels, cross-validated": found.held_out, "expert labels, held-out trials": found.expert}
    rows = [
        {"compared with": kind, "labels": one.n_classes, "macro-F1": one.macro_f1, "majority baseline": one.majority}
        for kind, one in kinds.items()
        if one is not None
    ]
    return pd.DataFrame(rows).round(2)


def offer_files(labelling: Labelling, answers: LabelAnswers | None) -> None:
    """Show downloads of the user's labels and the predicted labels."""
    view, here, marks = labelling.view, labelling.here, labelling.labels.marks
    if marks.marks:
        download("Your labels (JSON)", lambda: marks.to_json().encode(), f"{view.stem}-labels.json", key="labels-json")
    if answers is not None:
        name = f"{view.stem}-labels.csv"
        download("Predicted labels (CSV)", lambda: csv(labels_table(answers, here)), name, key="labels-csv")


def labels_table(answers: LabelAnswers, here: TrialView) -> pd.DataFrame:
    """Return the time, the frame, the probability of each label and the most probable one."""
    table = pd.DataFrame({f"p {name}": answers.proba[:, j] for j, name in enumerate(answers.names)})
    table["label"] = [answers.names[j] for j in answers.proba.argmax(axis=1)]
    return add_time(table, here)
