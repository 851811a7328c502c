"""Description of a state: typical bouts, high and low channels, dwell times, and neighbouring states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.bouts import find_bouts
from gdm_core.maths.gaps import ratio

LEAST_SDS, MOST_NAMED = 0.5, 4  # of a difference that is worth naming
TYPICAL = 5  # bouts

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StateFacts:
    """Facts about one state in one trial.

    share           mean proportion
    differences     (name, difference from the mean in standard deviations), the largest first
    lengths         [bouts] in samples
    before, after   (state, share of the changes) of other states, the most frequent first
    typical         [n, 2] first sample and end of bouts of typical length and high proportion, in order of time
    """

    share: float
    differences: tuple[tuple[str, float], ...]
    lengths: Ints
    before: tuple[tuple[int, float], ...]
    after: tuple[tuple[int, float], ...]
    typical: Ints


def explain_state(
    states: npt.NDArray[np.float32], bouts: Ints, state: int, values: npt.NDArray[np.float32], names: tuple[str, ...]
) -> StateFacts:
    """Return the facts about a state.

    states   [T, K] soft states
    bouts    [T] state of each sample, negative if unknown
    values   [T, N] quantities, with their names
    """
    spans = find_bouts(bouts)
    visited = bouts[spans[:, 0]]
    mine = spans[visited == state]
    return StateFacts(
        float(np.nanmean(states[:, state])),
        name_largest(effect_sizes(values, states[:, state]), names),
        np.diff(mine)[:, 0],
        _neighbours(visited[:-1][visited[1:] == state], state),
        _neighbours(visited[1:][visited[:-1] == state], state),
        _choose_typical(mine, states[:, state]),
    )


def name_largest(sds: npt.NDArray[np.float64], names: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """Return (name, difference) of the differences [N] that are worth naming, the largest first."""
    order = np.argsort(-np.abs(sds), kind="stable")[:MOST_NAMED]
    return tuple((names[i], float(sds[i])) for i in order if abs(sds[i]) >= LEAST_SDS)


def effect_sizes(values: npt.NDArray[np.floating], weight: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Return the weighted mean [N] of each column minus its mean, in standard deviations; 0 where unknown."""
    known = np.isfinite(values) & np.isfinite(weight)[:, None]
    y, w = np.where(known, values, 0).astype(np.float64), np.nan_to_num(weight)[:, None] * known
    n = known.sum(axis=0)
    mean = ratio(y.sum(axis=0), n)
    spread = np.sqrt(np.maximum(ratio(((y - np.nan_to_num(mean)) ** 2 * known).sum(axis=0), n), 0.0))
    return np.nan_to_num(ratio(ratio((w * y).sum(axis=0), w.sum(axis=0)) - mean, spread), nan=0.0)


def _neighbours(others: Ints, state: int) -> tuple[tuple[int, float], ...]:
    found, count = np.unique(others[(others >= 0) & (others != state)], return_counts=True)
    return tuple((int(found[i]), float(count[i] / count.sum())) for i in np.argsort(-count, kind="stable"))


def _choose_typical(spans: Ints, share: npt.NDArray[np.float32]) -> Ints:
    """Return bouts whose length is nearest to the median, those of the highest proportion first."""
    if not len(spans):
        return spans
    length = np.log(np.diff(spans)[:, 0])
    odd = np.abs(length - np.median(length)).round(1)
    mean = np.array([np.nanmean(share[first:stop]) for first, stop in spans])
    chosen = np.lexsort((-mean, odd))[:TYPICAL]
    return spans[np.sort(chosen)]
