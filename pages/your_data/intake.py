"""The file of the page Your data: received, opened and closed."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, BinaryIO

import streamlit as st

from datasets import keypoints, tables
from datasets.tables import Table
from pages.lab import live
from pages.lab.upload.file import KEPT, SOURCE, OpenFile, sheet_key
from pages.ui import settings
from pages.ui.uploads import Upload

EXAMPLE_ON = f"{KEPT}-example"  # whether the example is open
LABELS = f"{KEPT}-labels"  # the uploaded file of labels
GO = f"{KEPT}-go"
EXAMPLE = "example"  # in the address: "open", or the scope of the fitted example
UPLOAD, MARKS = "upload", "marks"


def receive(files: list[Upload]) -> None:
    """Open an uploaded file."""
    close_example()
    st.session_state[SOURCE] = files[0]


def source() -> tuple[BinaryIO | None, str]:
    """Return the uploaded file, or the example, and its name."""
    sent = st.session_state.get(SOURCE)
    if sent is not None:
        return sent, sent.name
    return (
        (io.BytesIO(tables.template(tables.EXAMPLE)), tables.EXAMPLE)
        if st.session_state.get(EXAMPLE_ON)
        else (None, "")
    )


def sources() -> dict[str, bytes]:
    """Return the files that an exported script reads, by name."""
    sent, name = source()
    if sent is None:
        return {}
    sent.seek(0)
    marks = labels()
    return {name: sent.read()} | ({} if marks is None else {marks.name: marks.getvalue()})


def labels() -> Any:
    """Return the uploaded file of labels, or None."""
    return st.session_state.get(LABELS)


def remove_file() -> None:
    """Close the file."""
    st.session_state.pop(SOURCE, None)
    close_example()
    discard()


def is_private() -> bool:
    """Return True if the file is an upload, which no link can open."""
    return st.session_state.get(SOURCE) is not None


def open_linked_example() -> None:
    """Open the example if the address asks for it."""
    asked = settings.text(EXAMPLE)
    if asked and not is_private():
        st.session_state[EXAMPLE_ON] = True
        settings.keep(EXAMPLE, asked)


def open_example() -> None:
    st.session_state[EXAMPLE_ON] = True
    settings.change(EXAMPLE, "open")


def close_example() -> None:
    st.session_state.pop(EXAMPLE_ON, None)
    settings.change(EXAMPLE, None)


def request_fit(file: OpenFile) -> None:
    """Fit `file` from now on; the address records this for the example."""
    st.session_state[GO] = file.digest
    if not is_private():
        settings.change(EXAMPLE, file.scope)


def is_fitted(file: OpenFile) -> bool:
    """Return True if a fit of this file as read was requested."""
    return st.session_state.get(GO) == file.digest or (not is_private() and settings.text(EXAMPLE) == file.scope)


def open_file(file: Any, name: str, digest: str, answers: Mapping[str, str] | None = None) -> OpenFile:
    """Read the file once per session. An invalid file raises an error and does not replace an earlier one.

    digest   of its content, the scope of the chosen sheet
    answers  answers to questions about its format
    """
    sheet = st.session_state.get(sheet_key(digest))
    kept: OpenFile | None = st.session_state.get(KEPT)
    if kept is not None and (kept.source, kept.name) == (digest, name) and sheet in (None, kept.sheet):
        same = answers is None or not isinstance(kept.content, Table) or kept.content.answers == answers
        if same:
            return kept
    content = keypoints.read_any(file, name, sheet=sheet, answers=answers)
    discard()
    read = f"{content.sheet}{answers or ''}" if isinstance(content, Table) else ""
    st.session_state[KEPT] = made = OpenFile(name, f"{digest}-{read}", content, digest)
    return made


def discard() -> None:
    """Discard everything that was made of the file, here and on the workers."""
    for name in [name for name in st.session_state if str(name).startswith(KEPT) and name not in (SOURCE, EXAMPLE_ON)]:
        del st.session_state[name]
    live.close_fit("your_data")
    settings.change(live.COLOURS, None)  # of states of the earlier file
