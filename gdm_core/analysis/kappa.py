"""Agreement of two annotators, or of a model and an expert, on the same frames: Cohen's kappa with an interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from gdm_core.trials import UNLABELLED

FEWEST_PIECES = 20
N_RESAMPLES = 2_000


class Kappa(NamedTuple):
    """Cohen's kappa with its 95% interval, the share of equal labels, and the number of frames with both labels."""

    kappa: float
    low: float
    high: float
    agreement: float
    n_frames: int


def measure_kappa(first: Sequence[npt.ArrayLike], second: Sequence[npt.ArrayLike], seed: int = 0) -> Kappa:
    """Return Cohen's kappa of two series of labels.

    Neighbouring frames are not independent, so the interval resamples recordings, or at least 20 pieces of them, by the
    BCa bootstrap.

    first, second   labels [T] of each recording by either annotator, -1 where unlabelled
    seed            seed of the bootstrap
    """
    from scipy import stats

    a, b = ([np.asarray(one) for one in given] for given in (first, second))
    if [len(one) for one in a] != [len(one) for one in b] or not a:
        raise DataError(
            "The two annotators must label the same frames: pass arrays of equal length for each recording."
        )
    both = [(x >= 0) & (y >= 0) for x, y in zip(a, b, strict=True)]
    pairs = [np.stack([x[known], y[known]]) for x, y, known in zip(a, b, both, strict=True)]
    k = 1 + max((int(pair.max()) for pair in pairs if pair.size), default=UNLABELLED)
    if not k:
        raise DataError("No frame has a label of both annotators.")
    share = -(-FEWEST_PIECES // len(pairs))
    pieces = [piece for pair in pairs for piece in np.array_split(pair, share, axis=1) if piece.size]
    tables = np.stack([np.bincount(x * k + y, minlength=k * k).reshape(k, k) for x, y in pieces]).astype(np.float64)

    def statistic(rows: npt.NDArray[np.int64], axis: int = -1) -> npt.NDArray[np.float64]:
        return _kappa(tables[np.moveaxis(rows, axis, -1).astype(np.int64)].sum(axis=-3))

    whole = tables.sum(axis=0)
    value, agreement = float(_kappa(whole)), float(np.trace(whole) / whole.sum())
    if agreement == 1 or len(pieces) < 3:
        return Kappa(value, *((value, value) if agreement == 1 else (np.nan, np.nan)), agreement, int(whole.sum()))
    interval: Any = stats.bootstrap(
        (np.arange(len(pieces)),), statistic, n_resamples=N_RESAMPLES, vectorized=True, rng=np.random.default_rng(seed)
    ).confidence_interval
    return Kappa(value, float(interval.low), float(interval.high), agreement, int(whole.sum()))


def _kappa(tables: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return kappa of tables [..., K, K] of counts; 1 if both annotators use a single, equal label."""
    shares = tables / tables.sum(axis=(-2, -1), keepdims=True)
    equal = np.trace(shares, axis1=-2, axis2=-1)
    chance = (shares.sum(axis=-1) * shares.sum(axis=-2)).sum(axis=-1)
    return np.asarray(np.where(chance < 1, (equal - chance) / np.maximum(1 - chance, 1e-12), 1.0))
