"""Agreement of the states with labels of another annotator: Cohen's kappa."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from datasets import cohort_files
from gdm_core.analysis.kappa import Kappa, measure_kappa
from gdm_core.errors import DataError
from gdm_core.study import Study
from gdm_core.study.finding import Finding
from gdm_core.study.question import Question
from gdm_core.trials import UNLABELLED
from pages.study import files, work
from pages.study.sources import OpenStudy
from pages.study.work import Say
from pages.ui import shell

SECOND = "study-second"
Labels = npt.NDArray[np.int64]


def show(opened: OpenStudy, question: Question, finding: Finding) -> None:
    """Take the labels of another annotator and show how well the states agree with them."""
    study = opened.study
    about = (
        "Labels of the same recordings: NPZ, BORIS, or a label per row. An expert's labels, or a second annotator's."
    )
    given = files.upload("Labels to compare with", SECOND, about, several=True)
    if not given:
        return
    key = (opened.key, "kappa", tuple(one.file_id for one in given))

    def do(say: Say) -> tuple[Kappa, int, bool]:
        found, words = cohort_files.read_states(given, float(np.median(study.counts.rates)) * opened.step)
        return compare_labels(study, found, words, opened.starts, opened.step)

    found = work.outcome("study-kappa", key, do, "Agreement cannot be measured", words="Comparing labels")
    if found is None:
        return
    kappa, n, matched = found
    shell.finding(
        f"Cohen's kappa is {kappa.kappa:.2f} (95% CI {kappa.low:.2f} to {kappa.high:.2f}); {kappa.agreement:.0%} of "
        f"{kappa.n_frames:,} frames in {n} recordings have the same label."
    )
    if matched:
        shell.quiet("Each state counts as the label that it overlaps most, which favours models with many states.")


def compare_labels(
    study: Study, found: Mapping[str, Any], words: Mapping[int, str], starts: Mapping[str, float], step: int = 1
) -> tuple[Kappa, int, bool]:
    """Return kappa, the number of shared recordings, and whether states were matched with labels by overlap.

    found    recording -> labels; those without a label at the end are unlabelled there
    words    names of the labels
    starts   recording -> seconds that were cut off at the start
    step     frames from one window to the next, if states are of windows
    """
    by_stem = {PurePath(name).stem: name for name in study.sheet.names}
    first, second = list[Labels](), list[Labels]()
    for given, labels in found.items():
        name = given if given in study.sheet.names else by_stem.get(PurePath(given).stem)
        if name is None or np.ndim(labels) != 1:
            continue
        one = study.recordings[name]
        first_frame = round(starts.get(name, 0.0) * one.rate_hz * step)
        cut = np.asarray(labels)[first_frame::step][: one.n_samples]
        first.append(one.labels.astype(np.int64))
        second.append(np.pad(cut, (0, one.n_samples - len(cut)), constant_values=UNLABELLED).astype(np.int64))
    if not first:
        raise DataError(f"No label file has the name of a recording, such as {study.sheet.names[0]!r}.")
    codes = {study.state_name(state): state for state in study.states}
    if study.model is None and not words:  # numbers of both annotators mean the same
        return measure_kappa(first, second), len(first), False
    if set(words.values()) & set(codes):
        others = {word: max(codes.values()) + 1 + i for i, word in enumerate(words.values())}
        table = np.array([codes.get(words[code], others[words[code]]) for code in range(len(words))] + [UNLABELLED])
        return measure_kappa(first, [table[one] for one in second]), len(first), False
    ours, theirs = np.concatenate(first), np.concatenate(second)
    both = (ours >= 0) & (theirs >= 0)
    overlap = np.zeros((int(ours.max()) + 2, int(theirs.max()) + 1))
    np.add.at(overlap, (ours[both], theirs[both]), 1)
    label = np.append(overlap[:-1].argmax(axis=1), UNLABELLED)
    return measure_kappa([label[one] for one in first], second), len(first), True
