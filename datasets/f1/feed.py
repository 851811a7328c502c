"""Adapter for FastF1, and the loading process: `python -m datasets.f1.feed REQUEST`.

FastF1 has no time limits and may exit the process, so it runs in this process only. The request is JSON; answers are JSON
lines on standard output: progress, then a result or an error. FastF1's own output goes to standard error.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import requests
from fastf1 import Cache, get_event_schedule, set_auth_method
from fastf1.exceptions import DataNotLoadedError, RateLimitExceededError
from fastf1.mvapi import get_circuit_info

from gdm_core.errors import DataError

from ..readers.source import brief
from ..readers.timing import interpolate
from ..storage import StorageError, describe_write_error, is_storage_error
from .laps import RACES, parts_of
from .loader import (
    METRES_PER_UNIT,
    Event,
    Progress,
    SessionSlot,
    corners_from,
    corners_in_file,
    explain_failure,
    redact,
    with_found_corners,
    write_schedule,
    write_session,
)  # fmt: skip
from .session import (
    LARGEST_GAP_S,
    NEUTRALISED,
    STEPPED,
    CarSamples,
    Driver,
    FeedError,
    LapTable,
    Reason,
    Session,
    Spell,
    known_compounds,
)  # fmt: skip

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
SENSELESS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)  # raised by malformed tables
GRACE_S = 10.0

# column and maximum of each channel; larger values, such as throttle 104, mark a lost signal
COLUMNS = {
    "speed": ("Speed", 450), "throttle": ("Throttle", 100), "brake": ("Brake", 1), "gear": ("nGear", 8), "rpm": ("RPM", 20000),
    "drs": ("DRS", 14),
}  # fmt: skip
STATUS = {"2": "yellow", "4": "safety car", "5": "red flag", "6": "virtual safety car", "7": "virtual safety car"}
OPTIONAL = ("Stint", "TyreLife", "SpeedST", "Part", "Deleted")  # columns of laps
DRS_OPEN = 10  # 10, 12 and 14 mean open; 8 means available
DRS_OPEN_REBUILT = 1  # feeds rebuilt from lap telemetry send 0 and 1


class FeedLog(logging.Handler):
    """Log handler that collects FastF1's progress and hidden exceptions."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(logging.DEBUG)
        self._progress, self._furthest = progress, 0.0
        self.errors: list[BaseException] = []
        self.sign_in_failed = False
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

    def explain(self, where: str, reason: Reason, why: str) -> FeedError:
        """Return the error of a failed load with its likeliest cause."""
        return explain_failure(where, reason, why, self.errors, offline=self.offline, refused=self.sign_in_failed)


def rate_limited(where: str, error: Exception) -> FeedError:
    return FeedError(
        Reason.RATE_LIMIT,
        f"Loading {where} was stopped by the data service's request limit ({error}). "
        "Wait an hour; sessions that are stored already still open.",
    )


def open_feed(folder: Path, progress: Progress) -> FeedLog:
    """Configure FastF1's cache and log."""
    log = FeedLog(progress)
    logger = logging.getLogger("fastf1")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(log)
    set_auth_method("password")  # the other method waits for a browser
    Cache.configure(cache_dir=str(folder))
    return log


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
        _load_source(source, where, log)
        return _extract(source, year, row["EventName"], where, log, offline)
    except DataError:
        raise
    except SENSELESS as error:
        why = f"the feed's answer makes no sense ({type(error).__name__}: {brief(error)})"
        raise log.explain(where, Reason.NO_LAPS, why) from error


def _load_source(source: Any, where: str, log: FeedLog) -> None:
    try:
        source.load(laps=True, telemetry=True, weather=True, messages=True)
    except RateLimitExceededError as error:
        raise rate_limited(where, error) from error
    except SystemExit as error:  # FastF1 exits the process after an empty download
        raise log.explain(where, Reason.NO_LAPS, "the feed gave an empty answer") from error
    except requests.RequestException as error:
        log.errors.append(error)
        raise log.explain(where, Reason.NO_LAPS, "the feed could not be read") from error


