"""Measurements from raw car samples: pedals by their standard definitions, braking zones and corners."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from gdm_core.maths.gaps import ratio

from .clock import LARGEST_HOLE_S, lap_clock
from .driving import FAST_KMH, SLOW_KMH
from .session import Session
from .time_won import Estimate, mean_of_laps
from .trials import CORNER, FULL_THROTTLE, ON_THE_BRAKE, curvature_along, in_driving_order

Floats = npt.NDArray[np.float64]

MARGIN = 0.3  # share of a lap's time that is kept on either side of it
FEWEST_SAMPLES = 20


@dataclass(frozen=True, eq=False)
class LapSamples:
    """Raw car samples of a lap and of the road before and after it, in time order.

    seconds    [R] since the lap began
    distance   [R] metres from the start line; negative before it, beyond the length after the lap
    channels   [R] values by name, as far as they were sent
    duration   seconds from start to finish line
    """

    seconds: Floats
    distance: Floats
    channels: dict[str, Floats]
    duration: float

    @cached_property
    def inside(self) -> npt.NDArray[np.bool_]:
        """Return [R] whether each sample lies between start and finish line."""
        return np.asarray((self.seconds >= 0) & (self.seconds < self.duration), bool)

    @cached_property
    def weights(self) -> tuple[Floats, Floats]:
        """Return [R] seconds and metres until the next sample, 0 outside the lap."""
        seconds, metres = (np.diff(one, append=one[-1]) * self.inside for one in (self.seconds, self.distance))
        return seconds, metres


@lru_cache(maxsize=40)
def progress(session: Session, code: str) -> Floats:
    """Return [T] metres along all laps at a driver's positions; multiples of the length are at the line."""
    driver = session.driver(code)
    # One call for all laps: the distance travelled resolves ambiguous positions.
    along = session.reference.distance(driver.position, driver.lap).astype(np.float64)
    return np.unwrap(along, period=session.reference.length)


def lap_samples(session: Session, code: str, laps: Iterable[int]) -> dict[int, LapSamples]:
    """Return the raw samples of a driver's laps by number, without laps that have too few."""
    driver, length = session.driver(code), session.reference.length
    if "speed" not in driver.raw.channels:
        return {}
    time, metres = driver.raw.time, progress(session, code)
    after = np.clip(np.searchsorted(driver.time, time), 1, driver.time.size - 1)
    placed = (driver.time[after] - driver.time[after - 1] <= LARGEST_HOLE_S) & (time >= driver.time[0])
    placed &= (time <= driver.time[-1]) & np.isfinite(driver.raw.channels["speed"])
    time, channels = time[placed], {name: values[placed] for name, values in driver.raw.channels.items()}
    along, found = np.interp(time, driver.time, metres), {}
    for number in dict.fromkeys(laps):
        row = np.flatnonzero(driver.laps.number == number)
        if not row.size:
            continue
        start, end = float(driver.laps.start[row[0]]), float(driver.laps.end[row[0]])
        line = length * np.round(np.interp(start, driver.time, metres) / length)
        part = slice(*np.searchsorted(time, [start - MARGIN * (end - start), end + MARGIN * (end - start)]))
        distance = np.maximum.accumulate(along[part] - line) if time[part].size else along[part]
        sent = {name: values[part].astype(np.float64) for name, values in channels.items()}
        one = LapSamples(time[part] - start, distance, sent, end - start)
        if one.inside.sum() >= FEWEST_SAMPLES:
            found[int(number)] = one
    return found


OFF_THROTTLE = 5.0
SHORTEST_COAST_S = 0.5  # moving the foot from one pedal to the other takes up to that long
RELEASE_S = 1.0  # a coast starts from full throttle within this time
PEDAL_MEASURES = {
    "full throttle": "% of time",
    "full throttle, distance": "% of distance",
    "braking": "% of time",
    "coasting": "% of time",
    "lift and coast": "m",
    "top speed": "km/h",
    "speed trap": "km/h",
}


def lifts_and_coasts(lap: LapSamples) -> tuple[tuple[float, float], ...]:
    """Return where the driver lifts and coasts: metres at which the throttle is closed and at which braking starts."""
    if not {"throttle", "brake"} <= lap.channels.keys():
        return ()
    throttle, braking = lap.channels["throttle"], lap.channels["brake"] > ON_THE_BRAKE
    off = (throttle < OFF_THROTTLE) & ~braking
    found = []
    for first in np.flatnonzero(off & ~np.append(True, off[:-1])).tolist():
        after = first + int(np.append(~off[first:], True).argmax())
        if after == len(off) or not braking[after] or not lap.inside[first]:
            continue
        since = lap.seconds[first] - RELEASE_S
        full = (throttle[:first] >= FULL_THROTTLE) & (lap.seconds[:first] >= since)
        seconds = float(lap.seconds[after] - lap.seconds[first])
        if full.any() and seconds >= SHORTEST_COAST_S:
            found.append((float(lap.distance[first]), float(lap.distance[after])))
    return tuple(found)


