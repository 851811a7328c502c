"""Block-tridiagonal precisions J of Gaussian paths: J = F F', where F has lower blocks L_t and, left of them, B_t.

Every block is [D, D] for each of T samples; B_t couples sample t to sample t - 1, and B_0 is zero.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gdm_core.compiled import compiled

Float = npt.NDArray[np.float64]


@compiled
def factorise(diagonal: Float, below: Float) -> tuple[Float, Float, bool]:
    """Return L and B [T, D, D], and whether J is positive: B_t = below_t L_{t-1}^-T, L_t L_t' = diagonal_t - B_t B_t'."""
    n, d, _ = diagonal.shape
    lower, left = np.zeros((n, d, d)), np.zeros((n, d, d))
    for t in range(n):
        own, tie = lower[t], left[t]
        if t:
            for i in range(d):
                for j in range(d):
                    value = below[t, i, j]
                    for m in range(j):
                        value -= tie[i, m] * lower[t - 1, j, m]
                    tie[i, j] = value / lower[t - 1, j, j]
        for i in range(d):
            for j in range(i + 1):
                value = diagonal[t, i, j]
                for m in range(d):
                    value -= tie[i, m] * tie[j, m]
                for m in range(j):
                    value -= own[i, m] * own[j, m]
                if j < i:
                    own[i, j] = value / own[j, j]
                elif value > 0:
                    own[i, i] = np.sqrt(value)
                else:
                    return lower, left, False
    return lower, left, True


@compiled
def solve(lower: Float, left: Float, right: Float) -> Float:
    """Return J^-1 right [T, D, M]: first u_t = L_t^-1 (right_t - B_t u_{t-1}), then L_t^-T (u_t - B_{t+1}' x_{t+1})."""
    n, d, width = right.shape
    x = right.copy()
    for t in range(n):
        for i in range(d):
            for c in range(width):
                value = x[t, i, c]
                for m in range(d if t else 0):
                    value -= left[t, i, m] * x[t - 1, m, c]
                for m in range(i):
                    value -= lower[t, i, m] * x[t, m, c]
                x[t, i, c] = value / lower[t, i, i]
    for t in range(n - 1, -1, -1):
        for i in range(d - 1, -1, -1):
            for c in range(width):
                value = x[t, i, c]
                for m in range(d if t < n - 1 else 0):
                    value -= left[t + 1, m, i] * x[t + 1, m, c]
                for m in range(i + 1, d):
                    value -= lower[t, m, i] * x[t, m, c]
                x[t, i, c] = value / lower[t, i, i]
    return x


@compiled
def covariances(lower: Float, left: Float) -> tuple[Float, Float]:
    """Return V_t = Var(x_t) and Cov(x_t, x_{t-1}) = -V_t G_t' [T, D, D], where G_t = L_{t-1}^-T B_t'.

    V_t = L_t^-T L_t^-1 + G_{t+1} V_{t+1} G_{t+1}'
    """
    n, d, _ = lower.shape
    variance, cross = np.zeros((n, d, d)), np.zeros((n, d, d))
    inverse, gain = np.zeros((d, d)), np.zeros((d, d))
    for t in range(n - 1, -1, -1):
        for i in range(d):
            inverse[i, i] = 1 / lower[t, i, i]
            for j in range(i):
                value = 0.0
                for m in range(j, i):
                    value -= lower[t, i, m] * inverse[m, j]
                inverse[i, j] = value * inverse[i, i]
        if t < n - 1:
            for i in range(d):
                for j in range(d):
                    value = 0.0
                    for m in range(i, d):
                        value += inverse[m, i] * left[t + 1, j, m]
                    gain[i, j] = value
            for i in range(d):
                for j in range(d):
                    value = 0.0
                    for m in range(d):
                        value -= variance[t + 1, i, m] * gain[j, m]
                    cross[t + 1, i, j] = value
        for i in range(d):
            for j in range(i + 1):
                value = 0.0
                for m in range(i, d):
                    value += inverse[m, i] * inverse[m, j]
                for m in range(d if t < n - 1 else 0):
                    value -= gain[i, m] * cross[t + 1, m, j]
                variance[t, i, j] = value
                variance[t, j, i] = value
    return variance, cross
