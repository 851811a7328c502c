"""Reading of many recordings on workers, and the questions that they leave open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from datasets import cohort_files
from datasets.cohort_files import PathOrFile
from datasets.keypoints import FeatureSet
from datasets.readers.doubts import Answers, Doubt, UnansweredError
from gdm_core.engine import Engine, Job
from gdm_core.text import plural
from pages.lab.upload.questions import ask
from pages.study.work import KEPT, Say, run_jobs
from pages.ui import shell

_ASKED = f"{KEPT}asked"
Columns = tuple[str, ...]
Given = tuple[tuple[str, str], ...]  # answers


def ask_all(files: Sequence[str]) -> dict[Columns, dict[str, str]]:
    """Ask the questions that these files left open, once for files with the same columns; return the answers."""
    answers: dict[Columns, dict[str, str]] = {}
    for columns, (names, doubts) in st.session_state.get(_ASKED, {}).get(tuple(files), {}).items():
        shown = ", ".join(columns[:6]) + (", ..." if len(columns) > 6 else "")
        shell.quiet(f"{plural(len(names), 'file')} with the columns {shown}, such as {names[0]}:")
        answers[columns] = ask(partial(_list_doubts, doubts), columns)
    return answers


def _list_doubts(doubts: Mapping[str, Doubt], _: Answers) -> list[Doubt]:
    return list(doubts.values())


def keep_questions(files: Sequence[str], unanswered: Iterable[tuple[str, UnansweredError]]) -> bool:
    """Keep questions of files for `ask_all`; return whether there are new ones."""
    asked: dict[Columns, tuple[list[str], dict[str, Doubt]]] = st.session_state.setdefault(_ASKED, {}).setdefault(
        tuple(files), {}
    )
    new = False
    for name, error in unanswered:
        names, doubts = asked.setdefault(error.columns, ([], {}))
        names += [name] if name not in names else []
        new |= any(doubt.key not in doubts for doubt in error.doubts)
        for doubt in error.doubts:
            doubts.setdefault(doubt.key, doubt)
    return new


def find_answers(known: Mapping[Any, Any], key: Any, answers: Mapping[Columns, Answers]) -> Given:
    """Return the answers with which a file has to be read, according to its questions so far."""
    given: Given = ()
    while (key, given) in known and isinstance(error := known[key, given][0], UnansweredError):
        its = answers.get(error.columns, {})
        more = tuple(sorted({**dict(given), **its}.items()))
        if more == given or any(doubt.key not in its for doubt in error.doubts):
            break
        given = more
    return given


def read_on_workers(
    known: dict[Any, Any], files: Mapping[Any, PathOrFile], answers: Mapping[Columns, Answers], rate_hz: float | None,
    features: FeatureSet, engine: Engine, session: str, say: Say,
) -> None:  # fmt: skip
    """Add what is not yet known of files by key and answers; a cancelled import keeps what was read."""

    def list_needed() -> list[Any]:
        return [(key, find_answers(known, key, answers)) for key in files]

    def submit(its: Any) -> Job:
        key, given = its
        file = files[key]
        content = file.read_bytes() if isinstance(file, Path) else _read_open(file)
        asked = (Path(file.name).name, content, rate_hz, features, dict(given))
        return engine.submit(cohort_files.try_file, *asked, session=session)

    def report() -> None:
        done = sum(its in known for its in list_needed())
        say(f"Read {done} of {plural(len(files), 'file')}", done / len(files))

    run_jobs(engine, list_needed, submit, known, report)


def _read_open(file: Any) -> bytes:
    file.seek(0)
    content: bytes = file.read()
    return content


def write_code(answers: Mapping[str, Answers], rate_hz: float | None, features: FeatureSet) -> tuple[str, ...]:
    """Return the code that reads `files` as they were read here.

    answers   of the files that asked, by name
    """
    if not answers:
        return (f"recordings = cohort_files.read_recordings(files, {rate_hz}, {features!r})",)
    lines = [f"answers = {dict(answers)!r}", "recordings = {}", "for file in files:"]
    lines += [
        f"    recordings |= cohort_files.read_file(file, {rate_hz}, {features!r}, answers=answers.get(file.name))"
    ]
    return (*lines, "recordings = cohort_files.align_features(recordings)")
