"""Download buttons of a page under test."""

from __future__ import annotations

import json
from collections.abc import Callable

from streamlit.testing.v1 import AppTest


def offered(app: AppTest) -> set[str]:
    """Return the labels of the download buttons."""
    return {data["label"] for data in _buttons(app)}


def files(app: AppTest) -> set[str]:
    """Return the names of the files."""
    return {data["name"] for data in _buttons(app)}


def made(app: AppTest) -> dict[str, Callable[[], bytes]]:
    """Return the function that makes each file, by name."""
    return {file.name: file.make for file in app.session_state["_downloads"].files.values()}


def _buttons(app: AppTest) -> list[dict[str, str]]:
    found = [json.loads(element.proto.json) for element in app.get("bidi_component") if element.proto.json]
    return [data for data in found if "label" in data and "address" in data]
