"""Downloads of files that are made on demand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st


def download(label: str, make: Callable[[], bytes], name: str, *, key: str, **look: Any) -> None:
    """Show a button that saves what `make` returns as the file `name`; the page does not rerun."""
    look = {"icon": ":material/download:", "width": "stretch"} | look
    st.download_button(label, make, name, key=key, on_click="ignore", **look)
