"""Where a lap is divided: track segments between consecutive numbered corners.

Segment c runs from corner c to corner c+1; the last one runs from the last corner over the start line to the first,
so that a circuit of 16 corners has 16 segments. A sample belongs to the segment in which its nearest point on the
session's reference lap lies.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .session import Corner, Session


def segment_names(corners: tuple[Corner, ...]) -> tuple[str, ...]:
    """One name a segment, such as "T1-T2"; the last wraps over the start line.

    corners   of a session
    """
    ordered = in_driving_order(corners)
    following = (*ordered[1:], *ordered[:1])
    return tuple(f"T{one.key}-T{other.key}" for one, other in zip(ordered, following, strict=True))


def in_driving_order(corners: tuple[Corner, ...]) -> tuple[Corner, ...]:
    """Corners by distance from the start line: numbers alone do not order 1 and 1A."""
    return tuple(sorted(corners, key=lambda corner: (corner.distance, corner.number, corner.letter)))


def segment_of(corners: tuple[Corner, ...], distance: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """[T] the segment in which each distance along the lap lies.

    corners   of a session
    """
    return between([corner.distance for corner in in_driving_order(corners)], distance)


def between(edges: npt.ArrayLike, distance: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """[T] after which of the places at `edges` along the lap each distance lies.

    edges   in order
    """
    # before the first corner the index is -1: the segment that came over the line
    found: npt.NDArray[np.int64] = np.mod(np.searchsorted(edges, distance, side="right") - 1, np.size(edges))
    return found


def segment_labels(session: Session, position: npt.ArrayLike, lap: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """[T] segment number of each position, for positions in time order with their lap numbers.

    session   as `load_session` or `simulate_race` gives it
    """
    return segment_of(session.require_corners(), lap_distance(session, position, lap))


def lap_distance(session: Session, position: npt.ArrayLike, lap: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """[T] metres from the start line along the reference lap.

    session    as `load_session` or `simulate_race` gives it
    position   [T, 2] places in time order
    """
    return session.reference.distance(position, lap).astype(np.float64, copy=False)