def pedal_shares(lap: LapSamples, part: slice = slice(None)) -> dict[str, float]:
    """Return the percentages of time and distance on the pedals among some samples of a lap."""
    if "throttle" not in lap.channels:
        return {}
    seconds, metres = (weights[part] for weights in lap.weights)
    throttle = lap.channels["throttle"][part]
    known = np.isfinite(throttle)
    full = throttle >= FULL_THROTTLE
    during = {"full throttle": (seconds, full), "full throttle, distance": (metres, full)}
    if "brake" in lap.channels:
        braking = lap.channels["brake"][part] > ON_THE_BRAKE
        during["braking"] = seconds, braking
        during["coasting"] = seconds, (throttle < OFF_THROTTLE) & ~braking
    return {
        name: 100 * float(ratio(weights[known & there].sum(), weights[known].sum()))
        for name, (weights, there) in during.items()
    }


@dataclass(frozen=True, eq=False)
class LapMeasures:
    """A driver's pedals and speeds, lap by lap (L laps).

    code     driver code
    laps     lap numbers
    values   [L, ...] by measure; NaN if unknown
    """

    code: str
    laps: tuple[int, ...]
    values: dict[str, Floats]

    def mean(self, measure: str) -> Estimate:
        """Return the mean over laps; NaN if unknown on most."""
        return mean_of_laps(self.values[measure])

    def difference(self, other: LapMeasures, measure: str) -> Estimate:
        """Return the mean of this driver minus the other over pairs of laps; each pair has the same row in both."""
        return mean_of_laps(self.values[measure] - other.values[measure])


def lap_measures(session: Session, code: str, laps: Iterable[int]) -> LapMeasures:
    """Measure pedals and speeds of a driver's laps."""
    numbers, table = tuple(dict.fromkeys(int(n) for n in laps)), session.driver(code).laps
    values = {measure: np.full(len(numbers), np.nan) for measure in PEDAL_MEASURES}
    samples = lap_samples(session, code, numbers)
    for row, number in enumerate(numbers):
        values["speed trap"][row] = next(iter(table.speed_trap[table.number == number]), np.nan)
        if (lap := samples.get(number)) is None:
            continue
        for measure, value in pedal_shares(lap).items():
            values[measure][row] = value
        values["lift and coast"][row] = sum(end - start for start, end in lifts_and_coasts(lap))
        values["top speed"][row] = lap.channels["speed"][lap.inside].max()
    return LapMeasures(session.driver(code).code, numbers, values)


GRID_M = 5.0
LARGEST_HOLE_M = 120.0  # longer gaps leave a corner unmeasured
ON_THROTTLE = 20.0  # percent; drivers balance slow corners with less
EXIT_M = 100.0  # the exit speed is measured this far after the corner
SHORTEST_RELEASE_M = 30.0  # shorter pauses do not end a braking zone
EARLIEST_M = 100.0  # throttle that comes on earlier before a corner belongs to the one before
EARLY_M = 200.0  # the earliest braking for a zone, before its usual start
N_DRIVERS = 6  # drivers whose laps locate the braking zones
MEASURED_IN = {
    "braking point": "m",
    "entry speed": "km/h",
    "minimum speed": "km/h",
    "exit speed": "km/h",
    "throttle-on point": "m",
    "lift and coast": "m",
    "full throttle": "% of time",
    "coasting": "% of time",
    "gear": "",
    "time": "s",
}
MEASURES = tuple(MEASURED_IN)


@dataclass(frozen=True)
class BrakingZone:
    """Part of the track where drivers brake for one corner.

    start, end   metres from the start line between which most laps are on the brake
    corner       index of the corner it serves, in driving order: the next one after the start
    """

    start: float
    end: float
    corner: int


