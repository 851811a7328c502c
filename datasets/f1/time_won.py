"""Time that a driver gains on another over pairs of undisturbed laps, and the fastest driver per minisector.

Laps are paired by compound and tyre age, or by lap number. Laps of equal tyre age may differ in fuel load and track grip:
`lap_trend` estimates this effect over all drivers, and `time_won` subtracts it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gdm_core.maths.gaps import ratio

from .clock import LapClock, clock_variance, lap_clock
from .laps import best_laps, is_race, laps_on_like_tyres
from .session import LapTable, Session
from .traffic import FEWEST_LAPS, free_laps

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimate:
    """Means and their uncertainty; arrays of one shape, or numbers.

    mean      means
    error     standard errors
    freedom   degrees of freedom of the errors; infinite for errors that are known
    """

    mean: Floats
    error: Floats
    freedom: Floats

    @property
    def margin(self) -> Floats:
        """Return half the width of the 95% intervals."""
        from scipy.special import stdtrit  # would slow the first visit

        return np.asarray(stdtrit(self.freedom, 0.975) * self.error)

    @property
    def sure(self) -> npt.NDArray[np.bool_]:
        """Return whether the 95% intervals exclude zero."""
        return np.asarray(np.abs(self.mean) > self.margin)

    def __getitem__(self, index: Any) -> Estimate:
        """Return a selection of the means."""
        return Estimate(self.mean[index], self.error[index], self.freedom[index])

    def __sub__(self, other: Estimate) -> Estimate:
        """Return the difference of independent means, with Welch's degrees of freedom."""
        own, others = np.square(self.error), np.square(other.error)
        with np.errstate(divide="ignore", invalid="ignore"):
            freedom = np.square(own + others) / (np.square(own) / self.freedom + np.square(others) / other.freedom)
        freedom = np.where(own + others == 0, np.inf, freedom)
        return Estimate(self.mean - other.mean, np.sqrt(own + others), freedom)


By = Literal["tyre age", "lap number"]

SLOW = 1.05  # times a driver's median; slower laps were disturbed, such as by traffic


@dataclass(frozen=True)
class LapTrend:
    """Change of lap time in seconds per lap, over all drivers of a session.

    age        per lap of tyre age
    lap        per lap of the race at equal tyre age: fuel burns off, the track gains rubber
    n_laps     number of laps measured
    compounds  seconds of each compound more than the first one
    middle     mean effect of the laps measured
    """

    age: float
    lap: float
    n_laps: int
    compounds: Mapping[str, float] = field(default_factory=dict)
    middle: float = 0.0

    def effect(self, laps: LapTable, numbers: Sequence[int]) -> Floats:
        """Return the seconds [L] by which fuel, tyres and track make laps slower than the mean; NaN if unknown."""
        rows = np.searchsorted(laps.number, numbers)
        tyres = np.array([self.compounds.get(laps.compound[row], np.nan) for row in rows])
        return self.age * laps.tyre_age[rows] + self.lap * laps.number[rows] + tyres - self.middle


def steady_laps(laps: LapTable) -> npt.NDArray[np.bool_]:
    """Return [L] whether each lap is undisturbed and not much slower than the driver's others."""
    clean = laps.undisturbed
    usual = np.median(laps.seconds[clean]) if clean.any() else np.nan
    return np.asarray(clean & (laps.seconds < SLOW * usual), bool)


def lap_trend(session: Session) -> LapTrend | None:
    """Fit lap times by least squares, with an offset per driver and compound.

    Returns None if tyre age and race lap cannot be separated, as without pit stops.

    session   from `load_session` or `simulate_race`
    """
    rows, seconds = [], []
    compounds = sorted({name for driver in session.drivers for name in driver.laps.compound if name})
    n_drivers = len(session.drivers)
    for index, driver in enumerate(session.drivers):
        laps = driver.laps
        known = np.isfinite(laps.tyre_age) & np.fromiter(map(bool, laps.compound), bool, len(laps))
        for row in np.flatnonzero(steady_laps(laps) & known):
            entry = np.zeros(n_drivers + len(compounds) + 2)
            entry[index] = 1
            entry[n_drivers + compounds.index(laps.compound[row])] = 1
            entry[-2:] = laps.tyre_age[row], laps.number[row]
            rows.append(entry)
            seconds.append(laps.seconds[row])
    if not rows:
        return None
    table = np.array(rows)
    used = np.asarray(table.any(axis=0))
    used[n_drivers + int(np.flatnonzero(used[n_drivers:])[0])] = False  # reference compound
    table = table[:, used]
    found, _, rank, _ = np.linalg.lstsq(table, np.array(seconds), rcond=None)
    if rank < table.shape[1] or len(table) < 4 * table.shape[1]:
        return None
    every = np.zeros(len(used))
    every[used] = found
    every[:n_drivers] = 0.0
    effects = dict(zip(compounds, every[n_drivers:-2].tolist(), strict=True))
    return LapTrend(float(found[-2]), float(found[-1]), len(table), effects, float((np.array(rows) @ every).mean()))


