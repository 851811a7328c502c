"""Approximate circuits drawn from straight lengths, corner radii and turn angles.

They resemble Shanghai and Suzuka and match their lengths and corner numbers, but they are not surveys. A drawn lap
never closes exactly: the smallest possible change of lengths, radii and angles closes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError

FloatArray = npt.NDArray[np.float64]

SPACING_M = 5.0
EASING_M = 12.0  # the curvature of roads changes gradually
LENGTH_FREEDOM, RADIUS_FREEDOM, ANGLE_FREEDOM = 0.15, 0.1, np.deg2rad(4.0)


@dataclass(frozen=True)
class Piece:
    """Straight (angle 0) or arc, positive to the left; `corner` is the number at its middle."""

    length: float
    angle: float = 0.0
    corner: str = ""


def straight(length: float) -> Piece:
    return Piece(length)


def left(angle: float, radius: float, corner: str = "") -> Piece:
    return Piece(np.deg2rad(angle) * radius, np.deg2rad(angle), corner)


def right(angle: float, radius: float, corner: str = "") -> Piece:
    return Piece(np.deg2rad(angle) * radius, -np.deg2rad(angle), corner)


@dataclass(frozen=True)
class CircuitDrawing:
    """Circuit as drawn: pieces from the start line, and targets for the finished lap."""

    title: str
    length: float  # metres, of the real circuit
    turning: float  # total turn of a lap in radians: -2 pi clockwise, 0 for a figure of eight
    heading: float  # direction of the start straight in radians
    rotation: float  # degrees that turn maps to the official orientation
    laps: int
    grip: float  # calibrated to real race lap times
    pieces: tuple[Piece, ...]


LAYOUTS = {
    "shanghai": CircuitDrawing(
        title="Shanghai",
        length=5451.0,
        turning=-2 * np.pi,
        heading=np.deg2rad(15),
        rotation=50.0,
        laps=56,
        grip=1.43,
        pieces=(
            straight(420),
            right(100, 115, "1"),
            right(185, 52, "2"),
            left(180, 43, "3"),
            left(60, 110, "4"),
            straight(150),
            right(23, 480, "5"),
            straight(75),
            right(150, 35, "6"),
            right(26, 240),
            straight(75),
            left(132, 145, "7"),
            right(133, 105, "8"),
            straight(15),
            left(134, 53, "9"),
            left(54, 100, "10"),
            straight(365),
            left(100, 40, "11"),
            right(102, 52, "12"),
            right(177, 112, "13"),
            straight(1120),
            right(162, 32, "14"),
            right(22, 200, "15"),
            straight(140),
            left(72, 65, "16"),
            straight(230),
        ),
    ),
    "suzuka": CircuitDrawing(
        title="Suzuka",
        length=5807.0,
        turning=0.0,
        heading=np.deg2rad(-50),
        rotation=54.0,
        laps=53,
        grip=1.26,
        pieces=(
            straight(590),
            right(70, 130, "1"),
            right(108, 65, "2"),
            straight(150),
            left(45, 120, "3"),
            right(65, 110, "4"),
            left(68, 100, "5"),
            right(80, 100, "6"),
            straight(80),
            left(120, 150, "7"),
            straight(150),
            right(38, 130, "8"),
            straight(90),
            right(85, 45, "9"),
            straight(220),
            right(27, 180, "10"),
            straight(50),
            left(155, 25, "11"),
            straight(110),
            right(85, 240, "12"),
            straight(300),
            left(50, 120, "13"),
            straight(20),
            left(142, 68, "14"),
            straight(870),
            left(60, 160, "15"),
            straight(270),
            right(75, 26, "16"),
            left(70, 25, "17"),
            straight(60),
            right(75, 95, "18"),
            straight(230),
        ),
    ),
}


@dataclass(frozen=True, eq=False)
class Centreline:
    """Closed lap at even spacing; point 0 is on the start line."""

    title: str
    points: FloatArray  # [M, 2]
    heading: FloatArray  # [M] radians, unwrapped
    curvature: FloatArray  # [M] 1/m, left positive
    spacing: float
    corners: tuple[tuple[str, float], ...]  # number and distance of each apex

    @property
    def length(self) -> float:
        return self.spacing * len(self.points)

    @property
    def normals(self) -> FloatArray:
        """Return [M, 2] unit vectors to the left of the track."""
        return np.column_stack([-np.sin(self.heading), np.cos(self.heading)])


@lru_cache(maxsize=8)
def centreline(circuit: str) -> Centreline:
    """Return the closed lap of a drawn circuit."""
    if circuit not in LAYOUTS:
        raise ConfigError(f"There is no drawn circuit {circuit!r}; there are {', '.join(LAYOUTS)}.")
    layout = LAYOUTS[circuit]
    lengths, angles = _closed(layout)
    edges = np.append(0.0, np.cumsum(lengths))
    count = round(layout.length / SPACING_M)
    spacing = edges[-1] / count
    # mean curvature per step keeps turns exact where pieces meet
    turned = np.interp(np.arange(count + 1) * spacing, edges, np.append(0.0, np.cumsum(angles)))
    curvature = ease(np.diff(turned) / spacing, EASING_M / spacing)
    heading = layout.heading + np.append(0.0, np.cumsum(curvature * spacing))  # [M + 1]
    middle = (heading[1:] + heading[:-1]) / 2
    path = np.vstack([np.zeros(2), np.cumsum(spacing * np.column_stack([np.cos(middle), np.sin(middle)]), axis=0)])
    # smoothing opens the lap by a metre or two: spread the error evenly
    path -= np.linspace(0, 1, count + 1)[:, None] * path[-1]
    apexes = (edges[:-1] + edges[1:]) / 2
    corners = tuple((p.corner, float(a)) for p, a in zip(layout.pieces, apexes, strict=True) if p.corner)
    return Centreline(layout.title, path[:-1], heading[:-1], curvature, spacing, corners)


def ease(values: FloatArray, width: float) -> FloatArray:
    """Smooth a closed sequence with a Gaussian of `width` samples; preserve its sum."""
    frequency = np.fft.rfftfreq(len(values))
    return np.fft.irfft(np.fft.rfft(values) * np.exp(-2 * (np.pi * frequency * width) ** 2), len(values))


def _closed(layout: CircuitDrawing) -> tuple[FloatArray, FloatArray]:
    """Return lengths and angles after the smallest change that closes the lap."""
    drawn = np.array([p.length for p in layout.pieces])
    turns = np.array([p.angle for p in layout.pieces])
    arc = turns != 0
    freedom = np.concatenate([np.where(arc, RADIUS_FREEDOM, LENGTH_FREEDOM), np.full(arc.sum(), ANGLE_FREEDOM)])

    def shape(change: FloatArray) -> tuple[FloatArray, FloatArray]:
        angles = turns.copy()
        angles[arc] += change[len(drawn) :] * np.sign(turns[arc])
        grown = np.where(arc, angles / np.where(arc, turns, 1.0), 1.0)  # at constant radius, length grows with angle
        return drawn * np.exp(change[: len(drawn)]) * grown, angles

    def miss(change: FloatArray) -> FloatArray:
        lengths, angles = shape(change)
        end = _end(lengths, angles)
        return np.array([*end, 100 * (angles.sum() - layout.turning), lengths.sum() - layout.length])

    change = np.zeros(freedom.size)
    for _ in range(20):
        error = miss(change)
        if np.abs(error).max() < 1e-9:
            return shape(change)
        slope = np.column_stack([(miss(change + h) - miss(change - h)) / 2e-6 for h in 1e-6 * np.eye(change.size)])
        # least squares scaled by the freedom of each part gives the smallest change
        change = change - freedom * np.linalg.lstsq(slope * freedom, error, rcond=None)[0]
    raise ConfigError(f"The drawing of {layout.title} cannot be closed; its pieces are too far from a lap.")


def _end(lengths: FloatArray, angles: FloatArray) -> FloatArray:
    """Return the end [2] of a path that starts at the origin along x."""
    start = np.append(0.0, np.cumsum(angles)[:-1])
    # an arc's chord has length L sinc(angle / 2) and the mean of both headings
    chord = lengths * np.sinc(angles / (2 * np.pi))
    return np.array([(chord * np.cos(start + angles / 2)).sum(), (chord * np.sin(start + angles / 2)).sum()])
