"""Initial values of D and K for the sliders, from principal components and mixtures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from gdm_core.maths.threads import one_thread
from gdm_core.models.latent import PcaPreview, principal_components
from gdm_core.trials import Trials


@dataclass(frozen=True)
class SliderStart:
    """Initial slider values, with reasons."""

    n_latent: int
    n_states: int
    why_latent: str
    why_states: str


def suggest(trials: Trials, seed: int = 0) -> SliderStart:
    """Suggest initial numbers of latent dimensions (D) and states (K).

    D: as `PcaPreview.choose_latent` does.
    K: with expert labels, one more than the labels that occur. Otherwise, Gaussian mixtures of 1 to 8 components are
    compared by BIC on up to 2,000 samples of those components, and the smallest with 90% of the best gain over a single
    Gaussian is chosen.
    """
    pca = principal_components(trials)
    d = pca.choose_latent()
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

    rng = np.random.default_rng(seed)
    y = np.concatenate([trial.y[rng.permutation(trial.n_samples)[:2000]] for trial in trials])
    y = y[rng.permutation(len(y))[:2000]]
    z = np.nan_to_num((y - pca.center) / pca.scale) @ pca.components[:d].T  # [S, D]
    counts = np.arange(1, max(2, min(8, len(z) // 20)) + 1)
    if len(z) < 40:
        return 2, "there are too few samples to distinguish states"
    with one_thread():
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
