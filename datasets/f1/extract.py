"""Conversion of the feed's tables to arrays: samples, car channels, laps, flags and corners."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..readers.source import refuse_damage
from ..readers.timing import interpolate
from ..storage import cache_dir
from .session import NEUTRALISED, CarSamples, Corner, Driver, LapTable, Session, Spell

if TYPE_CHECKING:
    from .track import ReferenceLap

METRES_PER_UNIT = 0.1  # feed positions are in tenths of a metre
LARGEST_CAR_GAP_S = 2.0

# column and maximum of each channel; larger values, such as throttle 104, mark a lost signal
COLUMNS = {
    "speed": ("Speed", 450), "throttle": ("Throttle", 100), "brake": ("Brake", 1), "gear": ("nGear", 8), "rpm": ("RPM", 20000),
    "drs": ("DRS", 14),
}  # fmt: skip
STATUS = {"2": "yellow", "4": "safety car", "5": "red flag", "6": "virtual safety car", "7": "virtual safety car"}
STEPPED = frozenset({"brake", "gear", "drs"})
DRS_OPEN = 10  # 10, 12 and 14 mean open; 8 means available
DRS_OPEN_REBUILT = 1  # feeds rebuilt from lap telemetry send 0 and 1


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
    places = _classified(results)
    return results.iloc[np.argsort([place or len(results) + 1 for place in places], kind="stable")]


def remarks_on_result(results: pd.DataFrame) -> list[str]:
    """Return notes on disqualified drivers or a missing classification."""
    names = results["Abbreviation"].fillna("").astype(str).tolist() if "Abbreviation" in results else []
    if not any(_classified(results)):
        return ["Official classification unavailable; order: on-track finishing order."]
    out = [name for name, said in zip(names, results["ClassifiedPosition"], strict=True) if str(said) == "D"]
    return [f"Disqualified: {', '.join(out)}."] if out else []


def _classified(results: pd.DataFrame) -> list[int]:
    """Return the official position of each driver, 0 if unclassified."""
    if "ClassifiedPosition" not in results:
        return [0] * len(results)
    said = results["ClassifiedPosition"].fillna("").astype(str)
    return [int(float(text)) if text.replace(".0", "").isdigit() else 0 for text in said]


def lap_table(rows: pd.DataFrame) -> LapTable:
    """Return a driver's laps in order; fill missing times from neighbouring laps."""
    rows = rows.sort_values("LapNumber")
    start, end = _seconds(rows["LapStartTime"]), _seconds(rows["Time"])
    leaving = _seconds(rows["PitOutTime"])
    before = np.append(np.nan, end[:-1])
    start = np.where(np.isfinite(start), start, np.where(np.isfinite(before), before, leaving))
    after = np.append(start[1:], np.nan)
    end = np.where(np.isfinite(end), end, after)
    keep = np.isfinite(start) & np.isfinite(end) & (end > start)
    stint, tyre_age = (
        rows[name].to_numpy(float, na_value=np.nan) if name in rows else np.full(len(rows), np.nan)
        for name in ("Stint", "TyreLife")
    )
    part = rows["Part"].to_numpy(np.int64) if "Part" in rows else np.zeros(len(rows), np.int64)
    status = rows["TrackStatus"].fillna("").astype(str)
    return LapTable(
        number=rows["LapNumber"].to_numpy(float)[keep].astype(np.int64),
        start=start[keep],
        end=end[keep],
        seconds=_seconds(rows["LapTime"])[keep],
        sectors=np.column_stack([_seconds(rows[f"Sector{i}Time"]) for i in (1, 2, 3)])[keep],
        pit_in=rows["PitInTime"].notna().to_numpy()[keep],
        pit_out=rows["PitOutTime"].notna().to_numpy()[keep],
        neutralised=np.array([not NEUTRALISED.isdisjoint(codes) for codes in status], dtype=bool)[keep],
        accurate=rows["IsAccurate"].fillna(False).to_numpy(bool)[keep],
        compound=tuple(rows["Compound"].fillna("").astype(str).to_numpy()[keep]),
        stint=np.nan_to_num(stint[keep]).astype(np.int64),
        tyre_age=tyre_age[keep],
        part=part[keep],
        speed_trap=(
            rows["SpeedST"].to_numpy(float, na_value=np.nan) if "SpeedST" in rows else np.full(len(rows), np.nan)
        )[keep],
        deleted=(rows["Deleted"].eq(True).to_numpy(bool) if "Deleted" in rows else np.zeros(len(rows), bool))[keep],
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
    """Return the car channels as sent; lost signals are NaN.

    drs_code   lowest code that means open
    """
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
    channels, gap = {}, LARGEST_CAR_GAP_S
    for name, values in sent.channels.items():
        good = np.isfinite(values)
        channels[name] = interpolate(time, sent.time[good], values[good], gap, gap, name in STEPPED)
    return channels


def corners_from(table: pd.DataFrame, reference: ReferenceLap) -> tuple[Corner, ...]:
    """Return numbered corners with their distance along the reference lap."""
    xy = table[["X", "Y"]].to_numpy(float) * METRES_PER_UNIT
    distance = reference.distance(xy)
    return tuple(
        Corner(int(number), str(letter or ""), float(x), float(y), float(along), float(angle))
        for number, letter, angle, (x, y), along in zip(
            table["Number"].tolist(), table["Letter"].tolist(), table["Angle"].tolist(), xy, distance, strict=True
        )
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


def _seconds(column: pd.Series) -> npt.NDArray[np.float64]:
    return column.dt.total_seconds().to_numpy(float)
