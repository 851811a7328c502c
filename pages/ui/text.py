"""Words that may change while no script runs: a legend, a finding, the scores as they come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pages.ui.browser import renderer


@dataclass(frozen=True)
class Text:
    """Some HTML in its place, made here and safe: whatever a visitor or a file said is escaped in it.

    said  for those who listen instead of looking: read out, politely, whenever it changes
    """

    html: str
    key: str
    said: str = ""

    def message(self) -> dict[str, Any]:
        """As the browser is told."""
        return {"html": self.html, "said": self.said, "options": {"key": self.key}}

    def same(self, other: Any) -> bool:
        """Whether it would be drawn alike."""
        return self == other

    def draw(self) -> None:
        """Draw them, or update in place what stands under their key."""
        renderer("text")(key=self.key, data=self.message(), height="content")
