"""Sessions and calendars, loaded in background threads that all visitors share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from datasets.f1 import loader
from datasets.f1.loader import Event
from datasets.f1.race import simulate_race
from datasets.f1.session import FeedError, Reason, Session
from gdm_core.errors import GdmError
from pages.formula1.selection import Place
from pages.lab.live.background import Jobs, Task

MAX_KEPT = 6  # sessions in memory
DEADLINE_S, CALENDAR_DEADLINE_S = 180.0, 20.0
UNASKED = (Reason.DEADLINE, Reason.RATE_LIMIT)  # stored sessions still work

LOADS = Jobs(MAX_KEPT)  # visitors share loads of the same session


def request_calendar(year: int) -> Task:
    """Load the events of a season in a background thread."""

    def read(load: Task) -> tuple[Event, ...]:
        return loader.schedule(year, deadline_s=CALENDAR_DEADLINE_S, progress=_report_to(load))

    return _request(year, read)


def request_session(place: Place) -> Task:
    """Load a session in a background thread."""

    def read(load: Task) -> Session:
        where, report = (place.year, place.event, place.name), _report_to(load)
        return loader.load_session(*where, deadline_s=DEADLINE_S, progress=report, cancel=load.cancelled)

    return _request(place, read)


def _request(what: Place | int, read: Callable[[Task], Any]) -> Task:
    task: Task = LOADS.get((what,), lambda: Task(read, explain=_crashed))
    return task


def _report_to(load: Task) -> Callable[[float, str], None]:
    return lambda share, text: load.report(text, share)


def _crashed(error: Exception) -> FeedError:
    return FeedError(Reason.CRASHED, "Loading stopped unexpectedly. See the server's log.")


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
