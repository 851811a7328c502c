"""Driving in each state: pedals, speeds, gears and corners, and names for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.maths.gaps import ratio

from .trials import CORNER, FULL_THROTTLE

SLOW_KMH, FAST_KMH = 130.0, 200.0  # limits of slow and fast corners
MOSTLY, BRAKING = 0.5, 0.4  # shares of a state's time: cornering or full throttle; braking
RARE = 0.002  # share of all samples below which a state counts as unused


def describe(states: npt.ArrayLike, channels: Mapping[str, npt.ArrayLike], turn: npt.ArrayLike) -> pd.DataFrame:
    """Return mean driving values of K states [T, K], one row each, weighted by its share of each sample; NaN if missing.

    Shares are of the state's time, but for `use` of all samples and `left` of the time in bends with a radius under 250 m.

    channels   [T] speed in km/h, throttle in percent, brake and gear, as far as they were sent
    turn       [T] curvature in 1/m, positive to the left
    """
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
    return pd.DataFrame({"use": soft.mean(axis=0), **dict(zip(seen, means.T, strict=True))})


def proposed_names(found: pd.DataFrame) -> list[str]:
    """Return a unique name per state, with speed or number added to duplicates."""
    states: list[Any] = list(found.itertuples(index=False))
    names = [_name(one) for one in states]
    named = [
        f"{name}, {one.speed:.0f} km/h" if names.count(name) > 1 and np.isfinite(one.speed) else name
        for name, one in zip(names, states, strict=True)
    ]
    return [f"{name} ({k + 1})" if named.count(name) > 1 else name for k, name in enumerate(named)]


def _name(one: Any) -> str:
    """Return a short description of a state, such as "slow left-hander", from the known values."""
    if not one.use >= RARE:
        return "unused"
    if one.brake >= BRAKING:
        return "braking"
    if one.cornering >= MOSTLY:
        side = "left-hander" if one.left >= 2 / 3 else "right-hander" if one.left <= 1 / 3 else "corners"
        pace = "slow" if one.corner_speed < SLOW_KMH else "fast" if one.corner_speed > FAST_KMH else "medium"
        return f"{pace} {side}" if np.isfinite(one.corner_speed) else side
    if one.full >= MOSTLY:
        return "on throttle"
    return "part throttle" if np.isfinite(one.throttle) else "straight"