def _extract(source: Any, year: int, event: str, where: str, log: FeedLog, offline: bool) -> Session:
    tables = [_if_loaded(source, name) for name in ("laps", "pos_data", "car_data")]
    if any(table is None for table in tables) or not len(tables[0]):
        raise log.explain(where, Reason.NO_LAPS, "the feed has no laps for it")
    log.progress(0.8, "putting the drivers' samples together")
    laps, positions, cars = tables[0].assign(Part=parts_of(tables[0])), *tables[1:]
    found = [driver_from(row, laps, positions, cars) for _, row in in_order_of_result(source.results).iterrows()]
    drivers, zeros = zip(*found, strict=True)
    if not any(driver.has_position for driver in drivers):
        raise log.explain(where, Reason.NO_POSITION, "the feed has no car positions during its laps")
    circuit = (source.session_info or {}).get("Meeting", {}).get("Circuit", {})
    notes = remarks_on_result(source.results) if source.name in RACES else []
    if dropped := sum(zeros):
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
        drivers=drivers,
        notes=tuple(notes),
        spells=spells_of(_if_loaded(source, "track_status"), weather),
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


def _find_event(schedule: Any, year: int, name: str) -> Any:
    """Find an event by exact name, country or town; a guess could load another race."""
    for column in ("EventName", "Country", "Location"):
        rows = schedule[schedule[column].str.casefold() == name.casefold()]
        if len(rows) == 1:
            return rows.iloc[0]
    offered = ", ".join(schedule["EventName"])
    raise FeedError(Reason.NOT_FOUND, f"There is no single {year} event called {name!r}. Choose one of {offered}.")


# ---- tables to arrays -------------------------------------------------------------------------------------------------
def driver_from(
    result: Any, laps: pd.DataFrame, positions: Mapping[str, pd.DataFrame], cars: Mapping[str, pd.DataFrame]
) -> tuple[Driver, int]:
    """Return a driver's arrays and the number of dropped samples at (0, 0)."""
    number = str(result["DriverNumber"])
    table = lap_table(laps[laps["DriverNumber"] == number])
    time, position, lap, zeros = samples_in_laps(positions.get(number), table)
    sent = raw_samples(cars.get(number), drs_open(cars))
    colour = str(result.get("TeamColor") or "")
    driver = Driver(
        code=str(result.get("Abbreviation") or number),
        number=number,
        name=str(result.get("FullName") or result.get("BroadcastName") or number),
        team=str(result.get("TeamName") or ""),
        colour=f"#{colour}" if len(colour) == 6 else "",
        time=time,
        position=position,
        lap=lap,
        channels=car_channels(sent, time),
        laps=table,
        car=during_laps(sent, table),
    )
    return driver, zeros


def in_order_of_result(results: pd.DataFrame) -> pd.DataFrame:
    """Sort results by classification, unclassified drivers last; without one, keep feed order."""
    return results.iloc[np.argsort(_classified(results), kind="stable")]


def remarks_on_result(results: pd.DataFrame) -> list[str]:
    """Return notes on disqualified drivers or a missing classification."""
    if np.isnan(_classified(results)).all():
        return ["Official classification unavailable; order: on-track finishing order."]
    out = results["Abbreviation"][results["ClassifiedPosition"] == "D"]
    return [f"Disqualified: {', '.join(out)}."] if len(out) else []


