"""What is wrong with a recording, counted before any fit, and what to do about it: gaps, outliers, and tracking mistakes (left and
right parts, or whole animals, that change places from one frame to the next)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError
from gdm_core.maths.gaps import gap_lengths, known_mean
from gdm_core.text import first_of

from ..features import body_axis
from .pose import KeypointTable

LOW_SCORE = 0.3  # below it a tracker is guessing

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class ChannelQuality:
    """One channel: how much is missing (NaN), the longest gap in samples, outliers, and its range."""

    name: str
    missing: int
    longest_gap: int
    outliers: int
    smallest: float
    largest: float

    @property
    def constant(self) -> bool:
        return self.smallest == self.largest


@dataclass(frozen=True)
class QualityReport:
    """What was found in a recording. `notes` are sentences from the reader; zero counts mean that nothing was found.

    n_samples                                T
    channels                                 one record each
    low_scores, side_flips, identity_swaps   how many were found in keypoints
    """

    n_samples: int
    channels: tuple[ChannelQuality, ...]
    low_scores: int = 0
    side_flips: int = 0
    identity_swaps: int = 0
    notes: tuple[str, ...] = ()

    @property
    def missing_share(self) -> float:
        """Share of all values that are missing."""
        cells = self.n_samples * len(self.channels)
        return sum(channel.missing for channel in self.channels) / cells if cells else 0.0

    @property
    def outliers(self) -> int:
        """Values that jump out of line, over all channels."""
        return sum(channel.outliers for channel in self.channels)

    def sentences(self) -> list[str]:
        """The report in words, most serious first."""
        said = []
        for what, names in (
            ("no value at all", [c.name for c in self.channels if c.missing == self.n_samples]),
            ("no change", [c.name for c in self.channels if c.constant]),
        ):
            if names:
                said.append(f"{first_of(names, 3)}: {what}; best left out")
        if self.missing_share:
            longest = max(self.channels, key=lambda c: c.longest_gap)
            said.append(
                f"{_percent(self.missing_share)} % of the values are missing; the longest gap has "
                f"{longest.longest_gap:,} samples ({longest.name})"
            )
        for count, text in (
            (self.low_scores, "low scores"),
            (self.side_flips, "spells with left and right parts on the wrong side"),
            (self.identity_swaps, "frames where two animals seem to change places"),
            (self.outliers, "values that jump out of line with their neighbours"),
        ):
            if count:
                said.append(f"{text}: {count:,}")
        return said + list(self.notes)


def _percent(share: float) -> str:
    """A share in percent with two digits, never as a power of ten, and 100 only for all of it."""
    percent = 100 * share
    if percent >= 10:
        return f"{min(percent, 99.0) if share < 1 else 100:.0f}"
    return f"{percent:.2g}" if percent >= 0.01 else "under 0.01"


def outlier_mask(y: Floats) -> npt.NDArray[np.bool_]:
    """[T, N] values that jump away from both neighbours and back, or that lie absurdly far from all the others.

    A jump counts from ten times the channel's usual step (1.4826 times the median of its absolute steps), but at
    least half its spread (the range of the middle 90 % over 3.29), so that the small steps of a clean channel are not
    called outliers. Far is 50 times that spread from the median.
    """
    mask = np.zeros(y.shape, dtype=bool)
    for j in range(y.shape[1]):  # channel by channel, to hold one channel's working arrays at a time
        values = y[:, j].astype(np.float64)
        seen = np.flatnonzero(np.isfinite(values))
        if len(seen) < 7:
            continue
        there = values[seen]
        step = np.diff(there)
        low, middle, high = np.quantile(there, [0.05, 0.5, 0.95])
        off = np.abs(there - middle)
        spread = (high - low) / 3.29  # the standard deviation, were it Gaussian
        level = max(10.0 * 1.4826 * np.median(np.abs(step)), 0.5 * spread)
        if level == 0:  # a channel that hardly ever moves has no usual step to compare with
            continue
        back = np.minimum(np.abs(step[:-1]), np.abs(step[1:]))
        out = np.zeros(len(there), dtype=bool)
        out[1:-1] = (back > level) & (step[:-1] * step[1:] < 0)
        mask[seen, j] = out | ((spread > 0) & (off > 50 * spread))
    return mask


def fill_gaps(y: Floats, longest: int) -> tuple[npt.NDArray[np.float32], int]:
    """Straight lines across gaps of at most `longest` samples between two values; longer gaps, and those at the ends,
    stay NaN, which models treat as missing. Also the number of values filled."""
    if longest < 0:
        raise ConfigError(f"longest is {longest}; it must be 0 (fill nothing) or more.")
    if longest == 0:
        return np.asarray(y, dtype=np.float32), 0
    filled = np.array(y, dtype=np.float32)
    count = 0
    for j in range(filled.shape[1]):
        missing = ~np.isfinite(filled[:, j])
        if not missing.any() or missing.all():
            continue
        seen = np.flatnonzero(~missing)
        short = missing & (gap_lengths(missing) <= longest)
        short[: seen[0]] = short[seen[-1] :] = False
        at = np.flatnonzero(short)
        filled[at, j] = np.interp(at, seen, filled[seen, j])
        count += len(at)
    return filled, count


def channel_quality(y: Floats, names: tuple[str, ...]) -> tuple[ChannelQuality, ...]:
    """The count for each channel of [T, N]."""
    outliers = outlier_mask(y).sum(axis=0)
    found = []
    for j, name in enumerate(names):
        missing = ~np.isfinite(y[:, j])
        seen = y[~missing, j]
        low, high = (float(seen.min()), float(seen.max())) if len(seen) else (np.nan, np.nan)
        found.append(
            ChannelQuality(name, int(missing.sum()), int(gap_lengths(missing).max()), int(outliers[j]), low, high)
        )
    return tuple(found)


# ---- parts and animals that change places ---------------------------------------------------------------------------
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