@lru_cache(maxsize=4)
def braking_zones(session: Session) -> tuple[BrakingZone, ...]:
    """Find the braking zones in the brake channel, over clean laps of the leading drivers."""
    apex = np.array([corner.distance for corner in in_driving_order(session.corners)])
    grid = np.arange(0, session.reference.length, GRID_M)
    on, n_laps = np.zeros(len(grid)), 0
    able = [driver for driver in session.drivers if "brake" in driver.available_channels]
    for driver in able[:N_DRIVERS]:
        clean = driver.laps.number[driver.laps.quick].tolist()
        for lap in lap_samples(session, driver.code, clean).values():
            if "brake" in lap.channels:
                last = np.clip(np.searchsorted(lap.distance, grid, side="right") - 1, 0, None)
                on += lap.channels["brake"][last] > ON_THE_BRAKE
                n_laps += 1
    if not len(apex) or not n_laps:
        return ()
    zones: dict[int, BrakingZone] = {}
    for first, after in _runs(on / n_laps >= 0.5, round(SHORTEST_RELEASE_M / GRID_M)):
        start, end = float(grid[first]), float(grid[after - 1])
        corner = int(np.searchsorted(apex, start) % len(apex))
        known = zones.get(corner)
        if known is None or end - start > known.end - known.start:
            zones[corner] = BrakingZone(start, end, corner)
    return tuple(sorted(zones.values(), key=lambda zone: zone.start))


def _runs(on: npt.NDArray[np.bool_], shortest_gap: int = 1) -> list[tuple[int, int]]:
    """Return start and stop index of each run of true values; shorter gaps do not end a run."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], on, [False]]).astype(int)))
    found: list[tuple[int, int]] = []
    for first, after in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if found and first - found[-1][1] < shortest_gap:
            found[-1] = (found[-1][0], after)
        else:
            found.append((first, after))
    return found


@dataclass(frozen=True, eq=False)
class Corners(LapMeasures):
    """A driver's measurements in each corner, lap by lap (C corners, L laps).

    values   [L, C] by measure: metres before the corner at which the driver brakes for it, and metres after it at which
             the throttle is on again; metres of lifting and coasting before it; speeds in km/h at the start of the
             corner's section, at their minimum and 100 m after the corner (or at the end of the section); pedals in % of
             the time in the section; lowest gear; section time in seconds; NaN if unknown
    names    corner names, such as T1
    """

    names: tuple[str, ...]

    def joined(self, joint: Sequence[tuple[int, int]], names: Sequence[str]) -> Corners:
        """Return the driver's points and speeds in corners that share a braking zone, from first to last corner."""
        first, last = (list(ends) for ends in zip(*joint, strict=True))
        lowest = [np.fmin.reduce(self.values["minimum speed"][:, a : b + 1], axis=1) for a, b in joint]
        values = {name: self.values[name][:, first] for name in ("braking point", "entry speed", "lift and coast")}
        values["lift point"] = values["braking point"] + values["lift and coast"]
        values |= {name: self.values[name][:, last] for name in ("throttle-on point", "exit speed")}
        return Corners(self.code, self.laps, values | {"minimum speed": np.column_stack(lowest)}, tuple(names))

    def kinds(self) -> tuple[str, ...]:
        """Return "low", "medium" or "high" per corner, by its minimum speed."""
        speed = self.mean("minimum speed").mean
        return tuple(
            "low" if v < SLOW_KMH else "high" if v > FAST_KMH else "medium" if np.isfinite(v) else "" for v in speed
        )


def corner_windows(apex: Floats, length: float) -> Floats:
    """Return the edges [C + 1] in metres of corners, halfway between neighbours; the first may lie before the line."""
    before = np.append(apex[-1] - length, apex[:-1])
    edges = (apex + before) / 2
    return np.append(edges, edges[0] + length)


def stretches(session: Session) -> tuple[tuple[str, ...], Floats, Floats]:
    """Return names, distances [C] and window edges [C + 1] of corners, in metres."""
    ordered = in_driving_order(session.require_corners())
    apex = np.array([corner.distance for corner in ordered])
    return tuple(f"T{corner.key}" for corner in ordered), apex, corner_windows(apex, session.reference.length)


PHASES = ("Straights", "Braking", "Slow corners", "Medium corners", "Fast corners")


def phases(session: Session, distance: Floats) -> npt.NDArray[np.int64]:
    """Return the index in PHASES at each distance [T]: braking zones, then bends by the lowest mean speed of their corner."""
    ordered = in_driving_order(session.corners)
    found = np.zeros(len(distance), np.int64)
    if len(ordered) > 1:
        driver = next(one for one in session.drivers if one.has_position and len(one.laps))
        clean = driver.laps.number[driver.laps.quick].tolist() or driver.laps.number.tolist()
        speed = corners_of(session, driver.code, clean).mean("minimum speed").mean
        kind = np.where(speed < SLOW_KMH, 2, np.where(speed > FAST_KMH, 4, 3))
        _, _, edges = stretches(session)
        window = (
            np.searchsorted(edges - edges[0], np.mod(distance - edges[0], session.reference.length), side="right") - 1
        )
        found = np.where(
            np.abs(curvature_along(session, distance)) >= CORNER, kind[np.clip(window, 0, len(kind) - 1)], found
        )
    for zone in braking_zones(session):
        found[(distance >= zone.start) & (distance <= zone.end)] = 1
    return found