def _classified(results: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Return the official position of each driver, NaN if unclassified."""
    position = results.reindex(columns=["ClassifiedPosition"])["ClassifiedPosition"]
    return pd.to_numeric(position, errors="coerce").to_numpy(float)


def lap_table(rows: pd.DataFrame) -> LapTable:
    """Return a driver's laps in order; fill missing times from neighbouring laps."""
    rows = rows.sort_values("LapNumber")
    rows = rows.reindex(columns=rows.columns.union(list(OPTIONAL)))
    start, end = _seconds(rows["LapStartTime"]), _seconds(rows["Time"])
    before = np.append(np.nan, end[:-1])
    start = np.where(np.isfinite(start), start, np.where(np.isfinite(before), before, _seconds(rows["PitOutTime"])))
    end = np.where(np.isfinite(end), end, np.append(start[1:], np.nan))
    keep = np.isfinite(start) & np.isfinite(end) & (end > start)
    start, end, rows = start[keep], end[keep], rows[keep]
    stint, tyre_age, trap, part = (
        rows[name].to_numpy(float, na_value=np.nan) for name in ("Stint", "TyreLife", "SpeedST", "Part")
    )
    status = rows["TrackStatus"].fillna("").astype(str)
    return LapTable(
        number=rows["LapNumber"].to_numpy(np.int64),
        start=start,
        end=end,
        seconds=_seconds(rows["LapTime"]),
        sectors=np.column_stack([_seconds(rows[f"Sector{i}Time"]) for i in (1, 2, 3)]),
        pit_in=rows["PitInTime"].notna().to_numpy(),
        pit_out=rows["PitOutTime"].notna().to_numpy(),
        neutralised=np.array([not NEUTRALISED.isdisjoint(codes) for codes in status], dtype=bool),
        accurate=rows["IsAccurate"].fillna(False).to_numpy(bool),
        compound=known_compounds(rows["Compound"].fillna("").astype(str)),
        stint=np.nan_to_num(stint).astype(np.int64),
        tyre_age=tyre_age,
        part=np.nan_to_num(part).astype(np.int64),
        speed_trap=trap,
        deleted=rows["Deleted"].eq(True).to_numpy(bool),
    )


def spells_of(status: pd.DataFrame | None, weather: pd.DataFrame | None) -> tuple[Spell, ...]:
    """Return flags, safety cars and rain in order; open periods end with the tables."""
    found = []
    if status is not None and len(status):
        times, codes = _seconds(status["Time"]), status["Status"].astype(str).tolist()
        for start, end, code in zip(times, [*times[1:], times[-1]], codes, strict=True):
            if code in STATUS and end > start:
                found.append(Spell(float(start), float(end), STATUS[code]))
    if weather is not None and len(weather):
        times, wet = _seconds(weather["Time"]), weather["Rainfall"].fillna(False).to_numpy(bool)
        edges = np.flatnonzero(np.diff(np.concatenate([[False], wet, [False]]).astype(int)))
        for first, after in zip(edges[::2], edges[1::2], strict=True):
            found.append(Spell(float(times[first]), float(times[min(after, len(times) - 1)]), "rain"))
    return tuple(sorted(found, key=lambda spell: spell.start))


def samples_in_laps(
    table: pd.DataFrame | None, laps: LapTable
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float32], npt.NDArray[np.int64], int]:
    """Return times [T], positions [T, 2], lap numbers [T] and the number of dropped zeros."""
    if table is None or len(table) == 0 or len(laps) == 0:
        return np.empty(0), np.empty((0, 2), np.float32), np.empty(0, np.int64), 0
    time = _seconds(table["SessionTime"])
    xy = table[["X", "Y"]].to_numpy(float)
    row = np.searchsorted(laps.start, time, side="right") - 1  # [T]
    inside = (row >= 0) & (time <= laps.end[row])
    lost = (xy == 0).all(axis=1)
    keep = inside & ~lost & np.isfinite(xy).all(axis=1) & np.append(True, np.diff(time) > 0)
    position = (xy[keep] * METRES_PER_UNIT).astype(np.float32)
    return time[keep], position, laps.number[row[keep]], int((inside & lost).sum())


def drs_open(cars: Mapping[str, pd.DataFrame]) -> int:
    """Return the lowest code that means open DRS in this session."""
    codes = [table["DRS"].to_numpy(float) for table in cars.values() if "DRS" in table and len(table)]
    rebuilt = bool(codes) and np.nanmax(np.concatenate(codes)) <= DRS_OPEN_REBUILT
    return DRS_OPEN_REBUILT if rebuilt else DRS_OPEN


