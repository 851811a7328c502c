"""Problems of a recording, counted before any fit: missing values, gaps and outliers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError
from gdm_core.maths.gaps import gap_lengths
from gdm_core.maths.spikes import find_spikes
from gdm_core.text import first_of

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

    n_samples    T
    channels     one record each
    low_scores   how many keypoints have a low score
    """

    n_samples: int
    channels: tuple[ChannelQuality, ...]
    low_scores: int = 0
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
                f"{percent(self.missing_share)} % of the values are missing; the longest gap has "
                f"{longest.longest_gap:,} samples ({longest.name})"
            )
        for count, text in (
            (self.low_scores, "low scores"),
            (self.outliers, "values that jump out of line with their neighbours"),
        ):
            if count:
                said.append(f"{text}: {count:,}")
        return said + list(self.notes)


def percent(share: float) -> str:
    """Format a share in percent with two digits, never as a power of ten, and 100 only for all of it."""
    value = 100 * share
    if value >= 10:
        return f"{min(value, 99.0) if share < 1 else 100:.0f}"
    return f"{value:.2g}" if value >= 0.01 else "under 0.01"


def outlier_mask(y: Floats) -> npt.NDArray[np.bool_]:
    """Return which values [T, N] jump out of line (`find_spikes`) or lie absurdly far from all the others.

    Absurdly far is 50 times the spread (the range of the middle 90% over 3.29) from the median.
    """
    mask = find_spikes(y)
    for j in range(y.shape[1]):  # channel by channel, to hold one channel's working arrays at a time
        seen = np.flatnonzero(np.isfinite(y[:, j]))
        if len(seen):
            there = y[seen, j].astype(np.float64)
            low, middle, high = np.quantile(there, [0.05, 0.5, 0.95])
            mask[seen, j] |= (high > low) & (np.abs(there - middle) > 50 * (high - low) / 3.29)
    return mask


def fill_gaps(y: Floats, longest: int) -> tuple[Floats, int]:
    """Straight lines across gaps of at most `longest` samples between two values; longer gaps, and those at the ends,
    stay NaN, which models treat as missing. Also the number of values filled."""
    if longest < 0:
        raise ConfigError(f"longest is {longest}; it must be 0 (fill nothing) or more.")
    if longest == 0:
        return y, 0
    filled = np.array(y)
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
