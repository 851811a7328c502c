"""Driving in each state: pedals, speeds, gears and corners, and names for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core.maths.gaps import ratio

from .trials import CORNER, FULL_THROTTLE

SLOW_KMH, FAST_KMH = 130.0, 200.0  # limits of slow and fast corners
MOSTLY, BRAKING = 0.5, 0.4  # shares of a state's time: cornering or full throttle; braking
RARE = 0.002  # share of all samples below which a state counts as unused


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
            return "braking"
        if corner:
            return corner
        if self.full >= MOSTLY:
            return "on throttle"
        return "part throttle" if np.isfinite(self.throttle) else "straight"


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
