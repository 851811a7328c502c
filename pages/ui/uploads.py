"""Files that a visitor sends.

Streamlit copies a widget's value at every run of the page, so a widget with large files is replaced by an empty one. Small
files stay in their widget, where styles.css hides them: a widget that is replaced loses what arrives meanwhile.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import streamlit as st

LARGE_BYTES = 20 * 2**20
_RECEIVERS = "_uploads"


class Upload(io.BytesIO):
    """A file in memory, with its name and its id."""

    def __init__(self, name: str, content: bytes, file_id: str = "") -> None:
        super().__init__(content)
        self.name, self.file_id = name, file_id


@dataclass
class _Receiver:
    """Ids of the files of one control, and how often its widget was replaced."""

    ids: set[str] = field(default_factory=set)
    replaced: int = 0


def uploader(label: str, take: Callable[[list[Upload]], None], *, key: str, several: bool = False, **more: Any) -> None:
    """Show a control for a file, or for several at once, and pass new files to `take` before the page runs."""
    receiver = st.session_state.setdefault(_RECEIVERS, {}).setdefault(key, _Receiver())
    widget = f"{key}~{receiver.replaced}" if receiver.replaced else key
    received = partial(_receive, receiver, widget, take)
    st.file_uploader(label, accept_multiple_files=several, key=widget, on_change=received, **more)


def _receive(receiver: _Receiver, widget: str, take: Callable[[list[Upload]], None]) -> None:
    sent = st.session_state.get(widget)
    files = sent if isinstance(sent, list) else [sent] if sent is not None else []
    receiver.replaced += sum(file.size for file in files) > LARGE_BYTES
    if new := [file for file in files if file.file_id not in receiver.ids]:
        receiver.ids.update(file.file_id for file in new)
        take([Upload(file.name, file.getvalue(), file.file_id) for file in new])
