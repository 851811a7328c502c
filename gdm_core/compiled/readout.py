"""Weights of S candidates per row, as the messages of a hidden Markov model with S states. Indices: j before, s now."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gdm_core.compiled import compiled

Array = npt.NDArray[np.float32]

_LEAST_TRANSFER = 1e-30  # relative to the largest of the row


@compiled
def weigh(
    left: Array, right: Array, linked: npt.NDArray[np.bool_], first: Array, transfer: Array
) -> tuple[Array, Array]:
    """Return filtered weights [R, S] and log-likelihoods [R]; fill the transfers T_js = m_js^-K, scaled to a maximum of 1.

    left, right  [R, K, S] with m_js = sum_k left_kj right_ks
    linked       [R] rows that follow the row before; others start from equal weights
    first        [S] weights of the first row if they are known, else empty
    """
    n_rows, n_states, n_draws = left.shape
    weights, log_likelihood = np.empty((n_rows, n_draws), np.float32), np.zeros(n_rows, np.float32)
    before, now, ratio = np.empty(n_draws, np.float32), np.empty(n_draws, np.float32), np.empty(n_draws, np.float32)
    tiny = np.float32(_LEAST_TRANSFER ** (1 / n_states))
    n_bits = int(np.log2(n_states))
    before[:] = np.float32(1 / n_draws)
    for t in range(n_rows):
        least = np.float32(np.inf)
        for j in range(n_draws):
            ratio[:] = 0
            for k in range(n_states):
                factor = left[t, k, j]
                for s in range(n_draws):
                    ratio[s] += factor * right[t, k, s]
            for s in range(n_draws):
                least = min(least, ratio[s])
                transfer[t, j, s] = ratio[s]
        if not linked[t]:
            before[:] = np.float32(1 / n_draws)
        now[:] = 0
        for j in range(n_draws):
            for s in range(n_draws):
                ratio[s] = max(least / transfer[t, j, s], tiny)
                transfer[t, j, s] = ratio[s]
            for bit in range(n_bits - 1, -1, -1):  # to the power K
                for s in range(n_draws):
                    transfer[t, j, s] *= transfer[t, j, s]
                if (n_states >> bit) & 1:
                    for s in range(n_draws):
                        transfer[t, j, s] *= ratio[s]
            weight = before[j]
            for s in range(n_draws):
                now[s] += weight * transfer[t, j, s]
        if t == 0 and len(first) > 0:
            before[:] = first
        else:
            total = now.sum()
            before[:] = now / total
            log_likelihood[t] = np.log(total) - np.float32(n_states) * np.log(least)
        weights[t] = before
    return weights, log_likelihood


@compiled
def smooth(transfer: Array, linked: npt.NDArray[np.bool_], weights: Array, z: Array) -> Array:
    """Return the mean [R, K] of candidates z [R, K, S] from filtered weights and all later rows."""
    n_rows, n_states, n_draws = z.shape
    states = np.empty((n_rows, n_states), np.float32)
    future, both, earlier = np.ones(n_draws, np.float32), np.empty(n_draws, np.float32), np.empty(n_draws, np.float32)
    for t in range(n_rows - 1, -1, -1):
        total = np.float32(0)
        for s in range(n_draws):
            both[s] = weights[t, s] * future[s]
            total += both[s]
        for k in range(n_states):
            mean = np.float32(0)
            for s in range(n_draws):
                mean += both[s] * z[t, k, s]
            states[t, k] = mean / total
        if not linked[t]:
            future[:] = 1
            continue
        for j in range(n_draws):
            earlier[j] = 0
            for s in range(n_draws):
                earlier[j] += transfer[t, j, s] * future[s]
        future[:] = earlier / earlier.sum()
    return states
