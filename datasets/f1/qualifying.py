"""Qualifying: the best lap of each part, the ideal lap of the best sectors, and how a driver gets faster through the session."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .laps import PARTS
from .session import LapTable, Session

Floats = npt.NDArray[np.float64]
RACES = ("Race", "Sprint")


@dataclass(frozen=True)
class BestLap:
    """A driver's fastest lap of one part of a session.

    code      of the driver
    part      of `PARTS`; "" for a session without parts
    number    of the lap
    seconds   its time
    sectors   of it, NaN where one was not timed
    """

    code: str
    part: str
    number: int
    seconds: float
    sectors: tuple[float, float, float]


@dataclass(frozen=True)
class IdealLap:
    """A driver's best sectors put together.

    code      of the driver
    best      their fastest lap, in seconds
    ideal     sum of their best sectors
    sectors   the best time of each
    laps      the lap that each was driven on
    """

    code: str
    best: float
    ideal: float
    sectors: tuple[float, float, float]
    laps: tuple[int, int, int]

    @property
    def left(self) -> float:
        """Seconds that their best lap is slower than the ideal one."""
        return self.best - self.ideal


def is_qualifying(session: Session) -> bool:
    """Whether laps of the session belong to Q1 to Q3.

    session   as `load_session` or `simulate_race` gives it
    """
    return any((driver.laps.part > 0).any() for driver in session.drivers)


def is_race(session: Session) -> bool:
    """Whether who crosses the line first wins, and not who drove the best lap.

    session   as `load_session` or `simulate_race` gives it
    """
    return session.name in RACES


def best_laps(session: Session) -> tuple[BestLap, ...]:
    """The fastest lap that stood of every driver in every part, the parts in order and the fastest first; who set no time is left
    out.

    session   as `load_session` or `simulate_race` gives it
    """
    found = []
    for number, part in enumerate(PARTS if is_qualifying(session) else ("",), start=1):
        rows = []
        for driver in session.drivers:
            laps = driver.laps
            timed = laps.timed & ~laps.deleted & ((laps.part == number) if part else np.True_)
            if timed.any():
                row = int(np.flatnonzero(timed)[np.argmin(laps.seconds[timed])])
                rows.append(_best(driver.code, part, laps, row))
        found += sorted(rows, key=lambda one: one.seconds)
    return tuple(found)


def _best(code: str, part: str, laps: LapTable, row: int) -> BestLap:
    one, two, three = map(float, laps.sectors[row])
    return BestLap(code, part, int(laps.number[row]), float(laps.seconds[row]), (one, two, three))


def ideal_laps(session: Session) -> tuple[IdealLap, ...]:
    """Every driver's best sectors put together, the fastest first; of accurate laps, or of all where none is.

    session   as `load_session` or `simulate_race` gives it
    """
    found = []
    for driver in session.drivers:
        laps = driver.laps
        timed = np.isfinite(laps.sectors).all(axis=1) & laps.timed & ~laps.deleted
        timed = timed & laps.accurate if (timed & laps.accurate).any() else timed
        if not timed.any():
            continue
        rows = np.flatnonzero(timed)
        best = rows[np.argmin(laps.sectors[rows], axis=0)]
        sectors = laps.sectors[best, range(3)]
        one, two, three = map(float, sectors)
        a, b, c = (int(laps.number[row]) for row in best)
        found.append(
            IdealLap(driver.code, float(laps.seconds[rows].min()), float(sectors.sum()), (one, two, three), (a, b, c))
        )
    return tuple(sorted(found, key=lambda one: one.ideal))


def no_time(session: Session) -> tuple[str, ...]:
    """Drivers who set no time at all.

    session   as `load_session` or `simulate_race` gives it
    """
    return tuple(driver.code for driver in session.drivers if not (driver.laps.timed & ~driver.laps.deleted).any())
