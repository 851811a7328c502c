"""Read and move the sliders of a page under test."""

from __future__ import annotations

import json
from typing import Any

from streamlit.testing.v1 import AppTest


class Slider:
    """A slider with the interface of AppTest widgets."""

    def __init__(self, app: AppTest, shown: dict[str, Any]) -> None:
        self._app = app
        self.key: str = shown["key"]
        self.label: str = shown["label"]
        self.help: str = shown["help"]
        self.disabled: bool = shown["disabled"]
        self.live: bool = shown["live"]
        self.value: Any = shown["value"]
        self.min, self.max, self.step = (shown["scale"][name] for name in ("min", "max", "step"))

    def set_value(self, value: float) -> Slider:
        """Release the slider at a value."""
        assert not self.disabled, f"{self.key} cannot be moved"
        assert self.min <= value <= self.max, f"{self.key} goes from {self.min} to {self.max}, not to {value}"
        state = self._app.session_state
        page = state["_settings"][state["_page"]]
        page.values[self.key] = [f"{value:.10g}"]
        page.turns[self.key] += 1
        return self

    def run(self) -> AppTest:
        return self._app.run()


def sliders(app: AppTest) -> list[Slider]:
    """Return the sliders of the last run in order."""
    found = [json.loads(element.proto.json) for element in app.get("bidi_component") if element.proto.json]
    return [Slider(app, data) for data in found if "scale" in data]


def slider(app: AppTest, key: str) -> Slider:
    """Return the slider with this key."""
    found = {each.key: each for each in sliders(app)}
    assert key in found, f"no slider {key!r} on the page; there are {sorted(found)}"
    return found[key]
