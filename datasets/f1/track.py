"""Closed reference lap that maps positions to distances along the lap."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError

FloatArray = npt.NDArray[np.floating]

SPACING_M = 2.0
NEAR_M = 30.0


@dataclass(frozen=True, eq=False)
class ReferenceLap:
    """Closed curve of points [M, 2] at even spacing; point 0 is on the start line."""

    points: FloatArray
    length: float

    @classmethod
    def from_samples(
        cls, time: npt.ArrayLike, position: npt.ArrayLike, start: float, end: float, where: str = "reference lap"
    ) -> ReferenceLap:
        """Create a reference lap from the samples between two times, closed at the line."""
        t, xy = np.asarray(time, float), np.asarray(position, float)
        inside = (t > start) & (t < end)
        # interpolate the crossing between two samples, where the curve closes
        crossings = [moment for moment in (start, end) if t.size and t[0] <= moment <= t[-1]]
        line = [np.mean([np.interp(crossings, t, xy[:, axis]) for axis in (0, 1)], axis=1)] if crossings else []
        return cls.from_points(np.vstack([*line, xy[inside]]), where)

    @classmethod
    def from_points(cls, points: npt.ArrayLike, where: str = "reference lap") -> ReferenceLap:
        """Create a reference lap from points in driving order, starting at the line."""
        xy = np.asarray(points, float)
        closed = np.vstack([xy, xy[:1]])
        steps = np.hypot(*np.diff(closed, axis=0).T)
        moving = np.append(steps > 1e-9, True)
        along = np.append(0.0, np.cumsum(steps))
        if moving.sum() < 5 or along[-1] < 100:
            raise DataError(
                f"{where}: the reference lap has {int(moving.sum()) - 1} distinct positions over {along[-1]:.0f} m; "
                "that is no lap. Choose another session or driver."
            )
        length = float(along[-1])
        grid = np.arange(round(length / SPACING_M)) * (length / round(length / SPACING_M))
        even = np.column_stack([np.interp(grid, along, closed[:, axis]) for axis in (0, 1)])  # [M, 2]
        return cls(even, length)

    @property
    def spacing(self) -> float:
        return self.length / len(self.points)

    @cached_property
    def _tree(self) -> Any:
        from scipy.spatial import cKDTree  # slow import, needed only for lookups

        return cKDTree(self.points)

    @cached_property
    def _tangents(self) -> FloatArray:
        ahead = np.roll(self.points, -1, axis=0) - np.roll(self.points, 1, axis=0)
        return ahead / np.maximum(np.hypot(*ahead.T), 1e-9)[:, None]  # [M, 2]

    def position_at(self, distance: npt.ArrayLike) -> FloatArray:
        """Return [..., 2] positions at distances along the lap."""
        wrapped = np.mod(np.asarray(distance, float), self.length)
        grid = np.arange(len(self.points) + 1) * self.spacing
        closed = np.vstack([self.points, self.points[:1]])
        return np.stack([np.interp(wrapped, grid, closed[:, axis]) for axis in (0, 1)], axis=-1)

    def distance(self, position: npt.ArrayLike, lap: npt.ArrayLike | None = None) -> FloatArray:
        """Return [T] distance from the start line, in [0, length), of the nearest point.

        With lap numbers [T], the distance travelled resolves positions where the track crosses itself or runs parallel.
        """
        xy = np.atleast_2d(np.asarray(position, float))
        if xy.shape[1:] != (2,) or not np.isfinite(xy).all():
            raise DataError(
                f"Positions have shape {xy.shape} or are not all finite; expected finite numbers [time, 2]."
            )
        gap, nearest = self._tree.query(xy)  # [T], [T]
        if lap is not None:
            nearest = self._by_progress(xy, np.asarray(lap), gap, nearest)
        return self._refine(xy, nearest)

    def _refine(self, xy: FloatArray, index: npt.NDArray[np.intp]) -> FloatArray:
        ahead = ((xy - self.points[index]) * self._tangents[index]).sum(axis=1)
        along = index * self.spacing + np.clip(ahead, -self.spacing, self.spacing)
        wrapped = np.mod(along, self.length)
        return np.where(wrapped >= self.length, 0.0, wrapped)  # rounding can yield exactly the length

    def _by_progress(
        self, xy: FloatArray, lap: npt.NDArray[np.int64], gap: FloatArray, nearest: npt.NDArray[np.intp]
    ) -> npt.NDArray[np.intp]:
        """Replace nearest points that are far from the expected distance travelled."""
        _, run = np.unique(lap, return_inverse=True)  # [T]
        travelled = np.cumsum(np.append(0.0, np.hypot(*np.diff(xy, axis=0).T)))  # [T]
        turn = 2j * np.pi / self.length
        # most samples are right, so their circular mean gives the offset of each lap
        lead = np.exp(turn * (nearest * self.spacing - travelled))
        start = np.bincount(run, lead.real) + 1j * np.bincount(run, lead.imag)
        expected = np.angle(np.exp(turn * travelled) * start[run]) / turn.imag  # [T]
        window = max(0.08 * self.length, 150.0)
        doubtful = np.flatnonzero(self._apart(nearest * self.spacing, expected) > window)
        if doubtful.size == 0:
            return nearest
        fixed = nearest.copy()
        for part in np.array_split(doubtful, doubtful.size // 1000 + 1):  # bounds memory
            other, far = self._nearest_within(xy[part], expected[part], window)
            near = far <= gap[part] + NEAR_M
            fixed[part[near]] = other[near]
        return fixed

    def _nearest_within(
        self, xy: FloatArray, expected: FloatArray, window: float
    ) -> tuple[npt.NDArray[np.intp], FloatArray]:
        """Return index and distance of the nearest point within a window around `expected`."""
        grid = np.arange(len(self.points)) * self.spacing
        far = np.hypot(xy[:, :1] - self.points[:, 0], xy[:, 1:] - self.points[:, 1])  # [n, M]
        far[self._apart(grid[None], expected[:, None]) > window] = np.inf
        index = far.argmin(axis=1)
        return index, far[np.arange(len(xy)), index]

    def _apart(self, one: FloatArray, other: FloatArray) -> FloatArray:
        """Return the distance between two positions along the closed lap."""
        difference = np.mod(one - other, self.length)
        return np.minimum(difference, self.length - difference)
