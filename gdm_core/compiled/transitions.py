"""Second derivatives of softmax transitions p(j | i, x), proportional to chances[i, j] exp(weights[j] . x).

`chances` [R, K] have one row if the state before is not used. Row t of `left` [T, R] weighs the step into sample t, from
x_{t-1}, by the probability of the state before.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gdm_core.compiled import compiled, inlined

Float = npt.NDArray[np.float64]

_MIN_SUM = 1e-300


@compiled
def path_derivatives(x: Float, chances: Float, weights: Float, left: Float) -> tuple[float, Float, Float]:
    """Return the weighted sum of log-sums, and its first and second derivatives in x: [T, D] and [T, D, D]."""
    n, (rows, k), d = len(x), chances.shape, x.shape[1]
    value, slope, curve = 0.0, np.zeros((n, d)), np.zeros((n, d, d))
    p, e, mean, mixed = np.empty(k), np.empty(k), np.empty(d), np.empty(k)
    for t in range(1, n):
        top = _exponentials(x[t - 1], weights, e)
        mixed[:] = 0.0
        for r in range(rows):
            value += left[t, r] * (top + np.log(_softmax(chances[r], e, p)))
            mean[:] = 0.0
            for j in range(k):
                mixed[j] += left[t, r] * p[j]
                for a in range(d):
                    mean[a] += p[j] * weights[j, a]
            for a in range(d):
                slope[t - 1, a] += left[t, r] * mean[a]
                for b in range(d):
                    curve[t - 1, a, b] -= left[t, r] * mean[a] * mean[b]
        for j in range(k):
            for a in range(d):
                for b in range(d):
                    curve[t - 1, a, b] += mixed[j] * weights[j, a] * weights[j, b]
    return value, slope, curve


@compiled
def information(x: Float, chances: Float, weights: Float, left: Float, stride: int) -> tuple[Float, Float, Float]:
    """Return the second derivatives of the weighted sum of log-sums, from every so many steps.

    In log chances [R, K, K], in these and weights [R, K, K, D], and in weights [K, K, D, D].
    """
    n, (rows, k), d = len(x), chances.shape, x.shape[1]
    own, across, inner = np.zeros((rows, k, k)), np.zeros((rows, k, k, d)), np.zeros((k, k, d, d))
    p, e, spread = np.empty(k), np.empty(k), np.empty((k, k))
    for t in range(0, n, stride):
        before = max(t - 1, 0)
        _exponentials(x[before], weights, e)
        spread[:] = 0.0
        for r in range(rows):
            _softmax(chances[r], e, p)
            for i in range(k):
                for j in range(i + 1):
                    value = stride * left[t, r] * p[i] * ((1.0 if i == j else 0.0) - p[j])
                    spread[i, j] += value
                    own[r, i, j] += value
                    for a in range(d):
                        across[r, i, j, a] += value * x[before, a]
        for i in range(k):
            for j in range(i + 1):
                for a in range(d):
                    for b in range(d):
                        inner[i, j, a, b] += spread[i, j] * x[before, a] * x[before, b]
    for i in range(k):
        for j in range(i):
            for a in range(d):
                for r in range(rows):
                    own[r, j, i], across[r, j, i, a] = own[r, i, j], across[r, i, j, a]
                for b in range(d):
                    inner[j, i, a, b] = inner[i, j, a, b]
    return own, across, inner


@inlined
def _exponentials(x: Float, weights: Float, e: Float) -> float:
    """Fill in exp(weights x - top) [K], and return top, the largest product."""
    top = -np.inf
    for j in range(len(e)):
        e[j] = 0.0
        for a in range(len(x)):
            e[j] += weights[j, a] * x[a]
        top = max(top, e[j])
    for j in range(len(e)):
        e[j] = np.exp(e[j] - top)
    return top


@inlined
def _softmax(chances: Float, e: Float, p: Float) -> float:
    """Fill in the probabilities [K] that are proportional to the products of two vectors; return the products' sum."""
    total = 0.0
    for j in range(len(p)):
        p[j] = chances[j] * e[j]
        total += p[j]
    total = max(total, _MIN_SUM)
    for j in range(len(p)):
        p[j] /= total
    return total
