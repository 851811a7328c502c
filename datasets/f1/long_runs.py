"""Long runs: what a lap of the tyres costs, with the burnt fuel taken off, in the lap time and in each state of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .laps import is_race
from .session import LapTable, Session
from .time_won import MOST_ALIKE, SLOW, lap_trend

Floats = npt.NDArray[np.float64]

FEWEST = 5  # laps of a run: fewer have no slope
FUEL_S = 0.06  # some 1.8 kg burnt a lap at 0.033 s each: taken where the session cannot tell it itself


@dataclass(frozen=True, eq=False)
class Run:
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
    """(seconds that a lap time falls by with each lap of burnt fuel, where that number comes from).

    session   as `load_session` or `simulate_race` gives it
    """
    trend = lap_trend(session) if is_race(session) else None
    if trend is not None and trend.lap < 0:
        return -trend.lap, f"measured over {trend.n_laps} laps of all drivers, the track's gain of rubber among it"
    return FUEL_S, "assumed: 1.8 kg a lap at 0.033 s a kilogram; this session cannot tell it"


def runs(session: Session, code: str, fuel: float) -> tuple[Run, ...]:
    """The runs of a driver that are long enough; laps in traffic (5 % above the median) are left out.

    session   as `load_session` or `simulate_race` gives it
    code      three letters, such as VER
    fuel      seconds that a lap time falls by with each lap, as `fuel_effect` says
    """
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
        found.append(Run(code, stint, compound, numbers, age, seconds, adjusted, slope, error, scatter))
    return tuple(found)


def _rows(laps: LapTable, stint: int) -> npt.NDArray[np.intp]:
    rows = np.flatnonzero((laps.stint == stint) & laps.undisturbed & np.isfinite(laps.tyre_age))
    return rows[laps.seconds[rows] < SLOW * np.median(laps.seconds[rows])] if len(rows) else rows


def line(x: Floats, y: Floats, groups: npt.NDArray[np.int64] | None = None) -> tuple[float, float, float]:
    """(slope, its standard error, scatter about the line) by least squares; neighbouring laps are alike, which widens the error.

    groups   each with a level of its own; one if not given
    """
    of = np.zeros(len(x), np.int64) if groups is None else np.unique(groups, return_inverse=True)[1]
    n_groups = int(of.max()) + 1
    count = np.bincount(of)
    dx, dy = (values - (np.bincount(of, values) / count)[of] for values in (x, y))
    spread, free = float((dx**2).sum()), len(x) - n_groups - 1
    if spread <= 0 or free < 1:
        return float("nan"), float("nan"), float("nan")
    slope = float((dx * dy).sum() / spread)
    left = dy - slope * dx
    total = float((left**2).sum())
    neighbours = of[1:] == of[:-1]
    alike = float((left[1:] * left[:-1])[neighbours].sum() / total) if total > 0 else 0.0
    alike = float(np.clip(alike, 0.0, MOST_ALIKE))
    scatter = float(np.sqrt(total / free))
    return slope, scatter / np.sqrt(spread) * float(np.sqrt((1 + alike) / (1 - alike))), scatter


def fading(
    found: tuple[Run, ...], shares: Mapping[int, Floats]
) -> tuple[tuple[float, float], tuple[tuple[float, float], ...]]:
    """((slope, error) of the lap time, and of the time in each state): seconds that each lap of the tyres adds, over all runs, each
    with a level of its own. The states' slopes add up to that of the lap.

    found    runs of one driver
    shares   [K] by lap: the share of the lap's time in each state
    """
    kept = [(run.stint, age, seconds, shares[int(n)]) for run in found
            for n, age, seconds in zip(run.laps, run.age, run.adjusted, strict=True) if int(n) in shares]  # fmt: skip
    if len(kept) < FEWEST:
        return (float("nan"), float("nan")), ()
    stint, age, seconds = (np.array([one[i] for one in kept]) for i in range(3))
    part = np.stack([one[3] for one in kept]) * seconds[:, None]  # [L, K]
    whole = line(age, seconds, stint)[:2]
    return whole, tuple(line(age, part[:, k], stint)[:2] for k in range(part.shape[1]))


def shares_by_lap(states: npt.ArrayLike, lap: npt.NDArray[np.int64], fewest: int = 50) -> dict[int, Floats]:
    """[K] mean share of each state on each lap that was sent nearly whole.

    states   [T, K] at even steps, with the lap of each
    fewest   samples that a lap needs
    """
    soft = np.asarray(states, np.float64)
    numbers, where, count = np.unique(lap, return_inverse=True, return_counts=True)
    whole = count > max(fewest, 0.9 * np.median(count))
    total = np.column_stack([np.bincount(where, column) for column in soft.T]) / count[:, None]
    return {int(n): total[i] / total[i].sum() for i, n in enumerate(numbers) if whole[i]}
