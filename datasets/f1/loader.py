"""Calendars and sessions: stored on disk, or fetched by a separate process.

The process keeps the application responsive, reports progress and is killed at its deadline. Extracted sessions are stored
as NumPy arrays and JSON, without pickles, and open at once the next time.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import requests

from gdm_core.errors import DataError
from gdm_core.files import write_whole

from ..readers.source import refuse_damage
from ..storage import cache_dir, describe_write_error, file_lock, is_storage_error, move_aside
from .session import (
    CAR_CHANNELS,
    CarSamples,
    Corner,
    Driver,
    FeedError,
    LapTable,
    Reason,
    ReferenceLap,
    Session,
    Spell,
    known_compounds,
)  # fmt: skip
from .trials import FOUND_CORNERS, find_corners

Progress = Callable[[float, str], None]

FORMAT_VERSION = 6
FIRST_YEAR = 2018  # the feed has no earlier telemetry
FRESH_S = 12 * 3600.0
MAX_TURNS = 5  # maximum number of loads to wait for
PROJECT = Path(__file__).resolve().parents[2]
NO_CORNERS = "No corner data"
MOST_NAMED = 3  # stored sessions in an error message
TIMING_HOST = "livetiming"  # matches the service and its mirror
METRES_PER_UNIT = 0.1  # feed positions are in tenths of a metre
SECRETS = ("F1_USERNAME", "F1_PASSWORD")
UNREADABLE = (OSError, ValueError, LookupError, TypeError, EOFError, RuntimeError, struct.error, zipfile.BadZipFile)
DATED = re.compile(r"\d{4}-\d\d-\d\d_(.+)")
SESSION_WORDS = ("year", "event", "name", "circuit", "rotation", "simulated")
DRIVER_WORDS = ("code", "number", "name", "team", "colour")
LAP_ARRAYS = tuple(f.name for f in fields(LapTable) if f.name != "compound")


@dataclass(frozen=True)
class SessionSlot:
    """Scheduled session.

    name        such as "Sprint Qualifying"
    start_utc   start time in ISO 8601; "" if unknown
    """

    name: str
    start_utc: str


@dataclass(frozen=True)
class Event:
    """Race weekend.

    year, round, name   season, number in the season and name
    country, location   country and town
    date                last day, in ISO 8601; "" if unknown
    sessions            scheduled sessions
    """

    year: int
    round: int
    name: str
    country: str
    location: str
    date: str
    sessions: tuple[SessionSlot, ...]


# ---- on disk ----------------------------------------------------------------------------------------------------------
def session_path(year: int, event: str, session: str) -> Path:
    """Return the path of a session's stored arrays."""
    return cache_dir("formula1") / f"{year}_{_slug(event)}_{_slug(session)}.npz"


def schedule_path(year: int) -> Path:
    return cache_dir("formula1") / f"schedule_{year}.json"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.casefold()).strip("-") or "unnamed"


def write_session(session: Session, path: Path) -> None:
    """Write a session to one file: its arrays, and names and corners as JSON."""
    parts = [_arrays_of(driver) for driver in session.drivers]
    arrays: dict[str, Any] = {name: np.concatenate([one[name] for one in parts]) for name in parts[0]}
    header = {name: getattr(session, name) for name in SESSION_WORDS} | {
        "format_version": FORMAT_VERSION,
        "corners": [asdict(corner) for corner in session.corners],
        "notes": list(session.notes),
        "spells": [asdict(spell) for spell in session.spells],
        "track": list(session.track),
        "drivers": [
            {name: getattr(driver, name) for name in DRIVER_WORDS}
            | {"samples": driver.time.size, "raw": driver.raw.time.size, "compound": list(driver.laps.compound)}
            for driver in session.drivers
        ],
    }
    arrays["header"] = np.array(json.dumps(header))
    write_whole(path, lambda handle: np.savez(handle, **arrays))


def _arrays_of(driver: Driver) -> dict[str, Any]:
    """Return a driver's arrays by their names in the file; channels that were not sent are NaN."""
    found = {"time": driver.time, "position": driver.position, "lap": driver.lap.astype(np.int16)}
    for kind, sent in (("car", CarSamples(driver.time, driver.channels)), ("raw", driver.raw)):
        nothing = np.full(sent.time.size, np.nan, np.float32)
        found |= {f"{kind}_{name}": sent.channels.get(name, nothing) for name in CAR_CHANNELS}
    return found | {"raw_time": driver.raw.time} | {f"laps_{name}": getattr(driver.laps, name) for name in LAP_ARRAYS}


