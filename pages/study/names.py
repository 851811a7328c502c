"""Names of states, chosen without seeing groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from gdm_core.analysis.tables import harmless
from gdm_core.errors import DataError
from gdm_core.study import Study
from gdm_core.study.tables import describe_states
from pages.study.sources import OpenStudy
from pages.study.work import KEPT
from pages.ui import settings, shell

MOST_LETTERS = 40
_NAMED = "/named "


def typed_cells(editor: str, column: str, drawn: Iterable[Any]) -> list[str]:
    """Return the cells of a data editor's column with all edits."""
    edits = st.session_state.get(editor, {}).get(
        "edited_rows", {}
    )  # in callbacks, newer than the value of the last run
    cells = [edits.get(i, {}).get(column, cell) for i, cell in enumerate(drawn)]
    return [cell.strip() if isinstance(cell, str) else "" for cell in cells]


def with_names(opened: OpenStudy) -> OpenStudy:
    """Return the study with names from this page and a key that includes them."""
    given: dict[int, str] = st.session_state.get(_names_of(opened), {})
    if not given:
        return opened
    return replace(opened, study=opened.study.with_names(given), key=f"{opened.key}{_NAMED}{sorted(given.items())}")


def _names_of(opened: OpenStudy) -> str:
    return f"{KEPT}names-{settings.scope(opened.key.partition(_NAMED)[0])}"


def name_states(opened: OpenStudy) -> None:
    """Show a table to name states."""
    study = opened.study
    shell.quiet("Name states before looking at group differences. Names appear in all tables and figures.")
    first = _like(study).map(harmless)
    if opened.trials is not None:
        first["channels"] = _describe_channels(opened.key, opened)
    place = _names_of(opened)
    st.data_editor(
        first, key=f"{place}-editor", hide_index=True, width="stretch",
        disabled=[str(c) for c in first if c != "name"], height="content" if len(first) < 16 else 560,
        column_config={"name": st.column_config.TextColumn("name", help="Click to type", max_chars=MOST_LETTERS)},
    )  # fmt: skip

    def use() -> None:
        names = zip(study.states, typed_cells(f"{place}-editor", "name", first["name"]), strict=True)
        kept = {state: name for state, name in names if name}
        if len(set(kept.values())) < len(kept):
            raise DataError("Give each state a different name, or leave it empty.")
        st.session_state[place] = kept

    shell.begin_button("Apply names", use, "Two states have the same name", type="primary", key="study-use-names")


def _like(study: Study) -> pd.DataFrame:
    """Return a description of each state over all recordings."""
    counts = study.counts
    changes = counts.changes.sum(axis=0)
    before, after = changes.argmax(axis=0), changes.argmax(axis=1)
    called = [study.state_name(state) for state in study.states]
    with np.errstate(invalid="ignore", divide="ignore"):
        usage = np.nanmean(counts.usage, axis=0)
        rate = np.nanmean(counts.measure("bouts_per_min"), axis=0)
        length = counts.seconds.sum(axis=0) / np.maximum(1, counts.measure("bouts").sum(axis=0))
    seen = changes.sum(axis=0) + changes.sum(axis=1) > 0
    return pd.DataFrame(
        {
            "state": [replace(study, names={}).state_name(state) for state in study.states],
            "name": [study.names.get(state, "") for state in study.states],
            "usage": [f"{share:.1%}" for share in usage],
            "bouts per minute": [f"{value:.1f}" for value in rate],
            "mean bout (s)": [f"{value:.2f}" for value in length],
            "usually follows": [called[i] if yes else "–" for i, yes in zip(before, seen, strict=True)],
            "usually precedes": [called[i] if yes else "–" for i, yes in zip(after, seen, strict=True)],
        }
    )


@st.cache_data(max_entries=8, show_spinner="Describing states")
def _describe_channels(key: str, _brought: OpenStudy) -> list[str]:
    assert _brought.trials is not None
    return describe_states(_brought.study, _brought.trials())


def have_changed(opened: OpenStudy) -> bool:
    """Return whether states were named on this page."""
    return _names_of(opened) in st.session_state