@dataclass(frozen=True, eq=False)
class TimeWon:
    """Seconds per lap that the first driver gains on the second, in M cells of the lap.

    pairs      (lap of the first driver, lap of the second)
    by         "tyre age" or "lap number"
    edges      [M + 1] edges of the cells, as shares of the lap
    won        [L, M] seconds gained by pair and cell
    later      mean lap number of the first driver minus that of the second
    trend      trend subtracted from `won`; None if paired by lap number
    n_close    number of laps within one second of the car ahead
    free       whether these laps were left out; they are not if too few pairs would remain
    """

    pairs: tuple[tuple[int, int], ...]
    by: By
    edges: Floats
    won: Floats
    later: float
    trend: LapTrend | None
    _clocks: tuple[LapClock, ...]
    n_close: int = 0
    free: bool = True

    @property
    def taken_off(self) -> float:
        """Return the seconds per lap subtracted because the first driver's laps are later."""
        return 0.0 if self.trend is None else -self.trend.lap * self.later

    @property
    def laps(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the laps of each driver, in the order of the pairs."""
        return tuple(a for a, _ in self.pairs), tuple(b for _, b in self.pairs)

    @property
    def whole(self) -> Estimate:
        """Return the seconds gained over the whole lap."""
        return self.sum_parts(np.ones((len(self.edges) - 1, 1)))[0]

    def subset(self, rows: npt.NDArray[np.bool_]) -> TimeWon:
        """Return the comparison over some of its pairs [L]."""
        kept = np.flatnonzero(rows)
        clocks = tuple(self._clocks[side] for row in kept for side in (2 * row, 2 * row + 1))
        return replace(self, pairs=tuple(self.pairs[row] for row in kept), won=self.won[kept], _clocks=clocks)

    def sum_parts(self, weights: npt.ArrayLike) -> Estimate:
        """Return the seconds gained in P parts of the lap; with one pair, the error is that of its clocks.

        weights   [M, P] share of each cell in each part
        """
        shares = np.asarray(weights, np.float64)
        parts = self.won @ shares  # [L, P]
        return _mean_with_clock(parts, clock_variance(self._clocks, self.edges, shares) / len(self.pairs))


def _mean_with_clock(values: Floats, variance: Floats) -> Estimate:
    """Return means of laps [L, P] whose clocks have this mean variance [P]; with one lap, the error is that of its clock.

    Clock errors repeat on every lap of a driver, so averaging laps does not reduce them.
    """
    clock = Estimate(np.zeros_like(variance), np.sqrt(variance), np.full_like(variance, np.inf))
    return mean_of_laps(values) - clock if len(values) > 1 else replace(clock, mean=values[0])


def mean_of_laps(values: Floats) -> Estimate:
    """Return means over the first axis of autocorrelated series [L, ...], such as differences over lap pairs.

    Student's t with the variance of slow waves over the laps (Lazarus et al., 2018, equal-weighted cosines): correlated laps
    widen it. Missing values do not count; the mean is unknown where they are more than half.
    """
    known = np.isfinite(values)
    n = known.sum(axis=0)
    mean = np.where(2 * n >= len(values), ratio(np.where(known, values, 0.0).sum(axis=0), n), np.nan)
    centred = np.where(known, values - mean, 0.0)
    place, waves = ratio(np.cumsum(known, axis=0) - 0.5, n), n_waves(n)
    power = np.zeros(np.shape(n))
    for wave in range(1, int(np.max(waves, initial=0)) + 1):
        power += np.where(wave <= waves, (np.cos(np.pi * wave * place) * centred).sum(axis=0) ** 2, 0.0)
    return Estimate(mean, np.sqrt(2 * ratio(power, waves * n**2)), waves)


def n_waves(n: npt.ArrayLike) -> Floats:
    """Return how many of the slowest waves over n laps give the variance of their mean."""
    return np.maximum(np.floor(0.41 * np.power(n, 2 / 3)), np.clip(np.subtract(n, 1), 0, 2))


def time_won(
    session: Session,
    drivers: tuple[str, str],
    edges: npt.ArrayLike,
    *,
    by: By = "tyre age",
    laps: tuple[Iterable[int], Iterable[int]] | None = None,
    keep_close: bool = False,
    pairs: Sequence[tuple[int, int]] | None = None,
) -> TimeWon | None:
    """Compare two drivers, or one with himself, over pairs of laps; return None with too few pairs.

    Laps within one second of the car ahead are left out if five pairs remain without them.

    session   from `load_session` or `simulate_race`
    drivers   two driver codes
    edges     edges of the cells, as shares of the lap from 0 to 1
    by        "tyre age" (and compound), or "lap number"
    laps      lap numbers to choose from, for each driver; None takes all
    keep_close  whether to keep laps within one second of the car ahead
    pairs     these pairs of laps instead, as they are: any number, without a correction
    """
    if pairs is not None:
        timed = _timed_pairs(session, drivers, pairs)
        return _gained(timed, np.asarray(edges, np.float64), by, None, 0, True) if timed else None
    one, other = (session.driver(code).laps for code in drivers)
    cleans = [set(table.number[table.undisturbed].tolist()) for table in (one, other)]
    chosen = cleans if laps is None else [clean & set(numbers) for clean, numbers in zip(cleans, laps, strict=True)]
    every = tuple(sorted(chosen[0])), tuple(sorted(chosen[1]))
    trend = lap_trend(session) if by == "tyre age" else None
    if drivers[0] == drivers[1] or (by == "tyre age" and trend is None):
        return None

    def matched(laps: tuple[tuple[int, ...], tuple[int, ...]]) -> Sequence[tuple[int, int]]:
        alike = [(n, n) for n in sorted(set(laps[0]) & set(laps[1]))]
        return laps_on_like_tyres(one, other, *laps) if by == "tyre age" else alike

    free_of = [
        side if keep_close else free_laps(session, code, side) for code, side in zip(drivers, every, strict=True)
    ]
    alone = free_of[0], free_of[1]
    timed = _timed_pairs(session, drivers, matched(alone))
    free = len(timed) >= FEWEST_LAPS
    if not free:
        timed = _timed_pairs(session, drivers, matched(every))
    if len(timed) < FEWEST_LAPS:
        return None
    n_close = sum(map(len, every)) - sum(map(len, alone))
    return _gained(timed, np.asarray(edges, np.float64), by, trend, n_close, free)


TimedPair = tuple[tuple[int, int], LapClock, LapClock]


def _gained(
    timed: Sequence[TimedPair], grid: Floats, by: By, trend: LapTrend | None, n_close: int, free: bool
) -> TimeWon:
    """Return the time gained over timed pairs, corrected by the trend."""
    taken = np.stack([np.diff(a.seconds_at(grid)) for _, a, _ in timed])  # [L, M] by the first driver
    won = np.stack([np.diff(b.seconds_at(grid)) for _, _, b in timed]) - taken
    pairs = tuple(pair for pair, _, _ in timed)
    later = np.array([a - b for a, b in pairs], np.float64)
    lighter = 0.0 if trend is None else trend.lap
    won += lighter * later[:, None] * taken / taken.sum(axis=1, keepdims=True)
    clocks = tuple(clock for _, a, b in timed for clock in (a, b))
    return TimeWon(pairs, by, grid, won, float(later.mean()), trend, clocks, n_close, free)


def _timed_pairs(session: Session, drivers: tuple[str, str], pairs: Sequence[tuple[int, int]]) -> list[TimedPair]:
    """Return the pairs of laps whose clocks are known, with the clocks."""
    found = []
    for first, second in pairs:
        a, b = lap_clock(session, drivers[0], first), lap_clock(session, drivers[1], second)
        if a is not None and b is not None:
            found.append(((first, second), a, b))
    return found


MINISECTOR_M = 200.0


def minisector_edges(length: float) -> Floats:
    """Return the edges [M + 1] in metres of equal parts of about 200 m of a lap."""
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
    """Return minisector times of drivers, or of all; None with fewer than two.

    In a race, laps are corrected to the mean race lap, and the mean tyre age and compound, by `lap_trend`.
    """
    chosen, trend = usual_laps(session), lap_trend(session) if is_race(session) else None
    edges = minisector_edges(session.reference.length)
    shares = np.clip(edges / edges[-1], 0, 1)
    known, found = [], []
    for driver in session.drivers:
        if not driver.has_position or (codes is not None and driver.code not in codes):
            continue
        clocks = {n: lap_clock(session, driver.code, n) for n in chosen.get(driver.code, ())}
        timed = {n: clock for n, clock in clocks.items() if clock is not None}
        if not timed:
            continue
        times = np.stack([np.diff(clock.seconds_at(shares)) for clock in timed.values()])  # [L, M]
        if trend is not None:
            times *= 1 - (trend.effect(driver.laps, [*timed]) / times.sum(axis=1))[:, None]
        variance = clock_variance([*timed.values()], shares, np.eye(len(shares) - 1)) / len(timed)
        known.append(driver.code)
        found.append(_mean_with_clock(times, variance))
    if len(known) < 2:
        return None
    parts = ("mean", "error", "freedom")
    every = Estimate(*(np.stack([getattr(one, part) for one in found]) for part in parts))
    return Minisectors(tuple(known), edges, every)


def usual_laps(session: Session) -> dict[str, tuple[int, ...]]:
    """Return the laps by driver that minisectors compare.

    A race takes clean laps that are not within one second of the car ahead (all clean laps if fewer than five remain), and
    other sessions take the best lap.
    """
    if not is_race(session):
        return {one.code: (one.number,) for one in sorted(best_laps(session), key=lambda one: -one.seconds)}
    found = {}
    for driver in session.drivers:
        steady = tuple(driver.laps.number[steady_laps(driver.laps)].tolist())
        free = free_laps(session, driver.code, steady)
        found[driver.code] = free if len(free) >= FEWEST_LAPS else steady
    return found
