"""Checks of a comparison: its limitations, confounds, power, and agreement with labels of another annotator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
import streamlit as st

from datasets import cohort_files
from gdm_core.analysis.kappa import Kappa, measure_kappa
from gdm_core.errors import DataError
from gdm_core.study import Power, Study
from gdm_core.study.finding import Finding
from gdm_core.study.question import Question
from gdm_core.study.states import CHANGE_MEASURES, SHARES, STATE_MEASURES
from gdm_core.study.text import bare_p, format_difference
from gdm_core.text import plural
from gdm_core.trials import UNLABELLED
from pages.study import answer, files, pictures, work
from pages.study.sources import OpenStudy
from pages.study.work import Say
from pages.ui import settings, shell
from pages.ui.controls import one_of, pick, slide
from pages.ui.plot import plot
from pages.ui.tables import show_table

WHOLE = "whole recording"


def show(opened: OpenStudy, question: Question, finding: Finding) -> None:
    """Show the limitations and one check; the others are not computed."""
    for note in finding.notes:
        shell.quiet(note)
    chosen = one_of("Check", list(CHECKS), key="check", row=True, label_visibility="collapsed")
    CHECKS[chosen](opened, question, finding)


def _power(opened: OpenStudy, question: Question, finding: Finding) -> None:
    """Show power against the number of animals."""
    if len(question.between) > 1:
        shell.empty("Power needs one factor", "Remove the second factor, or fix it under Filter by.")
        return
    if question.measure in CHANGE_MEASURES:
        shell.empty("Power is not available for transitions", "Choose another measure on the left.")
        return
    study, state = opened.study, None
    left, right = st.columns(2, gap="medium")
    if question.measure in STATE_MEASURES:
        words = {one: study.state_name(one) for one in study.states}
        with left:
            state = pick("Of", words, _first(study, finding), key=settings.key("power-of", opened.scope), width=260)
    with right:
        about = f"In standard deviations between {study.sheet.subjects}; of differences if paired."
        effect = slide("Effect size (Cohen's d)", 0.1, 3.0, 1.0, 0.1, key="effect", help=about)
    asking = question.options

    def do(say: Say) -> Power:
        return study.power(question.measure, question.between[0], state, float(effect), **asking)

    key, words_ = (opened.key, "power", question.key, state, effect), "Computing power"
    found = work.outcome("study-power", key, do, "Power could not be estimated", words=words_)
    if found is None:
        return
    needed = "more than 200" if found.needed is None else f"{found.needed}"
    what = WHOLE if state is None else study.state_name(state)
    raw = format_difference(found.raw, question.measure in SHARES)
    pairs = "pairs" if question.within else f"{study.sheet.subjects} per group"
    shell.finding(
        f"A difference of {found.effect:.1f} standard deviations in {what} ({raw}) is significant after "
        f"correction over {plural(found.n_tests, 'test')} with {found.power:.0%} probability; {needed} {pairs} give 80%."
    )
    plot(pictures.power(found, study.sheet.subjects), key="study-power-curve", filename=f"{opened.name}-power")
    for one in found.notes:
        shell.quiet(one)


def _first(study: Study, finding: Finding) -> int:
    """Return the state with the smallest p."""
    return study.states[0 if finding.table is None else answer.find_surest(finding.table, len(study.states))]


def _confounds(opened: OpenStudy, question: Question, finding: Finding) -> None:
    """List columns that are associated with the groups, with buttons to adjust for them."""
    found = finding.confounds
    if found is None or found.empty:
        shell.empty("No other columns", "The sheet has no column that could be associated with the groups.")
        return
    open_ = answer.find_unadjusted(finding, question)
    if open_.empty:
        shell.finding("No unadjusted column is associated with the groups (p < .05).")
    for _, row in open_.iterrows():
        left, right = st.columns([0.72, 0.28], vertical_alignment="center")
        with left:
            shell.finding(row["sentence"])
        name = row["column"]
        right.button(
            f"Adjust for {name}", key=f"study-adjust-{name}", on_click=settings.change,
            args=(settings.key("covariates", opened.scope), [*question.covariates, name]), width="stretch",
        )  # fmt: skip
    for reason in found["reason"].loc[found["reason"] != ""]:
        shell.quiet(reason)
    shown = found[["column", "kind", "association", "strength", "n"]].assign(
        strength=[answer.format_number(value, False) for value in found["strength"]],
        **{"adjusted p": [bare_p(value) for value in found["p_holm"]]},
    )
    show_table(shown, 320, "study-confounds-table")


SECOND = "study-second"
Labels = npt.NDArray[np.int64]


def _agreement(opened: OpenStudy, question: Question, finding: Finding) -> None:
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


CHECKS: dict[str, Callable[[OpenStudy, Question, Finding], None]] = {
    "Confounds": _confounds, "Power": _power, "Agreement": _agreement
}  # fmt: skip
