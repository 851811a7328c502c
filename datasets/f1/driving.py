"""Driving behaviour by state and by corner: curvature, pedals, speeds, gears and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core.maths.gaps import ratio

from .pedals import FULL_THROTTLE, ON_THE_BRAKE
from .session import Corner, Session

Floats = npt.NDArray[np.float64]

STEP_M = 5.0
REACH_M = 20.0  # each way; feed positions are accurate to a metre or two
CORNER = 1 / 250.0  # 1/m; wider bends need no lift
SLOW_KMH, FAST_KMH = 130.0, 200.0  # limits of slow and fast corners
MOSTLY, BRAKING = 0.5, 0.4  # shares of a state's time: cornering or full throttle; braking
RARE = 0.002  # share of all samples below which a state counts as unused
ACTIVITIES = ("braking", "cornering", "full throttle", "part throttle")


@dataclass(frozen=True)
class Driving:
    """Mean driving values of a state, weighted by its share of each sample; NaN if missing.

    use            share of all samples
    speed          km/h
    throttle       percent
    full           share of the state's time at full throttle
    brake          share of the state's time on the brake
    gear           mean gear
    cornering      share of the state's time in bends with a radius under 250 m
    left           share of the cornering time in left-hand bends
    corner_speed   speed while cornering, km/h
    curvature      mean absolute curvature, 1/m
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
        """Return a short description, such as "slow left-hander", from the available channels."""
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
            return "on throttle"
        return "part throttle" if np.isfinite(self.throttle) else "straight"


def curvature(line: npt.ArrayLike, length: float, distance: npt.ArrayLike) -> Floats:
    """Return [T] curvature in 1/m of a closed, evenly spaced line [M, 2] at distances along it."""
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
    """Return [T] curvature of the track in 1/m, positive to the left."""
    reference = session.reference
    return curvature(np.vstack([reference.points, reference.points[:1]]), reference.length, distance)


def describe(states: npt.ArrayLike, channels: Mapping[str, npt.ArrayLike], turn: npt.ArrayLike) -> list[Driving]:
    """Return driving values of K states [T, K] from channels [T] and curvature [T]."""
    soft, bend = np.asarray(states, np.float64), np.asarray(turn, np.float64)
    nothing = np.full(len(soft), np.nan)
    speed, throttle, brake, gear = (
        np.asarray(channels.get(name, nothing), np.float64) for name in ("speed", "throttle", "brake", "gear")
    )
    inside = np.abs(bend) >= CORNER
    seen = {
        "speed": speed,
        "throttle": throttle,
        "full": np.where(np.isfinite(throttle), throttle >= FULL_THROTTLE, np.nan),
        "brake": brake,
        "gear": gear,
        "cornering": inside.astype(np.float64),
        "left": np.where(inside, bend > 0, np.nan),
        "corner_speed": np.where(inside, speed, np.nan),
        "curvature": np.abs(bend),
    }
    table = np.column_stack(list(seen.values()))  # [T, values]
    known = np.isfinite(table)
    # Two matrix products, for speed: the first figure needs the names of 20,000 samples.
    weight = soft.T @ known
    total = soft.T @ np.where(known, table, 0)
    means = ratio(total, weight)
    return [
        Driving(use=float(share), **dict(zip(seen, map(float, row), strict=True)))
        for share, row in zip(soft.mean(axis=0), means, strict=True)
    ]


def proposed_names(found: Sequence[Driving]) -> list[str]:
    """Return a unique name per state, with speed or number added to duplicates."""
    names = [one.name for one in found]
    named = [
        f"{one.name}, {one.speed:.0f} km/h" if names.count(one.name) > 1 and np.isfinite(one.speed) else one.name
        for one in found
    ]
    return [f"{name} ({k + 1})" if named.count(name) > 1 else name for k, name in enumerate(named)]


def activities(channels: Mapping[str, npt.ArrayLike], turn: npt.ArrayLike) -> npt.NDArray[np.int64] | None:
    """Return [T] indices into ACTIVITIES, -1 where a pedal is missing; None without pedal channels."""
    if "throttle" not in channels or "brake" not in channels:
        return None
    throttle, brake = (np.asarray(channels[name], np.float64) for name in ("throttle", "brake"))
    found = np.full(len(throttle), 3, np.int64)
    found[throttle >= FULL_THROTTLE] = 2
    found[np.abs(np.asarray(turn)) >= CORNER] = 1
    found[brake > ON_THE_BRAKE] = 0
    found[~(np.isfinite(throttle) & np.isfinite(brake))] = -1
    return found


# ---- segments: segment c runs from corner c to the next; the last one crosses the start line ----------------------------
def segment_names(corners: tuple[Corner, ...]) -> tuple[str, ...]:
    """Return segment names such as "T1-T2"; the last segment crosses the start line.

    corners   corners of a session
    """
    ordered = in_driving_order(corners)
    following = (*ordered[1:], *ordered[:1])
    return tuple(f"T{one.key}-T{other.key}" for one, other in zip(ordered, following, strict=True))


def in_driving_order(corners: tuple[Corner, ...]) -> tuple[Corner, ...]:
    """Sort corners by distance from the start line, because numbers do not order 1 and 1A."""
    return tuple(sorted(corners, key=lambda corner: (corner.distance, corner.number, corner.letter)))


def segment_of(corners: tuple[Corner, ...], distance: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return [T] segment index at each distance along the lap.

    corners    corners of a session
    distance   [T] metres from the start line
    """
    return between([corner.distance for corner in in_driving_order(corners)], distance)


def between(edges: npt.ArrayLike, distance: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return [T] index of the last edge before each distance, wrapping at the start line."""
    # -1, before the first corner, wraps to the last segment
    found: npt.NDArray[np.int64] = np.mod(np.searchsorted(edges, distance, side="right") - 1, np.size(edges))
    return found


def lap_distance(session: Session, position: npt.ArrayLike, lap: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return [T] metres from the start line along the reference lap.

    session    from `load_session` or `simulate_race`
    position   [T, 2] positions in time order
    lap        [T] lap numbers
    """
    return session.reference.distance(position, lap).astype(np.float64, copy=False)
