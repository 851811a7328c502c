"""What a car does: how the track turns, what the driver does with the pedals there, and a name for each state from that; and corner
by corner where drivers brake, how fast they go in, through and out, in which gear, and what it costs in time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core.maths.gaps import known_mean, ratio

from .session import Corner, Driver, Session, lap_clock

Floats = npt.NDArray[np.float64]

STEP_M = 5.0
REACH_M = 20.0  # before and behind: the feed's positions are good to a metre or two
CORNER = 1 / 250.0  # curvature, one by the radius in metres: a wider bend is taken flat out
SLOW_KMH, FAST_KMH = 130.0, 200.0  # of corners, as commentators call them
MOSTLY, BRAKING = 0.5, 0.4  # shares of a state's time: in corners or at full throttle, and on the brake
RARE = 0.002  # of the time: less says nothing of a state
FULL = 95.0  # percent of the throttle
ACTIVITIES = ("braking", "cornering", "full throttle", "part throttle")


@dataclass(frozen=True)
class Driving:
    """One state in numbers: means over its samples, each weighted by the state's share of it. NaN: never sent.

    use      share of all samples
    speed    km/h; throttle in percent; gear
    brake    share of its time on the brake; `full` at full throttle; `cornering` in bends of a radius under 250 m
    left     share of that cornering which is to the left; corner_speed the speed in it
    curvature  how much the track turns either way, one by metres
    """

    use: float
    speed: float
    throttle: float
    full: float
    brake: float
    gear: float
    cornering: float
    left: float
    corner_speed: float
    curvature: float

    @property
    def name(self) -> str:
        """What a driver would say of it. What the car never sent says nothing."""
        if not self.use >= RARE:
            return "unused"
        corner = ""
        if self.cornering >= MOSTLY:
            side = "left-hander" if self.left >= 2 / 3 else "right-hander" if self.left <= 1 / 3 else "corners"
            pace = "slow" if self.corner_speed < SLOW_KMH else "fast" if self.corner_speed > FAST_KMH else "medium"
            corner = f"{pace} {side}" if np.isfinite(self.corner_speed) else side
        if self.brake >= BRAKING:
            return f"braking into {corner}" if corner else "braking"
        if corner:
            return corner
        if self.full >= MOSTLY:
            return "flat out"
        return "part throttle" if np.isfinite(self.throttle) else "straight"


def curvature(line: npt.ArrayLike, length: float, distance: npt.ArrayLike) -> Floats:
    """[T] curvature of a closed line [M, 2], evenly spaced along its length in metres, at distances along it."""
    points = np.asarray(line, np.float64)
    grid = np.arange(0, length, STEP_M)
    along = np.linspace(0, length, len(points))
    even = np.column_stack([np.interp(grid, along, points[:, i]) for i in (0, 1)])
    reach = round(REACH_M / STEP_M)
    ahead, behind = np.roll(even, -reach, axis=0) - even, even - np.roll(even, reach, axis=0)
    cross = behind[:, 0] * ahead[:, 1] - behind[:, 1] * ahead[:, 0]
    angle = np.arctan2(cross, (behind * ahead).sum(axis=1))
    return np.interp(np.asarray(distance, float), grid, angle / REACH_M, period=length)


def curvature_along(session: Session, distance: npt.ArrayLike) -> Floats:
    """[T] how the track turns at distances along the lap, one by metres; above 0 to the left."""
    reference = session.reference
    return curvature(np.vstack([reference.points, reference.points[:1]]), reference.length, distance)


def describe(states: npt.ArrayLike, channels: Mapping[str, npt.ArrayLike], turn: npt.ArrayLike) -> list[Driving]:
    """Each of K states [T, K] in numbers, from the car's channels [T] and the curvature [T]."""
    soft, bend = np.asarray(states, np.float64), np.asarray(turn, np.float64)
    nothing = np.full(len(soft), np.nan)
    speed, throttle, brake, gear = (
        np.asarray(channels.get(name, nothing), np.float64) for name in ("speed", "throttle", "brake", "gear")
    )
    inside = np.abs(bend) >= CORNER
    seen = {
        "speed": speed,
        "throttle": throttle,
        "full": np.where(np.isfinite(throttle), throttle >= FULL, np.nan),
        "brake": brake,
        "gear": gear,
        "cornering": inside.astype(np.float64),
        "left": np.where(inside, bend > 0, np.nan),
        "corner_speed": np.where(inside, speed, np.nan),
        "curvature": np.abs(bend),
    }
    table = np.column_stack(list(seen.values()))  # [T, values]
    known = np.isfinite(table)
    # All states and values in two products: a race has 20,000 samples, and the first picture waits for the names.
    weight = soft.T @ known
    total = soft.T @ np.where(known, table, 0)
    means = ratio(total, weight)
    return [
        Driving(use=float(share), **dict(zip(seen, map(float, row), strict=True)))
        for share, row in zip(soft.mean(axis=0), means, strict=True)
    ]


def proposed_names(found: Sequence[Driving]) -> list[str]:
    """A name for each state, all different: with its speed where several would have one, or its number."""
    names = [one.name for one in found]
    named = [
        f"{one.name}, {one.speed:.0f} km/h" if names.count(one.name) > 1 and np.isfinite(one.speed) else one.name
        for one in found
    ]
    return [f"{name} ({k + 1})" if named.count(name) > 1 else name for k, name in enumerate(named)]


def activities(channels: Mapping[str, npt.ArrayLike], turn: npt.ArrayLike) -> npt.NDArray[np.int64] | None:
    """[T] which of ACTIVITIES was measured, braking first; -1 where a pedal was not sent. None without pedals."""
    if "throttle" not in channels or "brake" not in channels:
        return None
    throttle, brake = (np.asarray(channels[name], np.float64) for name in ("throttle", "brake"))
    found = np.full(len(throttle), 3, np.int64)
    found[throttle >= FULL] = 2
    found[np.abs(np.asarray(turn)) >= CORNER] = 1
    found[brake > 0.5] = 0
    found[~(np.isfinite(throttle) & np.isfinite(brake))] = -1
    return found


# ---- corner by corner -----------------------------------------------------------------------------------------------
# Segment c runs from corner c to corner c+1; the last one runs from the last corner over the start line to the first, so that a
# circuit of 16 corners has 16 segments. A sample belongs to the segment in which its nearest point on the session's reference lap
# lies.
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
class CornerDifference:
    """By how much one driver's corners differ from another's: [C] mean and standard error, and whether chance does as much."""

    mean: Floats
    error: Floats

    def sure(self, most: float = 3.0) -> npt.NDArray[np.bool_]:
        """[C] where it is beyond so many standard errors: among some sixteen corners chance alone would name one at two."""
        return np.asarray(np.abs(self.mean) > most * self.error, bool)


def differences(one: Corners, other: Corners, measure: str) -> CornerDifference:
    """The first driver less the second."""
    (a, ea), (b, eb) = one.mean(measure), other.mean(measure)
    return CornerDifference(a - b, np.hypot(ea, eb))
