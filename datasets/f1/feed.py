"""Adapter for FastF1 that returns plain data and raises errors with clear messages.

Runs only in the loading process, because FastF1 has no time limits and may exit the process.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests
from fastf1 import Cache, get_event_schedule, set_auth_method
from fastf1.exceptions import DataNotLoadedError, RateLimitExceededError
from fastf1.mvapi import get_circuit_info

from gdm_core.errors import DataError

from ..readers.source import brief
from ..storage import describe_write_error, is_storage_error, move_aside
from . import extract
from .cache import stored_sessions
from .event import Event, SessionSlot
from .laps import RACES, parts_of
from .session import Corner, FeedError, Reason, Session

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

# FastF1's log messages in loading order: completed share, and description
STEPS = {
    "session_info": (0.05, "session"),
    "driver_info": (0.08, "drivers"),
    "session_status_data": (0.11, "session status"),
    "lap_count": (0.13, "lap count"),
    "track_status_data": (0.15, "track status"),
    "_extended_timing_data": (0.18, "lap times"),
    "timing_app_data": (0.3, "tyres"),
    "car_data": (0.4, "speed, throttle, brake, gear"),
    "position_data": (0.6, "positions"),
}
MOST_NAMED = 3  # stored sessions in an error message
TIMING_HOST = "livetiming"  # matches the service and its mirror
_UNREACHABLE = "the timing service cannot be reached"


class FeedLog(logging.Handler):
    """Log handler that collects FastF1's progress and hidden exceptions."""

    def __init__(self, progress: Callable[[float, str], None]) -> None:
        super().__init__(logging.DEBUG)
        self._progress, self._furthest = progress, 0.0
        self.errors: list[BaseException] = []
        self.sign_in_failed = False
        self.notes: list[str] = []
        self.offline = False

    def progress(self, share: float, text: str) -> None:
        """Report progress that never falls, even when downloads follow cache reads."""
        self._furthest = max(self._furthest, share)
        self._progress(self._furthest, text)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            self.errors.append(record.exc_info[1])
        if text.startswith("Failed to authenticate"):
            self.sign_in_failed = True
        for step, (share, what) in STEPS.items():
            if text.endswith((f"cached data for {step}", f"found for {step}. Loading data...")):
                stored = "reading" if text.startswith("Using") else "downloading"
                self.progress(share, f"{stored} {what}")

    @property
    def network_failed(self) -> bool:
        """Return whether the timing service is unreachable; ignore other services."""
        return any(
            isinstance(error, requests.ConnectionError | requests.Timeout)
            and TIMING_HOST in str(getattr(error.request, "url", None) or TIMING_HOST)
            for error in self.errors
        )


def rate_limited(where: str, error: Exception) -> FeedError:
    return FeedError(
        Reason.RATE_LIMIT,
        f"Loading {where} was stopped by the data service's request limit ({error}). "
        "Wait an hour; sessions that are stored already still open.",
    )


def unavailable(where: str, log: FeedLog, otherwise: Reason, why: str) -> FeedError:
    """Return an error with the likeliest cause: storage, network, account, then feed."""
    if full := next((error for error in log.errors if is_storage_error(error)), None):
        return FeedError(Reason.STORAGE, f"{where} could not be loaded. {describe_write_error(full)}")
    if log.network_failed or log.offline:
        return FeedError(
            Reason.NO_NETWORK,
            f"{where} is not stored, and {'the network was not asked' if log.offline else _UNREACHABLE}: connect and try "
            f"again, or open {_known_sessions()}a simulated race.",
        )
    if log.sign_in_failed:
        given = bool(os.environ.get("F1_USERNAME") and os.environ.get("F1_PASSWORD"))
        return FeedError(
            Reason.ACCOUNT,
            f"{where} could not be loaded: the timing service wants a Formula 1 account"
            + (
                ", and refused the one in F1_USERNAME and F1_PASSWORD. Correct them"
                if given
                else ". Set the environment variables F1_USERNAME and F1_PASSWORD"
            )
            + " where the application is started, restart it, then try again.",
        )
    return FeedError(
        otherwise,
        f"{where}: {why}. It may not have been held, or may not be published yet. Try again later or choose another.",
    )


def _known_sessions() -> str:
    """Return a few sessions that open without a network, for a sentence."""
    stored = [f"{event} {year}, {name}" for year, event, name in stored_sessions()[:MOST_NAMED]]
    return "".join(f"{one}; " for one in stored) + "or " if stored else ""


