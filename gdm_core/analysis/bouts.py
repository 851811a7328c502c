"""From soft states to bouts: smoothed over a moment, without those too short to mean anything; and what follows what."""

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
    """smooth_s: soft states are averaged over so many seconds; shortest_s: bouts below it go to their neighbours."""

    smooth_s: float = 0.0
    shortest_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("smooth_s", "shortest_s"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0):
                raise ConfigError(f"{name} is {value}; it must be a number of seconds, 0 or more.")

    @property
    def plain(self) -> bool:
        """Whether bouts are read as they come."""
        return self.smooth_s == 0 and self.shortest_s == 0

    def soft(self, states: Soft, rate_hz: float) -> npt.NDArray[np.float32]:
        """[T, K] states after smoothing.

        states    [T, K] soft states
        rate_hz   samples a second
        """
        return smoothed(states, max(1, round(self.smooth_s * rate_hz)))

    def labels(self, states: Soft, rate_hz: float) -> Labels:
        """[T] the state of each moment, after smoothing and without short bouts.

        states    [T, K] soft states
        rate_hz   samples a second
        """
        strongest = self.soft(states, rate_hz).argmax(axis=1).astype(np.int64)
        return without_short(strongest, max(1, round(self.shortest_s * rate_hz)))


def like_expert(
    parts: list[npt.NDArray[Any]], rate_hz: float, *, longest: float = LONGEST_S, unit: float = 0.1
) -> BoutRule | None:
    """Both times at half of the expert's median bout: what comes and goes within it the expert does not call a bout.

    `parts` are the labels of the fitted trials alone. None where they hold no bout. In whole units, as the controls have
    them.

    rate_hz   samples a second
    longest   the most that bouts are smoothed over, in seconds
    unit      what times are rounded to, in seconds
    """
    median = median_bout(parts)
    if not np.isfinite(median):
        return None
    seconds = float(np.clip(round(round(EXPERT_SHARE * median / rate_hz / unit) * unit, 6), unit, longest))
    return BoutRule(seconds, seconds)


def smoothed(states: Soft, width: int) -> npt.NDArray[np.float32]:
    """[T, K] averaged over `width` samples around each; fewer at the ends.

    states   [T, K] soft states
    width    samples that are averaged
    """
    soft = np.asarray(states, np.float32)
    if soft.ndim != 2:
        raise DataError(f"States have shape {soft.shape}; expected [time, states].")
    if width <= 1 or len(soft) < 2:
        return soft
    return moving_mean(soft, width).astype(np.float32)


def without_short(labels: Labels, shortest: int) -> Labels:
    """Labels [T] in which each bout below `shortest` samples belongs to the nearest longer ones on its two sides.

    Where no bout is that long, the most frequent label stands for all.

    labels     [T] the state of each sample, negative where there is none
    shortest   samples that a bout has at the least
    """
    z = np.asarray(labels, np.int64)
    if shortest <= 1 or not len(z):
        return z
    lengths = np.diff(stays(z))[:, 0]
    kept = np.flatnonzero(np.repeat(lengths >= shortest, lengths))
    if not len(kept):
        values, count = np.unique(z, return_counts=True)
        return np.full_like(z, values[count.argmax()])
    after = np.searchsorted(kept, np.arange(len(z))).clip(0, len(kept) - 1)
    before = (after - 1).clip(0)
    at = np.arange(len(z))
    nearer = np.abs(kept[before] - at) <= np.abs(kept[after] - at)
    return z[np.where(nearer, kept[before], kept[after])]


def median_bout(parts: list[npt.NDArray[Any]]) -> float:
    """Median length in samples of the uninterrupted stays in all parts together; unlabelled stretches do not count.

    parts   labels of each trial
    """
    lengths = [runs(part)[1] for part in parts]
    joined = np.concatenate(lengths) if lengths else np.zeros(0)
    return float(np.median(joined)) if len(joined) else float("nan")


def runs(labels: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(state, length in samples) of each uninterrupted stay; negative labels interrupt and are left out.

    labels   [T] the state of each sample, negative where there is none
    """
    z = np.asarray(labels, np.int64)
    start, stop = stays(z).T
    kept = z[start] >= 0
    return z[start][kept], (stop - start)[kept]


def stays(labels: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """[stays, 2] first sample of each uninterrupted stay, and the one after its last.

    labels   [T] the state of each sample
    """
    z = np.asarray(labels)
    starts = np.flatnonzero(np.append(True, np.diff(z) != 0)[: len(z)])
    return np.stack([starts, np.append(starts[1:], len(z))[: len(starts)]], axis=1)


def transition_shares(labels: npt.ArrayLike, n_states: int) -> npt.NDArray[np.float64]:
    """[K, K] share of stays in each state that go on to each other one; NaN in rows of states that are never left.

    labels     [T] the state of each sample, negative where there is none
    n_states   K
    """
    visited, _ = runs(labels)
    counts = np.zeros((n_states, n_states))
    np.add.at(counts, (visited[:-1], visited[1:]), 1)
    return ratio(counts, counts.sum(axis=1, keepdims=True))
