"""Questions that a file does not answer, asked between upload and fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from datasets.readers.doubts import Doubt
from pages.ui import settings


def ask(
    find: Callable[[dict[str, str]], Sequence[Doubt]], columns: Sequence[str], given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Show a select box for each doubt and return the answers; a doubt without an answer stays open.

    find     returns the doubts that remain with some answers; an answer may raise further doubts
    columns  names of the columns, for which answers are remembered
    given    answers from other controls
    """
    answers, asked = dict(given or {}), set[str]()
    while new := [doubt for doubt in find(answers) if doubt.key not in asked]:
        for doubt in new:
            asked.add(doubt.key)
            chosen = st.selectbox(
                doubt.question, doubt.choices, index=None, placeholder=f"Choose; most likely {doubt.choices[0]}",
                key=settings.key(f"_ask-{doubt.key}", settings.scope(columns, doubt.choices)), persist_state="session",
            )  # fmt: skip
            if chosen is not None:
                answers[doubt.key] = chosen
    return answers
