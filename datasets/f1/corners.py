"""Corners: the track segments between consecutive numbered ones, and corner by corner where drivers brake, how fast they go in,
through and out, in which gear, and what it costs in time.

Segment c runs from corner c to corner c+1; the last one runs from the last corner over the start line to the first,
so that a circuit of 16 corners has 16 segments. A sample belongs to the segment in which its nearest point on the
session's reference lap lies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core.maths.gaps import known_mean, ratio

from .driving import FAST_KMH, SLOW_KMH
from .session import Corner, Driver, Session, lap_clock

Floats = npt.NDArray[np.float64]

GRID_M = 5.0
LARGEST_HOLE_M = 120.0  # without a sample: longer, and what the car did there is a guess
ON_THE_BRAKE = 0.5
MEASURES = ("braking point", "entry speed", "minimum speed", "exit speed", "gear", "time")
MEASURED_IN = {
    "braking point": "m",
    "entry speed": "km/h",
    "minimum speed": "km/h",
    "exit speed": "km/h",
    "gear": "",
    "time": "s",
}


def segment_names(corners: tuple[Corner, ...]) -> tuple[str, ...]:
    """One name a segment, such as "T1-T2"; the last wraps over the start line.

    corners   of a session
    """
    ordered = in_driving_order(corners)
    following = (*ordered[1:], *ordered[:1])
    return tuple(f"T{one.key}-T{other.key}" for one, other in zip(ordered, following, strict=True))


def in_driving_order(corners: tuple[Corner, ...]) -> tuple[Corner, ...]:
    """Corners by distance from the start line: numbers alone do not order 1 and 1A."""
    return tuple(sorted(corners, key=lambda corner: (corner.distance, corner.number, corner.letter)))


def segment_of(corners: tuple[Corner, ...], distance: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """[T] the segment in which each distance along the lap lies.

    corners   of a session
    """
    return between([corner.distance for corner in in_driving_order(corners)], distance)


def between(edges: npt.ArrayLike, distance: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """[T] after which of the places at `edges` along the lap each distance lies."""
    # before the first corner the index is -1: the segment that came over the line
    found: npt.NDArray[np.int64] = np.mod(np.searchsorted(edges, distance, side="right") - 1, np.size(edges))
    return found


def segment_labels(session: Session, position: npt.ArrayLike, lap: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """[T] segment number of each position, for positions in time order with their lap numbers.

    session   as `load_session` or `simulate_race` gives it
    """
    return segment_of(session.require_corners(), lap_distance(session, position, lap))


def lap_distance(session: Session, position: npt.ArrayLike, lap: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """[T] metres from the start line along the reference lap.

    session    as `load_session` or `simulate_race` gives it
    position   [T, 2] places in time order
    """
    return session.reference.distance(position, lap).astype(np.float64, copy=False)


@dataclass(frozen=True, eq=False)
class Corners:
    """What a driver does in each corner, lap by lap. C corners, L laps.

    code     of the driver
    names    of the corners, such as T1
    laps     their numbers
    values   by measure, [L, C]: metres before the corner at which braking begins, speeds in km/h where the corner's stretch begins,
             at their lowest in it and where it ends, the lowest gear, seconds for the stretch; NaN where it cannot be told
    """

    code: str
    names: tuple[str, ...]
    laps: tuple[int, ...]
    values: dict[str, Floats]

    def mean(self, measure: str) -> tuple[Floats, Floats]:
        """([C] mean, [C] standard error) over laps; NaN where too few are known."""
        values = self.values[measure]
        mean, n = known_mean(values), np.isfinite(values).sum(axis=0)
        return mean, np.sqrt(ratio(known_mean((values - mean) ** 2), n - 1))

    def kinds(self) -> tuple[str, ...]:
        """[C] low, medium or high speed, by the lowest speed in the corner."""
        speed, _ = self.mean("minimum speed")
        return tuple(
            "low" if v < SLOW_KMH else "high" if v > FAST_KMH else "medium" if np.isfinite(v) else "" for v in speed
        )


def stretches(session: Session) -> tuple[tuple[str, ...], Floats, Floats]:
    """(names, [C] metres of each corner, [C + 1] where the stretch of each begins): half-way between two corners; the first one
    begins half-way after the last.
    """
    ordered = in_driving_order(session.require_corners())
    apex = np.array([corner.distance for corner in ordered])
    length = session.reference.length
    before = np.append(apex[-1] - length, apex[:-1])
    edges = (apex + before) / 2
    return tuple(f"T{corner.key}" for corner in ordered), apex, np.append(edges, edges[0] + length)


def corners_of(session: Session, code: str, laps: Iterable[int]) -> Corners:
    """What a driver does in each corner on these laps; a lap with a hole in a corner says nothing of that corner."""
    names, apex, edges = stretches(session)
    driver, length = session.driver(code), session.reference.length
    numbers = tuple(dict.fromkeys(int(n) for n in laps))
    # One question for all laps: places along the lap are told by how far the car has come.
    distance = lap_distance(session, driver.position, driver.lap)
    values = {measure: np.full((len(numbers), len(apex)), np.nan) for measure in MEASURES}
    for row, number in enumerate(numbers):
        found = _lap(driver, distance, number, length)
        clock = lap_clock(session, code, number)
        if clock is not None:
            share = np.clip(edges / length, 0, 1)
            times = np.diff(clock.at(share))
            if edges[0] < 0:  # the first stretch begins before the line: that part of it ends this lap
                times[0] += clock.at(1.0) - clock.at(1 + edges[0] / length)
            else:  # the last stretch ends after the line: that part of it begins this lap
                times[-1] += clock.at(edges[0] / length)
            values["time"][row] = times
        if found is None:
            continue
        along, speed, brake, gear = found
        for c in range(len(apex)):
            inside = (along >= edges[c]) & (along <= edges[c + 1])
            if not inside.any() or np.diff(along[inside], prepend=edges[c], append=edges[c + 1]).max() > LARGEST_HOLE_M:
                continue
            grid = np.arange(edges[c], edges[c + 1], GRID_M)
            pace = np.interp(grid, along, speed)
            values["entry speed"][row, c], values["exit speed"][row, c] = pace[0], pace[-1]
            values["minimum speed"][row, c] = pace.min()
            if gear is not None:
                values["gear"][row, c] = np.nanmin(gear[inside]) if np.isfinite(gear[inside]).any() else np.nan
            if brake is not None:
                values["braking point"][row, c] = _braking(along, brake, apex[c], edges[c])
    return Corners(driver.code, names, numbers, values)


def _lap(
    driver: Driver, distance: Floats, number: int, length: float
) -> tuple[Floats, Floats, Floats | None, Floats | None] | None:
    """(metres, speed, brake, gear) of a lap, with what lies before and after it of the stretches at the line."""
    if "speed" not in driver.available_channels:
        return None
    rows = np.flatnonzero((np.abs(driver.lap - number) <= 1) & np.isfinite(driver.channels["speed"]))
    if not len(rows):
        return None
    # At the line a sample may count to the lap before, or already to the next.
    along = np.unwrap(distance[rows] + (driver.lap[rows] - number) * length, period=length)
    own = driver.lap[rows] == number
    if own.any():
        along -= length * np.round((np.median(along[own]) - length / 2) / length)
    ahead = np.append(True, np.diff(np.maximum.accumulate(along)) > 0)
    rows, along = rows[ahead], along[ahead]
    if len(rows) < 20:
        return None
    brake, gear = (
        driver.channels[name][rows].astype(np.float64) if name in driver.available_channels else None
        for name in ("brake", "gear")
    )
    return along, driver.channels["speed"][rows].astype(np.float64), brake, gear


def _braking(along: Floats, brake: Floats, apex: float, start: float) -> float:
    """Metres before the corner at which the braking that leads into it begins; NaN where the driver does not brake for it."""
    inside = np.flatnonzero((along >= start - LARGEST_HOLE_M) & (along <= apex + 30))
    on = brake[inside] > ON_THE_BRAKE
    if not on.any():
        return float("nan")
    last = int(np.flatnonzero(on)[-1])
    if along[inside[last]] < start:  # that was for the corner before
        return float("nan")
    off = np.flatnonzero(~on[:last])
    first = int(off[-1]) + 1 if len(off) else 0
    return float(apex - along[inside[first]])


@dataclass(frozen=True, eq=False)
class Difference:
    """By how much one driver's corners differ from another's: [C] mean and standard error, and whether chance does as much.

    measure   of `MEASURES`
    mean      of the first less the second, with its `error`
    """

    measure: str
    mean: Floats
    error: Floats

    def sure(self, most: float = 3.0) -> npt.NDArray[np.bool_]:
        """[C] where it is beyond so many standard errors: among some sixteen corners chance alone would name one at two."""
        return np.asarray(np.abs(self.mean) > most * self.error, bool)


def differences(one: Corners, other: Corners, measure: str) -> Difference:
    """The first driver less the second."""
    (a, ea), (b, eb) = one.mean(measure), other.mean(measure)
    return Difference(measure, a - b, np.hypot(ea, eb))
