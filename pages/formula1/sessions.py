"""Sessions and calendars, loaded in background threads that all visitors share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import streamlit as st

from datasets.f1 import loader
from datasets.f1.race import simulate_race
from datasets.f1.session import Reason, Session
from gdm_core.errors import GdmError
from pages.formula1.selection import Place
from pages.lab.live.background import Jobs, Task

MAX_KEPT = 6  # sessions in memory
DEADLINE_S, CALENDAR_DEADLINE_S = 180.0, 20.0
UNASKED = (Reason.DEADLINE, Reason.RATE_LIMIT)  # stored sessions still work

LOADS = Jobs(MAX_KEPT)  # visitors share loads of the same session


def request_calendar(year: int) -> Task:
    """Load the events of a season in a background thread."""
    return _request(year, lambda report, _: loader.schedule(year, deadline_s=CALENDAR_DEADLINE_S, progress=report))


def request_session(place: Place) -> Task:
    """Load a session in a background thread."""
    where = place.year, place.event, place.name
    return _request(
        place, lambda report, cancel: loader.load_session(*where, deadline_s=DEADLINE_S, progress=report, cancel=cancel)
    )


def _request(what: Place | int, read: Callable[[loader.Progress, threading.Event], Any]) -> Task:
    def load(task: Task) -> Any:
        return read(lambda share, text: task.report(text, share), task.cancelled)

    task: Task = LOADS.get((what,), lambda: Task(load))
    return task


def is_requested(place: Place) -> bool:
    """Return whether a session has been loaded, or is loading."""
    return LOADS.find((place,)) is not None


def request_again(what: Place | int | None) -> None:
    """Load a session, or the calendar of a year, again."""
    LOADS.forget((what,))
    if isinstance(what, Place):
        request_session(what)


def explain(error: GdmError) -> tuple[str, str]:
    """Return the title and text of a failed load."""
    reason = getattr(error, "reason", None)
    if reason is None:
        return "The session could not be loaded", str(error)
    known = reason in UNASKED and loader.stored_sessions()
    return reason.value, f'{error} Sessions marked "stored" work offline.' if known else str(error)


@st.cache_resource(max_entries=2, show_spinner="Simulating a race")
def simulated(circuit: str) -> Session:
    return simulate_race(circuit)


def open_session(place: Place) -> Session:
    """Return the session of a place; real sessions must have been loaded."""
    if place.simulated:
        return simulated(place.circuit)
    load = request_session(place)
    load.wait(DEADLINE_S)  # reopens a stored session that left memory
    if load.error is not None:
        raise load.error
    session: Session = load.value
    return session
