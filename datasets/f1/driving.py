"""What a car does: how the track turns, what the driver does with the pedals there, and a name for each state from that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core.maths.gaps import ratio

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
