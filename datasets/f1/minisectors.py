"""Fastest driver in each minisector, over the field or between chosen drivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from .estimates import Estimate
from .laps import best_laps, is_race
from .session import Session, lap_clock
from .time_won import SLOW, mean_of_laps
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

    codes   driver codes with lap times and speeds, in the order of the result
    edges   [M + 1] metres from the start line
    times   [D, M] mean times; with one lap, their error is that of the clock
    """

    codes: tuple[str, ...]
    edges: Floats
    times: Estimate

    @cached_property
    def _ranks(self) -> npt.NDArray[np.intp]:
        return np.argsort(self.times.mean, axis=0, kind="stable")

    @property
    def fastest(self) -> npt.NDArray[np.intp]:
        """Return [M] index of the fastest driver."""
        return self._ranks[0]

    @cached_property
    def lead(self) -> Estimate:
        """Return [M] seconds between the fastest driver and the next."""
        every = np.arange(len(self.fastest))
        return self.times[self._ranks[1], every] - self.times[self._ranks[0], every]


def minisectors(session: Session, codes: Sequence[str] | None = None) -> Minisectors | None:
    """Return minisector times of drivers, or of all; None with fewer than two."""
    chosen = usual_laps(session)
    edges = minisector_edges(session.reference.length)
    shares = np.clip(edges / edges[-1], 0, 1)
    known, found = [], []
    for driver in session.drivers:
        if not driver.has_position or (codes is not None and driver.code not in codes):
            continue
        clocks = [lap_clock(session, driver.code, number) for number in chosen.get(driver.code, ())]
        timed = [clock for clock in clocks if clock is not None]
        if not timed:
            continue
        times = np.stack([np.diff(clock.seconds_at(shares)) for clock in timed])  # [L, M]
        # The clock's error repeats on every lap, so averaging laps does not reduce it.
        variance = np.mean([clock.variance(shares[:-1], shares[1:]) for clock in timed], axis=0)
        clock_error = Estimate(np.zeros_like(variance), np.sqrt(variance), np.full_like(variance, np.inf))
        known.append(driver.code)
        found.append(mean_of_laps(times) - clock_error if len(times) > 1 else replace(clock_error, mean=times[0]))
    if len(known) < 2:
        return None
    fields = ("mean", "error", "freedom")
    every = Estimate(*(np.stack([getattr(one, field) for one in found]) for field in fields))
    return Minisectors(tuple(known), edges, every)


def usual_laps(session: Session) -> dict[str, tuple[int, ...]]:
    """Return the laps by driver that minisectors compare.

    A race takes clean laps that are not within one second of the car ahead (all clean laps if fewer than five remain), and
    other sessions take the best lap.
    """
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
