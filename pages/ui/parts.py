"""The parts of a page that may move while no script runs, drawn by a script."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from pages.ui.plot import Picture
from pages.ui.text import Text

Part = Picture | Text


def by_key(*parts: Part | None) -> dict[str, Part]:
    """Those that are there, by their places."""
    return {part.key: part for part in parts if part is not None}


def draw_parts(parts: Mapping[str, Part], places: Mapping[str, Any] | None = None) -> None:
    """Draw them in their places, the others one below the other."""
    for key, part in parts.items():
        with (places or {}).get(key) or nullcontext():
            part.draw()
