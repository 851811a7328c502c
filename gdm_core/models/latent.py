"""The number of latent dimensions (D) that data have, by principal components."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdm_core.arrays import Float
from gdm_core.errors import DataError
from gdm_core.trials import Trials

MAX_SAMPLES = 100_000
EXPLAINED = 0.95
FEW, MOST = 4, 8  # so few channels are all kept; more dimensions are not suggested


@dataclass(frozen=True)
class PcaPreview:
    """Principal components [N, N] in rows, with the cumulative share of variance that they explain [N]."""

    variance_explained: Float
    components: Float
    center: Float
    scale: Float

    def choose_latent(self, most: int = MOST) -> int:
        """Return D: all of a few channels, otherwise components that explain 95% of the variance, 2 to `most`."""
        n = len(self.center)
        needed = n if n <= FEW else int(np.searchsorted(self.variance_explained, EXPLAINED)) + 1
        return min(max(needed, min(2, n)), most, n)

    def describe_left_out(self, n_latent: int, most: int = MOST) -> str:
        """Return a sentence about the variance that D dimensions leave out; "" if D is as large as chosen."""
        if n_latent >= (needed := self.choose_latent(most)):
            return ""
        lost = 1 - self.variance_explained[n_latent - 1]
        return f"D = {n_latent} counts {lost:.0%} of the variance as noise; D = {needed} suits these data."


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