SENSELESS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)  # raised by malformed tables


def open_feed(folder: Path, progress: Callable[[float, str], None]) -> FeedLog:
    """Configure FastF1's cache and log; move a damaged download store aside."""
    log = FeedLog(progress)
    logger = logging.getLogger("fastf1")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(log)
    store = folder / "fastf1_http_cache.sqlite"
    if store.is_file() and not _is_sound(store):
        aside = move_aside(store)
        log.notes.append(
            f"FastF1's store of downloads was damaged and has been moved to {aside.name}; a new one is created."
        )
    set_auth_method("password")  # the other method waits for a browser
    Cache.configure(cache_dir=str(folder))
    return log


def _is_sound(store: Path) -> bool:
    try:
        connection = sqlite3.connect(store)
        try:
            return connection.execute("PRAGMA quick_check").fetchone() == ("ok",)
        finally:
            connection.close()
    except sqlite3.DatabaseError:
        return False


def fetch_schedule(year: int, log: FeedLog, offline: bool = False) -> tuple[Event, ...]:
    """Return the season's race weekends, without testing."""
    log.offline = offline
    schedule = _schedule(year, offline)
    events = tuple(_event_from(year, row) for _, row in schedule.iterrows())
    if not events:
        raise FeedError(Reason.NOT_FOUND, f"The {year} calendar lists no race weekends yet. Choose another year.")
    return events


def fetch_session(year: int, event: str, name: str, log: FeedLog, offline: bool = False) -> Session:
    """Return a session as plain arrays; try FastF1's cache before the network."""
    log.offline = offline
    try:
        return _fetch(year, event, name, log, offline=True)
    except FeedError:
        if offline:
            raise
    log.errors.clear()
    return _fetch(year, event, name, log, offline=False)


def _fetch(year: int, event: str, name: str, log: FeedLog, offline: bool) -> Session:
    where = f"{event} {year}, {name}"
    row = _find_event(_schedule(year, offline), year, event)
    slots = _event_from(year, row).sessions
    log.progress(0.02, f"opening {where}")
    try:
        source = row.get_session(name)
    except ValueError as error:
        offered = ", ".join(slot.name for slot in slots)
        raise FeedError(Reason.NOT_FOUND, f"{where}: there is no such session. Choose one of {offered}.") from error
    start = next((slot.start_utc for slot in slots if slot.name == source.name), "")
    if start and datetime.fromisoformat(start).replace(tzinfo=UTC) > datetime.now(UTC):
        raise FeedError(Reason.NOT_YET, f"{where} starts on {start[:16]} UTC. Choose a session that has taken place.")
    Cache.offline_mode(offline)
    try:
        _load(source, where, log)
        return _extract(source, year, row["EventName"], where, log, offline)
    except DataError:
        raise
    except SENSELESS as error:
        why = f"the feed's answer makes no sense ({type(error).__name__}: {brief(error)})"
        raise unavailable(where, log, Reason.NO_LAPS, why) from error


def _load(source: Any, where: str, log: FeedLog) -> None:
    try:
        source.load(laps=True, telemetry=True, weather=True, messages=True)
    except RateLimitExceededError as error:
        raise rate_limited(where, error) from error
    except SystemExit as error:  # FastF1 exits the process after an empty download
        raise unavailable(where, log, Reason.NO_LAPS, "the feed gave an empty answer") from error
    except requests.RequestException as error:
        log.errors.append(error)
        raise unavailable(where, log, Reason.NO_LAPS, "the feed could not be read") from error


