"""What moves on a page while no script runs: parts that are drawn anew, and why the script is to run again.

A script that has run to its end leaves a scene behind: it says what may still move, and the channel looks at it, as often as
the browser can take it in. The next run of the script begins with an empty one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class Part(Protocol):
    """What stands in one place of the page: a figure (pages/ui/plot.py) or words (pages/ui/parts.py)."""

    def message(self) -> dict[str, Any]:
        """As the browser is told."""

    def same(self, other: Part) -> bool:
        """Whether it would be drawn alike."""


Parts = Mapping[str, Part]


@dataclass(frozen=True)
class Moving:
    """One thing that may move.

    draw     what stands now, by place; called again and again while it moves
    moves    whether looking again will bring something new
    settled  why the script is to run now; "" while there is no need
    drawn    what the script has drawn of it
    pace_s   seconds between two looks, at least
    """

    draw: Callable[[], Parts]
    moves: Callable[[], bool]
    settled: Callable[[], str]
    drawn: Parts = field(default_factory=dict)
    pace_s: Callable[[], float] = lambda: 0.0


@dataclass(frozen=True)
class Tables:
    """What the browser draws from while a thumb is held.

    of      the fit and whatever else they depend on: those of another one count no more
    tables  by name, so that none is sent twice
    how     what is drawn of them, and in which colours
    more    whether some are still being worked out
    """

    of: str = ""
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    how: Mapping[str, Any] = field(default_factory=dict)
    more: bool = False


@dataclass
class Scene:
    """All that moves after one run of a page's script.

    tables  for the key of a slider that a hand is near, or holds (then True), and where it stands
    """

    moving: list[Moving] = field(default_factory=list)
    tables: Callable[[str, bool, float], Tables] | None = None
    _why: str = ""

    @property
    def moves(self) -> bool:
        return any(one.moves() for one in self.moving)

    @property
    def pace_s(self) -> float:
        """Seconds between two looks, at least."""
        return max((one.pace_s() for one in self.moving), default=0.0)

    @property
    def drawn(self) -> dict[str, Part]:
        """Everything that may move, as the script has drawn it."""
        return {key: part for one in self.moving for key, part in one.drawn.items()}

    def parts(self) -> dict[str, Part]:
        """Everything that may move, as it stands now."""
        return {key: part for one in self.moving for key, part in one.draw().items()}

    def settled(self) -> str:
        """Why the script is to run; "" while there is no need. Once there is a reason, it stands until the script has run."""
        self._why = self._why or next((why for one in self.moving if (why := one.settled())), "")
        return self._why

    @property
    def goes_on(self) -> bool:
        """Whether something will come of it: what ended while the script ran moves no more, and the script does not know it."""
        return self.moves or bool(self.settled())
