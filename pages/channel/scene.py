"""The scene of a script run: panels and tables that the live channel may update."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class Panel(Protocol):
    """A figure or text that the channel may update (pages/ui/plot.py); equal ones look the same."""

    def message(self) -> dict[str, Any]:
        """Return what the browser is sent."""


Panels = Mapping[str, Panel]


@dataclass(frozen=True)
class LivePanels:
    """Panels that may change after a run.

    make     returns them as they are now, by key; called in other threads
    moves    whether `make` may return something new
    settled  returns why the script has to run now; "" if it does not
    drawn    panels as the script has drawn them
    """

    make: Callable[[], Panels]
    moves: Callable[[], bool]
    settled: Callable[[], str]
    drawn: Panels = field(default_factory=dict)


@dataclass(frozen=True)
class Tables:
    """Tables that the browser draws from while a slider is dragged.

    source  name of everything they depend on; the browser drops tables of another name
    tables  by name; none is sent twice
    how     figures and colours
    more    whether some are still being computed
    """

    source: str = ""
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    how: Mapping[str, Any] = field(default_factory=dict)
    more: bool = False


@dataclass
class Scene:
    """Panels and tables of one script run that the channel may update.

    unsaved whether the browser asks before it unloads the page
    tables  returns tables for a slider: its key, whether it is dragged, and its value
    """

    live: list[LivePanels] = field(default_factory=list)
    unsaved: bool = False
    tables: Callable[[str, bool, float], Tables] | None = None

    @property
    def moves(self) -> bool:
        """Whether panels may change."""
        return any(one.moves() for one in self.live)

    def make(self) -> dict[str, Panel]:
        """Return all panels as they are now."""
        return {key: panel for one in self.live for key, panel in one.make().items()}

    def settled(self) -> str:
        """Return why the script has to run, "" if it does not."""
        return next((why for one in self.live if (why := one.settled())), "")
