"""Fastest driver in each minisector, over the field or between chosen drivers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from .laps import best_laps, is_race
from .session import Session, lap_clock
from .time_won import SLOW, SURE, error_of_mean
from .traffic import laps_to_compare

Floats = npt.NDArray[np.float64]

MINISECTOR_M = 200.0


def minisector_edges(length: float) -> Floats:
    """Return the edges [M + 1] of equal parts of about 200 m, in metres.

    length   length of the lap in metres
    """
    return np.linspace(0, length, max(2, round(length / MINISECTOR_M)) + 1)


@dataclass(frozen=True, eq=False)
class Minisectors:
    """Times of D drivers in M minisectors.

    codes            driver codes with lap times and speeds, in the order of the result
    edges            [M + 1] metres from the start line
    seconds, error   [D, M] mean time and its standard error; with one lap, the error of the clock
    n_laps           [D] number of laps of each driver
    """

    codes: tuple[str, ...]
    edges: Floats
    seconds: Floats
    error: Floats
    n_laps: npt.NDArray[np.int64]

    @cached_property
    def _ranks(self) -> npt.NDArray[np.intp]:
        return np.argsort(self.seconds, axis=0, kind="stable")

    @property
    def fastest(self) -> npt.NDArray[np.intp]:
        """Return [M] index of the fastest driver."""
        return self._ranks[0]

    @property
    def margin(self) -> Floats:
        """Return [M] seconds between the fastest driver and the next."""
        first, second = np.take_along_axis(self.seconds, self._ranks[:2], 0)
        return second - first

    @property
    def sure(self) -> npt.NDArray[np.bool_]:
        """Return [M] whether the 95% interval of the margin excludes zero."""
        return np.asarray(self.margin > SURE * np.hypot(*np.take_along_axis(self.error, self._ranks[:2], 0)), bool)


def minisectors(
    session: Session, codes: Sequence[str] | None = None, laps: Mapping[str, Sequence[int]] | None = None
) -> Minisectors | None:
    """Return minisector times; None with fewer than two drivers.

    By default, a race takes each driver's clean laps that are not within one second of the car ahead (all clean laps if
    fewer than five remain), and other sessions take each driver's best lap.

    codes   drivers to compare; None takes all
    laps    lap numbers by driver code, instead of the default
    """
    chosen = usual_laps(session) if laps is None else laps
    edges = minisector_edges(session.reference.length)
    shares = np.clip(edges / edges[-1], 0, 1)
    known, seconds, errors, counts = [], [], [], []
    for driver in session.drivers:
        if not driver.has_position or (codes is not None and driver.code not in codes):
            continue
        clocks = [lap_clock(session, driver.code, number) for number in chosen.get(driver.code, ())]
        timed = [clock for clock in clocks if clock is not None]
        if not timed:
            continue
        times = np.stack([np.diff(clock.seconds_at(shares)) for clock in timed])  # [L, M]
        # The clock's error repeats on every lap, so averaging laps does not reduce it.
        clock_error = np.mean([clock.variance(shares[:-1], shares[1:]) for clock in timed], axis=0)
        chance = error_of_mean(times) if len(times) > 1 else np.zeros(times.shape[1])
        known.append(driver.code)
        seconds.append(times.mean(axis=0))
        errors.append(np.sqrt(chance**2 + clock_error))
        counts.append(len(timed))
    if len(known) < 2:
        return None
    return Minisectors(tuple(known), edges, np.stack(seconds), np.stack(errors), np.array(counts))


def usual_laps(session: Session) -> dict[str, tuple[int, ...]]:
    """Return the laps by driver that minisectors compare by default."""
    if not is_race(session):
        fastest: dict[str, tuple[float, int]] = {}
        for one in best_laps(session):
            fastest[one.code] = min(fastest.get(one.code, (np.inf, 0)), (one.seconds, one.number))
        return {code: (number,) for code, (_, number) in fastest.items()}
    found = {}
    for driver in session.drivers:
        laps = driver.laps
        clean = laps.undisturbed.copy()
        if clean.any():
            clean &= laps.seconds < SLOW * np.median(laps.seconds[clean])
        found[driver.code] = laps_to_compare(session, driver.code, laps.number[clean].tolist())
    return found
