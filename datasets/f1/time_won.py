"""Where one driver wins time on another: over pairs of undisturbed laps, in any parts of the lap, with how sure that is.

Laps are paired by tyres of the same compound and age, or by their number. Neither makes them alike in both: who stopped
later is lighter on tyres of the same age. What a lap of the race changes besides the tyres is measured over all drivers
of the session (`lap_trend`) and taken off.

And long runs: what a lap of the tyres costs, with the burnt fuel taken off.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from .laps import is_race, laps_on_like_tyres
from .session import LapClock, LapTable, Session, lap_clock

Floats = npt.NDArray[np.float64]
By = Literal["tyre age", "lap number"]

FEWEST_LAPS = 5
SLOW = (
    1.05  # times a driver's median: such a lap was driven in traffic or for another reason, and says nothing of tyres
)
MOST_ALIKE = 0.95  # correlation of neighbouring laps above which a mean says nothing at all


@dataclass(frozen=True)
class LapTrend:
    """What a lap time gains with each lap, in seconds, over all drivers of a session.

    age     with each lap that the tyres have done
    lap     with each lap of the race, tyres alike: fuel burns off, the track takes on rubber
    n_laps  that both were measured on
    """

    age: float
    lap: float
    n_laps: int


def clean_laps(laps: LapTable) -> npt.NDArray[np.int64]:
    """Numbers of the laps that nothing disturbed."""
    return np.asarray(laps.number[laps.undisturbed], np.int64)


def lap_trend(session: Session) -> LapTrend | None:
    """Least squares over the clean laps of all drivers, each with a pace of his own and each compound with its own.

    None where the laps cannot tell tyres from the race, as when nobody has stopped.

    session   as `load_session` or `simulate_race` gives it
    """
    rows, seconds = [], []
    compounds = sorted({name for driver in session.drivers for name in driver.laps.compound if name})
    n_drivers = len(session.drivers)
    for index, driver in enumerate(session.drivers):
        laps = driver.laps
        kept = laps.undisturbed & np.isfinite(laps.tyre_age)
        kept &= np.fromiter((bool(name) for name in laps.compound), bool, len(laps))
        if kept.any():
            kept &= laps.seconds < SLOW * np.median(laps.seconds[kept])
        for row in np.flatnonzero(kept):
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
    used[n_drivers + int(np.flatnonzero(used[n_drivers:])[0])] = False  # one compound is what the others differ from
    table = table[:, used]
    found, _, rank, _ = np.linalg.lstsq(table, np.array(seconds), rcond=None)
    if rank < table.shape[1] or len(table) < 4 * table.shape[1]:
        return None
    return LapTrend(float(found[-2]), float(found[-1]), len(table))


@dataclass(frozen=True, eq=False)
class TimeWon:
    """Seconds a lap that the first driver wins on the second, in M cells of the lap.

    pairs      (lap of the first, lap of the second)
    by         what laps were paired by
    edges      [M + 1] of the cells, shares of the lap
    won        [L, M] of each pair of laps
    later      by how many laps the first driver's are later, on average
    trend      what each of those changes; None where laps were paired by number
    """

    pairs: tuple[tuple[int, int], ...]
    by: By
    edges: Floats
    won: Floats
    later: float
    trend: LapTrend | None
    _clocks: tuple[LapClock, ...]

    @property
    def taken_off(self) -> float:
        """Seconds a lap that `won` has been made smaller by because the first driver's laps are later."""
        return 0.0 if self.trend is None else -self.trend.lap * self.later

    @property
    def whole(self) -> tuple[float, float]:
        """(mean, standard error) of the lap."""
        laps = self.won.sum(axis=1, keepdims=True)
        return float(laps.mean()), float(error_of_mean(laps)[0])

    def among(self, weights: npt.ArrayLike) -> tuple[Floats, Floats]:
        """([P] mean, [P] standard error) of the seconds won in parts of the lap.

        weights   [M, P] share of each cell that belongs to each part
        """
        shares = np.asarray(weights, np.float64)
        parts = self.won @ shares  # [L, P]
        # What a clock leaves open between official times is much the same on every lap of a driver: no mean of laps makes
        # it smaller. A walk with drift d that has to come back after T seconds has the covariance d (t_i [i = j] - t_i t_j / T).
        open_ = np.zeros(shares.shape[1])
        for clock in self._clocks:
            at = clock.at(self.edges)
            start, end = clock.pins[:-1], clock.pins[1:]
            inside = np.clip(np.minimum(at[1:, None], end) - np.maximum(at[:-1, None], start), 0, None)  # [M, pins]
            back = (shares.T @ inside) ** 2 / (end - start)  # [P, pins]
            open_ += clock.drift * np.clip(inside.sum(axis=1) @ shares**2 - back.sum(axis=1), 0, None)
        open_ /= len(self.pairs)
        return parts.mean(axis=0), np.sqrt(error_of_mean(parts) ** 2 + open_)


def error_of_mean(values: Floats) -> Floats:
    """[P] standard error of the means of series [L, P] whose neighbours are alike: a driver who is held up stays so.

    The correlation of neighbours is estimated for each series, which finds too little of it in few laps: Kendall's
    correction. It never makes an error smaller.
    """
    n = len(values)
    centred = values - values.mean(axis=0)
    total = (centred**2).sum(axis=0)
    alike = np.divide((centred[1:] * centred[:-1]).sum(axis=0), total, out=np.zeros_like(total), where=total > 0)
    alike = np.clip((n * alike + 1) / max(n - 3, 1), 0, MOST_ALIKE)
    found: Floats = np.sqrt(total / (n - 1) / n * (1 + alike) / (1 - alike))
    return found


