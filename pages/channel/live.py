"""The live channel: one WebSocket per visitor, which updates panels of their page while no script runs.

A channel belongs to one session, under a secret token. Each script run replaces the scene. Between runs a thread makes the
panels again and sends those that changed, once the browser has drawn the previous ones. Messages are JSON: their fields here,
their use in components/channel.js. Pages of other sites and long messages are refused.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

import streamlit as st
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from gdm_core.errors import DataError

log = logging.getLogger(__name__)

# ---- messages ---------------------------------------------------------------------------------------------------------
Field = type | tuple[type, ...]
Kinds = dict[str, dict[str, Field]]

VERSION = 1  # a page that was opened before an update of the server may speak another one
MAX_LENGTH = 2_000  # characters of a message from a browser
MAX_NUMBER = 2**53  # above it, a browser's integers are inexact

TO_BROWSER: Kinds = {
    # Panels that changed, by key. Per panel the highest number wins; `run` counts script runs.
    "parts": {"number": int, "run": int, "parts": dict},
    # Request for one script run.
    "run": {"number": int, "why": str},
    # States at values of a slider. Tables of another fit (`of`) replace all earlier ones; their first message has `how` to draw.
    "tables": {"slider": str, "of": str, "tables": list, "how": dict, "more": bool},
}
TO_SERVER: Kinds = {
    # The connection is new: send every panel.
    "present": {},
    # The panels of this number are on the screen.
    "drawn": {"number": int},
    # The pointer is near a slider or drags it (`held`), repeated every second. The browser has tables of the fit `of`.
    "near": {"slider": str, "held": bool, "value": (int, float), "of": str},
}


def to_browser(kind: str, **fields: Any) -> str:
    """Return a message for the browser; raise DataError if its fields are wrong."""
    _check(kind, fields, TO_BROWSER)
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
    _check(kind, message, TO_SERVER)
    return kind, message


def _check(kind: Any, fields: dict[str, Any], kinds: Kinds) -> None:
    expected = kinds.get(kind) if isinstance(kind, str) else None
    if expected is None:
        raise DataError(f"A message has an unknown kind; known are {', '.join(kinds)}.")
    if set(fields) != set(expected):
        raise DataError(f"A message {kind!r} has the fields {sorted(fields)[:9]} instead of {sorted(expected)}.")
    for name, value in fields.items():
        field = expected[name]
        if not isinstance(value, field) or isinstance(value, bool) != (field is bool):
            raise DataError(f"The field {name!r} of a message {kind!r} has the wrong type.")
        if isinstance(value, int | float) and not abs(value) <= MAX_NUMBER:  # also not NaN
            raise DataError(f"The field {name!r} of a message {kind!r} is not a number up to {MAX_NUMBER:,}.")


# ---- the channel of a visitor ----------------------------------------------------------------------------------------
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


# ---- the scene of a script run ------------------------------------------------------------------------------------
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

    of      name of everything they depend on; the browser drops tables of another name
    tables  by name; none is sent twice
    how     figures and colours
    more    whether some are still being computed
    """

    of: str = ""
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
    _why: str = ""

    @property
    def moves(self) -> bool:
        return any(one.moves() for one in self.live)

    @property
    def first_panels(self) -> dict[str, Panel]:
        """Return all panels as the script has drawn them."""
        return {key: panel for one in self.live for key, panel in one.drawn.items()}

    def make(self) -> dict[str, Panel]:
        """Return all panels as they are now."""
        return {key: panel for one in self.live for key, panel in one.make().items()}

    def settled(self) -> str:
        """Return why the script has to run, "" if it does not; a reason stays until the next run."""
        self._why = self._why or next((why for one in self.live if (why := one.settled())), "")
        return self._why

    @property
    def goes_on(self) -> bool:
        """Return whether panels may change, or a script run is due."""
        return self.moves or bool(self.settled())


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
    listener  called, from any thread, when an update may have something new
    at_leave  functions by name, called when the visitor has been away for LEAVE_S
    """

    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    runs: int = 0
    listener: Callable[[], None] | None = None
    at_leave: dict[str, Callable[[], None]] = field(default_factory=dict)
    _left_at: float = 0.0
    _number: int = 0
    _drawn: int = 0
    _sent_at: float = 0.0
    _failures: int = 0  # failed updates in a row
    _asked: tuple[int, float] = (-1, 0.0)  # after which run the next one was requested, and when
    _sent: dict[str, Panel] = field(default_factory=dict)
    _scripted: dict[str, Panel] = field(default_factory=dict)  # drawn by a script since they were sent
    _script_messages: dict[str, dict[str, Any]] = field(default_factory=dict)  # of the last run that drew each panel
    _scene: Scene | None = None
    _next: Scene = field(default_factory=Scene)
    _pointer: Pointer | None = None
    _tables_of: tuple[str, str] = ("", "")  # slider and fit of the tables that the browser has
    _tables: set[str] = field(default_factory=set)  # their names
    _lock: threading.RLock = field(default_factory=threading.RLock)

    # ---- script runs --------------------------------------------------------------------------------------------
    def begin_run(self) -> None:
        """Stop updates while a script draws."""
        with self._lock:  # waits for an update to end
            self._scene, self._next = None, Scene()
            self.runs += 1

    @property
    def scene(self) -> Scene:
        """Scene of the current run."""
        return self._next

    def end_run(self) -> None:
        """Start updates of the scene that the script has left."""
        with self._lock:
            self._scene = self._next
            for key, panel in self._scene.first_panels.items():
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
                self._sent.clear()
                self._scripted.clear()
                self._asked, self._drawn, self._tables_of = (-1, 0.0), self._number, ("", "")
            elif kind == "drawn":
                self._drawn = max(self._drawn, fields["number"])
            elif kind == "near":
                before = self._pointer
                now = Pointer(fields["slider"], fields["held"], fields["value"], time.monotonic())
                arrives = before is None or (before.slider, before.held) != (now.slider, now.held)
                if arrives and fields["of"] != self._tables_of[1]:  # the browser has dropped its tables
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
            scene, began = self._scene, time.monotonic()
            if scene is None:
                return [], None
            waits = self._drawn < self._number and began - self._sent_at < UNDRAWN_S
            if waits and scene.moves:
                return [], UPDATE_EVERY_S
            texts = [*self._changes(scene), *self._new_tables(scene)]
            moves, why = scene.moves, scene.settled()
            now = time.monotonic()
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
            if not shown or not all(part.same(one) for one in shown):
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
        first = self._tables_of != (pointer.slider, found.of)
        if first:
            self._tables_of, self._tables = (pointer.slider, found.of), set()
        new = {name: table for name, table in found.tables.items() if name not in self._tables}
        if not new and found.more:
            return []
        self._tables |= set(new)
        fields: dict[str, Any] = {"slider": pointer.slider, "of": found.of, "tables": list(new.values())}
        fields["how"] = dict(found.how) if first else {}  # with the position of every sample, it is larger than a table
        return [to_browser("tables", **fields, more=found.more)]


def channel() -> Channel:
    """Return the channel of this visitor."""
    found: Channel = st.session_state.setdefault(_SESSION_KEY, Channel())
    channels[found.token] = found
    return found


# ---- the connection --------------------------------------------------------------------------------------------------
INVALID, UNKNOWN, FORBIDDEN, REPLACED = 4400, 4404, 4403, 4409  # codes of closed connections


def routes() -> list[WebSocketRoute]:
    """Return the route of the channel, below server.baseUrlPath."""
    base = str(st.get_option("server.baseUrlPath")).strip("/")
    below = f"/{base}" if base else ""
    return [WebSocketRoute(f"{below}{ROUTE}/{{token}}", serve)]


async def serve(socket: WebSocket) -> None:
    """Serve one connection until it ends."""
    channel = channels.get(str(socket.path_params["token"]))
    if not _is_same_origin(socket):
        await socket.close(FORBIDDEN)
    elif channel is None:
        await socket.close(UNKNOWN)
    else:
        await socket.accept()
        await _exchange(socket, channel)


def _is_same_origin(socket: WebSocket) -> bool:
    """Return whether a page of this server opens the connection, or a program that sends no origin."""
    origin = socket.headers.get("origin")
    if origin is None:
        return True
    allowed = {socket.headers.get("host"), socket.headers.get("x-forwarded-host")}
    for listed in st.get_option("server.corsAllowedOrigins") or ():
        allowed.add(urlsplit(str(listed)).netloc or str(listed))
    return urlsplit(origin).netloc in allowed


async def _exchange(socket: WebSocket, channel: Channel) -> None:
    """Send updates and receive messages. A newer connection of the same page replaces an older one."""
    event, loop = asyncio.Event(), asyncio.get_running_loop()

    def wake() -> None:
        """Set `event`, from any thread."""
        if not loop.is_closed():
            loop.call_soon_threadsafe(event.set)

    before, channel.listener = channel.listener, wake
    if before is not None:
        before()
    sender = asyncio.create_task(_send(socket, channel, event, wake))
    try:
        await _listen(socket, channel, event)
    finally:
        if channel.listener is wake:
            channel.disconnect()
            loop.call_later(LEAVE_S + 0.1, channel.leave_if_away)
        sender.cancel()
        with suppress(asyncio.CancelledError):
            await sender


async def _send(socket: WebSocket, channel: Channel, event: asyncio.Event, wake: object) -> None:
    """Send updates until a newer connection takes over."""
    while channel.listener is wake:
        event.clear()
        texts, pause = await asyncio.to_thread(channel.update)
        try:
            for text in texts:
                await socket.send_text(text)
        except (WebSocketDisconnect, RuntimeError):  # closed; `_listen` ends too
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), pause)
    with suppress(RuntimeError):
        await socket.close(REPLACED)


async def _listen(socket: WebSocket, channel: Channel, event: asyncio.Event) -> None:
    """Receive messages until one is invalid."""
    try:
        while True:
            text = await socket.receive_text()
            try:
                kind, fields = from_browser(text)
            except DataError as error:
                log.debug("A message was refused: %s", error)
                await socket.close(INVALID, str(error)[:100])
                return
            await asyncio.to_thread(channel.receive, kind, fields)
            event.set()
    except (WebSocketDisconnect, RuntimeError, KeyError):  # KeyError: bytes in place of text
        return
