"""Bouts from soft states: smoothing, removal of short bouts, and transitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError, DataError
from gdm_core.maths.gaps import moving_mean, ratio

EXPERT_SHARE = 0.5
LONGEST_S = 5.0

Soft = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class BoutRule:
    """Rule for bouts.

    smooth_s     window of the moving average of soft states, in seconds
    shortest_s   shorter bouts are merged into their neighbours, in seconds
    """

    smooth_s: float = 0.0
    shortest_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("smooth_s", "shortest_s"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0):
                raise ConfigError(f"{name} is {value}; it must be a number of seconds, 0 or more.")

    @property
    def plain(self) -> bool:
        """True if the rule changes nothing."""
        return self.smooth_s == 0 and self.shortest_s == 0

    def labels(self, states: Soft, rate_hz: float) -> Labels:
        """Return the state [T] of each sample, after smoothing and without short bouts.

        states    [T, K] soft states
        rate_hz   samples per second
        """
        strongest = smooth_states(states, max(1, round(self.smooth_s * rate_hz))).argmax(axis=1).astype(np.int64)
        return remove_short_bouts(strongest, max(1, round(self.shortest_s * rate_hz)))


def fit_bout_rule(
    parts: list[npt.NDArray[Any]], rate_hz: float, *, longest: float = LONGEST_S, unit: float = 0.1
) -> BoutRule | None:
    """Return a rule with times of half the expert's median bout; None without labels.

    parts     labels of the training trials
    rate_hz   samples per second
    longest   maximum of the times, in seconds
    unit      rounding of the times, in seconds
    """
    median = median_bout(parts)
    if not np.isfinite(median):
        return None
    seconds = float(np.clip(round(round(EXPERT_SHARE * median / rate_hz / unit) * unit, 6), unit, longest))
    return BoutRule(seconds, seconds)


def smooth_states(states: Soft, width: int) -> npt.NDArray[np.float32]:
    """Return the centred moving average [T, K]; windows are shorter at the ends.

    states   [T, K] soft states
    width    window in samples
    """
    soft = np.asarray(states, np.float32)
    if soft.ndim != 2:
        raise DataError(f"States have shape {soft.shape}; expected [time, states].")
    if width <= 1 or len(soft) < 2:
        return soft
    return moving_mean(soft, width).astype(np.float32)


def remove_short_bouts(labels: Labels, shortest: int) -> Labels:
    """Assign samples of bouts shorter than `shortest` to the nearest longer bout.

    If no bout is long enough, all samples get the most frequent label.

    labels     [T] state of each sample, negative if unknown
    shortest   minimum length in samples
    """
    z = np.asarray(labels, np.int64)
    if shortest <= 1 or not len(z):
        return z
    lengths = np.diff(find_bouts(z))[:, 0]
    kept = np.flatnonzero(np.repeat(lengths >= shortest, lengths))
    if not len(kept):
        values, count = np.unique(z, return_counts=True)
        return np.full_like(z, values[count.argmax()])
    after = np.searchsorted(kept, np.arange(len(z))).clip(0, len(kept) - 1)
    before = (after - 1).clip(0)
    at = np.arange(len(z))
    nearer = np.abs(kept[before] - at) <= np.abs(kept[after] - at)
    return np.asarray(z[np.where(nearer, kept[before], kept[after])])


def median_bout(parts: list[npt.NDArray[Any]]) -> float:
    """Return the median bout length in samples over all parts, without unlabelled stretches.

    parts   labels of each trial
    """
    lengths = [runs(part)[1] for part in parts]
    joined = np.concatenate(lengths) if lengths else np.zeros(0)
    return float(np.median(joined)) if len(joined) else float("nan")


def runs(labels: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the state and the length in samples of each bout, without unlabelled stretches.

    labels   [T] state of each sample, negative if unknown
    """
    z = np.asarray(labels, np.int64)
    start, stop = find_bouts(z).T
    kept = z[start] >= 0
    return z[start][kept], (stop - start)[kept]


def find_bouts(labels: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return the first sample and the end of each bout [bouts, 2].

    labels   [T] state of each sample
    """
    z = np.asarray(labels)
    starts = np.flatnonzero(np.append(True, np.diff(z) != 0)[: len(z)])
    return np.stack([starts, np.append(starts[1:], len(z))[: len(starts)]], axis=1)


def transition_shares(labels: npt.ArrayLike, n_states: int) -> npt.NDArray[np.float64]:
    """Return transition shares [K, K] between bouts; NaN in rows without transitions.

    labels     [T] state of each sample, negative if unknown
    n_states   number of states (K)
    """
    visited, _ = runs(labels)
    counts = np.zeros((n_states, n_states))
    np.add.at(counts, (visited[:-1], visited[1:]), 1)
    return ratio(counts, counts.sum(axis=1, keepdims=True))
