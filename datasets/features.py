"""Egocentric features of tracked animals.

Raw coordinates mostly encode an animal's place in the cage. Egocentric features are invariant to translation and rotation
of the scene. They use past frames only, so forecasts stay valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError

Floats = npt.NDArray[np.floating[Any]]
LAG_SECONDS = 0.1  # of speeds

_FRONT = (r"^neck", r"nose|snout", r"head", r"^top$", r"ear", r"cent(er|re)|body")
_REAR = (r"tail[ _.-]?(base|root|start|0)$|^tti$", r"tail", r"hip|rump|lat|back")
_NOSE = (r"nose|snout", *_FRONT)


@dataclass(frozen=True)
class BodyAxis:
    """Indices of the parts at the tip, front and rear of the body."""

    tip: int
    front: int
    rear: int


def body_axis(parts: Sequence[str]) -> BodyAxis:
    """Return the body's axis by part names, or else the first and last parts."""
    if len(parts) < 2:
        raise DataError(f"Features need at least two body parts to find an animal's heading; there is {len(parts)}.")
    rear = _first_match(parts, _REAR)
    front, tip = (_first_match(parts, patterns, avoid=rear) for patterns in (_FRONT, _NOSE))
    if rear is None or front is None or tip is None:
        return BodyAxis(0, 0, len(parts) - 1)
    return BodyAxis(tip, front, rear)


def _first_match(parts: Sequence[str], patterns: Iterable[str], avoid: int | None = None) -> int | None:
    plain = [part.strip().lower().replace("_", " ") for part in parts]
    matches = (i for pattern in patterns for i, part in enumerate(plain) if i != avoid and re.search(pattern, part))
    return next(matches, None)


def egocentric_features(
    xy: npt.NDArray[np.float32], animals: Sequence[str], parts: Sequence[str], rate_hz: float
) -> tuple[npt.NDArray[np.float32], tuple[str, ...]]:
    """Return features [T, N] of animals from their parts [T, A, 2, P], and the names of the features.

    shape     length from tip to rear, and log elongation of the parts
    motion    forward, lateral and turning speed, over the last 0.1 s (pixels or radians per second)
    relation  for each pair: distances nose-nose, nose-tail both ways, centre-centre; approach speed; facing angles

    A feature is NaN if a part that it needs is missing. The first frame has no speed.
    """
    axis = body_axis(parts)
    lag = max(1, round(LAG_SECONDS * rate_hz))
    centre = _centre(xy)  # [T, A, 2]
    along = xy[..., axis.front] - xy[..., axis.rear]
    with np.errstate(invalid="ignore", divide="ignore"):
        facing = along / np.linalg.norm(along, axis=2, keepdims=True)  # [T, A, 2] unit vector, NaN where unknown
    velocity = _change(centre, lag) * rate_hz
    columns: list[tuple[str, Floats]] = []
    for a, animal in enumerate(animals):
        f = facing[:, a]
        left = np.stack([-f[:, 1], f[:, 0]], axis=1)  # [T, 2]
        columns.append((f"{animal} length", np.linalg.norm(xy[:, a, :, axis.tip] - xy[:, a, :, axis.rear], axis=1)))
        columns.append((f"{animal} elongation", _elongation(xy[:, a])))
        columns.append((f"{animal} forward speed", (velocity[:, a] * f).sum(axis=1)))
        columns.append((f"{animal} lateral speed", (velocity[:, a] * left).sum(axis=1)))
        columns.append((f"{animal} turning speed", _turning_speed(f, lag) * rate_hz))
    nose, tail = xy[..., axis.tip], xy[..., axis.rear]  # [T, A, 2]
    for a, b in combinations(range(len(animals)), 2):
        first, second = animals[a], animals[b]
        apart = np.linalg.norm(centre[:, b] - centre[:, a], axis=1)
        columns += [
            (f"{first} to {second} nose-nose", np.linalg.norm(nose[:, a] - nose[:, b], axis=1)),
            (f"{first} to {second} nose-tail", np.linalg.norm(nose[:, a] - tail[:, b], axis=1)),
            (f"{second} to {first} nose-tail", np.linalg.norm(nose[:, b] - tail[:, a], axis=1)),
            (f"{first} to {second} distance", apart),
            (f"{first} to {second} approach speed", -_change(apart, lag) * rate_hz),
        ]
        for me, other in ((a, b), (b, a)):
            with np.errstate(invalid="ignore", divide="ignore"):
                toward = (centre[:, other] - centre[:, me]) / apart[:, None]  # [T, 2]
            f, name = facing[:, me], f"{animals[me]} facing {animals[other]}"
            columns.append((f"{name} cos", (f * toward).sum(axis=1)))
            columns.append((f"{name} sin", f[:, 0] * toward[:, 1] - f[:, 1] * toward[:, 0]))
    names, values = zip(*columns, strict=True)
    return np.stack(values, axis=1).astype(np.float32), tuple(names)  # [T, N]