def time_won(
    session: Session,
    drivers: tuple[str, str],
    edges: npt.ArrayLike,
    *,
    by: By = "tyre age",
    laps: tuple[Iterable[int], Iterable[int]] | None = None,
    stint: int = 0,
) -> TimeWon | None:
    """From all clean laps of two drivers that have a partner; None where they are too few.

    session   as `load_session` or `simulate_race` gives it
    drivers   two codes
    edges     of the cells, shares of the lap from 0 to 1
    by        "tyre age" (and compound), or "lap number"
    laps      numbers to choose from, for each driver; None takes all
    stint     of the first driver; 0 takes all
    """
    one, other = (session.driver(code).laps for code in drivers)
    first, second = (
        clean if chosen is None else clean[np.isin(clean, list(chosen))]
        for clean, chosen in zip((clean_laps(one), clean_laps(other)), laps or (None, None), strict=True)
    )
    if stint:
        first = first[np.isin(first, one.number[one.stint == stint])]
    trend = lap_trend(session) if by == "tyre age" else None
    if drivers[0] == drivers[1] or (by == "tyre age" and trend is None):
        return None
    matched = (
        laps_on_like_tyres(one, other, first.tolist(), second.tolist())
        if by == "tyre age"
        else tuple((int(n), int(n)) for n in np.intersect1d(first, second))
    )
    clocks = [(lap_clock(session, drivers[0], a), lap_clock(session, drivers[1], b)) for a, b in matched]
    timed = [(pair, a, b) for pair, (a, b) in zip(matched, clocks, strict=True) if a is not None and b is not None]
    if len(timed) < FEWEST_LAPS:
        return None
    grid = np.asarray(edges, np.float64)
    taken = np.stack([np.diff(a.at(grid)) for _, a, _ in timed])  # [L, M] by the first driver
    won = np.stack([np.diff(b.at(grid)) for _, _, b in timed]) - taken
    pairs = tuple(pair for pair, _, _ in timed)
    later = np.array([a - b for a, b in pairs], np.float64)
    lighter = 0.0 if trend is None else trend.lap
    won += lighter * later[:, None] * taken / taken.sum(axis=1, keepdims=True)
    every = tuple(clock for _, a, b in timed for clock in (a, b))
    return TimeWon(pairs, by, grid, won, float(later.mean()), trend, every)


# ---- long runs ------------------------------------------------------------------------------------------------------
FEWEST = 5  # laps of a run: fewer have no slope
FUEL_S = 0.06  # some 1.8 kg burnt a lap at 0.033 s each: taken where the session cannot tell it itself


@dataclass(frozen=True, eq=False)
class LongRun:
    """Clean laps of one stint of one driver.

    code, stint, compound   whose, and on what
    laps, age               [L] numbers, and laps that the tyres had done at the end of each
    seconds                 [L] lap times
    adjusted                [L] the same as with the fuel of the run's first lap
    slope, error            seconds that each lap of the tyres costs, with its standard error
    scatter                 seconds by which laps stray from that line: how consistent the driver is
    """

    code: str
    stint: int
    compound: str
    laps: npt.NDArray[np.int64]
    age: Floats
    seconds: Floats
    adjusted: Floats
    slope: float
    error: float
    scatter: float


def fuel_effect(session: Session) -> tuple[float, str]:
    """(seconds that a lap time falls by with each lap of burnt fuel, where that number comes from)."""
    trend = lap_trend(session) if is_race(session) else None
    if trend is not None and trend.lap < 0:
        return -trend.lap, f"measured over {trend.n_laps} laps of all drivers, the track's gain of rubber among it"
    return FUEL_S, "assumed: 1.8 kg a lap at 0.033 s a kilogram; this session cannot tell it"


def runs(session: Session, code: str, fuel: float) -> tuple[LongRun, ...]:
    """The runs of a driver that are long enough; laps in traffic (5 % above the median) are left out."""
    laps = session.driver(code).laps
    found = []
    for stint in laps.stints:
        rows = _rows(laps, stint)
        if len(rows) < FEWEST:
            continue
        seconds, age = laps.seconds[rows], laps.tyre_age[rows]
        adjusted = seconds + fuel * (laps.number[rows] - laps.number[rows[0]])
        slope, error, scatter = line(age, adjusted)
        numbers, compound = laps.number[rows], laps.compound[rows[0]]
        found.append(LongRun(code, stint, compound, numbers, age, seconds, adjusted, slope, error, scatter))
    return tuple(found)


def _rows(laps: LapTable, stint: int) -> npt.NDArray[np.intp]:
    rows = np.flatnonzero((laps.stint == stint) & laps.undisturbed & np.isfinite(laps.tyre_age))
    return rows[laps.seconds[rows] < SLOW * np.median(laps.seconds[rows])] if len(rows) else rows


def line(x: Floats, y: Floats) -> tuple[float, float, float]:
    """(slope, its standard error, scatter about the line) by least squares; neighbouring laps are alike, which widens the error."""
    dx, dy = x - x.mean(), y - y.mean()
    spread, free = float((dx**2).sum()), len(x) - 2
    if spread <= 0 or free < 1:
        return float("nan"), float("nan"), float("nan")
    slope = float((dx * dy).sum() / spread)
    left = dy - slope * dx
    total = float((left**2).sum())
    alike = float((left[1:] * left[:-1]).sum() / total) if total > 0 else 0.0
    alike = float(np.clip(alike, 0.0, MOST_ALIKE))
    scatter = float(np.sqrt(total / free))
    return slope, scatter / np.sqrt(spread) * float(np.sqrt((1 + alike) / (1 - alike))), scatter
