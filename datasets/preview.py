"""A first look at the data before any fit: its principal components, and where to start with D and K."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import DataError
from gdm_core.trials import Trials

PIECE = 65_536  # samples


@dataclass(frozen=True)
class PcaPreview:
    """variance_held [N]: the share of variance that the first 1, 2, ... components hold; components [N, N] in rows."""

    variance_held: npt.NDArray[np.float64]
    components: npt.NDArray[np.float64]
    center: npt.NDArray[np.float64]
    scale: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Suggestion:
    """A start for the sliders, with the reasons in words."""

    n_latent: int
    n_states: int
    why_latent: str
    why_states: str


def principal_components(trials: Trials) -> PcaPreview:
    """Components of the standardised channels, over all pairs of values that were observed together."""
    n = trials.n_channels
    count, total, square = np.zeros(n), np.zeros(n), np.zeros(n)
    for y in _pieces(trials):
        seen = np.isfinite(y)
        count += seen.sum(axis=0)
        total += np.where(seen, y, 0).sum(axis=0, dtype=np.float64)
    center = total / np.maximum(count, 1)
    for y in _pieces(trials):
        square += np.nansum((y - center) ** 2, axis=0)  # in double precision: squares of large numbers overflow
    scale = np.sqrt(square / np.maximum(count, 1))
    scale[scale == 0] = 1.0
    cross, pairs = np.zeros((n, n)), np.zeros((n, n))
    for y in _pieces(trials):
        z = ((y - center) / scale).astype(np.float32)
        seen = np.isfinite(z).astype(np.float32)
        z = np.where(seen > 0, z, np.float32(0))
        cross += z.T @ z
        pairs += seen.T @ seen
    values, vectors = np.linalg.eigh(cross / np.maximum(pairs, 1))
    values = np.clip(values[::-1], 0, None)  # pairwise counts can make the smallest a little negative
    whole = values.sum()
    if whole == 0:
        raise DataError(f"{trials.name!r} does not vary in any channel, so it has no components.")
    return PcaPreview(np.cumsum(values) / whole, vectors[:, ::-1].T, center, scale)


def _pieces(trials: Trials) -> Iterator[npt.NDArray[np.float32]]:
    """All samples, a piece at a time: several arrays as large as a long recording need not exist at once."""
    for trial in trials:
        for start in range(0, trial.n_samples, PIECE):
            yield trial.y[start : start + PIECE]


def suggest(trials: Trials, seed: int = 0) -> Suggestion:
    """How many latent dimensions (D) and states (K) to start with.

    D: the smallest number of principal components that hold 90 % of the variance, between 2 and 8.
    K: with expert labels, one more than the behaviours that occur (room for what the expert did not name). Without,
    Gaussian mixtures of 1 to 8 are compared on up to 2,000 samples of those components by their Bayesian
    information criterion, and the smallest that brings 90 % of the best one's gain over a single Gaussian is taken.
    """
    pca = principal_components(trials)
    most = min(8, trials.n_channels)
    needed = int(np.searchsorted(pca.variance_held, 0.9)) + 1
    d = min(max(needed, min(2, most)), most)
    why_d = f"{d} components hold {100 * pca.variance_held[d - 1]:.0f} % of the variance"
    labels = {int(label) for trial in trials if trial.labels is not None for label in pd.unique(trial.labels)} - {-1}
    if labels:
        k = min(len(labels) + 1, 12)
        return Suggestion(d, k, why_d, f"{len(labels)} labelled behaviours occur, and one state is left for the rest")
    k, gain = _states_by_mixture(trials, pca, d, seed)
    return Suggestion(d, k, why_d, gain)


def _states_by_mixture(trials: Trials, pca: PcaPreview, d: int, seed: int) -> tuple[int, str]:
    from sklearn.mixture import GaussianMixture
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(seed)
    y = np.concatenate([trial.y[rng.permutation(trial.n_samples)[:2000]] for trial in trials])
    y = y[rng.permutation(len(y))[:2000]]
    z = np.nan_to_num((y - pca.center) / pca.scale) @ pca.components[:d].T  # [S, D]
    counts = np.arange(1, max(2, min(8, len(z) // 20)) + 1)
    if len(z) < 40:
        return 2, "there are too few samples to tell states apart"
    with threadpool_limits(1):  # small matrices: more threads only wait for each other
        bic = np.array(
            [
                GaussianMixture(int(k), reg_covar=1e-3, tol=1e-2, max_iter=50, random_state=seed).fit(z).bic(z)
                for k in counts
            ]
        )
    gain = bic[0] - bic
    if gain.max() <= 0:
        return 2, "one cloud of points: more states do not describe the samples better"
    k = max(2, int(counts[np.argmax(gain >= 0.9 * gain.max())]))
    return k, f"a mixture of {k} brings 90 % of the gain that up to {counts[-1]} can bring"
