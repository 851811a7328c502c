"""What stands below the picture of a study."""

from __future__ import annotations

import streamlit as st

from pages.study import answer
from pages.study.bring import Brought
from pages.study.questions import Answers, Asked
from pages.ui import shell

TABS = ("State by state",)


def show(brought: Brought, asked: Asked | None, answers: Answers | None) -> None:
    """The tabs; those that are closed cost nothing."""
    for place, _ in zip(st.tabs(TABS, key="view", on_change="rerun", bind="query-params"), TABS, strict=True):
        if not place.open:
            continue
        with place:
            if asked is None or answers is None or answers.table is None:
                shell.empty("No answer yet", "The question at the left has to have one first.")
            else:
                answer.table(brought, asked, answers.table)