def read_session(path: Path) -> Session:
    """Read a stored session; raise DataError if the file is missing or damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays.pop("header")))
        if (version := header["format_version"]) != FORMAT_VERSION:
            raise DataError(f"{path} has format version {version}, not {FORMAT_VERSION}.")
        return _assemble(header, arrays)
    except UNREADABLE as error:
        raise DataError(f"{path} cannot be read ({error}).") from error


def _assemble(header: dict[str, Any], arrays: dict[str, Any]) -> Session:
    entries = header["drivers"]
    ends = {"raw": np.cumsum([entry["raw"] for entry in entries])}
    ends["laps"] = np.cumsum([len(entry["compound"]) for entry in entries])
    parts = {}
    for name, values in arrays.items():
        end = ends.get(name.partition("_")[0], np.cumsum([entry["samples"] for entry in entries]))
        if end[-1] != len(values):
            raise ValueError(f"{len(values)} values of {name} do not fit the header")
        parts[name] = np.split(values, end[:-1])
    drivers = []
    for k, entry in enumerate(entries):
        own = {name: values[k] for name, values in parts.items()}
        table = {name: own[f"laps_{name}"] for name in LAP_ARRAYS}
        drivers.append(
            Driver(
                **{name: entry[name] for name in DRIVER_WORDS},
                time=own["time"],
                position=own["position"],
                lap=own["lap"].astype(np.int64),
                channels={name: own[f"car_{name}"] for name in CAR_CHANNELS},
                laps=LapTable(**table, compound=known_compounds(entry["compound"])),
                car=CarSamples(own["raw_time"], {name: own[f"raw_{name}"] for name in CAR_CHANNELS}),
            )
        )
    return Session(
        **{name: header[name] for name in SESSION_WORDS},
        corners=tuple(Corner(**corner) for corner in header["corners"]),
        drivers=tuple(drivers),
        notes=tuple(header["notes"]),
        spells=tuple(Spell(**spell) for spell in header["spells"]),
        track=tuple(header["track"]),
    )


def read_or_move_aside(path: Path) -> tuple[Session | None, str]:
    """Read a stored session; move a file that cannot be used aside and return a note."""
    if not path.is_file():
        return None, ""
    try:
        return read_session(path), ""
    except DataError as error:
        aside = move_aside(path).name
        return None, f"The stored copy could not be used and is now {aside}; the session is loaded again. ({error})"


def stored_sessions() -> tuple[tuple[int, str, str], ...]:
    """Return year, event and name of sessions that open offline, latest season first."""
    found = list(_downloaded())
    for path in cache_dir("formula1").glob("*.npz"):
        with suppress(*UNREADABLE), np.load(path, allow_pickle=False) as file:  # load_session moves damaged files aside
            header = json.loads(str(file["header"]))
            found.append((int(header["year"]), str(header["event"]), str(header["name"])))
    return tuple(sorted(set(found), key=lambda entry: (-entry[0], *entry[1:])))


def _downloaded() -> Iterator[tuple[int, str, str]]:
    """Yield FastF1's downloads, such as 2025/2025-03-23_Chinese_Grand_Prix/2025-03-23_Race."""
    for timing in cache_dir("fastf1").glob("[0-9][0-9][0-9][0-9]/*/*/_extended_timing_data.ff1pkl"):
        event, session = (DATED.match(folder.name) for folder in (timing.parents[1], timing.parent))
        whole = all(timing.with_name(f"{name}.ff1pkl").is_file() for name in ("car_data", "position_data"))
        if event and session and whole:
            yield int(timing.parents[2].name), event[1].replace("_", " "), session[1].replace("_", " ")


def write_schedule(events: tuple[Event, ...], path: Path) -> None:
    text = json.dumps({"saved": time.time(), "events": [asdict(event) for event in events]})
    write_whole(path, lambda handle: handle.write(text.encode()))


def read_schedule(path: Path) -> tuple[tuple[Event, ...], float] | None:
    """Return the stored calendar and its age in seconds, or None if missing or damaged."""
    if not path.is_file():
        return None
    try:
        stored = json.loads(path.read_text())
        events = tuple(
            Event(**{**event, "sessions": tuple(SessionSlot(**slot) for slot in event["sessions"])})
            for event in stored["events"]
        )
        return events, max(0.0, time.time() - float(stored["saved"]))
    except (OSError, ValueError, KeyError, TypeError):
        move_aside(path)  # refetching takes a second, so users need no note
        return None


def corners_from(table: pd.DataFrame, reference: ReferenceLap) -> tuple[Corner, ...]:
    """Return numbered corners with their distance along the reference lap."""
    xy = table[["X", "Y"]].to_numpy(float) * METRES_PER_UNIT
    columns = (table[name].tolist() for name in ("Number", "Letter", "Angle"))
    return tuple(
        Corner(int(number), str(letter or ""), float(x), float(y), float(along), float(angle))
        for number, letter, angle, (x, y), along in zip(*columns, xy, reference.distance(xy), strict=True)
    )