def joint_corners(session: Session) -> tuple[tuple[int, int], ...]:
    """Return first and last corner of each braking zone, or the corner alone, in driving order."""
    _, apex, edges = stretches(session)
    ends = {zone.corner: zone.end for zone in braking_zones(session)}
    found: list[tuple[int, int]] = []
    for corner in range(len(apex)):
        if found and ends.get(found[-1][0], -np.inf) > edges[corner] + SHORTEST_RELEASE_M:
            found[-1] = found[-1][0], corner
        else:
            found.append((corner, corner))
    return tuple(found)


def corners_of(session: Session, code: str, laps: Iterable[int]) -> Corners:
    """Measure a driver's corners on these laps; NaN where a gap interrupts a corner."""
    names, apex, edges = stretches(session)
    numbers = tuple(dict.fromkeys(int(n) for n in laps))
    values = {measure: np.full((len(numbers), len(apex)), np.nan) for measure in MEASURES}
    samples, zones = lap_samples(session, code, numbers), braking_zones(session)
    for row, number in enumerate(numbers):
        values["time"][row] = _times(session, code, number, edges)
        if (lap := samples.get(number)) is None:
            continue
        for c in range(len(apex)):
            for measure, value in _measure(lap, apex[c], edges[c], edges[c + 1]).items():
                values[measure][row, c] = value
        for zone, before in zip(zones, (None, *zones), strict=False):
            values["braking point"][row, zone.corner] = apex[zone.corner] - _braking_point(lap, zone, before)
        if "brake" in lap.channels and "throttle" in lap.channels:
            values["lift and coast"][row] = 0.0
            for start, end in lifts_and_coasts(lap):
                values["lift and coast"][row, np.searchsorted(apex, start) % len(apex)] += end - start
    return Corners(session.driver(code).code, numbers, values, names)


def _times(session: Session, code: str, number: int, edges: Floats) -> Floats:
    """Return [C] seconds in each section of a lap; what lies beyond its lines is taken from its other end."""
    clock = lap_clock(session, code, number)
    if clock is None:
        return np.full(len(edges) - 1, np.nan)
    shares = edges / session.reference.length
    before = np.floor(shares)  # whole laps
    return np.diff(clock.seconds_at(shares - before) + before * clock.seconds_at(1.0))


def _measure(lap: LapSamples, apex: float, start: float, end: float) -> dict[str, float]:
    """Return the measures of one corner; {} if a gap interrupts it."""
    first, after = np.searchsorted(lap.distance, [start, end]).tolist()
    passed = np.array([start, *lap.distance[first:after], end])
    if after == first or (passed[1:] - passed[:-1]).max() > LARGEST_HOLE_M:
        return {}
    speed = lap.channels["speed"]
    entry, leave = np.interp([start, min(apex + EXIT_M, end)], lap.distance, speed)
    slowest = first + int(speed[first:after].argmin())
    found = {"entry speed": float(entry), "exit speed": float(leave), "minimum speed": float(speed[slowest])}
    if "gear" in lap.channels:
        found["gear"] = float(np.fmin.reduce(lap.channels["gear"][first:after]))
    if "throttle" in lap.channels:
        on = lap.channels["throttle"][first:after] >= ON_THROTTLE
        point = _throttle_on(on.tolist(), slowest - first)
        along = np.nan if point is None else lap.distance[first + point] - apex
        found["throttle-on point"] = along if along > -EARLIEST_M else np.nan
        shares = pedal_shares(lap, slice(first, after))
        found |= {name: shares[name] for name in ("full throttle", "coasting") if name in shares}
    return found


def _throttle_on(on: list[bool], slowest: int) -> int | None:
    """Return the sample at which the throttle comes on for the exit; None without a lift or an exit."""
    if all(on) or not any(on[slowest:]):
        return None
    first = slowest + on[slowest:].index(True)
    while first > 0 and on[first - 1]:  # already on at the slowest sample
        first -= 1
    return first


def _braking_point(lap: LapSamples, zone: BrakingZone, before: BrakingZone | None) -> float:
    """Return metres from the line at which a driver starts to brake in a zone; NaN if not."""
    if "brake" not in lap.channels:
        return float("nan")
    begin = max(zone.start - EARLY_M, zone.start - EARLY_M if before is None else before.end)
    part = np.flatnonzero((lap.distance >= begin) & (lap.distance <= zone.end))
    on = lap.channels["brake"][part] > ON_THE_BRAKE
    for first, after in _runs(on):
        if first > 0 and lap.distance[part[after - 1]] >= zone.start:  # not the end of earlier braking
            return float(lap.distance[part[first]])
    return float("nan")
