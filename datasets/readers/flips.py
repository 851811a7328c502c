"""Left and right parts, or whole animals, that change places from one frame to the next: tracking mistakes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.maths.gaps import known_mean

from ..features import body_axis
from .pose import KeypointTable

Floats = npt.NDArray[np.floating[Any]]
_MEMORY_SECONDS = 0.5
_SIDE = re.compile(r"(?<![a-z])(left|right|l|r)(?![a-z])")
_MIRROR = {"left": "right", "right": "left", "l": "r", "r": "l"}


def mirrored_parts(parts: tuple[str, ...]) -> list[tuple[int, int]]:
    """Pairs (left, right) of parts by their names."""
    plain = [part.lower().replace("_", " ") for part in parts]
    pairs = []
    for i, name in enumerate(plain):
        if (found := _SIDE.search(name)) and found[1] in ("left", "l"):
            other = _SIDE.sub(lambda m: _MIRROR[m[1]], name)
            if other in plain:
                pairs.append((i, plain.index(other)))
    return pairs


def side_flips(table: KeypointTable) -> npt.NDArray[np.bool_]:
    """[T, A] frames where an animal's left parts lie on the right of its body and its right parts on the left.

    Which side is left depends on the camera, so the side where they lie in most frames counts. Nothing is said of an
    animal whose parts do not name sides or ends of the body, or that has no clear majority (nine in ten frames).
    """
    flipped = np.zeros((table.n_frames, len(table.animals)), dtype=bool)
    pairs = mirrored_parts(table.parts)
    if not pairs or len(table.parts) < 4:
        return flipped
    axis = body_axis(table.parts)
    if axis.guessed:
        return flipped
    left, right = [p[0] for p in pairs], [p[1] for p in pairs]
    xy = np.asarray(table.xy)
    along = xy[..., axis.front] - xy[..., axis.rear]  # [T, A, 2]
    across = xy[..., left] - xy[..., right]  # [T, A, 2, pairs]
    cross = along[:, :, 0, None] * across[:, :, 1] - along[:, :, 1, None] * across[:, :, 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        sine = cross / (np.linalg.norm(along, axis=2)[..., None] * np.linalg.norm(across, axis=2))  # [T, A, pairs]
    known = np.isfinite(sine)
    side = np.where(known, sine, 0).sum(axis=2) / np.maximum(known.sum(axis=2), 1)
    for a in range(len(table.animals)):
        clear = np.abs(side[:, a]) > 0.3
        if not clear.any():
            continue
        usual = 1.0 if np.mean(side[clear, a] > 0) > 0.5 else -1.0
        if np.mean(side[clear, a] * usual > 0) >= 0.9:
            flipped[:, a] = clear & (side[:, a] * usual < 0)
    return flipped


def runs(mask: npt.NDArray[np.bool_]) -> int:
    """How many unbroken runs of True there are in each column of [T, A], together."""
    padded = np.concatenate([np.zeros((1, mask.shape[1]), dtype=np.int8), mask.astype(np.int8)])
    return int((np.diff(padded, axis=0) == 1).sum())


def identity_swaps(table: KeypointTable) -> list[tuple[int, int, npt.NDArray[np.int64]]]:
    """(animal, other, frames) where two animals seem to change places."""
    centre = known_mean(np.asarray(table.xy), axis=3)  # [T, A, 2] of the parts seen
    memory = max(1, round(_MEMORY_SECONDS * table.rate_hz))
    n = len(table.animals)
    return [(a, b, _swap_frames(centre[:, a], centre[:, b], memory)) for a in range(n) for b in range(a + 1, n)]


def _swap_frames(one: Floats, other: Floats, memory: int) -> npt.NDArray[np.int64]:
    """Frames where two points [T, 2] continue each other's path much better than their own.

    They must also be well apart (more than a quarter of their usual distance), since points that touch tell nothing.
    """
    if len(one) < 2:
        return np.empty(0, dtype=np.int64)
    # a point that was lost for a moment continues from where it was last seen
    before = _held(one, memory)[:-1], _held(other, memory)[:-1]
    now = one[1:], other[1:]
    stay = np.linalg.norm(now[0] - before[0], axis=1) + np.linalg.norm(now[1] - before[1], axis=1)
    swap = np.linalg.norm(now[0] - before[1], axis=1) + np.linalg.norm(now[1] - before[0], axis=1)
    apart = np.linalg.norm(now[0] - now[1], axis=1)
    seen = apart[np.isfinite(apart)]
    if not len(seen):
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero((swap < 0.5 * stay) & (apart > 0.25 * np.median(seen))) + 1


def _held(values: Floats, memory: int) -> Floats:
    """[T, 2] with missing rows replaced by the last one seen, if that was at most `memory` rows ago."""
    seen = np.isfinite(values).all(axis=1)
    at = np.arange(len(values))
    last = np.maximum.accumulate(np.where(seen, at, -1))
    known = (last >= 0) & (at - last <= memory)
    return np.where(known[:, None], values[np.maximum(last, 0)], np.nan)


def _between(frames: npt.NDArray[np.int64], n: int) -> npt.NDArray[np.bool_]:
    """[T] frames between an odd and the next even change; the longer of the two states counts as the right one."""
    toggles = np.zeros(n, dtype=np.int64)
    toggles[frames] = 1
    swapped = np.cumsum(toggles) % 2 == 1
    return ~swapped if swapped.mean() > 0.5 else swapped


def undo_swaps(
    table: KeypointTable, sides: bool, identities: bool
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32] | None, int]:
    """Keypoints and scores with changes of place undone, and the number of frames that were changed."""
    xy = np.array(table.xy, dtype=np.float32)
    scores = None if table.scores is None else np.array(table.scores, dtype=np.float32)
    changed = np.zeros(table.n_frames, dtype=bool)
    arrays = [xy] if scores is None else [xy, scores]  # [T, A, 2, P] and [T, A, P]: animals second, parts last
    if identities:
        for a, b, frames in identity_swaps(table):
            rows = _between(frames, table.n_frames)
            changed |= rows
            for values in arrays:
                values[rows, a], values[rows, b] = values[rows, b].copy(), values[rows, a].copy()
    if sides:
        pairs = mirrored_parts(table.parts)
        order = np.arange(len(table.parts))
        for left, right in pairs:
            order[[left, right]] = right, left
        flipped = side_flips(replace(table, xy=xy))
        changed |= flipped.any(axis=1)
        for values in arrays:
            values[flipped] = values[flipped][..., order]
    return xy, scores, int(changed.sum())
