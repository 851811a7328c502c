"""Exports of a study: tables, methods paragraph, script and study file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from gdm_core.analysis.tables import csv
from gdm_core.study import Study
from gdm_core.study.layouts import to_prism, to_wide
from gdm_core.study.robustness import describe_robustness
from pages.study import labels, names, robust
from pages.study.bring import Brought
from pages.study.questions import N_PERMUTATIONS, Asked, StudyAnswer
from pages.ui import exports, shell
from pages.ui.controls import text
from pages.ui.downloads import download


def panel(brought: Brought, asked: Asked | None, answers: StudyAnswer | None) -> None:
    """Show the methods paragraph and download buttons; figures are saved with the buttons next to them."""
    found = [one for one in (answers.flow, answers.table) if one is not None] if answers is not None else []
    st.html('<p class="gdm-panel-title">Methods paragraph</p>')
    paragraph = st.container()
    brought = replace(brought, study=_explain_k(brought))
    methods = brought.study.methods(*found, correction="p_holm" if asked is None else asked.correction)
    rows = None if asked is None else robust.rows_of(brought, asked)
    if rows is not None and len(rows) > max(1, len(brought.variants)):  # all refits have ended
        methods += f" {describe_robustness(rows)}"
    paragraph.code(methods, language=None, wrap_lines=True)
    left, middle, right = st.columns(3, gap="medium")
    with left:
        st.html('<p class="gdm-panel-title">Results</p>')
        download("Methods (text)", methods.encode, f"{brought.name}-methods.txt", key="study-methods")
        for key, (label, make) in _tables(brought, answers).items():
            download(label, make, f"{brought.name}-{key}.csv", key=f"study-{key}-csv")
    with middle:
        st.html('<p class="gdm-panel-title">Study</p>')
        kept = whole(brought, asked)  # now: a download has no session
        download("Study file", kept.to_bytes, f"{brought.name}.study", key="study-file")
        shell.quiet("Everything in one file. Open it here, with Study.open or with gdm study.")
    with right:
        st.html('<p class="gdm-panel-title">Code</p>')
        download("Python script", lambda: script(brought, asked).encode(), f"{brought.name}.py", key="study-script")


def _explain_k(brought: Brought) -> Study:
    """Ask for the reason for K unless a search gave it; return the study with the reason."""
    study = brought.study
    if study.model is None or study.origin or study.why_k.startswith("K "):
        return study
    about = "Such as a pilot study or an earlier paper; for the methods paragraph."
    return replace(study, why_k=text("Why this K?", study.why_k, key="why", of=brought.of, max_chars=300, help=about))


def _tables(brought: Brought, answers: StudyAnswer | None) -> dict[str, tuple[str, Callable[[], bytes]]]:
    """Return label and content of each CSV."""
    study = brought.study
    found: dict[str, tuple[str, Callable[[], bytes]]] = {}
    if answers is not None and answers.table is not None:
        tests, each = answers.table, answers.per_unit
        found["tests"] = ("Tests (CSV)", lambda: csv(tests))
        if each is not None:
            subject = study.sheet.subject
            found["tidy"] = (f"Per {subject}, tidy (CSV)", lambda: csv(each))
            found["wide"] = (f"Per {subject}, wide (CSV)", lambda: csv(to_wide(each)))
            found["prism"] = ("By group, for Prism (CSV)", lambda: csv(to_prism(each)))
    found["measures"] = ("Per recording (CSV)", lambda: csv(study.measures()))
    found["bouts"] = ("Bouts (CSV)", lambda: csv(study.bouts()))
    found["changes"] = ("Transitions (CSV)", lambda: csv(study.transitions()))
    return found


def is_unsaved(brought: Brought) -> bool:
    """Return whether a reload would lose work."""
    fitted = brought.private and brought.study.model is not None
    return fitted or labels.have_changed(brought) or names.have_changed(brought)


def whole(brought: Brought, asked: Asked | None) -> Study:
    """Return the study with its labels, comparison and robustness."""
    questions = [] if asked is None else [asked.plain | robust.to_save(brought, asked)]
    return replace(brought.study, marks=labels.marks_of(brought), questions=questions)


def script(brought: Brought, asked: Asked | None) -> str:
    """Return a script that recreates the study and its comparison."""
    lines = [f'"""The study of {exports.slug(brought.name)}, reproduced. Needs GDM Studio: {exports.install()}"""', ""]
    needed = ["from pathlib import Path", "", *brought.imports, "from gdm_core.analysis.tables import csv"]
    lines += [*dict.fromkeys(needed), "", *brought.code]
    if brought.study.names and not brought.private:
        lines += [f"study = study.with_names({dict(brought.study.names)!r})"]
    lines += [
        "",
        "Path('measures.csv').write_bytes(csv(study.measures()))",
        "Path('bouts.csv').write_bytes(csv(study.bouts()))",
    ]
    if asked is not None:
        more = "".join(f", {name}={value!r}" for name, value in asked.arguments.items())
        lines += ["", f"table = study.compare({asked.measure!r}, {asked.one!r}{more}, n_permutations={N_PERMUTATIONS})"]
        lines += ["Path('tests.csv').write_bytes(csv(table))", "print(table.to_string())"]
        if len(asked.between) == 1:
            lines += [f"flow = study.flow({asked.between[0]!r}{more}, n_permutations={N_PERMUTATIONS})"]
            lines += ["print(flow.distance, flow.z, flow.p)", "print(study.methods(flow, table))"]
        else:
            lines += ["print(study.methods(table))"]
    return "\n".join([*lines, ""])
