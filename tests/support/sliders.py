"""The sliders of pages/ui/slider.py in a page that a test runs without a browser: what they show, and moving them."""

from __future__ import annotations

import json
from typing import Any

from streamlit.testing.v1 import AppTest


class Slider:
    """One slider on the page, in the words of AppTest's own."""

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
        """Move it there and let go. As in a browser, only where a thumb can go."""
        return self._take(value, held=False)

    def hold(self, value: float) -> Slider:
        """Move it there, and keep holding it."""
        assert self.live, f"{self.key} says nothing while it is held"
        return self._take(value, held=True)

    def run(self) -> AppTest:
        return self._app.run()

    def _take(self, value: float, *, held: bool) -> Slider:
        assert not self.disabled, f"{self.key} cannot be moved"
        assert self.min <= value <= self.max, f"{self.key} goes from {self.min} to {self.max}, not to {value}"
        state = self._app.session_state
        state[self.key] = value
        state["sliders"][self.key].held = held
        return self


def sliders(app: AppTest) -> list[Slider]:
    """Those that the last run showed, from top to bottom."""
    found = [json.loads(element.proto.json) for element in app.get("bidi_component") if element.proto.json]
    return [Slider(app, data) for data in found if "scale" in data]


def slider(app: AppTest, key: str) -> Slider:
    """The one with this key."""
    found = {each.key: each for each in sliders(app)}
    assert key in found, f"no slider {key!r} on the page; there are {sorted(found)}"
    return found[key]