def corners_file(session: Session) -> Path:
    """Return the path of the user's own corner table for this circuit."""
    return cache_dir("formula1") / f"corners_{re.sub(r'[^a-z0-9]+', '_', session.circuit.casefold())}.csv"


def corners_in_file(session: Session) -> tuple[Corner, ...]:
    """Read the user's corner table in feed units; return () if there is none."""
    path = corners_file(session)
    if not path.is_file():
        return ()
    needs = "It needs the columns Number, X, Y and Angle, and may have Letter."
    with refuse_damage(f"{path} is not a table of corners", needs):
        table = pd.read_csv(path)
        letters = table["Letter"].fillna("").tolist() if "Letter" in table else [""] * len(table)
        table = table[["Number", "X", "Y", "Angle"]].astype({"Number": int, "X": float, "Y": float, "Angle": float})
    return corners_from(table.assign(Letter=letters), session.reference)


def with_found_corners(session: Session) -> Session:
    """Return a session with its bends as corners, and a note that says so."""
    corners = find_corners(session)
    note = FOUND_CORNERS if corners else f"{NO_CORNERS} for {session.circuit}."
    note += f" {corners_file(session).name} (Number, X, Y, Angle) in the folder formula1 of your data can give them."
    earlier = (one for one in session.notes if not one.startswith(NO_CORNERS))
    return replace(session, corners=corners, notes=(*earlier, note))


# ---- loading ----------------------------------------------------------------------------------------------------------
def years() -> tuple[int, ...]:
    """Return the seasons with telemetry, latest first."""
    return tuple(range(datetime.now(UTC).year, FIRST_YEAR - 1, -1))


def schedule(year: int, deadline_s: float = 20.0, progress: Progress | None = None) -> tuple[Event, ...]:
    """Return the race weekends of a season.

    Stored calendars are reused: for past seasons always, for the current season up to 12 hours.

    year         season
    deadline_s   maximum loading time in seconds
    progress     called with the completed share, 0 to 1, and a sentence
    """
    if year not in years():
        raise DataError(f"There is no telemetry for {year}; choose a year from {FIRST_YEAR} to {years()[0]}.")
    path = schedule_path(year)
    stored = read_schedule(path)
    if stored is not None and (year < years()[0] or stored[1] < FRESH_S):
        return stored[0]
    where, request = f"the {year} calendar", {"task": "schedule", "year": year, "target": str(path)}
    try:
        _run(request | {"offline": False}, where, deadline_s, progress)
    except FeedError as error:
        if stored is not None:
            return stored[0]  # an old calendar is better than none
        if error.reason is not Reason.DEADLINE:
            raise
        with suppress(FeedError):
            _run(request | {"offline": True}, where, deadline_s, progress)
        if not path.is_file():
            raise
    fresh = read_schedule(path)
    if fresh is None:
        raise FeedError(Reason.CRASHED, f"The {year} calendar could not be stored in {path.parent}. Try again.")
    return fresh[0]


def is_stored(year: int, event: str, session: str) -> bool:
    """Return whether a session opens without FastF1 and without a network.

    year, event, session   as for `load_session`
    """
    return session_path(year, event, session).is_file()


def load_session(
    year: int,
    event: str,
    session: str,
    deadline_s: float = 180.0,
    progress: Progress | None = None,
    cancel: threading.Event | None = None,
    offline: bool = False,
) -> Session:
    """Load a session by event and session name, from disk or through FastF1.

    Stored sessions open at once. Other loads run one at a time on this machine; the deadline starts with the load.
    Raises FeedError, whose `reason` gives the cause.

    year         season
    event        such as "Chinese Grand Prix"
    session      such as "Race"
    deadline_s   maximum loading time in seconds
    progress     called in the caller's thread with the completed share, 0 to 1, and a sentence
    cancel       set this event to stop the load
    offline      use only stored downloads
    """
    path, where = session_path(year, event, session), f"{event} {year}, {session}"

    def in_turn() -> None:
        if cancel is not None and cancel.is_set():
            raise _cancelled(where)
        if progress is not None:
            progress(0.0, "waiting for another session to be loaded")

    found, note = None, ""
    if path.is_file():
        with suppress(DataError):  # damaged files are moved aside under the lock
            found = read_session(path)
    if found is not None and not found.corners:
        found = with_found_corners(found)
    if found is None:
        lock = cache_dir("formula1") / ".loading.lock"
        with file_lock(lock, MAX_TURNS * deadline_s, "Loading another Formula 1 session", in_turn):
            found, note = read_or_move_aside(path)  # another process may have loaded it meanwhile
            if found is None:
                request = {"task": "session", "year": year, "event": event, "session": session, "target": str(path)}
                _run(request | {"offline": offline}, where, deadline_s, progress, cancel)
                found = read_session(path)
            if not found.corners or any(FOUND_CORNERS in text for text in found.notes):
                with suppress(OSError):  # read-only folder
                    path.unlink(missing_ok=True)  # the next load requests the corners again
    if progress is not None:
        progress(1.0, "ready")
    return replace(found, notes=(note, *found.notes)) if note else found


