"""Car samples of single laps, as the feed sent them, with their distance from the start line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from .session import LARGEST_HOLE_S, Session

Floats = npt.NDArray[np.float64]

MARGIN = 0.3  # share of a lap's time that is kept on either side of it
FEWEST_SAMPLES = 20


@dataclass(frozen=True, eq=False)
class LapSamples:
    """Raw car samples of a lap and of the road before and after it, in time order.

    number     lap number
    seconds    [R] since the lap began
    distance   [R] metres from the start line; negative before it, beyond the length after the lap
    channels   [R] values by name, as far as they were sent
    duration   seconds from start to finish line
    """

    number: int
    seconds: Floats
    distance: Floats
    channels: dict[str, Floats]
    duration: float

    @cached_property
    def inside(self) -> npt.NDArray[np.bool_]:
        """Return [R] whether each sample lies between start and finish line."""
        return np.asarray((self.seconds >= 0) & (self.seconds < self.duration), bool)

    @cached_property
    def weights(self) -> tuple[Floats, Floats]:
        """Return [R] seconds and metres until the next sample, 0 outside the lap."""
        seconds, metres = (np.diff(one, append=one[-1]) * self.inside for one in (self.seconds, self.distance))
        return seconds, metres


@lru_cache(maxsize=40)
def progress(session: Session, code: str) -> Floats:
    """Return [T] metres along all laps at a driver's positions; multiples of the length are at the line."""
    driver = session.driver(code)
    # One call for all laps: the distance travelled resolves ambiguous positions.
    along = session.reference.distance(driver.position, driver.lap).astype(np.float64)
    return np.unwrap(along, period=session.reference.length)


def lap_samples(session: Session, code: str, laps: Iterable[int]) -> dict[int, LapSamples]:
    """Return the raw samples of a driver's laps by number, without laps that have too few."""
    driver, length = session.driver(code), session.reference.length
    if "speed" not in driver.raw.channels:
        return {}
    time, metres = driver.raw.time, progress(session, code)
    after = np.clip(np.searchsorted(driver.time, time), 1, driver.time.size - 1)
    placed = (driver.time[after] - driver.time[after - 1] <= LARGEST_HOLE_S) & (time >= driver.time[0])
    placed &= (time <= driver.time[-1]) & np.isfinite(driver.raw.channels["speed"])
    time, channels = time[placed], {name: values[placed] for name, values in driver.raw.channels.items()}
    along, found = np.interp(time, driver.time, metres), {}
    for number in dict.fromkeys(laps):
        row = np.flatnonzero(driver.laps.number == number)
        if not row.size:
            continue
        start, end = float(driver.laps.start[row[0]]), float(driver.laps.end[row[0]])
        line = length * np.round(np.interp(start, driver.time, metres) / length)
        part = slice(*np.searchsorted(time, [start - MARGIN * (end - start), end + MARGIN * (end - start)]))
        distance = np.maximum.accumulate(along[part] - line) if time[part].size else along[part]
        one = LapSamples(
            int(number),
            time[part] - start,
            distance,
            {name: values[part].astype(np.float64) for name, values in channels.items()},
            end - start,
        )
        if one.inside.sum() >= FEWEST_SAMPLES:
            found[int(number)] = one
    return found
