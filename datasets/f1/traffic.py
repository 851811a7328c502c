"""Cars in the way: the gap to the car ahead, and the order lap by lap."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from .clock import lap_clock, sector_lines
from .session import Session, Spell

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CLOSE_S = 1.0  # DRS may be used within a second; the tow reaches about as far
FEWEST_FREE = 5  # with fewer free laps, comparisons take all


@dataclass(frozen=True, eq=False)
class CarAhead:
    """Gap to the next car on the road, on L laps of a driver at the timing lines.

    laps      [L] numbers of the laps with a lap time and speeds
    seconds   [L, 4] gap at the start line, the two sector lines and the finish line; infinite if no car passed before
    """

    laps: Ints
    seconds: Floats

    @property
    def close(self) -> npt.NDArray[np.bool_]:
        """Return [L] whether the car ahead was within one second at a timing line."""
        return np.asarray((self.seconds < CLOSE_S).any(axis=1), bool)


@lru_cache(maxsize=4)
def cars_ahead(session: Session) -> dict[str, CarAhead]:
    """Return the gap to the car ahead, lapped or not, by driver code.

    The gap at a line is the time since another car last passed it.
    """
    lines = sector_lines(session)
    if lines is None:
        return {}
    driver, number, passed = [], [], []
    for index, one in enumerate(session.drivers):
        for row, lap in enumerate(one.laps.number.tolist() if one.has_position else ()):
            clock = lap_clock(session, one.code, lap)
            if clock is not None:
                driver.append(index)
                number.append(lap)
                passed.append(one.laps.start[row] + clock.seconds_at([0, *lines.shares, 1]))
    if not passed:
        return {}
    whose, numbers, times = np.array(driver), np.array(number), np.stack(passed)  # [N], [N], [N, 4]
    order = np.argsort(times, axis=0, kind="stable")
    gaps = np.diff(np.take_along_axis(times, order, 0), axis=0)
    alone = whose[order[:-1]] == whose[order[1:]]  # the car's own last lap
    seconds = np.full(times.shape, np.inf)
    np.put_along_axis(seconds, order[1:], np.where(alone, np.inf, gaps), 0)
    return {
        session.codes[index]: CarAhead(numbers[whose == index], seconds[whose == index])
        for index in np.unique(whose).tolist()
    }


def free_laps(session: Session, code: str, laps: Iterable[int]) -> tuple[int, ...]:
    """Return the laps that were not within one second of the car ahead at a timing line."""
    ahead = cars_ahead(session).get(code)
    close = set() if ahead is None else set(ahead.laps[ahead.close].tolist())
    return tuple(int(lap) for lap in laps if lap not in close)


def laps_to_compare(session: Session, code: str, laps: Iterable[int]) -> tuple[int, ...]:
    """Return the laps that were not close behind another car, or all laps if fewer than five remain."""
    numbers = tuple(int(lap) for lap in laps)
    free = free_laps(session, code, numbers)
    return free if len(free) >= FEWEST_FREE else numbers


@dataclass(frozen=True, eq=False)
class RaceHistory:
    """Order and gaps of D drivers at the end of N laps.

    codes       driver codes, in the order of the result
    laps        [N] lap numbers
    position    [D, N] position; NaN after a retirement
    gap         [D, N] seconds behind the leader on the same lap; NaN after a retirement
    stops       laps that ended in the pits, by driver code
    flags       (first lap, last lap, what) of safety cars, red flags and rain, on the leader's laps
    """

    codes: tuple[str, ...]
    laps: Ints
    position: Floats
    gap: Floats
    stops: dict[str, tuple[int, ...]]
    flags: tuple[tuple[int, int, str], ...]


def race_history(session: Session) -> RaceHistory:
    """Return positions and gaps at the end of each lap, with pit stops and flags."""
    drivers = [driver for driver in session.drivers if len(driver.laps)]
    laps = np.arange(1, max((int(driver.laps.number.max()) for driver in drivers), default=0) + 1)
    ends = np.full((len(drivers), len(laps)), np.nan)
    for row, driver in enumerate(drivers):
        ends[row, driver.laps.number - 1] = driver.laps.end
    rank = np.argsort(np.argsort(np.where(np.isfinite(ends), ends, np.inf), axis=0, kind="stable"), axis=0) + 1.0
    first = np.min(np.where(np.isfinite(ends), ends, np.inf), axis=0, initial=np.inf)
    starts = np.append(min((float(driver.laps.start.min()) for driver in drivers), default=0.0), first[:-1])
    return RaceHistory(
        tuple(driver.code for driver in drivers),
        laps,
        np.where(np.isfinite(ends), rank, np.nan),
        ends - first,
        {driver.code: tuple(driver.laps.number[driver.laps.pit_in].tolist()) for driver in drivers},
        tuple(flag for spell in session.spells if (flag := _on_laps(spell, laps, starts, first)) is not None),
    )


def _on_laps(spell: Spell, laps: Ints, starts: Floats, ends: Floats) -> tuple[int, int, str] | None:
    """Return the first and last of the leader's laps during a period, with its name."""
    during = laps[(ends > spell.start) & (starts < spell.end)]
    return (int(during[0]), int(during[-1]), spell.what) if during.size else None
