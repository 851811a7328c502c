"""Initial values of D and K for the sliders, from principal components and mixtures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import DataError
from gdm_core.trials import Trials

MAX_SAMPLES = 100_000


@dataclass(frozen=True)
class PcaPreview:
    """Principal components [N, N] in rows, with the cumulative share of variance that they explain [N]."""

    variance_explained: npt.NDArray[np.float64]
    components: npt.NDArray[np.float64]
    center: npt.NDArray[np.float64]
    scale: npt.NDArray[np.float64]


@dataclass(frozen=True)
class SliderStart:
    """Initial slider values, with reasons."""

    n_latent: int
    n_states: int
    why_latent: str
    why_states: str


def principal_components(trials: Trials) -> PcaPreview:
    """Return the principal components of the standardised channels, from pairwise observed values.

    Of long data, evenly spaced samples are used.
    """
    y = np.concatenate([trial.y[:: -(-trials.n_samples // MAX_SAMPLES)] for trial in trials]).astype(np.float64)
    seen = np.isfinite(y)
    center = np.where(seen, y, 0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    off = np.where(seen, y - center, 0)
    scale = np.sqrt((off**2).sum(axis=0) / np.maximum(seen.sum(axis=0), 1))
    scale[scale == 0] = 1.0
    pairs = seen.T.astype(np.float64) @ seen
    values, vectors = np.linalg.eigh((off / scale).T @ (off / scale) / np.maximum(pairs, 1))
    values = np.clip(values[::-1], 0, None)  # pairwise counts can make the smallest slightly negative
    whole = values.sum()
    if whole == 0:
        raise DataError(f"{trials.name!r} is constant in every channel, so it has no principal components.")
    return PcaPreview(np.cumsum(values) / whole, vectors[:, ::-1].T, center, scale)


def suggest(trials: Trials, seed: int = 0) -> SliderStart:
    """Suggest initial numbers of latent dimensions (D) and states (K).

    D: the smallest number of principal components that explain 90% of the variance, between 2 and 8.
    K: with expert labels, one more than the labels that occur. Otherwise, Gaussian mixtures of 1 to 8 components are
    compared by BIC on up to 2,000 samples of those components, and the smallest with 90% of the best gain over a single
    Gaussian is chosen.
    """
    pca = principal_components(trials)
    most = min(8, trials.n_channels)
    needed = int(np.searchsorted(pca.variance_explained, 0.9)) + 1
    d = min(max(needed, min(2, most)), most)
    why_d = f"{d} components explain {100 * pca.variance_explained[d - 1]:.0f}% of the variance"
    labels = {int(label) for trial in trials if trial.labels is not None for label in pd.unique(trial.labels)} - {-1}
    if labels:
        k = min(len(labels) + 1, 12)
        return SliderStart(
            d, k, why_d, f"{len(labels)} labels occur, and one state is added for behaviour outside them"
        )
    k, gain = _states_by_mixture(trials, pca, d, seed)
    return SliderStart(d, k, why_d, gain)


def _states_by_mixture(trials: Trials, pca: PcaPreview, d: int, seed: int) -> tuple[int, str]:
    from sklearn.mixture import GaussianMixture
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(seed)
    y = np.concatenate([trial.y[rng.permutation(trial.n_samples)[:2000]] for trial in trials])
    y = y[rng.permutation(len(y))[:2000]]
    z = np.nan_to_num((y - pca.center) / pca.scale) @ pca.components[:d].T  # [S, D]
    counts = np.arange(1, max(2, min(8, len(z) // 20)) + 1)
    if len(z) < 40:
        return 2, "there are too few samples to distinguish states"
    with threadpool_limits(1):  # more threads do not help with small matrices
        bic = np.array(
            [
                GaussianMixture(int(k), reg_covar=1e-3, tol=1e-2, max_iter=50, random_state=seed).fit(z).bic(z)
                for k in counts
            ]
        )
    gain = bic[0] - bic
    if gain.max() <= 0:
        return 2, "a single cluster: more states do not describe the samples better"
    k = max(2, int(counts[np.argmax(gain >= 0.9 * gain.max())]))
    return k, f"a mixture of {k} has 90% of the largest gain with up to {counts[-1]} components"
