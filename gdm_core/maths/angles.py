"""Angles that jump by a full turn, which no linear dynamics can follow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_TURNS = (360.0, 2 * np.pi)
_ANGLE = re.compile(r"heading|bearing|azimuth|yaw|course|angle|orientation|direction|phase|theta|phi\b", re.IGNORECASE)
_FEWEST_JUMPS = 3  # one is enough if the name says that it is an angle
_LEAST_RANGE = 0.9  # of a turn
_MOST_BETWEEN = 0.1  # steps between a quarter and three quarters of a turn, for each jump
_LEAST_INSIDE = 0.05  # share of values in the middle half; a switch between two ends has none

Floats = npt.NDArray[np.floating[Any]]


def find_angles(recordings: Sequence[Floats], names: Sequence[str]) -> dict[str, float]:
    """Return the channels of recordings [T, N] that jump by a full turn, with the turn in their unit: 360 or 2 pi."""
    lows = np.fmin.reduce([np.fmin.reduce(y, axis=0) for y in recordings])
    highs = np.fmax.reduce([np.fmax.reduce(y, axis=0) for y in recordings])
    found = {}
    for j, (name, low, high) in enumerate(zip(names, lows, highs, strict=True)):
        for turn in _TURNS:
            slack = 1e-3 * turn
            inside = any(start - slack <= low and high <= start + turn + slack for start in (0.0, -turn / 2))
            if inside and high - low >= _LEAST_RANGE * turn and _jumps([y[:, j] for y in recordings], name, turn):
                found[name] = turn
    return found


def _jumps(parts: Sequence[Floats], name: str, turn: float) -> bool:
    """Return whether values jump by a full turn, and by nearly nothing else that is large."""
    parts = [part[np.isfinite(part)].astype(np.float64) for part in parts]
    steps = np.concatenate([np.abs(np.diff(part)) for part in parts]) / turn
    jumps, between = int((steps > 0.75).sum()), int(((steps > 0.25) & (steps <= 0.75)).sum())
    values = np.concatenate(parts)
    middle = np.abs(values - (values.min() + values.max()) / 2) < turn / 4
    likely = bool(_ANGLE.search(name)) or (jumps >= _FEWEST_JUMPS and middle.mean() >= _LEAST_INSIDE)
    return jumps > 0 and likely and between <= _MOST_BETWEEN * jumps
