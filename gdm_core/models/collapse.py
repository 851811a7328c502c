"""Check for states whose noise has vanished, where the likelihood is unbounded."""

from __future__ import annotations

import numpy as np

from gdm_core.arrays import Float

# A state has collapsed if its noise is below both in some direction. Noise-free data stay above the second.
_LEAST_OF_STEPS, _LEAST_SUM = 1e-6, 5e-3  # share of the variance of steps, and the same times the samples of the state
_LEAST_OF_NOISE = 1e-3  # share of the noise of all states
_LEAST_USAGE = 20.0  # samples; the prior determines the noise of unused states


def may_have_collapsed(noise: Float) -> bool:
    """Return whether the noise [K, D, D] of any state is much smaller than that of all."""
    return bool((_smallest(noise, noise.sum(axis=0)) < _LEAST_OF_NOISE).any())  # the mean is at most the sum


def find_collapsed(noise: Float, usage: Float, steps: Float) -> int | None:
    """Return the number of a state whose noise has collapsed; None for no such state.

    noise  [K, D, D] covariance of the noise of each state
    usage  [K] samples of each state
    steps  [D] variance of the steps of the data
    """
    mean = np.einsum("k,kij->ij", usage / usage.sum(), noise)
    least = np.maximum(_LEAST_OF_STEPS, _LEAST_SUM / np.maximum(usage, 1.0))
    collapsed = (_smallest(noise, np.diag(steps)) < least) & (_smallest(noise, mean) < _LEAST_OF_NOISE)
    collapsed &= usage >= _LEAST_USAGE
    return int(collapsed.argmax()) if collapsed.any() else None


def _smallest(covariances: Float, reference: Float) -> Float:
    """Return the smallest eigenvalue of each covariance [K, D, D] in units of `reference` [D, D]."""
    inverse = np.linalg.inv(np.linalg.cholesky(reference))
    return np.asarray(np.linalg.eigvalsh(inverse @ covariances @ inverse.T)[:, 0], np.float64)
