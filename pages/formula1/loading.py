"""Calendars and sessions loaded in the background.

Each load is a thread that waits for the loading process. Visitors share loads of the same session, and the last few
sessions stay in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from datasets import formula1
from datasets.formula1 import Event, FeedError, Reason, Session
from gdm_core.errors import GdmError
from pages.lab.live.background import Jobs, Task

MAX_KEPT = 6
DEADLINE_S = 180.0
CALENDAR_DEADLINE_S = 20.0

# Titles by reason of failure; messages of the errors give advice.
SAID = {
    Reason.NO_NETWORK: "No network",
    Reason.DEADLINE: "Loading timed out",
    Reason.ACCOUNT: "A Formula 1 account is required",
    Reason.RATE_LIMIT: "Too many requests",
    Reason.NOT_FOUND: "Not found",
    Reason.NOT_YET: "Not driven yet",
    Reason.NO_LAPS: "No laps",
    Reason.NO_POSITION: "No positions",
    Reason.NO_CORNERS: "No corners",
    Reason.CANCELLED: "Cancelled",
    Reason.STORAGE: "The data folder is not writable",
    Reason.CRASHED: "The loader stopped",
}
UNASKED = (Reason.DEADLINE, Reason.RATE_LIMIT)  # stored sessions still work


def _crashed(error: Exception) -> FeedError:
    return FeedError(Reason.CRASHED, "Loading stopped unexpectedly. See the server's log.")


_loads = Jobs(MAX_KEPT)


def calendar(year: int) -> Task:
    """Load the events of a season."""

    def read(load: Task) -> tuple[Event, ...]:
        return formula1.schedule(year, deadline_s=CALENDAR_DEADLINE_S, progress=_reported(load))

    return _task(("calendar", year), read)


def session(year: int, event: str, name: str) -> Task:
    """Load one session."""

    def read(load: Task) -> Session:
        told = _reported(load)
        return formula1.load_session(year, event, name, deadline_s=DEADLINE_S, progress=told, cancel=load.cancelled)

    return _task(("session", year, event, name), read)


def _task(key: tuple[Any, ...], read: Callable[[Task], Any]) -> Task:
    task: Task = _loads.get(key, lambda: Task(read, explain=_crashed))
    return task


def _reported(load: Task) -> Callable[[float, str], None]:
    """Return a progress callback for the loading process."""
    return lambda share, text: load.report(text, share)


def has_load(*key: Any) -> bool:
    """Return whether a load of that key exists."""
    return _loads.find(key) is not None


def again(*key: Any) -> None:
    """Restart a load."""
    _loads.forget(key)
    if key[0] == "session":
        session(*key[1:])


def explain(error: GdmError) -> tuple[str, str]:
    """Return the title and text of a failed load."""
    reason = getattr(error, "reason", None)
    if reason is None:
        return "The session could not be loaded", str(error)
    known = reason in UNASKED and formula1.stored_sessions()
    return SAID[reason], f'{error} Sessions marked "stored" work offline.' if known else str(error)
