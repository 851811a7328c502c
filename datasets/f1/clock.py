"""Lap clocks: the time since the start line along a lap, exact at official times.

Position times jitter by a tenth of a second, more than most laps differ; integrated speed is smooth. Official times
correct its error at the start and sector lines; the session's laps give the error that remains between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from .session import Driver, FloatArray, Session

LARGEST_HOLE_S = 1.5  # longer gaps leave the distance unknown
FEWEST_LAPS = 5  # minimum for estimating sector lines and drift
SHORTEST_SECTOR_S = 1.0


@dataclass(frozen=True)
class SectorLines:
    """Positions of the two sector lines, and the error of integrated speed.

    shares   share of the lap's distance at each line
    drift    variance of a lap clock per second between official times, in s2/s
    n_laps   number of laps measured
    """

    shares: tuple[float, float]
    drift: float
    n_laps: int


@dataclass(frozen=True, eq=False)
class LapClock:
    """Time since the start line along a lap.

    pins      [P + 1] official times, from 0 to the lap time
    time      [T] seconds since the start line
    distance  [T] share of the lap's distance at `time`, rising from 0 to 1
    drift     variance per second between two pins, in s2/s
    """

    pins: FloatArray
    time: FloatArray
    distance: FloatArray
    drift: float

    def seconds_at(self, share: npt.ArrayLike) -> FloatArray:
        """Return [...] seconds since the start line at shares of the lap.

        share   share of the lap's distance, 0 to 1
        """
        return np.interp(np.asarray(share, float), self.distance, self.time)


def clock_variance(clocks: Sequence[LapClock], edges: npt.ArrayLike, weights: FloatArray) -> FloatArray:
    """Return the sum [P] of the variances in s2 of clocks over parts of the lap, with weights [M, P] of its cells.

    Over T seconds between official times, a Brownian bridge with drift d has the covariance d (t_i [i = j] - t_i t_j / T).
    """
    found = []
    for clock in clocks:
        time, start, end = clock.seconds_at(edges), clock.pins[:-1], clock.pins[1:]
        inside = np.clip(np.minimum(time[1:, None], end) - np.maximum(time[:-1, None], start), 0, None)  # [M, pins]
        found.append((clock.drift * inside.sum(axis=1), np.sqrt(clock.drift / (end - start)) * inside))
    ahead = np.sum([one for one, _ in found], axis=0) @ weights**2  # [P]
    back = ((weights.T @ np.concatenate([two for _, two in found], axis=1)) ** 2).sum(axis=1)
    return np.clip(ahead - back, 0, None)


@lru_cache(maxsize=4)
def sector_lines(session: Session) -> SectorLines | None:
    """Estimate both sector lines from clean laps with official sector times; None if too few."""
    found = []
    for driver in session.drivers:
        for row in np.flatnonzero(driver.laps.accurate & np.isfinite(driver.laps.sectors).all(axis=1)):
            driven = _driven(driver, int(row))
            if driven is None:
                continue
            time, along = driven
            split = np.cumsum(driver.laps.sectors[row])
            pace = along[-1] / split[-1]
            share = np.interp(split[:2], time, along) / along[-1]
            speed = np.interp(split[:2], (time[1:] + time[:-1]) / 2, np.diff(along) / np.diff(time))
            found.append([*share, *(pace / np.maximum(speed, 1.0)), split[-1], *split[:2]])
    if len(found) < FEWEST_LAPS:
        return None
    table = np.array(found)  # [L, 7]
    shares = np.median(table[:, :2], axis=0)
    # Compare the error at each line, given the lap time alone, with that of a drifting clock.
    late = (table[:, :2] - shares) * table[:, 4:5] * table[:, 2:4]
    loose = table[:, 5:] * (1 - table[:, 5:] / table[:, 4:5])
    drift = float((1.4826 * np.median(np.abs(late / np.sqrt(loose)))) ** 2)
    return SectorLines((float(shares[0]), float(shares[1])), drift, len(found))


def lap_clock(session: Session, code: str, number: int, *, pinned: bool = True) -> LapClock | None:
    """Return the clock of a lap, or None without a lap time or enough speed samples.

    session   from `load_session` or `simulate_race`
    code      three letters, such as VER
    number    lap number
    pinned    use official sector times in addition to the lap time
    """
    driver, lines = session.driver(code), sector_lines(session)
    row = next(iter(np.flatnonzero(driver.laps.number == number).tolist()), None)
    driven = None if row is None else _driven(driver, row)
    if driven is None or lines is None:
        return None
    time, along = driven
    share = along / along[-1]
    ends, places = np.array([0.0, float(driver.laps.seconds[row])]), np.array([0.0, 1.0])
    sectors = driver.laps.sectors[row]
    if pinned and np.isfinite(sectors).all() and (sectors > SHORTEST_SECTOR_S).all():
        ends, places = np.insert(ends, 1, np.cumsum(sectors)[:2]), np.insert(places, 1, lines.shares)
    # Scale the distance between official times to match the sector lines.
    behind = np.interp(ends, time, share)
    if (np.diff(behind) <= 0).any():
        return None
    return LapClock(ends, time, np.interp(share, behind, places), lines.drift)


@lru_cache(maxsize=2400)  # two races
def _driven(driver: Driver, row: int) -> tuple[FloatArray, FloatArray] | None:
    """Return (seconds, metres) since the lap began, at official times and samples."""
    laps = driver.laps
    seconds = float(laps.seconds[row])
    if not np.isfinite(seconds) or "speed" not in driver.available_channels:
        return None
    start = float(laps.start[row])
    part = slice(*np.searchsorted(driver.time, [start - LARGEST_HOLE_S, start + seconds + LARGEST_HOLE_S]))
    sent, pace = driver.time[part] - start, driver.channels["speed"][part].astype(np.float64) / 3.6
    known = np.isfinite(pace)
    sent, pace = sent[known], pace[known]
    if sent.size < 2 or max(sent[0], seconds - sent[-1], np.diff(sent).max()) > LARGEST_HOLE_S:
        return None
    splits = np.cumsum(laps.sectors[row])[:2]
    time = np.union1d(sent[(sent > 0) & (sent < seconds)], [0.0, *splits[np.isfinite(splits)], seconds])
    speed = np.interp(time, sent, pace)
    metres = np.append(0.0, np.cumsum(np.diff(time) * (speed[1:] + speed[:-1]) / 2))
    moving = np.append(True, np.diff(metres) > 0)  # drop samples of a stationary car
    return (time[moving], metres[moving]) if metres[-1] > 0 and moving[-1] else None
