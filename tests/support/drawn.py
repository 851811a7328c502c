"""What a page draws, for tests that run it without a browser."""

from __future__ import annotations

from typing import Any

import pytest

from pages.ui import plot as plotting
from pages.ui.figures import Figure


def record(monkeypatch: pytest.MonkeyPatch, *modules: Any) -> dict[str, tuple[Figure, str]]:
    """(figure, state) by key, filled while pages run. `modules` are those of a page that have imported `plot` already."""
    drawn: dict[str, tuple[Figure, str]] = {}
    draw = plotting.plot

    def plot(figure: Figure, key: str, **options: Any) -> Any:
        drawn[key] = figure, options.get("state", "fresh")
        return draw(figure, key, **options)

    for module in (plotting, *modules):
        monkeypatch.setattr(module, "plot", plot)
    return drawn