_LENGTHS = ("x", "y", "length", "nose-nose", "nose-tail", "distance")
_SPEEDS = ("forward speed", "lateral speed", "approach speed")


def add_units(channels: Sequence[str], unit: str) -> dict[str, str]:
    """Return channel -> channel with unit, for lengths and speeds."""
    units = {end: unit for end in _LENGTHS} | {end: f"{unit}/s" for end in _SPEEDS}
    found = {name: units.get(name.rsplit(" ", 1)[-1], units.get(" ".join(name.split(" ")[-2:]))) for name in channels}
    return {name: f"{name} ({its})" for name, its in found.items() if unit and its}


def _centre(xy: Floats) -> Floats:
    """Return the mean visible part [T, A, 2], NaN if more than half are missing."""
    seen = np.isfinite(xy)
    count = seen.sum(axis=3)
    total = np.where(seen, xy, 0).sum(axis=3)
    return np.where(2 * count >= xy.shape[3], total / np.maximum(count, 1), np.nan).astype(np.float32)


def _change(values: Floats, lag: int) -> Floats:
    """Return the change per frame over up to `lag` frames, NaN in the first."""
    back = np.maximum(np.arange(len(values)) - lag, 0)
    span = np.maximum(np.arange(len(values)) - back, 1).reshape(-1, *[1] * (values.ndim - 1))
    change = (values - values[back]) / span
    change[0] = np.nan
    return change


def _turning_speed(facing: Floats, lag: int) -> Floats:
    """Return the signed turn per frame over the last `lag` frames."""
    steps = np.arange(len(facing))
    back = np.maximum(steps - lag, 0)
    old = facing[back]
    turn = np.arctan2(old[:, 0] * facing[:, 1] - old[:, 1] * facing[:, 0], (old * facing).sum(axis=1))
    turn = turn / np.maximum(steps - back, 1)
    turn[0] = np.nan
    return turn


def _elongation(xy: Floats) -> Floats:
    """Return the log ratio [T] of the parts' long to short axis, NaN below three."""
    seen = np.isfinite(xy[:, 0]) & np.isfinite(xy[:, 1])  # [T, P]
    count = seen.sum(axis=1)
    points = np.where(seen[:, None], xy, 0)
    mean = points.sum(axis=2) / np.maximum(count, 1)[:, None]
    off = np.where(seen[:, None], xy - mean[..., None], 0)  # [T, 2, P]
    n = np.maximum(count, 1)
    xx, yy, cross = (off[:, 0] ** 2).sum(1) / n, (off[:, 1] ** 2).sum(1) / n, (off[:, 0] * off[:, 1]).sum(1) / n
    middle, spread = (xx + yy) / 2, np.hypot((xx - yy) / 2, cross)
    floor = 1e-4 * middle + 1e-12  # limits the ratio of standard deviations to 100 for parts on a line
    ratio = np.maximum(middle + spread, floor) / np.maximum(middle - spread, floor)
    return np.where(count >= 3, 0.5 * np.log(ratio), np.nan)
