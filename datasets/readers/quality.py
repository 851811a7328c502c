"""Quality of a recording before any fit: missing values, gaps and outliers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.maths.gaps import gap_lengths
from gdm_core.maths.spikes import find_spikes
from gdm_core.text import first_of

_SOME = 1_000  # values; a code such as -1, 0 and 1 has fewer different ones
_SENTINELS = (-9999.0, -999.0, -99.0, -1.0, 999.0, 9999.0, 99999.0, -32768.0, 32767.0, 65535.0)
LOW_SCORE = 0.3  # confidence of a tracker

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class ChannelQuality:
    """Missing values, longest gap (in samples), outliers and range of a channel."""

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
    """Quality of a recording.

    n_samples    number of samples, T
    channels     quality of each channel
    low_scores   number of keypoints with a low score
    notes        sentences from the reader
    few_valued   channels with few distinct values
    skewed       positive channels that suit logarithms
    composition  whether the channels are parts of a whole, which suits log-ratios
    angles       channels that jump by a full turn
    """

    n_samples: int
    channels: tuple[ChannelQuality, ...]
    low_scores: int = 0
    notes: tuple[str, ...] = ()
    few_valued: tuple[str, ...] = ()
    skewed: tuple[str, ...] = ()
    composition: bool = False
    angles: tuple[str, ...] = ()

    @property
    def missing_share(self) -> float:
        """Share of all values that are missing."""
        cells = self.n_samples * len(self.channels)
        return sum(channel.missing for channel in self.channels) / cells if cells else 0.0

    @property
    def outliers(self) -> int:
        """Number of outliers over all channels."""
        return sum(channel.outliers for channel in self.channels)

    def sentences(self) -> list[str]:
        """Return the report as sentences, most serious first."""
        lines = []
        for what, names in (
            ("no value at all", [c.name for c in self.channels if c.missing == self.n_samples]),
            ("no change", [c.name for c in self.channels if c.constant]),
        ):
            if names:
                lines.append(f"{first_of(names, 3)}: {what}; best left out")
        if self.missing_share:
            longest = max(self.channels, key=lambda c: c.longest_gap)
            lines.append(
                f"{percent(self.missing_share)}% of the values are missing; the longest gap has "
                f"{longest.longest_gap:,} samples ({longest.name})"
            )
        for count, text in ((self.low_scores, "low scores"), (self.outliers, "outliers")):
            if count:
                lines.append(f"{text}: {count:,}")
        return lines + list(self.notes)


def percent(share: float) -> str:
    """Format a share in percent with two digits; 100 only if complete."""
    value = 100 * share
    if value >= 10:
        return f"{min(value, 99.0) if share < 1 else 100:.0f}"
    return f"{value:.2g}" if value >= 0.01 else "under 0.01"


def outlier_mask(y: Floats) -> npt.NDArray[np.bool_]:
    """Return a mask [T, N] of spikes (`find_spikes`) and extreme values.

    Extreme values are over 50 times the spread (the range of the middle 90% over 3.29) from the median.
    """
    mask = find_spikes(y)
    for j in range(y.shape[1]):  # by channel, to save memory
        seen = np.flatnonzero(np.isfinite(y[:, j]))
        if len(seen):
            known = y[seen, j].astype(np.float64)
            low, middle, high = np.quantile(known, [0.05, 0.5, 0.95])
            mask[seen, j] |= (high > low) & (np.abs(known - middle) > 50 * (high - low) / 3.29)
    return mask


def find_sentinel(values: Floats) -> float | None:
    """Return a value such as -9999 that occurs repeatedly, far from all others; None without one."""
    for value in _SENTINELS:
        at = values == value
        if np.count_nonzero(at) > 1:
            others = values[~at & np.isfinite(values)]
            low, high = (others.min(), others.max()) if len(others) else (value, value)
            if len(np.unique(others[:_SOME])) > 5 and max(low - value, value - high) > 0.5 * (high - low):
                return value
    return None


def fill_gaps(y: Floats, longest: int) -> Floats:
    """Interpolate inner gaps of at most `longest` samples."""
    if longest == 0:
        return y
    filled = np.array(y)
    for column in filled.T:
        missing = ~np.isfinite(column)
        if missing.any() and not missing.all():
            seen = np.flatnonzero(~missing)
            short = missing & (gap_lengths(missing) <= longest)
            short[: seen[0]] = short[seen[-1] :] = False
            column[short] = np.interp(np.flatnonzero(short), seen, column[seen])
    return filled


def channel_quality(y: Floats, names: tuple[str, ...]) -> tuple[ChannelQuality, ...]:
    """Return the quality of each channel of [T, N]."""
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
