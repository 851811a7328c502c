"""Exports of a study: tables, methods paragraph, script and study file."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import streamlit as st

from gdm_core.analysis.tables import csv
from gdm_core.study import Study
from gdm_core.study.finding import Finding
from gdm_core.study.methods import write_methods
from gdm_core.study.question import Question
from gdm_core.study.robustness import describe_robustness
from gdm_core.study.tables import to_prism, to_wide
from gdm_studio.plot.figures.base import Figure
from pages.study import pictures, robust, states
from pages.study.questions import N_PERMUTATIONS
from pages.study.sources import OpenStudy
from pages.ui import exports, settings, shell, wheel
from pages.ui.controls import text
from pages.ui.downloads import download


def panel(opened: OpenStudy, question: Question | None, finding: Finding | None) -> None:
    """Show the methods paragraph, the button that saves everything, and single files."""
    found = finding.tests if finding is not None else []
    st.html('<p class="gdm-panel-title">Methods paragraph</p>')
    paragraph = st.container()
    opened = replace(opened, study=_explain_k(opened))
    methods = write_methods(opened.study, *found, correction="p_holm" if question is None else question.correction)
    rows = None if question is None else robust.find_rows(opened, question)
    if rows is not None and len(rows) > max(1, len(opened.variants)):  # all refits have ended
        methods += f" {describe_robustness(rows)}"
    paragraph.code(methods, language=None, wrap_lines=True)
    tables, kept = _tables(opened, finding), whole(opened, question)  # now: a download has no session
    code = script(opened, question).encode()

    def make_files() -> tuple[dict[str, Figure], exports.Files]:
        files = {f"{key}.csv": make() for key, (_, make) in tables.items()}
        files |= {"methods.txt": methods.encode(), f"{opened.name}.py": code, f"{opened.name}.study": kept.to_bytes()}
        return _draw(opened, question, finding), files | {wheel.FILE: wheel.build()}

    exports.download_all(f"{opened.name}.zip", make_files, key="study-export")
    shell.quiet("Figures (SVG, PNG), tables (CSV), methods, study file, script and library.")
    left, middle, right = st.columns(3, gap="medium")
    with left:
        st.html('<p class="gdm-panel-title">Results</p>')
        download("Methods (text)", methods.encode, f"{opened.name}-methods.txt", key="study-methods")
        for key, (label, make) in tables.items():
            download(label, make, f"{opened.name}-{key}.csv", key=f"study-{key}-csv")
    with middle:
        st.html('<p class="gdm-panel-title">Study</p>')
        download("Study file", kept.to_bytes, f"{opened.name}.study", key="study-file")
        shell.quiet("Everything in one file. Open it here, with Study.open or with gdm study.")
    with right:
        st.html('<p class="gdm-panel-title">Code</p>')
        download("Python script", lambda: code, f"{opened.name}.py", key="study-script")


def _draw(opened: OpenStudy, question: Question | None, finding: Finding | None) -> dict[str, Figure]:
    """Return the strips of all recordings, and the figures of a finished comparison."""
    drawn = {"recordings": pictures.strips(opened.study, "" if question is None else question.between[0])}
    if question is not None and finding is not None and finding.table is not None:
        drawn["subjects"] = pictures.dots(opened.study, question, finding)
        if finding.flow is not None:
            drawn["transitions"] = pictures.changes(opened.study, finding.flow)
    return drawn


def _explain_k(opened: OpenStudy) -> Study:
    """Ask for the reason for K unless a search gave it; return the study with the reason."""
    study = opened.study
    if study.model is None or study.origin or study.why_k.startswith("K "):
        return study
    about = "Such as a pilot study or an earlier paper; for the methods paragraph."
    return replace(
        study, why_k=text("Why this K?", study.why_k, key=settings.key("why", opened.scope), max_chars=300, help=about)
    )


def _tables(opened: OpenStudy, finding: Finding | None) -> dict[str, tuple[str, Callable[[], bytes]]]:
    """Return label and content of each CSV."""
    study = opened.study
    found: dict[str, tuple[str, Callable[[], bytes]]] = {}
    if finding is not None and finding.table is not None:
        tests, each = finding.table, finding.per_unit
        found["tests"] = ("Tests (CSV)", lambda: csv(tests))
        if each is not None:
            subject = study.sheet.subject
            found["tidy"] = (f"Per {subject}, tidy (CSV)", lambda: csv(each))
            found["wide"] = (f"Per {subject}, wide (CSV)", lambda: csv(to_wide(each)))
            found["prism"] = ("By group, for Prism (CSV)", lambda: csv(to_prism(each)))
    if study.tried:
        found["tried"] = ("Questions so far (CSV)", lambda: csv(pd.DataFrame([json.loads(one) for one in study.tried])))
    found["measures"] = ("Per recording (CSV)", lambda: csv(study.measures()))
    found["bouts"] = ("Bouts (CSV)", lambda: csv(study.bouts()))
    found["changes"] = ("Transitions (CSV)", lambda: csv(study.transitions()))
    return found


def is_unsaved(opened: OpenStudy) -> bool:
    """Return whether a reload would lose work."""
    fitted = opened.private and opened.study.model is not None
    return fitted or states.have_changed(opened)


def whole(opened: OpenStudy, question: Question | None) -> Study:
    """Return the study with its comparison and robustness."""
    questions = [] if question is None else [json.loads(question.key) | robust.to_save(opened, question)]
    return replace(opened.study, questions=questions)


def script(opened: OpenStudy, question: Question | None) -> str:
    """Return a script that recreates the study and its comparison."""
    lines = [f'"""The study of {exports.slug(opened.name)}, reproduced. Needs GDM Studio: {exports.INSTALL}"""', ""]
    needed = ["from pathlib import Path", "", *opened.imports, "from gdm_core.analysis.tables import csv"]
    needed += ["from gdm_core.study.methods import write_methods"]
    origin = opened.study.origin
    if origin:
        needed.insert(0, "from dataclasses import replace")
    lines += [*dict.fromkeys(needed), "", *opened.code]
    if origin:
        lines += [f"study = replace(study, origin={origin!r})"]
    if opened.study.names and not opened.private:
        lines += [f"study = study.with_names({dict(opened.study.names)!r})"]
    lines += [
        "",
        "Path('measures.csv').write_bytes(csv(study.measures()))",
        "Path('bouts.csv').write_bytes(csv(study.bouts()))",
    ]
    if question is not None:
        one = question.between[0] if len(question.between) == 1 else list(question.between)
        more = "".join(f", {name}={value!r}" for name, value in question.arguments.items())
        lines += [
            "",
            f"table = study.compare({question.measure!r}, {one!r}{more}, n_permutations={N_PERMUTATIONS})",
        ]
        lines += ["Path('tests.csv').write_bytes(csv(table))", "print(table.to_string())"]
        if len(question.between) == 1:
            lines += [f"flow = study.flow({question.between[0]!r}{more}, n_permutations={N_PERMUTATIONS})"]
            lines += ["print(flow.distance, flow.z, flow.p)", "print(write_methods(study, flow, table))"]
        else:
            lines += ["print(write_methods(study, table))"]
    return "\n".join([*lines, ""])
