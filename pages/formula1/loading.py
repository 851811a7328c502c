"""Calendars and sessions in the background: the page goes on while they load, and asks how far they are.

A load is a thread that waits for the loading process. Visitors who want the same session share one load, and the last
few sessions stay in memory.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from datasets import formula1
from datasets.formula1 import Event, FeedError, Reason, Session
from gdm_core.errors import GdmError

MAX_KEPT = 6
DEADLINE_S = 180.0
CALENDAR_DEADLINE_S = 20.0

Report = Callable[[float, str], None]
Work = Callable[[Report, threading.Event], Any]

WAYS_ON = {
    Reason.NO_NETWORK: "This is not stored here, and the network cannot be reached.",
    Reason.DEADLINE: "The service may be slow at the moment. Try again later.",
    Reason.ACCOUNT: "Set F1_USERNAME and F1_PASSWORD in the environment of the server and start it again. This page "
    "neither asks for a password nor stores one.",
    Reason.RATE_LIMIT: "Wait a while before the next try.",
    Reason.NOT_FOUND: "Choose another event or session.",
    Reason.NOT_YET: "Choose a session of the past.",
    Reason.NO_LAPS: "Choose another session: this one has no laps that could be drawn.",
    Reason.NO_POSITION: "Choose another session: the feed has no positions for this one.",
    Reason.NO_CORNERS: "Try again later: the session opens without segments until the corners are known.",
    Reason.CANCELLED: "Press Try again to load it after all.",
    Reason.STORAGE: "Sessions that are stored already still open, and so do simulated laps.",
    Reason.CRASHED: "Try again. If it happens again, clear the FastF1 downloads.",
}
UNASKED = (Reason.NO_NETWORK, Reason.DEADLINE, Reason.RATE_LIMIT)  # what is stored opens all the same
TITLES = {
    Reason.NO_NETWORK: "No network",
    Reason.DEADLINE: "That took too long",
    Reason.ACCOUNT: "The timing service wants a Formula 1 account",
    Reason.RATE_LIMIT: "Too many requests",
    Reason.NOT_FOUND: "Not found",
    Reason.NOT_YET: "Not driven yet",
    Reason.NO_LAPS: "No laps",
    Reason.NO_POSITION: "No positions",
    Reason.NO_CORNERS: "No corners",
    Reason.CANCELLED: "Cancelled",
    Reason.STORAGE: "The data folder takes nothing",
    Reason.CRASHED: "The loader stopped",
}


class Load:
    """One load under way or done. Plain values that any thread may read."""

    def __init__(self, work: Work) -> None:
        self.share, self.text = 0.0, "starting"
        self.value: Any = None
        self.error: GdmError | None = None
        self._work, self._ended, self._cancel = work, threading.Event(), threading.Event()
        threading.Thread(target=self._run, name="formula1-load", daemon=True).start()

    @property
    def done(self) -> bool:
        return self._ended.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait a moment for the end; whether it came."""
        return self._ended.wait(seconds)

    def cancel(self) -> None:
        """End it; it then says that it was cancelled."""
        self._cancel.set()

    def _report(self, share: float, text: str) -> None:
        self.share, self.text = share, text

    def _run(self) -> None:
        try:
            self.value = self._work(self._report, self._cancel)
        except GdmError as error:
            self.error = error
        finally:
            if self.value is None and self.error is None:
                self.error = FeedError(Reason.CRASHED, "Loading stopped unexpectedly. The server's log says why.")
            self._ended.set()


class Loads:
    """The loads of this server, by what they load; the latest few are kept."""

    def __init__(self, limit: int = MAX_KEPT) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], Load] = OrderedDict()

    def get(self, key: tuple[Any, ...], work: Work) -> Load:
        """The load of that key, started now if there is none."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = Load(work)
            self._kept.move_to_end(key)
            for old in [name for name, load in self._kept.items() if load.done][
                : max(0, len(self._kept) - self._limit)
            ]:
                del self._kept[old]
            return self._kept[key]

    def known(self, key: tuple[Any, ...]) -> bool:
        """Whether there is a load of that key."""
        with self._lock:
            return key in self._kept

    def under_way(self) -> dict[tuple[Any, ...], Load]:
        """The loads that have not ended."""
        with self._lock:
            return {key: load for key, load in self._kept.items() if not load.done}

    def forget(self, key: tuple[Any, ...]) -> None:
        """Start anew the next time."""
        with self._lock:
            self._kept.pop(key, None)


_loads = Loads()


def calendar(year: int) -> Load:
    """The race weekends of a season; its value is a tuple of events."""

    def work(report: Report, cancel: threading.Event) -> tuple[Event, ...]:
        return formula1.schedule(year, deadline_s=CALENDAR_DEADLINE_S, progress=report)

    return _loads.get(("calendar", year), work)


def session(year: int, event: str, name: str) -> Load:
    """One session; its value is a Session."""

    def work(report: Report, cancel: threading.Event) -> Session:
        return formula1.load_session(year, event, name, deadline_s=DEADLINE_S, progress=report, cancel=cancel)

    return _loads.get(("session", year, event, name), work)


def known(*key: Any) -> bool:
    """Whether a load of that key is under way, done, or gone wrong."""
    return _loads.known(key)


def others_under_way(*key: Any) -> list[tuple[str, Load]]:
    """(what, load) of the other sessions that are being loaded: they take turns."""
    running = _loads.under_way()
    return [(f"{k[2]} {k[1]}, {k[3]}", load) for k, load in running.items() if k[0] == "session" and k != key]


def again(*key: Any) -> None:
    """Forget a load that went wrong, so that the next look starts it again."""
    _loads.forget(key)


def explain(error: GdmError) -> tuple[str, str]:
    """(title, what happened and what to do) of a load that went wrong."""
    reason = getattr(error, "reason", None)
    if reason is None:
        return "The session could not be loaded", str(error)
    said = [] if reason is Reason.NO_NETWORK else [str(error)]
    stored = reason in UNASKED and formula1.stored_sessions()
    return TITLES[reason], " ".join([*said, WAYS_ON[reason], *(["What is marked as stored opens."] if stored else [])])
