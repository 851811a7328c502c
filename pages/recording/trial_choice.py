"""Which trial a page looks at: as the visitor chose, or where the page itself leads."""

from __future__ import annotations

import streamlit as st

from pages.recording.data import Data
from pages.ui import settings


def pick(data: Data) -> int:
    """Which trial is looked at; the first new one to begin with."""
    names = [_name(data, i) for i in range(len(data.trials))]
    first = names[len(data.train)]
    key = settings.key("trial", data.of)
    wanted = st.session_state.pop(_place(data), None)
    if wanted in names:
        st.session_state[key] = wanted
    chosen = st.selectbox(
        "Trial",
        names,
        index=names.index(first),
        format_func=lambda name: data.title(names.index(name)) if name in names else str(name),
        key=key,
        bind="query-params",
        help="The model is fitted to some trials and has never seen the new ones.",
    )
    return names.index(chosen) if chosen in names else names.index(first)


def go_to(data: Data, index: int) -> None:
    """Look at that trial from the next run on."""
    st.session_state[_place(data)] = _name(data, index)


def _name(data: Data, index: int) -> str:
    return f"{'new' if data.is_new(index) else 'fit'}-{index}"


def _place(data: Data) -> str:
    return f"_go-to-trial-{data.of}"
