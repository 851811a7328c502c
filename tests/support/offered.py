"""The files that a page offers, as its buttons do."""

from __future__ import annotations

import json
from collections.abc import Callable

from streamlit.testing.v1 import AppTest


def offered(app: AppTest) -> set[str]:
    """What is written on the buttons of the last run."""
    return {data["label"] for data in _buttons(app)}


def files(app: AppTest) -> set[str]:
    """What the files behind them are called."""
    return {data["name"] for data in _buttons(app)}


def made(app: AppTest) -> dict[str, Callable[[], bytes]]:
    """What makes each, by what it is called."""
    return {file.name: file.make for file in app.session_state["_downloads"].files.values()}


def _buttons(app: AppTest) -> list[dict[str, str]]:
    found = [json.loads(element.proto.json) for element in app.get("bidi_component") if element.proto.json]
    return [data for data in found if "label" in data and "address" in data]
