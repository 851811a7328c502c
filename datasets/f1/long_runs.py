"""Long runs: consecutive green laps on one set of tyres, and their tyre degradation."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .laps import is_race
from .session import QUICK, LapTable, Session
from .time_won import Estimate, lap_trend, n_waves

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

FEWEST = 5  # minimum number of laps for a slope
FUEL_S = 0.06  # about 1.8 kg per lap at 0.033 s/kg; used if the session gives no estimate
OUTLIER = 3.5  # robust standard deviations from a robust line
LEAST_SCATTER_S = 0.1  # steadier runs would lose ordinary laps as outliers


@dataclass(frozen=True, eq=False)
class LongRun:
    """Consecutive green laps of a stint, and their tyre degradation.

    code, stint, compound   driver code, stint number and tyre compound
    laps, age               [L] lap numbers, and tyre age at the end of each lap
    seconds                 [L] lap times
    adjusted                [L] lap times corrected to the fuel load of the first lap
    outlier, excluded       [L] laps that the robust rule, and the user, leave out of the numbers below
    slope                   tyre degradation in s/lap
    scatter                 residual standard deviation in seconds, a measure of consistency
    """

    code: str
    stint: int
    compound: str
    laps: Ints
    age: Floats
    seconds: Floats
    adjusted: Floats
    outlier: Bools
    excluded: Bools
    slope: Estimate
    scatter: float

    @property
    def counts(self) -> Bools:
        """Return [L] laps that count."""
        return ~(self.outlier | self.excluded)

    @property
    def raw_mean(self) -> float:
        """Return the mean lap time as driven."""
        return float(self.seconds[self.counts].mean())

    @property
    def corrected_mean(self) -> float:
        """Return the mean lap time with the fuel load of the first lap."""
        return float(self.adjusted[self.counts].mean())


def fuel_effect(session: Session) -> tuple[float, str]:
    """Return the seconds gained per lap of burnt fuel, and the source of that number."""
    trend = lap_trend(session) if is_race(session) else None
    if trend is not None and trend.lap < 0:
        return -trend.lap, f"from {trend.n_laps} laps; includes track evolution"
    return FUEL_S, "assumed: 1.8 kg a lap at 0.033 s/kg; cannot be measured here"


def runs(session: Session, code: str, fuel: float, excluded: Collection[int] = ()) -> tuple[LongRun, ...]:
    """Return a driver's long runs: at least five consecutive green laps on one set of tyres.

    Laps over 7% slower than the stint's best end a run, so push laps with cool-down laps between them are none. Laps that
    the user excluded do not count for means and slopes; `fuel` is the time gained per lap of burnt fuel in seconds.
    """
    laps = session.driver(code).laps
    found = []
    for rows in _sequences(laps):
        seconds, age, numbers = laps.seconds[rows], laps.tyre_age[rows], laps.number[rows]
        adjusted = seconds + fuel * (numbers - numbers[0])
        by_hand = np.isin(numbers, list(excluded))
        outlier = _outliers(age, adjusted) & ~by_hand
        kept = ~(outlier | by_hand)
        if kept.sum() >= FEWEST:
            stint, compound = int(laps.stint[rows[0]]), laps.compound[rows[0]]
            fit = line(age[kept], adjusted[kept])
            found.append(LongRun(code, stint, compound, numbers, age, seconds, adjusted, outlier, by_hand, *fit))
    return tuple(found)


def _sequences(laps: LapTable) -> list[npt.NDArray[np.intp]]:
    """Return the rows of consecutive green laps of similar pace on one set of tyres."""
    found = []
    for stint in laps.stints:
        rows = np.flatnonzero((laps.stint == stint) & laps.undisturbed & np.isfinite(laps.tyre_age))
        if rows.size:
            rows = rows[laps.seconds[rows] <= QUICK * laps.seconds[rows].min()]
            found += np.split(rows, np.flatnonzero(np.diff(laps.number[rows]) > 1) + 1)
    return found


def _outliers(x: Floats, y: Floats) -> Bools:
    """Return [L] whether each lap is far from the robust line (Theil-Sen) through all laps."""
    if len(x) < FEWEST:
        return np.zeros(len(x), bool)
    first, second = np.triu_indices(len(x), 1)
    slope = np.median((y[second] - y[first]) / (x[second] - x[first]))
    left = y - slope * x
    left = np.abs(left - np.median(left))
    return np.asarray(left > OUTLIER * max(1.4826 * float(np.median(left)), LEAST_SCATTER_S), bool)


def line(x: Floats, y: Floats) -> tuple[Estimate, float]:
    """Return slope and scatter by least squares, with the variance of slow waves as in `mean_of_laps`."""
    n, spread = len(x), float(((x - x.mean()) ** 2).sum())
    waves = min(int(n_waves(n)), n - 2)
    if spread <= 0 or waves < 1:
        unknown = np.array(np.nan)
        return Estimate(unknown, unknown, unknown), float("nan")
    slow = np.cos(np.pi * np.outer((np.arange(n) + 0.5) / n, np.arange(2, waves + 2)))
    unit, _ = np.linalg.qr(np.column_stack([np.ones(n), x, slow]))
    slope, power = np.dot(x - x.mean(), y) / spread, np.mean((unit[:, 2:].T @ y) ** 2)
    left = y - y.mean() - slope * (x - x.mean())
    found = Estimate(np.asarray(slope), np.sqrt(power / spread), np.asarray(float(waves)))
    return found, float(np.sqrt((left**2).sum() / (n - 2)))
