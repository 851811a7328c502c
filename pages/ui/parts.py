"""The parts of a page that may move while no script runs, figures and words, drawn by a script."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from pages.ui.browser import renderer
from pages.ui.plot import Picture


@dataclass(frozen=True)
class Text:
    """Some HTML in its place, made here and safe: whatever a visitor or a file said is escaped in it.

    said  for those who listen instead of looking: read out, politely, whenever it changes
    """

    html: str
    key: str
    said: str = ""

    def message(self) -> dict[str, Any]:
        return {"html": self.html, "said": self.said, "options": {"key": self.key}}

    def same(self, other: Any) -> bool:
        return self == other

    def draw(self) -> None:
        """Draw them, or update in place what stands under their key."""
        renderer("text")(key=self.key, data=self.message(), height="content")


Part = Picture | Text


def by_key(*parts: Part | None) -> dict[str, Part]:
    """Those that are there, by their places."""
    return {part.key: part for part in parts if part is not None}


def draw_parts(parts: Mapping[str, Part], places: Mapping[str, Any] | None = None) -> None:
    """Draw them in their places, the others one below the other."""
    for key, part in parts.items():
        with (places or {}).get(key) or nullcontext():
            part.draw()
