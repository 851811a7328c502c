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
FEWEST_LAPS = 5  # with fewer free laps, comparisons take all


@lru_cache(maxsize=4)
def gaps_ahead(session: Session) -> dict[tuple[str, int], Floats]:
    """Return [4] seconds to the next car on the road, by driver and lap: at the start line, sector lines and finish line.

    The gap at a line is the time since another car, lapped or not, last passed it; infinite if none passed before.
    """
    lines, passed = sector_lines(session), dict[tuple[str, int], Floats]()
    if lines is None:
        return {}
    for driver in session.drivers:
        for row, lap in enumerate(driver.laps.number.tolist() if driver.has_position else ()):
            if (clock := lap_clock(session, driver.code, lap)) is not None:
                passed[driver.code, lap] = driver.laps.start[row] + clock.seconds_at([0, *lines.shares, 1])
    if not passed:
        return {}
    whose, times = np.array([code for code, _ in passed]), np.stack(list(passed.values()))  # [N], [N, 4]
    order = np.argsort(times, axis=0, kind="stable")
    alone = whose[order[:-1]] == whose[order[1:]]  # the car's own last lap
    gaps = np.full(times.shape, np.inf)
    np.put_along_axis(gaps, order[1:], np.where(alone, np.inf, np.diff(np.take_along_axis(times, order, 0), axis=0)), 0)
    return dict(zip(passed, gaps, strict=True))


def free_laps(session: Session, code: str, laps: Iterable[int]) -> tuple[int, ...]:
    """Return the laps that were not within one second of the car ahead at a timing line."""
    gaps = gaps_ahead(session)
    return tuple(lap for lap in laps if not np.any(gaps.get((code, lap), np.inf) < CLOSE_S))


@dataclass(frozen=True, eq=False)
class RaceHistory:
    """Order and gaps of D drivers at the end of N laps.

    codes       driver codes, in the order of the result
    laps        [N] lap numbers
    position    [D, N] position; NaN after a retirement
    gap         [D, N] seconds behind the leader on the same lap; NaN after a retirement
    seconds     [D, N] lap times; NaN where not timed
    stops       laps that ended in the pits, by driver code
    flags       (first lap, last lap, what) of safety cars, red flags and rain, on the leader's laps
    """

    codes: tuple[str, ...]
    laps: Ints
    position: Floats
    gap: Floats
    seconds: Floats
    stops: dict[str, tuple[int, ...]]
    flags: tuple[tuple[int, int, str], ...]


def race_history(session: Session) -> RaceHistory:
    """Return positions and gaps at the end of each lap, with pit stops and flags."""
    drivers = [driver for driver in session.drivers if len(driver.laps)]
    laps = np.arange(1, max((int(driver.laps.number.max()) for driver in drivers), default=0) + 1)
    ends, seconds = np.full((2, len(drivers), len(laps)), np.nan)
    for row, driver in enumerate(drivers):
        ends[row, driver.laps.number - 1] = driver.laps.end
        seconds[row, driver.laps.number - 1] = driver.laps.seconds
    rank = np.argsort(np.argsort(np.where(np.isfinite(ends), ends, np.inf), axis=0, kind="stable"), axis=0) + 1.0
    first = np.min(np.where(np.isfinite(ends), ends, np.inf), axis=0, initial=np.inf)
    starts = np.append(min((float(driver.laps.start.min()) for driver in drivers), default=0.0), first[:-1])
    return RaceHistory(
        tuple(driver.code for driver in drivers),
        laps,
        np.where(np.isfinite(ends), rank, np.nan),
        ends - first,
        seconds,
        {driver.code: tuple(driver.laps.number[driver.laps.pit_in].tolist()) for driver in drivers},
        _flags_on_laps(session.spells, laps, starts, first),
    )


def _flags_on_laps(
    spells: Iterable[Spell], laps: Ints, starts: Floats, ends: Floats
) -> tuple[tuple[int, int, str], ...]:
    """Return the first and last of the leader's laps during each period, with its name."""
    during = [(spell.what, laps[(ends > spell.start) & (starts < spell.end)]) for spell in spells]
    return tuple((int(these[0]), int(these[-1]), what) for what, these in during if these.size)
