"""The live channel: one WebSocket per visitor, which updates panels of their page while no script runs.

A channel belongs to one session, under a secret token. Each script run replaces the scene. Between runs a thread makes the
panels again and sends those that changed, once the browser has drawn the previous ones.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import streamlit as st

from gdm_core.errors import DataError
from pages.channel.scene import Panel, Scene

log = logging.getLogger(__name__)

ROUTE = "/gdm/live"
UPDATE_EVERY_S = 0.05
SHARE = 0.5  # of a thread's time that updates of one page may take
POINTER_S = 2.5  # a pointer that is silent for so long has left the slider
UNDRAWN_S = 2.0  # the next panels are sent although the browser has not drawn the last ones
ASK_AGAIN_S = 3.0  # until a run that has not begun is requested again
LEAVE_S = 60.0  # without a connection, after which the visitor counts as gone
MAX_FAILURES = 3  # failed updates in a row, after which no run is requested
_SESSION_KEY = "_channel"

channels: WeakValueDictionary[str, Channel] = WeakValueDictionary()  # by token; sessions own them


@dataclass(frozen=True)
class Pointer:
    """A pointer near a slider or dragging it, the slider's value, and the time of the message."""

    slider: str
    held: bool
    value: float
    since: float


@dataclass(eq=False)
class Channel:
    """Panels and tables that one visitor's browser has, and the scene of its page.

    runs      number of script runs of this visitor
    scene     of the latest run
    listener  called, from any thread, when an update may have something new
    at_leave  functions by name, called when the visitor has been away for LEAVE_S
    """

    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    runs: int = 0
    listener: Callable[[], None] | None = None
    at_leave: dict[str, Callable[[], None]] = field(default_factory=dict)
    scene: Scene = field(default_factory=Scene)
    _left_at: float = 0.0
    _number: int = 0
    _drawn: int = 0
    _sent_at: float = 0.0
    _failures: int = 0  # failed updates in a row
    _moves: bool | None = None  # as the browser has been told since this run
    _asked: tuple[int, float] = (-1, 0.0)  # after which run the next one was requested, and when
    _sent: dict[str, Panel] = field(default_factory=dict)
    _scripted: dict[str, Panel] = field(default_factory=dict)  # drawn by a script since they were sent
    _script_messages: dict[str, dict[str, Any]] = field(default_factory=dict)  # of the last run that drew each panel
    _updated: Scene | None = None  # None while a script runs
    _pointer: Pointer | None = None
    _tables_of: tuple[str, str] = ("", "")  # slider and fit of the tables that the browser has
    _tables: set[str] = field(default_factory=set)  # their names
    _lock: threading.RLock = field(default_factory=threading.RLock)

    # ---- script runs --------------------------------------------------------------------------------------------
    def begin_run(self) -> None:
        """Stop updates while a script draws."""
        with self._lock:  # waits for an update to end
            self._updated, self.scene, self._moves = None, Scene(), None
            self.runs += 1

    def goes_on(self) -> bool:
        """Return whether panels may change after the run, or another is due; the browser is told when this changes."""
        self._moves = self.scene.moves or bool(self.scene.settled())
        return self._moves

    def end_run(self) -> None:
        """Start updates of the scene that the script has left."""
        with self._lock:
            self._updated = self.scene
            for key, panel in (item for one in self.scene.live for item in one.drawn.items()):
                message = panel.message()
                if message != self._script_messages.get(key):
                    self._sent.pop(key, None)  # the browser draws the script's panel
                self._scripted[key], self._script_messages[key] = panel, message
        if self.listener is not None:
            self.listener()

    def disconnect(self) -> None:
        """Note that the connection has ended."""
        self.listener, self._left_at = None, time.monotonic()

    def leave_if_away(self) -> None:
        """Call the functions in `at_leave` if there has been no connection for LEAVE_S."""
        if self.listener is None and time.monotonic() - self._left_at >= LEAVE_S:
            for leave in list(self.at_leave.values()):
                leave()

    # ---- messages of the browser ---------------------------------------------------------------------------------
    def receive(self, kind: str, fields: dict[str, Any]) -> None:
        """Handle a validated message."""
        with self._lock:
            if kind == "present":
                for key in self._sent:  # the connection may have lost them; Streamlit delivers what a script draws
                    self._scripted.pop(key, None)
                self._sent.clear()
                self._asked, self._drawn, self._tables_of = (-1, 0.0), self._number, ("", "")
            elif kind == "drawn":
                self._drawn = max(self._drawn, fields["number"])
            elif kind == "near":
                before = self._pointer
                now = Pointer(fields["slider"], fields["held"], fields["value"], time.monotonic())
                arrives = before is None or (before.slider, before.held) != (now.slider, now.held)
                if arrives and fields["source"] != self._tables_of[1]:  # the browser has dropped its tables
                    self._tables_of = ("", "")
                self._pointer = now

    # ---- updates ------------------------------------------------------------------------------------------------
    def update(self) -> tuple[list[str], float | None]:
        """Return messages to send and seconds until the next update, None to wait for a message or a script run.

        Called in one thread at a time. After a failure the script has to run, which shows the error on the page.
        """
        try:
            update = self._update()
        except Exception:
            log.exception("Updating panels failed.")
            self._failures += 1
            asks = self._failures <= MAX_FAILURES
            return [to_browser("run", number=self._number, why="failed")] if asks else [], ASK_AGAIN_S
        self._failures = 0
        return update

    def _update(self) -> tuple[list[str], float | None]:
        with self._lock:
            scene, began = self._updated, time.monotonic()
            if scene is None:
                return [], None
            waits = self._drawn < self._number and began - self._sent_at < UNDRAWN_S
            if waits and scene.moves:
                return [], UPDATE_EVERY_S
            texts = [*self._changes(scene), *self._new_tables(scene)]
            moves, why = scene.moves, scene.settled()
            now = time.monotonic()
            told, self._moves = self._moves, moves or bool(why)
            if told not in (None, self._moves):
                texts.append(to_browser("moves", run=self.runs, moves=self._moves))
            if why and (self._asked[0] != self.runs or now - self._asked[1] >= ASK_AGAIN_S):
                self._asked = self.runs, now
                texts.append(to_browser("run", number=self._number, why=why))
            if moves or self._pointer is not None:
                return texts, max(UPDATE_EVERY_S, (now - began) / SHARE)
            return texts, ASK_AGAIN_S if why else None

    def _changes(self, scene: Scene) -> list[str]:
        """Return a message with the panels that differ from those in the browser.

        The browser shows the last message, or what a script has drawn since: Streamlit skips elements equal to those of the
        last run.
        """
        changed: dict[str, Panel] = {}
        for key, part in scene.make().items():
            shown = [parts[key] for parts in (self._sent, self._scripted) if key in parts]
            if not shown or not all(part == one for one in shown):
                self._sent[key] = changed[key] = part
                self._scripted.pop(key, None)
        if not changed:
            return []
        self._number += 1
        self._sent_at = time.monotonic()
        parts = {key: part.message() for key, part in changed.items()}
        return [to_browser("parts", number=self._number, run=self.runs, parts=parts)]

    def _new_tables(self, scene: Scene) -> list[str]:
        """Return a message with the tables for the slider near the pointer that the browser lacks."""
        pointer, now = self._pointer, time.monotonic()
        if pointer is None or scene.tables is None or now - pointer.since > POINTER_S:
            self._pointer = None
            return []
        found = scene.tables(pointer.slider, pointer.held, pointer.value)
        if not found.more:
            self._pointer = None
        first = self._tables_of != (pointer.slider, found.source)
        if first:
            self._tables_of, self._tables = (pointer.slider, found.source), set()
        new = {name: table for name, table in found.tables.items() if name not in self._tables}
        if not new and found.more:
            return []
        self._tables |= set(new)
        fields: dict[str, Any] = {"slider": pointer.slider, "source": found.source, "tables": list(new.values())}
        fields["how"] = dict(found.how) if first else {}  # with the position of every sample, it is larger than a table
        return [to_browser("tables", **fields, more=found.more)]