def _extract(source: Any, year: int, event: str, where: str, log: FeedLog, offline: bool) -> Session:
    try:
        laps, positions = source.laps, source.pos_data
        cars = source.car_data
    except (DataNotLoadedError, KeyError) as error:  # raised after a failed load
        raise unavailable(where, log, Reason.NO_LAPS, "the feed has no laps for it") from error
    if len(laps) == 0:
        raise unavailable(where, log, Reason.NO_LAPS, "the feed has no laps for it")
    if not any(len(table) for table in positions.values()):
        raise unavailable(where, log, Reason.NO_POSITION, "the feed has no car positions for it")
    log.progress(0.8, "putting the drivers' samples together")
    dropped = 0
    drivers = []
    laps = laps.assign(Part=parts_of(laps))
    classified = extract.in_order_of_result(source.results)
    for _, result in classified.iterrows():
        driver, zeros = extract.driver_from(result, laps, positions, cars)
        dropped += zeros
        drivers.append(driver)
    if not any(driver.has_position for driver in drivers):
        raise unavailable(where, log, Reason.NO_POSITION, "no car position lies inside a lap")
    info = source.session_info or {}
    circuit = info.get("Meeting", {}).get("Circuit", {})
    notes = [*log.notes, *(extract.remarks_on_result(source.results) if source.name in RACES else ())]
    if dropped:
        notes.append(f"{dropped} samples at exactly (0, 0) were left out: the feed sends them for a car it has lost.")
    weather = _if_loaded(source, "weather_data")
    track = [] if weather is None else weather["TrackTemp"].dropna().tolist()
    session = Session(
        year=year,
        event=event,
        name=source.name,
        circuit=str(circuit.get("ShortName") or source.event["Location"]),
        rotation=0.0,
        corners=(),
        drivers=tuple(drivers),
        notes=tuple(notes),
        spells=extract.spells_of(_if_loaded(source, "track_status"), weather),
        track=(float(track[0]), float(track[-1])) if track else (),
    )
    log.progress(0.9, "reading the corners")
    return _with_corners(session, circuit.get("Key"), log, offline)


def _if_loaded(source: Any, name: str) -> Any:
    """Return an optional table, or None if it is not loaded."""
    try:
        return getattr(source, name)
    except (DataNotLoadedError, KeyError):
        return None


def _with_corners(session: Session, key: int | None, log: FeedLog, offline: bool) -> Session:
    rotation = 0.0
    corners: tuple[Corner, ...] = ()
    for stored_only in (True,) if offline else (True, False):
        found = None if key is None else _circuit(session.year, key, stored_only, log)
        if found is not None and len(found.corners):
            rotation = float(found.rotation)
            corners = extract.corners_from(found.corners, session.reference)
            break
    if not corners:
        corners = extract.corners_in_file(session)
    if not corners:
        note = (
            f"No corner data for {session.circuit}: no segments and no corner table. To add them, put "
            f"{extract.corners_file(session).name} (columns Number, X, Y, Angle) into the folder formula1 of the data folder."
        )
        return replace(session, notes=(*session.notes, note))
    return replace(session, rotation=rotation, corners=corners)


def _circuit(year: int, key: int, stored_only: bool, log: FeedLog) -> Any:
    Cache.offline_mode(stored_only)
    try:
        return get_circuit_info(year=year, circuit_key=int(key))
    except RateLimitExceededError as error:
        raise rate_limited("the corners", error) from error
    except (requests.RequestException, ValueError, TypeError, AttributeError) as error:
        log.errors.append(error)  # corners are optional; the session's notes report their absence
        return None


def _schedule(year: int, offline: bool) -> pd.DataFrame:
    Cache.offline_mode(offline)
    try:
        return get_event_schedule(year, include_testing=False)
    except RateLimitExceededError as error:
        raise rate_limited(f"the {year} calendar", error) from error
    except (ValueError, SystemExit) as error:
        raise FeedError(
            Reason.NO_NETWORK,
            f"The {year} calendar is not stored, and no calendar service answered: connect and try again, or open a "
            "simulated race.",
        ) from error


def _event_from(year: int, row: Any) -> Event:
    slots = []
    for i in range(1, 6):
        name, start = row.get(f"Session{i}"), row.get(f"Session{i}DateUtc")
        if isinstance(name, str) and name and name != "None":
            slots.append(SessionSlot(name, "" if start is None or start != start else start.isoformat()))
    date = row["EventDate"]
    return Event(
        year=year,
        round=int(row["RoundNumber"]),
        name=str(row["EventName"]),
        country=str(row["Country"]),
        location=str(row["Location"]),
        date="" if date is None or date != date else date.date().isoformat(),
        sessions=tuple(slots),
    )


def _find_event(schedule: Any, year: int, wanted: str) -> Any:
    """Find an event by exact name, country or town; a guess could load another race."""
    for column in ("EventName", "Country", "Location"):
        rows = schedule[schedule[column].str.casefold() == wanted.casefold()]
        if len(rows) == 1:
            return rows.iloc[0]
    offered = ", ".join(schedule["EventName"])
    raise FeedError(Reason.NOT_FOUND, f"There is no single {year} event called {wanted!r}. Choose one of {offered}.")
