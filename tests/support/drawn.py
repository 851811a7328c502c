"""Figures and HTML of a page under test."""

import json
import re
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from gdm_studio.plot.figures import Figure
from pages.ui import plot as plotting


def record(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Figure, str]]:
    """Return figures and their states by key, filled while pages run."""
    drawn: dict[str, tuple[Figure, str]] = {}
    given = plotting.Picture.message

    def message(picture: plotting.Picture) -> dict[str, Any]:
        drawn[picture.key] = picture.figure, picture.state
        return given(picture)

    monkeypatch.setattr(plotting.Picture, "message", message)
    return drawn


def words(app: AppTest) -> str:
    """Return the HTML of a page."""
    return "\n".join(pieces(app))


def pieces(app: AppTest) -> list[str]:
    """Return the pieces of HTML of a page, including live texts and places of missing figures."""
    said = [element.proto.body for element in app.get("html")]
    for element in app.get("bidi_component"):
        data = json.loads(element.proto.json) if element.proto.json else None
        if isinstance(data, dict) and "html" in data:
            said.append(data["html"])
        elif isinstance(data, dict) and "figure" in data and data["figure"] is None:
            said.append(" ".join(data["options"]["empty"].values()))
    return said


def verdicts(app: AppTest) -> list[str]:
    """The verdict of each score on the card, in order; scores still to come have none."""
    return re.findall(r'<div class="gdm-score" data-verdict="(\w*)">', words(app))