def channel() -> Channel:
    """Return the channel of this visitor."""
    found: Channel = st.session_state.setdefault(_SESSION_KEY, Channel())
    channels[found.token] = found
    return found


# ---- messages: JSON with these fields; components/channel.js says how the browser uses them ----------------------------
VERSION = 1  # a page that was opened before an update of the server may speak another one
MAX_LENGTH = 2_000  # characters of a message from a browser
MAX_NUMBER = 2**53  # above it, a browser's integers are inexact

TO_SERVER: dict[str, dict[str, type | tuple[type, ...]]] = {
    # The connection is new: send every panel.
    "present": {},
    # The panels of this number are on the screen.
    "drawn": {"number": int},
    # The pointer is near a slider or drags it (`held`), repeated every second. The browser has tables of the fit `source`.
    "near": {"slider": str, "held": bool, "value": (int, float), "source": str},
}


def to_browser(kind: str, **fields: Any) -> str:
    """Return a message for the browser.

    parts   number, run, parts: panels that changed, by key; per panel the highest number wins; `run` counts script runs
    moves   run, moves: whether anything after this script run may still change or need another one
    run     number, why: request for one script run
    tables  slider, source, tables, how, more: states at values of a slider; tables of another fit (`source`) replace earlier
            ones, and their first message has `how` to draw
    """
    return json.dumps({"v": VERSION, "type": kind, **fields}, separators=(",", ":"))


def from_browser(text: str) -> tuple[str, dict[str, Any]]:
    """Return the kind and the fields of a message; raise DataError if it is invalid."""
    if len(text) > MAX_LENGTH:
        raise DataError(f"A message has {len(text):,} characters; at most {MAX_LENGTH:,} are allowed.")
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise DataError("A message is not JSON.") from None
    if not isinstance(message, dict) or message.pop("v", None) != VERSION:
        raise DataError(f"A message is not of version {VERSION}.")
    kind = message.pop("type", None)
    expected = TO_SERVER.get(kind) if isinstance(kind, str) else None
    if expected is None:
        raise DataError(f"A message has an unknown kind; known are {', '.join(TO_SERVER)}.")
    if set(message) != set(expected):
        raise DataError(f"A message {kind!r} has the fields {sorted(message)[:9]} instead of {sorted(expected)}.")
    for name, value in message.items():
        field = expected[name]
        if not isinstance(value, field) or isinstance(value, bool) != (field is bool):
            raise DataError(f"The field {name!r} of a message {kind!r} has the wrong type.")
        if isinstance(value, int | float) and not abs(value) <= MAX_NUMBER:  # also not NaN
            raise DataError(f"The field {name!r} of a message {kind!r} is not a number up to {MAX_NUMBER:,}.")
    return kind, message
