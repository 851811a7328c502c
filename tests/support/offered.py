"""The files that a page offers, as its buttons do."""

from __future__ import annotations

import json

from streamlit.testing.v1 import AppTest


def offered(app: AppTest) -> set[str]:
    """What is written on the buttons of the last run."""
    found = [json.loads(element.proto.json) for element in app.get("bidi_component") if element.proto.json]
    return {data["label"] for data in found if "address" in data}
