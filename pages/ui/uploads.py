"""Files that a visitor sends.

Streamlit copies a widget's value at every run of the page, even a file of 200 MB. So the bytes are copied out once, and an
empty widget appears next to the full one, which stays for a moment, hidden, for files that are dropped meanwhile.
"""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import streamlit as st

LATE_S = 10.0  # in which a file may still arrive at the replaced widget
_RECEIVERS = "_uploads"


class Upload(io.BytesIO):
    """A file in memory, with its name and its id."""

    def __init__(self, name: str, content: bytes, file_id: str = "") -> None:
        super().__init__(content)
        self.name, self.file_id = name, file_id


@dataclass
class _Receiver:
    """Widgets of one control.

    turn   number of the current widget
    at     time of the last file
    ids    of all files
    moved  turns of widgets that were drawn with `moved_from`
    """

    turn: int = 0
    at: float = 0.0
    ids: set[str] = field(default_factory=set)
    moved: set[int] = field(default_factory=set)


def uploader(
    label: str,
    take: Callable[[list[Upload]], None],
    *,
    key: str,
    several: bool = False,
    moved_from: Any = None,
    **more: Any,
) -> None:
    """Show a control for a file, or for several at once, and pass the files to `take` before the page runs.

    moved_from  the container of the control before there was a file, if that was another one
    """
    receiver = st.session_state.setdefault(_RECEIVERS, {}).setdefault(key, _Receiver())
    shown, late = [receiver.turn], receiver.turn - 1
    if moved_from is not None:
        receiver.moved.add(receiver.turn)

    def draw(turns: list[int]) -> None:
        for slot in (0, 1):  # a widget that changes its place loses a file on its way
            with st.container():
                for turn in turns:
                    if turn % 2 == slot:
                        draw_widget(turn)

    def draw_widget(turn: int) -> None:
        widget = f"{key}~{turn}" if turn else key
        received = partial(_receive, receiver, widget, take)
        st.file_uploader(label, accept_multiple_files=several, key=widget, on_change=received, **more)
        if turn == late:
            st.html(f"<style>.st-key-{re.sub('[^a-zA-Z0-9_-]', '-', widget)} {{display: none}}</style>")

    if late >= 0 and time.monotonic() - receiver.at < LATE_S:
        if moved_from is None or late in receiver.moved:
            shown.append(late)
        else:
            with moved_from:
                draw([late])
    draw(shown)


def _receive(receiver: _Receiver, widget: str, take: Callable[[list[Upload]], None]) -> None:
    sent = st.session_state.get(widget)
    files = sent if isinstance(sent, list) else [sent] if sent is not None else []
    if new := [file for file in files if file.file_id not in receiver.ids]:
        receiver.ids.update(file.file_id for file in new)
        receiver.turn, receiver.at = receiver.turn + 1, time.monotonic()
        take([Upload(file.name, file.getvalue(), file.file_id) for file in new])
