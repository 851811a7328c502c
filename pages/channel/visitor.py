"""The live channel of one visitor: what moves on their page reaches their browser while no script runs.

One channel belongs to one session, under a secret that nobody else knows. A script's run takes the scene away and leaves
another one at its end; in between the channel looks at what moves, in a thread, and hands over what has changed. What the
browser has not drawn yet is waited for: pictures are left out, and time is not.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakValueDictionary

import streamlit as st

from pages.channel import messages

log = logging.getLogger(__name__)

ROUTE = "/gdm/live"
LOOK_EVERY_S = 0.05
SHARE = 0.25  # of a thread's time that looks at one page may take
HAND_S = 2.5  # without a word for so long, a hand has gone
UNDRAWN_S = 2.0  # a browser that has not drawn for so long is sent the next picture all the same
ASK_AGAIN_S = 3.0  # a run that was asked for and has not begun is asked for again
MOST_FAILURES = 3  # looks that failed one after the other, after which no run is asked for until a look succeeds
_KEPT = "_channel"

_channels: WeakValueDictionary[str, Channel] = WeakValueDictionary()  # by secret; they go with the session


# ---- what a script leaves behind ------------------------------------------------------------------------------------
class Panel(Protocol):
    """A figure or text that the channel may update (pages/ui/plot.py)."""

    def message(self) -> dict[str, Any]:
        """Return what the browser is sent."""

    def same(self, other: Panel) -> bool:
        """Return whether both look the same."""


Panels = Mapping[str, Panel]


@dataclass(frozen=True)
class LivePanels:
    """Panels that may change after a run.

    make     returns them as they are now, by key; called in other threads
    moves    whether `make` may return something new
    settled  why the script has to run now; "" if it has not
    drawn    what the script has drawn
    """

    make: Callable[[], Panels]
    moves: Callable[[], bool]
    settled: Callable[[], str]
    drawn: Panels = field(default_factory=dict)


@dataclass(frozen=True)
class Tables:
    """Tables that the browser draws from while a slider is dragged.

    of      name of everything they depend on; tables of another name are dropped
    tables  by name, so that none is sent twice
    how     figures and colours
    more    whether some are still being computed
    """

    of: str = ""
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    how: Mapping[str, Any] = field(default_factory=dict)
    more: bool = False


@dataclass
class Scene:
    """What one run of a page's script leaves for the channel.

    unsaved whether the browser asks before it unloads the page
    tables  returns tables for a slider: its key, whether it is dragged, and its value
    """

    live: list[LivePanels] = field(default_factory=list)
    unsaved: bool = False
    tables: Callable[[str, bool, float], Tables] | None = None
    _why: str = ""

    @property
    def moves(self) -> bool:
        return any(one.moves() for one in self.live)

    @property
    def drawn(self) -> dict[str, Panel]:
        """All panels as the script has drawn them."""
        return {key: panel for one in self.live for key, panel in one.drawn.items()}

    def make(self) -> dict[str, Panel]:
        """Return all panels as they are now."""
        return {key: panel for one in self.live for key, panel in one.make().items()}

    def settled(self) -> str:
        """Return why the script has to run, "" if it has not; a reason stays until it has run."""
        self._why = self._why or next((why for one in self.live if (why := one.settled())), "")
        return self._why

    @property
    def goes_on(self) -> bool:
        """Whether something will change, or has since the script ran."""
        return self.moves or bool(self.settled())


# ---- one visitor ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Said:
    """What is to be sent after one look, and how long until the next; None: until something is said or a script has run."""

    texts: tuple[str, ...] = ()
    again_s: float | None = None


@dataclass(frozen=True)
class Hand:
    """A hand near a slider, or holding it, where that stands, and when it was last said."""

    slider: str
    held: bool
    value: float
    since: float

    @classmethod
    def said(cls, fields: dict[str, object]) -> Hand:
        """As a message says it, now."""
        return cls(str(fields["slider"]), bool(fields["held"]), float(str(fields["value"])), time.monotonic())


@dataclass(eq=False)
class Channel:
    """What one visitor's browser has been told, and what moves on the page that it shows.

    runs      how often a script has run for this visitor
    listener  told, from any thread, that there is something new to look at
    """

    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    runs: int = 0
    listener: Callable[[], None] | None = None
    _number: int = 0
    _drawn: int = 0
    _sent_at: float = 0.0
    _failures: int = 0  # looks that failed since the last one that did not
    _told: tuple[int, float] = (-1, 0.0)  # the run after which the browser was asked for the next one, and when
    _sent: dict[str, Panel] = field(default_factory=dict)
    _scripted: dict[str, Panel] = field(default_factory=dict)  # what a script drew, since it was sent
    _scene: Scene | None = None
    _next: Scene = field(default_factory=Scene)
    _hand: Hand | None = None
    _tabled: tuple[str, str] = ("", "")  # of which slider and fit the tables are that the browser has
    _tables: set[str] = field(default_factory=set)  # their names
    _lock: threading.RLock = field(default_factory=threading.RLock)

    # ---- what a script says -------------------------------------------------------------------------------------
    def begin_run(self) -> None:
        """A script runs: what it will draw is not moved by anything else meanwhile."""
        with self._lock:  # a look that is under way ends first
            self._scene, self._next = None, Scene()
            self.runs += 1

    @property
    def scene(self) -> Scene:
        """What the script that runs leaves behind."""
        return self._next

    def end_run(self) -> None:
        """The script has drawn everything: from here on, what moves is looked at."""
        with self._lock:
            self._scene = self._next
            self._scripted |= self._scene.drawn
        if self.listener is not None:
            self.listener()

    # ---- what a browser says ------------------------------------------------------------------------------------
    def hear(self, kind: str, fields: dict[str, object]) -> None:
        """One message, checked (messages.py)."""
        with self._lock:
            if kind == "present":
                self._sent.clear()
                self._scripted.clear()
                self._told, self._drawn, self._tabled = (-1, 0.0), self._number, ("", "")
            elif kind == "drawn":
                self._drawn = max(self._drawn, int(str(fields["number"])))
            elif kind == "near":
                before, hand = self._hand, Hand.said(fields)
                comes = before is None or (before.slider, before.held) != (hand.slider, hand.held)
                if comes and fields["of"] != self._tabled[1]:  # it has thrown away what it was given
                    self._tabled = ("", "")
                self._hand = hand

    # ---- a look -------------------------------------------------------------------------------------------------
    def look(self) -> Said:
        """What has changed since the last look. Called in a thread of its own, never twice at once.

        After a look that fails the script is asked to run, which draws the same and says on the page what is wrong with it.
        """
        try:
            said = self._look()
        except Exception:
            log.exception("a look at what moves failed")
            self._failures += 1
            asked = self._failures <= MOST_FAILURES
            return Said((messages.to_browser("run", number=self._number, why="failed"),) if asked else (), ASK_AGAIN_S)
        self._failures = 0
        return said

    def _look(self) -> Said:
        with self._lock:
            scene, began = self._scene, time.monotonic()
            if scene is None:
                return Said()
            waits = self._drawn < self._number and began - self._sent_at < UNDRAWN_S
            if waits and scene.moves:
                return Said(again_s=LOOK_EVERY_S)
            texts = [*self._changes(scene), *self._wanted_tables(scene)]
            moves, why = scene.moves, scene.settled()
            now = time.monotonic()
            if why:
                if self._told[0] != self.runs or now - self._told[1] >= ASK_AGAIN_S:
                    self._told = self.runs, now
                    texts.append(messages.to_browser("run", number=self._number, why=why))
                return Said(tuple(texts), ASK_AGAIN_S)
            pause = max(LOOK_EVERY_S, (now - began) / SHARE)
            return Said(tuple(texts), pause if moves or self._hand is not None else None)

    def _changes(self, scene: Scene) -> list[str]:
        """What stands otherwise than the browser may show.

        That is what it was sent last, or what a script drew since: where that is what the script drew before, Streamlit's page
        leaves a place as it is.
        """
        changed: dict[str, Panel] = {}
        for key, part in scene.make().items():
            shown = [parts[key] for parts in (self._sent, self._scripted) if key in parts]
            if not shown or not all(part.same(one) for one in shown):
                self._sent[key] = changed[key] = part
                self._scripted.pop(key, None)
        if not changed:
            return []
        self._number += 1
        self._sent_at = time.monotonic()
        return [
            messages.to_browser(
                "parts",
                number=self._number,
                run=self.runs,
                parts={key: part.message() for key, part in changed.items()},
            )
        ]

    def _wanted_tables(self, scene: Scene) -> list[str]:
        """What the browser draws from while a hand holds a slider, as far as it does not have it yet."""
        hand, now = self._hand, time.monotonic()
        if hand is None or scene.tables is None or now - hand.since > HAND_S:
            self._hand = None
            return []
        found = scene.tables(hand.slider, hand.held, hand.value)
        if not found.more:
            self._hand = None
        first = self._tabled != (hand.slider, found.of)
        if first:
            self._tabled, self._tables = (hand.slider, found.of), set()
        new = {name: table for name, table in found.tables.items() if name not in self._tables}
        if not new and found.more:
            return []
        self._tables |= set(new)
        said: dict[str, Any] = {"slider": hand.slider, "of": found.of, "tables": list(new.values())}
        said["how"] = dict(found.how) if first else {}  # with places of every sample it is larger than a table
        return [messages.to_browser("tables", **said, more=found.more)]


def channel() -> Channel:
    """This visitor's."""
    found: Channel = st.session_state.setdefault(_KEPT, Channel())
    _channels[found.token] = found
    return found


def known(token: str) -> Channel | None:
    """The channel of a secret, if there is one."""
    return _channels.get(token)


def wake_from_any_thread(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> Callable[[], None]:
    """Sets `event` of `loop`, wherever it is called."""

    def wake() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(event.set)

    return wake
