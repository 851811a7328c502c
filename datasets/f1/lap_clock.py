"""When a car is where on its lap: by integrated speed, pinned to the official lap and sector times.

Positions come with times that jitter by a tenth of a second, which is more than two laps usually differ by. Speed
integrates to a smooth distance instead. What the integral is wrong by (wheels slip, lines differ in length) is taken
out at the start line and at both sector lines, where the official times say when the car was there; in between it
remains, and the session's own laps say how large it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from .session import Driver, Session

FloatArray = npt.NDArray[np.float64]

LARGEST_HOLE_S = 1.5  # without speed: longer, and the distance driven meanwhile is a guess
FEWEST_LAPS = 5  # from which sector lines and errors can be told
SHORTEST_SECTOR_S = 1.0


@dataclass(frozen=True)
class SectorLines:
    """Where the two sector lines lie, and how far integrated speed strays.

    shares   of the lap's distance at which they are crossed
    drift    variance, in seconds squared a second, by which the clock of a lap drifts between two official times
    n_laps   that both were measured on
    """

    shares: tuple[float, float]
    drift: float
    n_laps: int


@dataclass(frozen=True, eq=False)
class LapClock:
    """Seconds since the start line along one lap.

    pins      [P + 1] official times, from 0 to the lap's
    distance  [T] share of the lap's distance behind the car at `time`, rising from 0 to 1
    drift     variance, in seconds squared a second, by which it strays between two pins
    """

    pins: FloatArray
    time: FloatArray
    distance: FloatArray
    drift: float

    def at(self, share: npt.ArrayLike) -> FloatArray:
        """[...] seconds at which the car has driven these shares of the lap.

        share   of the lap's distance, 0 to 1
        """
        return np.interp(np.asarray(share, float), self.distance, self.time)

    def variance(self, first: npt.ArrayLike, last: npt.ArrayLike) -> FloatArray:
        """[...] variance of the time taken from one share of the lap to another, in seconds squared.

        Between two pins the error is that of a walk which has to come back: none over the whole way, most half-way.

        first, last   shares of the lap's distance, 0 to 1
        """
        a, b = self.at(first)[..., None], self.at(last)[..., None]
        start, end = self.pins[:-1], self.pins[1:]
        inside = np.clip(np.minimum(b, end) - np.maximum(a, start), 0, None)  # [..., P]
        found: FloatArray = (self.drift * inside * (1 - inside / (end - start))).sum(axis=-1)
        return found


def sector_lines(session: Session) -> SectorLines | None:
    """Both lines from all clean laps with official sector times; None where there are too few of them."""
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
    # How late each lap would cross each line if only its lap time were known, against what a drifting clock would do.
    late = (table[:, :2] - shares) * table[:, 4:5] * table[:, 2:4]
    loose = table[:, 5:] * (1 - table[:, 5:] / table[:, 4:5])
    drift = float((1.4826 * np.median(np.abs(late / np.sqrt(loose)))) ** 2)
    return SectorLines((float(shares[0]), float(shares[1])), drift, len(found))


def lap_clock(session: Session, code: str, number: int, *, pinned: bool = True) -> LapClock | None:
    """The clock of one lap of a driver; None where it was not timed, or too little speed was sent.

    pinned   to the sector times too; without them to the lap time alone
    session, code, number  which lap of which driver
    """
    driver, lines = session.driver(code), session.sector_lines
    rows = np.flatnonzero(driver.laps.number == number)
    if not rows.size or lines is None or not np.isfinite(driver.laps.seconds[rows[0]]):
        return None
    row = int(rows[0])
    driven = _driven(driver, row)
    if driven is None:
        return None
    time, along = driven
    share = along / along[-1]
    ends, places = np.array([0.0, float(driver.laps.seconds[row])]), np.array([0.0, 1.0])
    sectors = driver.laps.sectors[row]
    if pinned and np.isfinite(sectors).all() and (sectors > SHORTEST_SECTOR_S).all():
        ends, places = np.insert(ends, 1, np.cumsum(sectors)[:2]), np.insert(places, 1, lines.shares)
    # Each stretch between two official times is stretched to its length.
    behind = np.interp(ends, time, share)
    if (np.diff(behind) <= 0).any():
        return None
    return LapClock(ends, time, np.interp(share, behind, places), lines.drift)


def _driven(driver: Driver, row: int) -> tuple[FloatArray, FloatArray] | None:
    """(seconds since the lap began, metres driven since) at the official times and at every sample of one lap."""
    laps = driver.laps
    seconds = float(laps.seconds[row])
    if not np.isfinite(seconds) or "speed" not in driver.available_channels:
        return None
    start = float(laps.start[row])
    sent = driver.time - start
    known = np.isfinite(driver.channels["speed"]) & (sent > -LARGEST_HOLE_S) & (sent < seconds + LARGEST_HOLE_S)
    sent, pace = sent[known], driver.channels["speed"][known].astype(np.float64) / 3.6
    if sent.size < 2 or max(sent[0], seconds - sent[-1], np.diff(sent).max()) > LARGEST_HOLE_S:
        return None
    splits = np.cumsum(laps.sectors[row])[:2]
    time = np.union1d(sent[(sent > 0) & (sent < seconds)], [0.0, *splits[np.isfinite(splits)], seconds])
    speed = np.interp(time, sent, pace)
    metres = np.append(0.0, np.cumsum(np.diff(time) * (speed[1:] + speed[:-1]) / 2))
    moving = np.append(True, np.diff(metres) > 0)  # a car that stands takes no share of the way
    return (time[moving], metres[moving]) if metres[-1] > 0 and moving[-1] else None
