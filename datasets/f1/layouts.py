"""Approximate circuits drawn from straights and arcs.

They resemble Shanghai and Suzuka and match their lengths and corner numbers, but they are not surveys. `layouts.csv` has
the length and the angle of each piece from the start line, and the number of the corner at its middle; together they
close the lap.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError

FloatArray = npt.NDArray[np.float64]

SPACING_M = 5.0
EASING_M = 12.0  # the curvature of roads changes gradually
PIECES = Path(__file__).with_name("layouts.csv")


@dataclass(frozen=True)
class Circuit:
    """Properties of a circuit apart from its pieces."""

    title: str
    length: float  # metres, of the real circuit
    heading: float  # direction of the start straight in radians
    rotation: float  # degrees that turn maps to the official orientation
    laps: int
    grip: float  # calibrated to real race lap times


LAYOUTS = {
    "shanghai": Circuit("Shanghai", 5451.0, np.deg2rad(15), 50.0, 56, 1.43),
    "suzuka": Circuit("Suzuka", 5807.0, np.deg2rad(-50), 54.0, 53, 1.26),
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
    with PIECES.open(encoding="utf-8", newline="") as file:
        pieces = [piece for piece in csv.DictReader(file) if piece["circuit"] == circuit]
    lengths, angles = (np.array([float(piece[name]) for piece in pieces]) for name in ("length", "angle"))
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
    corners = tuple((p["corner"], float(a)) for p, a in zip(pieces, apexes, strict=True) if p["corner"])
    return Centreline(layout.title, path[:-1], heading[:-1], curvature, spacing, corners)


def ease(values: FloatArray, width: float) -> FloatArray:
    """Smooth a closed sequence with a Gaussian of `width` samples; preserve its sum."""
    frequency = np.fft.rfftfreq(len(values))
    return np.fft.irfft(np.fft.rfft(values) * np.exp(-2 * (np.pi * frequency * width) ** 2), len(values))
