"""Storage of extracted sessions and calendars as NumPy arrays and JSON, without pickles."""

from __future__ import annotations

import json
import re
import struct
import time
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from gdm_core.errors import DataError
from gdm_core.files import write_whole

from ..storage import cache_dir, move_aside
from .event import Event, SessionSlot
from .session import CAR_CHANNELS, CarSamples, Corner, Driver, LapTable, Session, Spell

FORMAT_VERSION = 6
UNREADABLE = (OSError, ValueError, LookupError, TypeError, EOFError, RuntimeError, struct.error, zipfile.BadZipFile)
DATED = re.compile(r"\d{4}-\d\d-\d\d_(.+)")
SESSION_WORDS = ("year", "event", "name", "circuit", "rotation", "simulated")
DRIVER_WORDS = ("code", "number", "name", "team", "colour")
LAP_ARRAYS = tuple(f.name for f in fields(LapTable) if f.name != "compound")


def session_path(year: int, event: str, session: str) -> Path:
    """Return the path of a session's stored arrays."""
    return cache_dir("formula1") / f"{year}_{_slug(event)}_{_slug(session)}.npz"


def schedule_path(year: int) -> Path:
    return cache_dir("formula1") / f"schedule_{year}.json"


def write_session(session: Session, path: Path) -> None:
    """Write a session to one file: its arrays, and names and corners as JSON."""
    drivers = session.drivers
    arrays: dict[str, Any] = {
        "time": np.concatenate([d.time for d in drivers]),
        "position": np.concatenate([d.position for d in drivers]),
        "lap": np.concatenate([d.lap for d in drivers]).astype(np.int16),
    }
    for name in CAR_CHANNELS:
        sent = [d.channels.get(name, np.full(d.time.size, np.nan, np.float32)) for d in drivers]
        arrays[f"car_{name}"] = np.concatenate(sent)
    raw = [d.raw for d in drivers]
    arrays["raw_time"] = np.concatenate([car.time for car in raw])
    for name in CAR_CHANNELS:
        sent = [car.channels.get(name, np.full(car.time.size, np.nan, np.float32)) for car in raw]
        arrays[f"raw_{name}"] = np.concatenate(sent)
    for name in LAP_ARRAYS:
        arrays[f"laps_{name}"] = np.concatenate([getattr(d.laps, name) for d in drivers])
    header = {
        "format_version": FORMAT_VERSION,
        "corners": [asdict(corner) for corner in session.corners],
        "notes": list(session.notes),
        "spells": [asdict(spell) for spell in session.spells],
        "track": list(session.track),
        "drivers": [
            {name: getattr(d, name) for name in DRIVER_WORDS}
            | {"samples": d.time.size, "raw": car.time.size, "compound": list(d.laps.compound)}
            for d, car in zip(drivers, raw, strict=True)
        ],
    } | {name: getattr(session, name) for name in SESSION_WORDS}
    arrays["header"] = np.array(json.dumps(header))
    write_whole(path, lambda handle: np.savez(handle, **arrays))


def stored_sessions() -> tuple[tuple[int, str, str], ...]:
    """Return year, event and name of sessions that open offline, latest season first."""
    found = list(_downloaded())
    for path in cache_dir("formula1").glob("*.npz"):
        try:
            with np.load(path, allow_pickle=False) as file:
                header = json.loads(str(file["header"]))
            found.append((int(header["year"]), str(header["event"]), str(header["name"])))
        except UNREADABLE:
            continue  # load_session moves damaged files aside
    return tuple(sorted(set(found), key=lambda entry: (-entry[0], *entry[1:])))


def _downloaded() -> Iterator[tuple[int, str, str]]:
    """Yield FastF1's downloads, such as 2025/2025-03-23_Chinese_Grand_Prix/2025-03-23_Race."""
    for timing in cache_dir("fastf1").glob("[0-9][0-9][0-9][0-9]/*/*/_extended_timing_data.ff1pkl"):
        event, session = (DATED.match(folder.name) for folder in (timing.parents[1], timing.parent))
        if (
            event
            and session
            and all(timing.with_name(name).is_file() for name in ("car_data.ff1pkl", "position_data.ff1pkl"))
        ):
            yield int(timing.parents[2].name), event[1].replace("_", " "), session[1].replace("_", " ")


def read_session(path: Path) -> Session:
    """Read a stored session; raise DataError if the file is damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays["header"]))
        if (version := header["format_version"]) != FORMAT_VERSION:
            raise DataError(f"{path} has format version {version}, not {FORMAT_VERSION}.")
        return _assemble(header, arrays)
    except UNREADABLE as error:
        raise DataError(f"{path} cannot be read ({error}).") from error


def read_or_move_aside(path: Path) -> tuple[Session | None, str]:
    """Read a stored session; move a file that cannot be used aside and return a note."""
    if not path.is_file():
        return None, ""
    try:
        return read_session(path), ""
    except DataError as error:
        aside = move_aside(path)
        return (
            None,
            f"The stored copy could not be used and is now {aside.name}; the session is loaded again. ({error})",
        )


def write_schedule(events: tuple[Event, ...], path: Path) -> None:
    text = json.dumps({"format_version": FORMAT_VERSION, "saved": time.time(), "events": [asdict(e) for e in events]})
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


def _assemble(header: dict[str, Any], arrays: dict[str, Any]) -> Session:
    drivers = []
    sample = lap = sent = 0
    for entry in header["drivers"]:
        samples, laps = slice(sample, sample + entry["samples"]), slice(lap, lap + len(entry["compound"]))
        raw = slice(sent, sent + entry["raw"])
        sample, lap, sent = samples.stop, laps.stop, raw.stop
        table = LapTable(
            **{name: arrays[f"laps_{name}"][laps] for name in LAP_ARRAYS}, compound=tuple(entry["compound"])
        )
        drivers.append(
            Driver(
                **{name: entry[name] for name in DRIVER_WORDS},
                time=arrays["time"][samples],
                position=arrays["position"][samples],
                lap=arrays["lap"][samples].astype(np.int64),
                channels={name: arrays[f"car_{name}"][samples] for name in CAR_CHANNELS},
                laps=table,
                car=CarSamples(arrays["raw_time"][raw], {name: arrays[f"raw_{name}"][raw] for name in CAR_CHANNELS}),
            )
        )
    if sample != arrays["time"].size or lap != arrays["laps_number"].size:
        raise ValueError(f"{arrays['time'].size} samples and {arrays['laps_number'].size} laps do not fit the header")
    return Session(
        **{name: header[name] for name in SESSION_WORDS},
        corners=tuple(Corner(**corner) for corner in header["corners"]),
        drivers=tuple(drivers),
        notes=tuple(header["notes"]),
        spells=tuple(Spell(**spell) for spell in header["spells"]),
        track=tuple(header["track"]),
    )


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.casefold()).strip("-") or "unnamed"
