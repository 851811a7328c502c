"""The circuit of a session in its official orientation, with corners, segments and distances."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from datasets.f1.session import Session
from datasets.f1.trials import between, curvature, in_driving_order, segment_names

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
BIN_M = 10.0


@dataclass(frozen=True, eq=False)
class Circuit:
    """Map of a session in its official orientation."""

    title: str
    line: Floats  # [M, 2] the reference lap, closed
    length: float
    corners: tuple[tuple[str, float, float, float, float], ...]  # name, x, y, distance, angle of the label in degrees
    segments: tuple[str, ...]

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Corner marks for axes along the lap, at least 140 m apart."""
        kept: list[tuple[float, str]] = []
        for name, _, _, distance, _ in self.corners:
            if not kept or distance - kept[-1][0] > 140:
                kept.append((distance, f"T{name}"))
        return kept

    @property
    def edges(self) -> Floats:
        """[C] distances at which segments begin."""
        return np.array([corner[3] for corner in self.corners], np.float32)

    @property
    def n_bins(self) -> int:
        """Number of bins along the lap."""
        return max(50, round(self.length / BIN_M))

    @property
    def axis(self) -> dict[str, Any]:
        """Axis arguments for figures along the lap."""
        step = self.length / self.n_bins
        return {"start": step / 2, "step": step, "unit": "m", "ticks": self.ticks}

    def segment_at(self, distance: npt.ArrayLike) -> Ints | None:
        """Return the segment at each distance [T]."""
        if not self.segments:
            return None
        return between(self.edges, distance)

    def nearest_corner(self, distance: npt.ArrayLike) -> npt.NDArray[np.intp]:
        """Return the nearest corner along the lap, in either direction."""
        apart = np.abs(np.asarray(distance)[..., None] - self.edges)
        return np.minimum(apart, self.length - apart).argmin(axis=-1)

    def curvature_at(self, distance: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the curvature at each distance [T] in 1/m; positive to the left."""
        return curvature(self.line, self.length, distance)

    def position_at(self, distance: npt.ArrayLike) -> Floats:
        """Return positions [..., 2] at distances along the lap."""
        grid = np.linspace(0, self.length, len(self.line))
        wrapped = np.mod(np.asarray(distance, float), self.length)
        return np.stack([np.interp(wrapped, grid, self.line[:, i]) for i in (0, 1)], axis=-1).astype(np.float32)


def turned(position: npt.ArrayLike, degrees: float) -> Floats:
    """Rotate positions [T, 2] to the official orientation."""
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return (np.asarray(position, np.float64) @ turn).astype(np.float32)


@lru_cache(maxsize=4)
def open_circuit(session: Session) -> Circuit:
    reference = session.reference
    points = np.vstack([reference.points, reference.points[:1]])
    corners = in_driving_order(session.corners)
    where = turned([(c.x, c.y) for c in corners], session.rotation) if corners else np.zeros((0, 2))
    return Circuit(
        session.title,
        turned(points, session.rotation),
        float(reference.length),
        tuple(
            (c.key, float(x), float(y), float(c.distance), float(c.angle + session.rotation))
            for c, (x, y) in zip(corners, where, strict=True)
        ),
        segment_names(session.corners) if len(corners) > 1 else (),
    )
