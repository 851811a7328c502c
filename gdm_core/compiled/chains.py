"""Recursions over the samples of hidden Markov chains, in linear space per step and in log space where that underflows.

Trials are concatenated; `starts` marks their first samples, where the chain restarts. `moves` [T or 1, K, K] are
log-probabilities from each state to the next, into each sample or the same for all; `chances` are their exponentials.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gdm_core.compiled import compiled, inlined

Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

# Replaces log 0 to keep differences finite.
LOG_ZERO = -1e10
# Sums of numbers up to one are exact above this, despite underflow.
_TINY = 1e-150


@compiled
def forward(evidence: Float, initial: Float, moves: Float, chances: Float, starts: Bool) -> tuple[Float, Float, float]:
    """Return filtered log weights [T, K] with a maximum of zero, their exponentials, and the log-likelihood."""
    n, k = evidence.shape
    logs, weights, arriving = np.empty((n, k)), np.empty((n, k)), np.empty(k)
    total = 0.0
    for t in range(n):
        if starts[t]:
            total += 0.0 if t == 0 else np.log(weights[t - 1].sum())
            for j in range(k):
                logs[t, j] = initial[j] + evidence[t, j]
        else:
            step = t if len(moves) > 1 else 0
            arriving[:] = 0.0
            for i in range(k):
                for j in range(k):
                    arriving[j] += weights[t - 1, i] * chances[step, i, j]
            for j in range(k):
                if arriving[j] >= _TINY:
                    logs[t, j] = np.log(arriving[j]) + evidence[t, j]
                else:
                    logs[t, j] = _log_sum(logs[t - 1], moves[step, :, j]) + evidence[t, j]
        total += _normalise(logs[t], weights[t])
    return logs, weights, total + np.log(weights[n - 1].sum())


@compiled
def smooth(
    logs: Float, weights: Float, evidence: Float, moves: Float, chances: Float, starts: Bool
) -> tuple[Float, Float]:
    """Return the probabilities [T, K] of states and [T, K, K] of (previous state, state), from `forward`."""
    n, k = evidence.shape
    states, pairs = np.empty((n, k)), np.zeros((n, k, k))
    after, here, leaving = np.zeros(k), np.empty(k), np.empty(k)
    for t in range(n - 1, -1, -1):
        if starts[t]:
            for j in range(k):
                states[t, j] = logs[t, j] + after[j]
            _normalise(states[t], here)
            total = here.sum()
            for j in range(k):
                states[t, j], after[j] = here[j] / total, 0.0
            continue
        step = t if len(moves) > 1 else 0
        for j in range(k):
            after[j] += evidence[t, j]
        _normalise(after, here)
        total = 0.0
        for i in range(k):
            leaving[i] = 0.0
            for j in range(k):
                path = chances[step, i, j] * here[j]
                leaving[i] += path
                pairs[t, i, j] = weights[t - 1, i] * path
            total += weights[t - 1, i] * leaving[i]
        if not total >= _TINY:
            total = _exact_pairs(logs[t - 1], moves[step], after, pairs[t])
        states[t] = 0.0
        for i in range(k):
            for j in range(k):
                pairs[t, i, j] /= total
                states[t, j] += pairs[t, i, j]
            here[i] = np.log(leaving[i]) if leaving[i] >= _TINY else _log_sum(moves[step, i], after)
        _normalise(here, leaving)
        after, here = here, after
    return states, pairs


@compiled
def best_path(states: Float, pairs: Float, starts: Bool) -> Ints:
    """Return the path [T] of largest probability, given log-probabilities as from `smooth` (Viterbi)."""
    n, k = states.shape
    best, came_from, path = states[0].copy(), np.empty((n, k), np.int64), np.empty(n, np.int64)
    reached = np.empty(k)
    for t in range(1, n):
        for j in range(k):
            reached[j] = -np.inf
            for i in range(k):
                value = best[i] + (states[t, j] if starts[t] else pairs[t, i, j] - states[t - 1, i])
                if value > reached[j]:
                    reached[j], came_from[t, j] = value, i
        best, reached = reached, best
    path[n - 1] = best.argmax()
    for t in range(n - 1, 0, -1):
        path[t - 1] = came_from[t, path[t]]
    return path


@inlined
def _normalise(logs: Float, weights: Float) -> float:
    """Shift log weights [K] to a maximum of zero, fill in their exponentials, and return the shift."""
    top = logs.max()
    for j in range(len(logs)):
        logs[j] = max(logs[j] - top, LOG_ZERO)
        weights[j] = np.exp(logs[j])
    return top


@inlined
def _log_sum(left: Float, right: Float) -> float:
    """Return the logarithm of the sum of exp(left) * exp(right)."""
    top, total = -np.inf, 0.0
    for i in range(len(left)):
        top = max(top, left[i] + right[i])
    for i in range(len(left)):
        total += np.exp(left[i] + right[i] - top)
    return top + np.log(total)


@inlined
def _exact_pairs(before: Float, moves: Float, after: Float, pairs: Float) -> float:
    """Fill in the weights [K, K] of a step from logarithms, and return their sum."""
    k = len(before)
    top, total = -np.inf, 0.0
    for i in range(k):
        for j in range(k):
            top = max(top, before[i] + moves[i, j] + after[j])
    for i in range(k):
        for j in range(k):
            pairs[i, j] = np.exp(before[i] + moves[i, j] + after[j] - top)
            total += pairs[i, j]
    return total
