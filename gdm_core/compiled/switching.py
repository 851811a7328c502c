"""Recursions of switching linear systems: the interacting multiple model filter, and sampled futures.

A belief is (log weights [K], means [K, D], covariances [K, D, D]): one Gaussian for each state. A system is (bias, weights,
coefficients, noise). Transition logits into state j are bias[i, j] + weights[j] . x, where bias [R, K] has one row if the
state before is not used.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gdm_core.compiled import compiled, inlined

Float = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Belief = tuple[Float, Float, Float]
System = tuple[Float, Float, Float, Float]


@inlined
def transitions_at(mean: Float, bias: Float, weights: Float) -> Float:
    """Return log p(next state | state, latent at its mean) [K, K]."""
    k, d = mean.shape
    table = np.empty((k, k))
    for i in range(k):
        top, total = -np.inf, 0.0
        for j in range(k):
            table[i, j] = bias[i if len(bias) > 1 else 0, j]
            for m in range(d):
                table[i, j] += weights[j, m] * mean[i, m]
            top = max(top, table[i, j])
        for j in range(k):
            total += np.exp(table[i, j] - top)
        table[i] -= top + np.log(total)
    return table


@inlined
def predict(belief: Belief, system: System) -> Belief:
    """Predict one step ahead: states change, their Gaussians are merged per new state, then the dynamics act."""
    (log_weight, mean, covariance), (bias, weights, coefficients, noise) = belief, system
    k, d = mean.shape
    joint = transitions_at(mean, bias, weights)
    weight, moved, spread = np.empty(k), np.empty((k, d)), np.empty((k, d, d))
    share, middle, merged, half = np.empty(k), np.empty(d), np.empty((d, d)), np.empty((d, d))
    for j in range(k):
        top = -np.inf
        for i in range(k):
            top = max(top, joint[i, j] + log_weight[i])
        for i in range(k):
            share[i] = np.exp(joint[i, j] + log_weight[i] - top)
        total = share.sum()
        weight[j] = top + np.log(total)
        middle[:], merged[:] = 0.0, 0.0
        for i in range(k):
            share[i] /= total
            for a in range(d):
                middle[a] += share[i] * mean[i, a]
        for i in range(k):
            for a in range(d):
                for b in range(d):
                    gaps = (mean[i, a] - middle[a]) * (mean[i, b] - middle[b])
                    merged[a, b] += share[i] * (covariance[i, a, b] + gaps)
        for a in range(d):
            moved[j, a] = coefficients[j, a, d]
            for m in range(d):
                moved[j, a] += coefficients[j, a, m] * middle[m]
            for b in range(d):
                half[a, b] = 0.0
                for m in range(d):
                    half[a, b] += coefficients[j, a, m] * merged[m, b]
        for a in range(d):
            for b in range(d):
                spread[j, a, b] = noise[j, a, b]
                for m in range(d):
                    spread[j, a, b] += half[a, m] * coefficients[j, b, m]
    return weight, moved, spread


@inlined
def update(belief: Belief, information: Float, linear: Float) -> Belief:
    """Condition on a sample with precision P and linear term h; without observations they are zero.

    With V = L L' and I + L' P L = R R', the new covariance is W' W, where W = R^-1 L'.
    """
    log_weight, mean, covariance = belief
    k, d = mean.shape
    weight, moved, after = np.empty(k), np.empty((k, d)), np.empty((k, d, d))
    lower, inner, root, white = np.empty((d, d)), np.empty((d, d)), np.empty((d, d)), np.empty((d, d))
    for j in range(k):
        _cholesky(covariance[j], lower)
        for a in range(d):
            for b in range(d):
                white[a, b] = 0.0
                for m in range(b, d):
                    white[a, b] += information[a, m] * lower[m, b]
        for a in range(d):
            for b in range(d):
                inner[a, b] = 1.0 if a == b else 0.0
                for m in range(a, d):
                    inner[a, b] += lower[m, a] * white[m, b]
        _cholesky(inner, root)
        weight[j] = log_weight[j]
        for a in range(d):
            weight[j] -= np.log(root[a, a])
            for b in range(d):
                white[a, b] = lower[b, a]
                for m in range(a):
                    white[a, b] -= root[a, m] * white[m, b]
                white[a, b] /= root[a, a]
        for a in range(d):
            for b in range(d):
                after[j, a, b] = 0.0
                for m in range(d):
                    after[j, a, b] += white[m, a] * white[m, b]
        for a in range(d):
            explained = 0.0
            for b in range(d):
                explained += information[a, b] * mean[j, b]
            weight[j] += mean[j, a] * (linear[a] - 0.5 * explained)
            lower[0, a] = linear[a] - explained
        for a in range(d):
            shift = 0.0
            for b in range(d):
                shift += after[j, a, b] * lower[0, b]
            moved[j, a] = mean[j, a] + shift
            weight[j] += 0.5 * lower[0, a] * shift
    top = weight.max()
    weight -= top + np.log(np.exp(weight - top).sum())
    return weight, moved, after


@inlined
def _cholesky(values: Float, lower: Float) -> None:
    """Fill in the lower Cholesky factor of a matrix, which rounding may leave singular."""
    lower[:] = 0.0
    for a in range(len(values)):
        for b in range(a + 1):
            rest = values[a, b]
            for m in range(b):
                rest -= lower[a, m] * lower[b, m]
            if a == b:
                lower[a, a] = 0.0 if rest < 0 else np.sqrt(rest)
            elif lower[b, b] > 0:
                lower[a, b] = rest / lower[b, b]


@compiled
def filter_path(origins: Ints, information: Float, linear: Float, belief: Belief, system: System) -> Belief:
    """Return the beliefs at ascending origins [O], from a first one and what samples say: [T, D, D] and [T, D]."""
    (k, d), n, at = belief[1].shape, len(origins), 0
    log_weights, means, covariances = np.empty((n, k)), np.empty((n, k, d)), np.empty((n, k, d, d))
    for t in range(origins[-1] + 1):
        belief = update(predict(belief, system) if t else belief, information[t], linear[t])
        if t == origins[at]:
            for j in range(k):
                log_weights[at, j] = belief[0][j]
                for a in range(d):
                    means[at, j, a] = belief[1][j, a]
                    for b in range(d):
                        covariances[at, j, a, b] = belief[2][j, a, b]
            at += 1
    return log_weights, means, covariances


@compiled
def sample_paths(states: Ints, history: Float, system: System, uniform: Float, normal: Float) -> tuple[Ints, Float]:
    """Sample states [n, H] and latents [n, H, D] that follow states [n] and latents [n, L, D], newest first.

    system    with lower factors of the noise in place of its covariances
    uniform   [n, H] draws that choose states; `normal` [n, H, D] move latents
    """
    bias, weights, coefficients, factors = system
    n, horizon, d = normal.shape
    k, lags = len(weights), history.shape[1]
    found, path = np.empty((n, horizon), np.int64), np.empty((n, horizon, d))
    chances, past = np.empty(k), np.empty((lags, d))
    for s in range(n):
        z = states[s]
        for lag in range(lags):
            for m in range(d):
                past[lag, m] = history[s, lag, m]
        for h in range(horizon):
            top, total = -np.inf, 0.0
            for j in range(k):
                chances[j] = bias[z if len(bias) > 1 else 0, j]
                for m in range(d):
                    chances[j] += weights[j, m] * past[0, m]
                top = max(top, chances[j])
            for j in range(k):
                total += np.exp(chances[j] - top)
                chances[j] = total
            z = 0
            while z < k - 1 and chances[z] < uniform[s, h] * total:
                z += 1
            for a in range(d):
                value = coefficients[z, a, lags * d]
                for lag in range(lags):
                    for m in range(d):
                        value += coefficients[z, a, lag * d + m] * past[lag, m]
                for m in range(a + 1):
                    value += factors[z, a, m] * normal[s, h, m]
                path[s, h, a] = value
            for m in range(d):
                for lag in range(lags - 1, 0, -1):
                    past[lag, m] = past[lag - 1, m]
                past[0, m] = path[s, h, m]
            found[s, h] = z
    return found, path
