"""Files that a visitor sends.

Streamlit copies a widget's value at every run of the page, a file of 200 MB included. So the bytes are copied out once, and
the control is empty again.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

_TURNS = "_uploads"


class Upload(io.BytesIO):
    """A file in memory, with its name and what identifies it."""

    def __init__(self, name: str, content: bytes, file_id: str = "") -> None:
        super().__init__(content)
        self.name, self.file_id = name, file_id


def uploader(label: str, take: Callable[[list[Upload]], None], *, key: str, several: bool = False, **more: Any) -> None:
    """Show a control for a file, or for several at once, and pass what the visitor sends to `take` before the page runs."""
    turn = st.session_state.setdefault(_TURNS, {}).get(key, 0)
    widget = f"{key}~{turn}" if turn else key
    st.file_uploader(
        label, accept_multiple_files=several, key=widget, on_change=partial(_receive, key, widget, take), **more
    )


def _receive(key: str, widget: str, take: Callable[[list[Upload]], None]) -> None:
    sent = st.session_state.get(widget)
    files = sent if isinstance(sent, list) else [sent] if sent is not None else []
    if files:
        st.session_state[_TURNS][key] = st.session_state[_TURNS].get(key, 0) + 1
        take([Upload(file.name, file.getvalue(), file.file_id) for file in files])