def _run(
    request: dict[str, Any],
    where: str,
    deadline_s: float,
    progress: Progress | None,
    cancel: threading.Event | None = None,
) -> None:
    """Run the loading process: forward progress, enforce the deadline, raise reported errors."""
    request = request | {"folder": str(cache_dir("fastf1")), "deadline_s": deadline_s}
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")])}
    cancel, until, latest = cancel or threading.Event(), time.monotonic() + deadline_s, "starting"
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints,
        subprocess.Popen(
            [sys.executable, "-m", "datasets.f1.feed", json.dumps(request)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            encoding="utf-8",
            cwd=PROJECT,
            env=environment,
        ) as process,
    ):
        threading.Thread(target=_kill_in_time, args=(process, until, cancel), daemon=True).start()
        try:
            for line in process.stdout or ():
                answer = json.loads(line)
                if answer["kind"] == "done":
                    return
                if answer["kind"] == "error":
                    raise FeedError(Reason(answer["reason"]), answer["message"])
                latest = answer["text"]
                if progress is not None:
                    progress(answer["share"], latest)
        finally:
            process.kill()
        if cancel.is_set():
            raise _cancelled(where)
        if time.monotonic() >= until:
            raise FeedError(
                Reason.DEADLINE,
                f"Loading {where} took longer than {deadline_s:.0f} s and was stopped (it was {latest}). The service "
                "does not answer or the network is slow. Try again, or choose a session that is stored already.",
            )
        raise FeedError(
            Reason.CRASHED,
            f"Loading {where} stopped unexpectedly (exit code {process.wait()}: {_last_line(complaints)}). "
            f"Try again; if it stops again, delete the folder {cache_dir('fastf1')}.",
        )


def _kill_in_time(process: subprocess.Popen[str], until: float, cancel: threading.Event) -> None:
    """Kill the loading process at its deadline, or once `cancel` is set."""
    while process.poll() is None and time.monotonic() < until:
        if cancel.wait(0.1):
            break
    process.kill()


def _cancelled(where: str) -> FeedError:
    return FeedError(Reason.CANCELLED, f"Loading {where} was cancelled. Choose it again to load it.")


def _last_line(complaints: IO[str]) -> str:
    complaints.seek(0)
    lines = [line.strip() for line in complaints.read().splitlines() if line.strip()]
    return redact(lines[-1][:300]) if lines else "no message"


def redact(text: str) -> str:
    """Remove the account's name and password from a text."""
    for name in SECRETS:
        secret = os.environ.get(name, "")
        if len(secret) > 2:
            text = text.replace(secret, "***")
    return text


def explain_failure(
    where: str, reason: Reason, why: str, errors: Sequence[BaseException], *, offline: bool, refused: bool
) -> FeedError:
    """Return an error with the likeliest cause: storage, network, account, then feed.

    errors    exceptions that FastF1 logged
    offline   whether the network was not asked
    refused   whether the timing service refused the account
    """
    if full := next((error for error in errors if is_storage_error(error)), None):
        return FeedError(Reason.STORAGE, f"{where} could not be loaded. {describe_write_error(full)}")
    if offline or any(map(_is_unreachable, errors)):
        cause = "the network was not asked" if offline else "the timing service cannot be reached"
        stored = [f"{event} {year}, {name}" for year, event, name in stored_sessions()[:MOST_NAMED]]
        known = "".join(f"{one}; " for one in stored) + "or " * bool(stored)
        advice = f"connect and try again, or open {known}a simulated race."
        return FeedError(Reason.NO_NETWORK, f"{where} is not stored, and {cause}: {advice}")
    if refused:
        advice = ". Set the environment variables F1_USERNAME and F1_PASSWORD"
        if all(map(os.environ.get, SECRETS)):
            advice = ", and refused the one in F1_USERNAME and F1_PASSWORD. Correct them"
        return FeedError(
            Reason.ACCOUNT,
            f"{where} could not be loaded: the timing service wants a Formula 1 account{advice} where the application is "
            "started, restart it, then try again.",
        )
    return FeedError(
        reason,
        f"{where}: {why}. It may not have been held, or may not be published yet. Try again later or choose another.",
    )


def _is_unreachable(error: BaseException) -> bool:
    """Return whether an error says that the timing service is unreachable; ignore other services."""
    if not isinstance(error, requests.ConnectionError | requests.Timeout):
        return False
    return TIMING_HOST in str(getattr(error.request, "url", None) or TIMING_HOST)
