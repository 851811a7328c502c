"""Loading of calendars and sessions in a separate process, which keeps the application responsive.

The process has no terminal, reports progress and is killed at its deadline. Extracted sessions are stored on disk and
open at once the next time.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from gdm_core.errors import DataError

from ..storage import cache_dir, file_lock
from . import cache
from .event import Event
from .session import FeedError, Reason, Session
from .worker import redact

Progress = Callable[[float, str], None]

FIRST_YEAR = 2018  # the feed has no earlier telemetry
FRESH_S = 12 * 3600.0
MAX_TURNS = 5  # maximum number of loads to wait for
PROJECT = Path(__file__).resolve().parents[2]


def years() -> tuple[int, ...]:
    """Return the seasons with telemetry, latest first."""
    return tuple(range(datetime.now(UTC).year, FIRST_YEAR - 1, -1))


def schedule(
    year: int, deadline_s: float = 20.0, progress: Progress | None = None, offline: bool = False
) -> tuple[Event, ...]:
    """Return the race weekends of a season.

    Stored calendars are reused: for past seasons always, for the current season up to 12 hours.

    year         season
    deadline_s   maximum loading time in seconds
    progress     called with the completed share, 0 to 1, and a sentence
    offline      use only stored downloads
    """
    if year not in years():
        raise DataError(f"There is no telemetry for {year}; choose a year from {FIRST_YEAR} to {years()[0]}.")
    path = cache.schedule_path(year)
    stored = cache.read_schedule(path)
    if stored is not None and (year < years()[0] or stored[1] < FRESH_S or offline):
        return stored[0]
    request = {"task": "schedule", "year": year, "target": str(path), "offline": offline}
    try:
        _run(request, f"the {year} calendar", deadline_s, progress, None)
    except FeedError as error:
        if stored is not None:
            return stored[0]  # an old calendar is better than none
        if error.reason is not Reason.DEADLINE or offline:
            raise
        try:
            _run(request | {"offline": True}, f"the {year} calendar", deadline_s, progress, None)
        except FeedError:
            raise error from None
    fresh = cache.read_schedule(path)
    if fresh is None:
        raise FeedError(Reason.CRASHED, f"The {year} calendar could not be stored in {path.parent}. Try again.")
    return fresh[0]


def is_stored(year: int, event: str, session: str) -> bool:
    """Return whether a session opens without FastF1 and without a network.

    year, event, session   as for `load_session`
    """
    return cache.session_path(year, event, session).is_file()


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
    path = cache.session_path(year, event, session)
    where = f"{event} {year}, {session}"

    def in_turn() -> None:
        if cancel is not None and cancel.is_set():
            raise _cancelled(where)
        if progress is not None:
            progress(0.0, "waiting for another session to be loaded")

    found, note = None, ""
    if path.is_file():
        with suppress(DataError):  # damaged files are moved aside under the lock
            found = cache.read_session(path)
    lock = cache_dir("formula1") / ".loading.lock"
    if found is None:
        with file_lock(lock, MAX_TURNS * deadline_s, "Loading another Formula 1 session", in_turn):
            found, note = cache.read_or_move_aside(path)  # another process may have loaded it meanwhile
            damaged = ""
            if found is None:
                request = {"task": "session", "year": year, "event": event, "session": session}
                _run(request | {"target": str(path), "offline": offline}, where, deadline_s, progress, cancel)
                found, damaged = cache.read_or_move_aside(path)
            if found is None:
                raise FeedError(Reason.CRASHED, f"{where}: {damaged or 'the loaded arrays are missing.'} Try again.")
            if not found.corners:
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
    cancel: threading.Event | None,
) -> None:
    """Run the loading process: forward progress, enforce the deadline, raise reported errors."""
    request = request | {"folder": str(cache_dir("fastf1")), "deadline_s": deadline_s}
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")])}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints:
        process = subprocess.Popen(
            [sys.executable, "-m", "datasets.f1.worker", json.dumps(request)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            encoding="utf-8",
            cwd=PROJECT,
            env=environment,
        )
        try:
            answer = _listen(process, where, deadline_s, progress, cancel)
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if answer is None:
            raise FeedError(
                Reason.CRASHED,
                f"Loading {where} stopped unexpectedly (exit code {process.returncode}: {_last_line(complaints)}). "
                "Try again; if it stops again, clear the FastF1 downloads.",
            )
    if answer["kind"] == "error":
        raise FeedError(Reason(answer["reason"]), answer["message"])


def _listen(
    process: subprocess.Popen[str],
    where: str,
    deadline_s: float,
    progress: Progress | None,
    cancel: threading.Event | None,
) -> dict[str, Any] | None:
    """Return the final answer of the process, or None if it ends without one."""
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        with suppress(ValueError):  # the stream closes when the load is stopped
            for line in process.stdout or ():
                lines.put(line)
            lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    until, latest = time.monotonic() + deadline_s, "starting"
    while True:
        if cancel is not None and cancel.is_set():
            raise _cancelled(where)
        left = until - time.monotonic()
        if left <= 0:
            raise FeedError(
                Reason.DEADLINE,
                f"Loading {where} took longer than {deadline_s:.0f} s and was stopped (it was {latest}). The service "
                "does not answer or the network is slow. Try again, or choose a session that is stored already.",
            )
        try:
            line = lines.get(timeout=min(left, 0.1))
        except queue.Empty:
            continue
        if line is None:
            return None
        answer = json.loads(line)
        if answer["kind"] != "progress":
            return answer
        latest = answer["text"]
        if progress is not None:
            progress(answer["share"], latest)


def _cancelled(where: str) -> FeedError:
    return FeedError(Reason.CANCELLED, f"Loading {where} was cancelled. Choose it again to load it.")


def _last_line(complaints: IO[str]) -> str:
    complaints.seek(0)
    lines = [line.strip() for line in complaints.read().splitlines() if line.strip()]
    return redact(lines[-1][:300]) if lines else "no message"
