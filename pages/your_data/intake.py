"""The file of the page Your data: received, opened and closed."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import streamlit as st

from datasets import keypoints, tables
from datasets.tables import Table
from pages.lab import live
from pages.lab.upload.file import KEPT, SOURCE, OpenFile, sheet_key
from pages.ui import settings
from pages.ui.uploads import Upload

LABELS = f"{KEPT}-labels"  # the uploaded file of labels
GO = f"{KEPT}-go"
EXAMPLE = "example"  # in the address: "open", or the scope of the fitted example


def receive(files: list[Upload]) -> None:
    """Open an uploaded file."""
    settings.change(EXAMPLE, None)
    st.session_state[SOURCE] = files[0]


def source() -> tuple[io.BytesIO | None, str]:
    """Return the uploaded file, or the example, and its name."""
    sent = st.session_state.get(SOURCE)
    if sent is not None:
        return sent, sent.name
    asked = settings.text(EXAMPLE)
    settings.keep(EXAMPLE, asked)
    return (io.BytesIO(tables.template(tables.EXAMPLE)), tables.EXAMPLE) if asked else (None, "")


def sources() -> dict[str, bytes]:
    """Return the files that an exported script reads, by name."""
    sent, name = source()
    if sent is None:
        return {}
    marks = labels()
    return {name: sent.getvalue()} | ({} if marks is None else {marks.name: marks.getvalue()})


def labels() -> Any:
    """Return the uploaded file of labels, or None."""
    return st.session_state.get(LABELS)


def remove_file() -> None:
    """Close the file."""
    st.session_state.pop(SOURCE, None)
    settings.change(EXAMPLE, None)
    discard()


def is_private() -> bool:
    """Return True if the file is an upload, which no link can open."""
    return st.session_state.get(SOURCE) is not None


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
    if kept is not None and (kept.source, kept.name) == (digest, name):
        table = kept.content
        if not isinstance(table, Table) or (sheet in (None, table.sheet) and answers in (None, table.answers)):
            return kept
    content = keypoints.read_any(file, name, sheet=sheet, answers=answers)
    discard()
    read = f"{content.sheet}{answers or ''}" if isinstance(content, Table) else ""
    st.session_state[KEPT] = made = OpenFile(name, f"{digest}-{read}", content, digest)
    return made


def discard() -> None:
    """Discard everything that was made of the file, here and on the workers."""
    for name in [name for name in st.session_state if str(name).startswith(KEPT) and name != SOURCE]:
        del st.session_state[name]
    live.close_fit("your_data")
