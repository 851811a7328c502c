"""Candidates of soft states, and their weights as the messages of a hidden Markov model with S states.

Indices: t rows, k states, n channels, q columns of the design, j candidates before, s candidates now.
`linked` [R] marks rows that follow the row before.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gdm_core.compiled import compiled, inlined

Array = npt.NDArray[np.float32]
Bool = npt.NDArray[np.bool_]

_LEAST_TRANSFER = 1e-30  # relative to the largest of the row
_MAX_EXPONENT = np.float32(40)
_ONE, _HALF = np.float32(1), np.float32(0.5)
_HALF_LOG_2PI = np.float32(0.5 * math.log(2 * math.pi))


@inlined
def _exp(x: np.float32) -> np.float32:
    """Return e^x for x up to 88, as in `training`."""
    scaled = max(x * np.float32(1.4426950408889634), np.float32(-126))
    whole = np.floor(scaled + _HALF)
    part = scaled - whole
    power = np.float32(1.540353e-4) * part + np.float32(1.333356e-3)
    power = power * part + np.float32(9.618129e-3)
    power = power * part + np.float32(5.550411e-2)
    power = power * part + np.float32(2.402265e-1)
    power = power * part + np.float32(6.931472e-1)
    return (power * part + _ONE) * np.int32((np.int32(whole) + np.int32(127)) << np.int32(23)).view(np.float32)


@compiled
def draw(logits: Array, log_noise: Array, temperature: np.float32) -> Array:
    """Return soft states [R, K, S] from logits [R, K] and logs of exponential noise, [R, K, S] or the same [1, K, S]."""
    (n_rows, n_states), n_draws = logits.shape, log_noise.shape[2]
    found, cold = np.empty((n_rows, n_states, n_draws), np.float32), _ONE / temperature
    peak, total = np.empty(n_draws, np.float32), np.empty(n_draws, np.float32)
    for t in range(n_rows):
        z, log_e = found[t], log_noise[min(t, len(log_noise) - 1)]
        peak[:], total[:] = -np.inf, 0
        for k in range(n_states):
            for s in range(n_draws):
                z[k, s] = (logits[t, k] - log_e[k, s]) * cold
                peak[s] = max(peak[s], z[k, s])
        for k in range(n_states):
            for s in range(n_draws):
                z[k, s] = _exp(z[k, s] - peak[s])
                total[s] += z[k, s]
        for k in range(n_states):
            for s in range(n_draws):
                z[k, s] /= total[s]
    return found


@compiled
def compare(
    z: Array, logits: Array, context: Array, initial: Array, linked: Bool, sticky: np.float32, free: np.float32
) -> Array:
    """Return the logits of a linear prior given each candidate before, less those [R, K] of the posterior: [R, K, S].

    The prior is `sticky` z_{t-1} + `free` context [R, K], or `initial` [K] where a trial starts.
    """
    n_rows, n_states, n_draws = z.shape
    delta = np.empty(z.shape, np.float32)
    for t in range(n_rows):
        here, before = delta[t], z[max(t - 1, 0)]
        for k in range(n_states):
            factor = sticky if linked[t] else np.float32(0)
            base = (free * context[t, k] if linked[t] else initial[k]) - logits[t, k]
            for j in range(n_draws):
                here[k, j] = factor * before[k, j] + base
    return delta


@inlined
def _multiply(left: Array, right: Array, total: Array) -> None:
    """Add sum_k left_km right_ks to `total` [M, S]."""
    for k in range(len(left)):
        column = right[k]
        for m in range(len(total)):
            factor, row = left[k, m], total[m]
            for s in range(len(column)):
                row[s] += factor * column[s]


@compiled
def likelihoods(
    z: Array, y: Array, known: Array, design: Array, linked: Bool, dynamics: Array, log_noise: Array, first_log_noise: Array
) -> Array:  # fmt: skip
    """Return log p(y_t | z, past) [R, S] of the observed entries.

    known            [R, N] 1 where observed, or empty if everything is
    dynamics         [K, P, N]
    log_noise        [1, N], or [K, N] per state; `first_log_noise` [N] in rows that start a trial
    """
    (n_rows, n_states, n_draws), (n_design, n_channels) = z.shape, dynamics.shape[1:]
    found, means = np.zeros((n_rows, n_draws), np.float32), np.empty((n_states, n_channels), np.float32)
    error, log_sd = np.empty((n_channels, n_draws), np.float32), np.empty((n_channels, n_draws), np.float32)
    own_noise = len(log_noise) > 1
    for t in range(n_rows):
        value = found[t]
        means[:] = 0
        for k in range(n_states):
            for q in range(n_design):
                column = design[t, q]
                for n in range(n_channels):
                    means[k, n] += column * dynamics[k, q, n]
        error[:], log_sd[:] = 0, 0
        _multiply(means, z[t], error)
        if own_noise and linked[t]:
            _multiply(log_noise, z[t], log_sd)
        else:
            for n in range(n_channels):
                log_sd[n] = log_noise[0, n] if linked[t] else first_log_noise[n]
        for n in range(n_channels):
            if known.size > 0 and known[t, n] == 0:
                continue
            its_y, its_error, its_log_sd = y[t, n], error[n], log_sd[n]
            for s in range(n_draws):
                missed = (its_y - its_error[s]) * _exp(-its_log_sd[s])
                value[s] -= _HALF * missed * missed + its_log_sd[s] + _HALF_LOG_2PI
    return found


@inlined
def _root(values: Array, n_states: int, root: Array) -> float:
    """Fill exp((best - value) / K), with terms at the upper limit without weight, and return the best value."""
    best, each = values.max(), _ONE / np.float32(n_states)
    for s in range(len(values)):
        root[s] = _exp(min((best - values[s]) * each, _MAX_EXPONENT))
    return float(best)


@compiled
def weigh(
    delta: Array, values: Array, noise: Array, linked: Bool, first: Array, transfer: Array
) -> tuple[Array, Array]:
    """Return filtered weights [R, S] and log-likelihoods [R], and fill the transfers [R, S, S], with a maximum of 1.

    A transfer is exp(u_j + v_s) m_js^-K with m_js = sum_k exp(delta_kj - top_j) E_ks, so it needs no logarithm.

    delta    [R, K, S] from `compare`
    values   [R, S] v, the log-likelihood plus K log sum_k E_k
    noise    E, [R, K, S] or the same [1, K, S]
    first    [S] weights of the first row if they are known, else empty; others that are not linked start from equal ones
    """
    n_rows, n_states, n_draws = delta.shape
    weights, log_likelihood = np.empty((n_rows, n_draws), np.float32), np.zeros(n_rows, np.float32)
    even, now, ratio = np.empty(n_draws, np.float32), np.empty(n_draws, np.float32), np.empty(n_draws**2, np.float32)
    left, right = np.empty((n_states, n_draws), np.float32), np.empty((n_states, n_draws), np.float32)
    top, total, root = np.empty(n_draws, np.float32), np.empty(n_draws, np.float32), np.empty(n_draws, np.float32)
    tiny = np.float32(_LEAST_TRANSFER ** (1 / n_states))
    n_bits = int(np.log2(n_states))
    even[:] = _ONE / np.float32(n_draws)
    before = even
    for t in range(n_rows):
        its_delta, its_noise, its_transfer = delta[t], noise[min(t, len(noise) - 1)], transfer[t]
        top[:], total[:] = -np.inf, 0
        for k in range(n_states):
            for j in range(n_draws):
                top[j] = max(top[j], its_delta[k, j])
                total[j] += its_delta[k, j]
        for j in range(n_draws):
            total[j] -= np.float32(n_states) * top[j]
        scale = _root(total, n_states, root)
        for k in range(n_states):
            for j in range(n_draws):
                left[k, j] = _exp(its_delta[k, j] - top[j]) * root[j]
        scale += _root(values[t], n_states, root)
        for k in range(n_states):
            for s in range(n_draws):
                right[k, s] = its_noise[k, s] * root[s]

        its_transfer[:] = 0
        _multiply(left, right, its_transfer)
        now[:] = np.inf
        for j in range(n_draws):
            row = its_transfer[j]
            for s in range(n_draws):
                now[s] = min(now[s], row[s])
        power, least = its_transfer.reshape(-1), now.min()
        for i in range(len(power)):
            ratio[i] = max(least / power[i], tiny)
            power[i] = ratio[i]
        for bit in range(n_bits - 1, -1, -1):  # to the power K
            if (n_states >> bit) & 1:
                for i in range(len(power)):
                    power[i] *= power[i] * ratio[i]
            else:
                for i in range(len(power)):
                    power[i] *= power[i]
        if not linked[t]:
            before = even
        now[:] = 0
        for j in range(n_draws):
            weight, row = before[j], its_transfer[j]
            for s in range(n_draws):
                now[s] += weight * row[s]
        before = weights[t]
        if t == 0 and len(first) > 0:
            for s in range(n_draws):
                before[s] = first[s]
        else:
            sum_of_weights = now.sum()
            for s in range(n_draws):
                before[s] = now[s] / sum_of_weights
            log_likelihood[t] = scale + np.log(sum_of_weights / n_draws) - np.float32(n_states) * np.log(least)
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
        total = earlier.sum()
        for j in range(n_draws):
            future[j] = earlier[j] / total
    return states
