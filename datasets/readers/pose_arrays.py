"""Poses in an NPZ: an array of keypoints, and beside it what says what it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import DataError

from .archives import read_arrays, texts, unit_of
from .pose import KeypointTable, finished, with_labels
from .source import Source
from .timing import read_clock

_PARTS = ("bodyparts", "parts", "part_names", "keypoint_names", "node_names", "nodes")
_ANIMALS = ("mice", "animals", "animal_names", "track_names", "individuals")
_BEHAVIOURS = ("vocab", "label_names", "behaviours", "behaviors", "names")


def read_pose_arrays(source: Source, rate_hz: float | None) -> KeypointTable:
    """keypoints [T, animals, 2, parts], and optionally scores, labels (or annotations), names of all these, fps or a time of
    each frame, and units.

    rate_hz  None takes what the file says
    """
    arrays = read_arrays(source)
    if "keypoints" not in arrays:
        raise DataError(f"{source.name} holds no array named keypoints; it holds {', '.join(list(arrays)[:5])}.")
    xy = arrays.pop("keypoints")
    if xy.ndim != 4 or xy.shape[2] != 2 or xy.size == 0 or xy.dtype.kind not in "fiu":
        raise DataError(f"{source.name}: keypoints have shape {xy.shape}; expected [frames, animals, 2, parts].")
    n, a, _, p = xy.shape
    labels = arrays.pop("labels", arrays.pop("annotations", None))
    notes: list[str] = []
    # An array called just "names" is of the labels where there are some, and of the parts where there are none.
    parts = _names(arrays, (*_PARTS, *(["names"] if labels is None else [])), p, "part", notes)
    animals = _names(arrays, _ANIMALS, a, "animal", notes)
    scores = arrays.pop("scores", None)
    if scores is None or scores.shape != (n, a, p) or scores.dtype.kind not in "fiu":
        scores = np.full((n, a, p), np.nan, np.float32)
    known, start = _clock_of(arrays, n)
    unit = unit_of(arrays)
    if unit:
        notes.append(f"coordinates are in {unit}, as the file says")
    table = KeypointTable(
        np.array(xy, dtype=np.float32), tuple(animals), tuple(part.replace("_", " ") for part in parts),
        scores=scores.astype(np.float32), name=source.name, notes=tuple(notes), unit=unit, start_seconds=start,
    )  # fmt: skip
    table = finished(table, rate_hz or known)
    if labels is None:
        return table
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        raise DataError(f"{source.name}: labels have type {labels.dtype}; expected one whole number a frame.")
    top = max(int(labels.max(initial=0)) + 1, 1)
    if top > 10_000:
        raise DataError(f"{source.name}: the largest label is {top - 1:,}; labels should count behaviours from 0.")
    words = next((texts(arrays[name]) for name in _BEHAVIOURS if name in arrays), [])
    return with_labels(table, labels, words if len(words) >= top else _numbered("behaviour", top))


def _clock_of(arrays: dict[str, npt.NDArray[Any]], n: int) -> tuple[float | None, float]:
    """(frames a second, the time of the first frame) as `fps` or the time of each frame say; None where neither does."""
    fps, time = arrays.get("fps"), arrays.get("time", arrays.get("timestamps"))
    if fps is not None and fps.size == 1 and fps.dtype.kind in "fiu" and 0 < float(fps.ravel()[0]) < np.inf:
        return float(fps.ravel()[0]), 0.0
    if time is None or time.shape != (n,) or time.dtype.kind not in "fiu":
        return None, 0.0
    try:
        clock = read_clock(pd.Series(time), "time")
    except DataError:  # it stands still: said as where there is none
        return None, 0.0
    return clock.rate_hz, (clock.start or 0.0) if clock.rate_hz is not None else 0.0


def _names(arrays: dict[str, npt.NDArray[Any]], keys: Sequence[str], n: int, what: str, notes: list[str]) -> list[str]:
    """Names of `n` things from the first array of that kind, or their numbers, and then a note where it does not fit."""
    key = next((key for key in keys if key in arrays), None)
    if key is None:
        return _numbered(what, n)
    found = texts(arrays[key])
    if len(found) == n == len(set(found)):
        return found
    notes.append(f"{key!r} does not hold {n} different names, so {what}s are numbered")
    return _numbered(what, n)


def _numbered(what: str, n: int) -> list[str]:
    return [f"{what} {i + 1}" for i in range(n)]