def raw_samples(table: pd.DataFrame | None, drs_code: int = DRS_OPEN) -> CarSamples:
    """Return the car channels as sent, with DRS open from `drs_code`; lost signals are NaN."""
    if table is None or len(table) == 0:
        return CarSamples(np.empty(0), {})
    channels = {}
    for name, (column, most) in COLUMNS.items():
        if column not in table:
            continue
        values = table[column].to_numpy(float)
        good = np.isfinite(values) & (values >= 0) & (values <= most)
        if name == "drs":
            values = (values >= drs_code).astype(float)
        if good.any():
            channels[name] = np.where(good, values, np.nan)
    return CarSamples(_seconds(table["SessionTime"]), channels)


def during_laps(sent: CarSamples, laps: LapTable) -> CarSamples:
    """Return the samples from the first lap to the last."""
    if not len(laps):
        return CarSamples(np.empty(0), {})
    kept = slice(*np.searchsorted(sent.time, [laps.start.min(), laps.end.max()]))
    return CarSamples(
        sent.time[kept], {name: values[kept].astype(np.float32) for name, values in sent.channels.items()}
    )


def car_channels(sent: CarSamples, time: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[np.float32]]:
    """Return channels [T] at the given times; NaN in gaps over two seconds."""
    channels, gap = {}, LARGEST_GAP_S
    for name, values in sent.channels.items():
        good = np.isfinite(values)
        channels[name] = interpolate(time, sent.time[good], values[good], gap, gap, name in STEPPED)
    return channels


# ---- corners ----------------------------------------------------------------------------------------------------------
def _with_corners(session: Session, key: int | None, log: FeedLog, offline: bool) -> Session:
    """Return the session with corners from the feed, or else from the user's file or the track's shape."""
    found = None if key is None else _circuit(session.year, key, offline, log)
    if found is not None and len(found.corners):
        return replace(session, rotation=float(found.rotation), corners=corners_from(found.corners, session.reference))
    if corners := corners_in_file(session):
        return replace(session, corners=corners)
    return with_found_corners(session)


def _circuit(year: int, key: int, offline: bool, log: FeedLog) -> Any:
    Cache.offline_mode(offline)
    try:
        return get_circuit_info(year=year, circuit_key=int(key))
    except RateLimitExceededError as error:
        raise rate_limited("the corners", error) from error
    except (requests.RequestException, ValueError, TypeError, AttributeError) as error:
        log.errors.append(error)  # corners are optional; the session's notes report their absence
        return None


def _seconds(column: pd.Series) -> npt.NDArray[np.float64]:
    return column.dt.total_seconds().to_numpy(float)


# ---- the loading process ----------------------------------------------------------------------------------------------
def main(argument: str) -> int:
    """Carry out a request; return 0 if it was answered, even with an expected error."""
    request, answers = json.loads(argument), sys.stdout
    # ends a hung load if the application dies first
    faulthandler.dump_traceback_later(request["deadline_s"] + GRACE_S, exit=True)
    try:
        with redirect_stdout(sys.stderr):
            load(request, lambda share, text: _send(answers, kind="progress", share=share, text=text))
    except FeedError as error:
        _send(answers, kind="error", reason=error.reason.value, message=str(error))
    except Exception as error:
        if not is_storage_error(error):
            raise
        message = str(error) if isinstance(error, StorageError) else describe_write_error(error)
        _send(answers, kind="error", reason=Reason.STORAGE.value, message=message)
    else:
        _send(answers, kind="done")
    return 0


def load(request: dict[str, Any], progress: Progress) -> None:
    """Fetch a session or calendar and store it."""
    progress(0.0, "starting FastF1")
    log = open_feed(Path(request["folder"]), progress)
    target, offline = Path(request["target"]), request["offline"]
    if request["task"] == "schedule":
        write_schedule(fetch_schedule(request["year"], log, offline), target)
        return
    session = fetch_session(request["year"], request["event"], request["session"], log, offline)
    progress(0.95, "storing the extracted arrays")
    write_session(session, target)


def _send(answers: IO[str], **answer: Any) -> None:
    clean = {key: redact(value) if isinstance(value, str) else value for key, value in answer.items()}
    answers.write(json.dumps(clean) + "\n")
    answers.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
