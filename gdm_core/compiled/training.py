"""One training step of a GDM: the draws of a batch, the objective, its gradient and the curvature for Newton steps.

Time is the last axis. Loops run over blocks of rows, which stay in the processor's cache and are copied to arrays of their
own: an index `begin + i` in an innermost loop would keep it from vector instructions, and so would np.exp. Indices:
n channels, k states, q columns of the design, s draws, i rows of a block. `known` [N, R] is 1 where observed, and empty if
everything is. `linked` [R] is 1 where a row follows the row before, and 0 where a trial starts.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gdm_core.compiled import compiled

Array = npt.NDArray[np.float32]

BLOCK, LEAST_BLOCK = 256, 64  # draws of all rows of a block, and rows
CURVATURE_DRAWS = 1024  # draws for the curvature of each channel, with noise per state
_ONE, _HALF = np.float32(1), np.float32(0.5)
_HALF_LOG_2PI = np.float32(0.5 * math.log(2 * math.pi))


@compiled
def _exp(x: np.float32) -> np.float32:
    """Return e^x for x up to 88 with a relative error of 1e-6; unlike np.exp, loops over it use vector instructions."""
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
def _log(x: np.float32) -> np.float32:
    """Return log x for positive x."""
    bits = np.float32(x).view(np.int32)
    exponent = np.int32(np.int32(bits - np.int32(0x3F3504F3)) >> np.int32(23))
    rest = np.int32(bits - np.int32(exponent << np.int32(23))).view(np.float32)
    ratio = (rest - _ONE) / (rest + _ONE)
    square = ratio * ratio
    series = np.float32(2 / 7) + np.float32(2 / 9) * square
    series = np.float32(2) + square * (np.float32(2 / 3) + square * (np.float32(2 / 5) + square * series))
    return ratio * series + np.float32(exponent) * np.float32(math.log(2))


@compiled
def exponential(place: int, key: np.uint32) -> np.float32:
    """Return a standard exponential variable, a function of place and key."""
    x = np.uint32(np.uint32(np.uint32(place) * np.uint32(0x9E3779B9)) ^ key)
    x = np.uint32(np.uint32(x ^ np.uint32(x >> np.uint32(16))) * np.uint32(0x7FEB352D))
    x = np.uint32(np.uint32(x ^ np.uint32(x >> np.uint32(15))) * np.uint32(0x846CA68B))
    x = np.uint32(np.uint32(x ^ np.uint32(x >> np.uint32(16))) >> np.uint32(8))
    return -_log((np.float32(np.int32(x)) + _HALF) * np.float32(2**-24))


@compiled
def take_windows(
    y: Array, past: Array, known: Array, linked: Array, chain: Array, begins: npt.NDArray[np.int64], length: int,
    context: int,
) -> tuple[Array, Array, Array, Array, Array, Array]:  # fmt: skip
    """Return windows of `length` scored rows after `context` others, and the share of each row in the average.

    Rows outside the data are zero and not scored.
    """
    total, span = len(linked), context + length
    size = len(begins) * span
    its_y, its_known = np.zeros((len(y), size), np.float32), np.zeros((len(known), size), np.float32)
    its_past = its_y if len(known) == 0 else np.zeros((len(y), size), np.float32)
    its_chain = np.zeros((len(chain), size), np.float32)
    its_linked, share = np.zeros(size, np.float32), np.zeros(size, np.float32)
    for w in range(len(begins)):
        first = begins[w] - context
        low, high = max(first, 0), min(first + span, total)
        if low >= high:
            continue
        at = w * span + low - first
        end = at + high - low
        for n in range(len(y)):
            its_y[n, at:end] = y[n, low:high]
            if len(known) > 0:
                its_known[n, at:end], its_past[n, at:end] = known[n, low:high], past[n, low:high]
        for k in range(len(chain)):
            its_chain[k, at:end] = chain[k, low:high]
        its_linked[at:end] = linked[low:high]
        share[max(at, w * span + context) : end] = 1
    share /= max(share.sum(), _ONE)
    return its_y, its_past, its_known, its_linked, share, its_chain


@compiled
def _copy_block(
    y: Array, known: Array, linked: Array, before: Array, begin: int, end: int, its_y: Array, its_known: Array, design: Array
) -> None:  # fmt: skip
    """Copy the observations [N, i] of a block and fill its design; rows beyond its end keep those of an earlier one."""
    width, n_latent, follows = end - begin, len(before), linked[begin:end]
    for n in range(len(y)):
        its_y[n, :width] = y[n, begin:end]
        if known.size > 0:
            its_known[n, :width] = known[n, begin:end]
    for d in range(n_latent):
        design[d, :width] = before[d, begin:end] * follows
    design[n_latent, :width], design[n_latent + 1, :width] = follows, _ONE - follows


@compiled
def _fill_means(dynamics: Array, design: Array, n: int, means: Array) -> None:
    """Fill the means [K, i] of a channel under each pure state."""
    means[:] = 0
    for k in range(dynamics.shape[0]):
        for q in range(dynamics.shape[1]):
            slope = dynamics[k, q, n]
            for i in range(means.shape[1]):
                means[k, i] += slope * design[q, i]


@compiled
def evidence(y: Array, known: Array, linked: Array, before: Array, dynamics: Array, log_noise: Array) -> Array:
    """Return the log-likelihood of each pure state [K, R], up to a constant per row; 0 in first rows."""
    n_states, n_design, n_channels = dynamics.shape
    n_rows = len(linked)
    found = np.zeros((n_states, n_rows), np.float32)
    its_y, its_known = np.zeros((n_channels, BLOCK), np.float32), np.ones((n_channels, BLOCK), np.float32)
    design, means = np.zeros((n_design, BLOCK), np.float32), np.zeros((n_states, BLOCK), np.float32)
    total = np.zeros((n_states, BLOCK), np.float32)
    for begin in range(0, n_rows, BLOCK):
        end = min(begin + BLOCK, n_rows)
        _copy_block(y, known, linked, before, begin, end, its_y, its_known, design)
        total[:] = 0
        for n in range(n_channels):
            _fill_means(dynamics, design, n, means)
            for k in range(n_states):
                log_sd = log_noise[min(k, len(log_noise) - 1), n]
                precision = np.exp(-log_sd)
                for i in range(BLOCK):
                    error = (its_y[n, i] - means[k, i]) * precision
                    total[k, i] -= its_known[n, i] * (_HALF * error * error + log_sd)
        for k in range(n_states):
            found[k, begin:end] = total[k, : end - begin] * linked[begin:end]
    return found


@compiled
def _draw(logits: Array, temperature: np.float32, place: int, key: np.uint32, noise: Array, z: Array) -> None:
    """Fill exponential noise and the soft states that it gives, [K, S, i]; `place` numbers the first entry."""
    n_states, n_draws, size = z.shape
    cold, peak, total = _ONE / temperature, np.empty(size, np.float32), np.empty(size, np.float32)
    for s in range(n_draws):
        peak[:], total[:] = -np.inf, 0
        for k in range(n_states):
            first = place + (s * n_states + k) * size
            for i in range(size):
                noise[k, s, i] = exponential(first + i, key)
            for i in range(size):
                z[k, s, i] = (logits[k, i] - _log(noise[k, s, i])) * cold
                peak[i] = max(peak[i], z[k, s, i])
        for k in range(n_states):
            for i in range(size):
                z[k, s, i] = _exp(z[k, s, i] - peak[i])
                total[i] += z[k, s, i]
        for k in range(n_states):
            for i in range(size):
                z[k, s, i] /= total[i]


@compiled
def _draw_back(z: Array, d_z: Array, temperature: np.float32, d_logits: Array) -> None:
    """Add the gradient of logits [K, i] from that of soft states [K, S, i]."""
    n_states, n_draws, size = z.shape
    cold, mean = _ONE / temperature, np.empty(size, np.float32)
    for s in range(n_draws):
        mean[:] = 0
        for k in range(n_states):
            for i in range(size):
                mean[i] += z[k, s, i] * d_z[k, s, i]
        for k in range(n_states):
            for i in range(size):
                d_logits[k, i] += cold * z[k, s, i] * (d_z[k, s, i] - mean[i])


@compiled
def _follow(
    z: Array, last: Array, context: Array, logits: Array, initial: Array, follows: Array, sticky: np.float32,
    free: np.float32, previous: Array, delta: Array,
) -> None:  # fmt: skip
    """Fill the soft states of the row before, and prior less posterior logits, [K, S, i]; `last` of the block before."""
    n_states, n_draws, size = z.shape
    for k in range(n_states):
        for s in range(n_draws):
            previous[k, s, 0], last[k, s] = last[k, s], z[k, s, size - 1]
            for i in range(size - 1):
                previous[k, s, i + 1] = z[k, s, i]
            for i in range(size):
                prior = sticky * previous[k, s, i] + free * context[k, i]
                delta[k, s, i] = follows[i] * prior + (_ONE - follows[i]) * initial[k] - logits[k, i]


@compiled
def _follow_back(
    pull: Array, previous: Array, noise: Array, total_noise: Array, upstream: Array, follows: Array, context: Array,
    free: np.float32, importance: bool, d_initial: Array, d_context: Array, d_logits: Array,
) -> tuple[float, float]:  # fmt: skip
    """Fill the gradients of context and logits [K, i], turn `pull` into that of the prior; return slopes in its factors."""
    n_states, n_draws, size = pull.shape
    by_state, by_context, factor = np.float32(0), np.float32(0), np.float32(n_states)
    d_logits[:], d_context[:] = 0, 0
    for k in range(n_states):
        at_start = np.float32(0)
        for s in range(n_draws):
            for i in range(size):
                pull[k, s, i] *= -upstream[s, i]
                at_start += (_ONE - follows[i]) * pull[k, s, i]
            if importance:  # draws are fixed; each pulls q by its weight: d log q / d logits = 1 - K E / sum(E)
                for i in range(size):
                    d_logits[k, i] += upstream[s, i] * (_ONE - factor * noise[k, s, i] / total_noise[s, i])
            else:
                for i in range(size):
                    d_logits[k, i] -= pull[k, s, i]
            for i in range(size):
                pull[k, s, i] *= follows[i]
                by_state += pull[k, s, i] * previous[k, s, i]
                by_context += pull[k, s, i] * context[k, i]
                d_context[k, i] += free * pull[k, s, i]
        d_initial[k] += at_start
    return float(by_state), float(by_context)


@compiled
def _diverge(delta: Array, noise: Array, pull: Array, value: Array, total_noise: Array) -> None:
    """Subtract draws of the divergence from `value` [S, i]; fill their slopes [K, S, i] in delta, and sum_k E_k."""
    n_states, n_draws, size = delta.shape
    factor, peak, total = np.float32(n_states), np.empty(size, np.float32), np.empty(size, np.float32)
    for s in range(n_draws):
        peak[:], total[:], total_noise[s], value[s] = -np.inf, 0, 0, 0
        for k in range(n_states):
            for i in range(size):
                peak[i] = max(peak[i], delta[k, s, i])
                value[s, i] += delta[k, s, i]
                total_noise[s, i] += noise[k, s, i]
        for k in range(n_states):
            for i in range(size):
                pull[k, s, i] = _exp(delta[k, s, i] - peak[i]) * noise[k, s, i]
                total[i] += pull[k, s, i]
        for i in range(size):
            value[s, i] -= factor * (_log(total[i] / total_noise[s, i]) + peak[i])
        for k in range(n_states):
            for i in range(size):
                pull[k, s, i] = factor * pull[k, s, i] / total[i] - _ONE


@compiled
def _weigh(value: Array, share: Array, importance: bool, upstream: Array) -> float:
    """Fill the slopes [S, i] of the objective in the log importance weights `value`, and return the objective."""
    n_draws, size = value.shape
    even, objective = _ONE / np.float32(n_draws), 0.0
    peak, total = value[0].copy(), np.zeros(size, np.float32)
    for s in range(n_draws):
        for i in range(size):
            peak[i] = max(peak[i], value[s, i])
    for s in range(n_draws):
        for i in range(size):
            upstream[s, i] = _exp(value[s, i] - peak[i]) if importance else even
            total[i] += upstream[s, i]
    for s in range(n_draws):
        for i in range(size):
            upstream[s, i] *= share[i] / total[i]
    if importance:
        for i in range(size):
            objective += share[i] * (_log(total[i] * even) + peak[i])
    else:
        for s in range(n_draws):
            for i in range(size):
                objective += upstream[s, i] * value[s, i]
    return objective


@compiled
def _explain(
    dynamics: Array, log_noise: Array, first_log_noise: Array, y: Array, known: Array, design: Array, z: Array,
    means: Array, error: Array, precision: Array, value: Array,
) -> None:  # fmt: skip
    """Add log p(y | z) to `value`; fill means [N, K, i], standardised errors and precisions [N, S, i]."""
    n_states, n_draws, size = z.shape
    own_noise, follows, log_sd = len(log_noise) > 1, design[len(design) - 2], np.empty(size, np.float32)
    for n in range(len(y)):
        first = first_log_noise[n]
        _fill_means(dynamics, design, n, means[n])
        for s in range(n_draws):
            error[n, s] = y[n]
            log_sd[:] = np.float32(0) if own_noise else log_noise[0, n]
            for k in range(n_states):
                for i in range(size):
                    error[n, s, i] -= z[k, s, i] * means[n, k, i]
                if own_noise:
                    its_noise = log_noise[k, n]
                    for i in range(size):
                        log_sd[i] += z[k, s, i] * its_noise
            for i in range(size):
                log_sd[i] = follows[i] * log_sd[i] + (_ONE - follows[i]) * first
                precision[n, s, i] = known[n, i] * _exp(-log_sd[i])
                error[n, s, i] *= precision[n, s, i]
                value[s, i] -= _HALF * error[n, s, i] * error[n, s, i] + known[n, i] * (log_sd[i] + _HALF_LOG_2PI)


@compiled
def _explain_back(
    dynamics: Array, log_noise: Array, known: Array, design: Array, upstream: Array, z: Array, means: Array, error: Array,
    precision: Array, importance: bool, d_dynamics: Array, d_log_noise: Array, d_design: Array, d_z: Array,
) -> None:  # fmt: skip
    """Add the gradients of the likelihood and, for draws that move, that of `d_z`; fill that of the design."""
    n_states, n_draws, size = z.shape
    own_noise, follows = len(log_noise) > 1, design[len(design) - 2]
    d_mean, d_log_sd = np.empty((n_draws, size), np.float32), np.empty((n_draws, size), np.float32)
    of_state = np.empty(size, np.float32)
    d_design[:] = 0
    for n in range(len(error)):
        total = np.float32(0)
        for s in range(n_draws):
            for i in range(size):
                d_mean[s, i] = error[n, s, i] * precision[n, s, i] * upstream[s, i]
                d_log_sd[s, i] = follows[i] * upstream[s, i] * (error[n, s, i] * error[n, s, i] - known[n, i])
                total += d_log_sd[s, i]
        if not own_noise:
            d_log_noise[0, n] += total
        for k in range(n_states):
            of_state[:] = 0
            for s in range(n_draws):
                for i in range(size):
                    of_state[i] += z[k, s, i] * d_mean[s, i]
            if own_noise:
                total = np.float32(0)
                for s in range(n_draws):
                    for i in range(size):
                        total += z[k, s, i] * d_log_sd[s, i]
                d_log_noise[k, n] += total
            if not importance:
                its_noise = log_noise[k, n] if own_noise else np.float32(0)
                for s in range(n_draws):
                    for i in range(size):
                        d_z[k, s, i] += d_mean[s, i] * means[n, k, i] + its_noise * d_log_sd[s, i]
            for q in range(len(design)):
                slope, total = dynamics[k, q, n], np.float32(0)
                for i in range(size):
                    total += design[q, i] * of_state[i]
                    d_design[q, i] += slope * of_state[i]
                d_dynamics[k, q, n] += total


@compiled
def _curve(z: Array, upstream: Array, design: Array, curvature: Array) -> None:
    """Add sum_s,i u z_k z_l d_q d_c of a block where l <= k and c <= q; draws are summed first."""
    n_states, n_draws, size = z.shape
    n_design = len(design)
    weight, column = np.empty(size, np.float32), np.empty(size, np.float32)
    for k in range(n_states):
        for other in range(k + 1):
            weight[:] = 0
            for s in range(n_draws):
                for i in range(size):
                    weight[i] += upstream[s, i] * z[k, s, i] * z[other, s, i]
            for q in range(n_design):
                for i in range(size):
                    column[i] = weight[i] * design[q, i]
                for c in range(q + 1):
                    total = np.float32(0)
                    for i in range(size):
                        total += column[i] * design[c, i]
                    curvature[k * n_design + q, other * n_design + c] += total


@compiled
def _curve_channels(weighted: Array, weight: Array, curvature: Array) -> None:
    """Fill the curvature [N, K P, K P] of each channel from some draws z d [K P, J] and their weights [N, J]."""
    size, n_draws = weighted.shape
    products = np.empty((size * (size + 1) // 2, n_draws), np.float32)
    at = 0
    for a in range(size):
        for b in range(a + 1):
            for j in range(n_draws):
                products[at, j] = weighted[a, j] * weighted[b, j]
            at += 1
    sums = weight @ products.T
    at = 0
    for a in range(size):
        for b in range(a + 1):
            curvature[:, a, b] = sums[:, at]
            curvature[:, b, a] = sums[:, at]
            at += 1


@compiled
def step(
    y: Array, known: Array, linked: Array, share: Array, before: Array, context: Array, logits: Array,
    dynamics: Array, initial: Array, log_noise: Array, first_log_noise: Array, sticky: np.float32, free: np.float32,
    temperature: np.float32, n_draws: int, seed: int, importance: bool,
    d_dynamics: Array, d_initial: Array, d_log_noise: Array, curvature: Array, noise_curvature: Array,
) -> tuple[float, float, float, Array, Array, Array]:  # fmt: skip
    """Return the objective, its slopes in `sticky` and `free`, and its gradients in context, logits and `before`.

    share            [R] weight of each row in the objective
    before           [D, R] x of the row before
    context, logits  [K, R] logits of the prior without the sticky term, and of the posterior
    dynamics         [K, P, N]
    log_noise        [1, N], or [K, N] per state; `first_log_noise` [N] in rows that start a trial
    sticky, free     factors of the previous state and of the context in the prior
    curvature        [1, K P, K P] of the dynamics in units of 1 / R, or [N, K P, K P] with noise per state
    noise_curvature  [K, K] of the log noise of states, if they have their own
    """
    n_states, n_design, n_channels = dynamics.shape
    n_rows, size, own_noise = len(linked), max(LEAST_BLOCK, BLOCK // n_draws), len(log_noise) > 1
    shape = (n_states, n_draws, size)
    noise, z, d_z = np.zeros(shape, np.float32), np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    previous, delta, pull = np.zeros(shape, np.float32), np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    last, value = np.zeros(shape[:2], np.float32), np.zeros(shape[1:], np.float32)
    upstream, total_noise = np.zeros(shape[1:], np.float32), np.zeros(shape[1:], np.float32)
    error, precision = np.zeros((n_channels, *shape[1:]), np.float32), np.zeros((n_channels, *shape[1:]), np.float32)
    means = np.zeros((n_channels, n_states, size), np.float32)
    its_y, its_known = np.zeros((n_channels, size), np.float32), np.ones((n_channels, size), np.float32)
    design, of_design = np.zeros((n_design, size), np.float32), np.zeros((n_design, size), np.float32)
    its_logits, its_context = np.zeros((n_states, size), np.float32), np.zeros((n_states, size), np.float32)
    of_logits, of_context = np.zeros((n_states, size), np.float32), np.zeros((n_states, size), np.float32)
    its_share, follows = np.zeros(size, np.float32), design[n_design - 2]
    d_context, d_logits, d_before = np.empty_like(context), np.empty_like(logits), np.empty_like(before)
    objective, by_sticky, by_free, key = 0.0, 0.0, 0.0, np.uint32(seed)
    d_dynamics[:], d_initial[:], d_log_noise[:], curvature[:], noise_curvature[:] = 0, 0, 0, 0, 0
    every = max(1, n_draws * n_rows // CURVATURE_DRAWS)  # of all draws, for the curvature with noise per state
    chosen = np.zeros((n_states * n_design, own_noise * (n_draws * n_rows // every + n_draws)), np.float32)
    weight, n_chosen, chosen_share = np.zeros((n_channels, chosen.shape[1]), np.float32), 0, 0.0
    for begin in range(0, n_rows, size):
        end = min(begin + size, n_rows)
        width = end - begin
        _copy_block(y, known, linked, before, begin, end, its_y, its_known, design)
        its_share[:width], its_share[width:] = share[begin:end], 0
        for k in range(n_states):
            its_logits[k, :width], its_context[k, :width] = logits[k, begin:end], context[k, begin:end]

        _draw(its_logits, temperature, begin * n_states * n_draws, key, noise, z)
        _follow(z, last, its_context, its_logits, initial, follows, sticky, free, previous, delta)
        _diverge(delta, noise, pull, value, total_noise)
        _explain(dynamics, log_noise, first_log_noise, its_y, its_known, design, z, means, error, precision, value)
        objective += _weigh(value, its_share, importance, upstream)

        slope_sticky, slope_free = _follow_back(
            pull, previous, noise, total_noise, upstream, follows, its_context, free, importance, d_initial,
            of_context, of_logits,
        )  # fmt: skip
        by_sticky, by_free = by_sticky + slope_sticky, by_free + slope_free
        for k in range(n_states):
            for s in range(n_draws):
                d_z[k, s, size - 1] = 0
                for i in range(size - 1):
                    d_z[k, s, i] = sticky * pull[k, s, i + 1]
        _explain_back(
            dynamics, log_noise, its_known, design, upstream, z, means, error, precision, importance,
            d_dynamics, d_log_noise, of_design, d_z,
        )  # fmt: skip
        if not importance:
            _draw_back(z, d_z, temperature, of_logits)
            for s in range(n_draws * (begin > 0)):  # the last row of the block before, through this one's first prior
                mean = np.float32(0)
                for k in range(n_states):
                    mean += previous[k, s, 0] * pull[k, s, 0]
                for k in range(n_states):
                    d_logits[k, begin - 1] += sticky * previous[k, s, 0] * (pull[k, s, 0] - mean) / temperature
        for k in range(n_states):
            d_logits[k, begin:end], d_context[k, begin:end] = of_logits[k, :width], of_context[k, :width]
        for d in range(n_design - 2):
            d_before[d, begin:end] = of_design[d, :width] * follows[:width]

        if not own_noise:
            _curve(z, upstream, design, curvature[0])
            continue
        for s in range(n_draws):
            for i in range(-(s * n_rows + begin) % every, width, every):
                chosen_share += upstream[s, i]
                for k in range(n_states):
                    for q in range(n_design):
                        chosen[k * n_design + q, n_chosen] = z[k, s, i] * design[q, i]
                    for other in range(n_states):
                        noise_curvature[k, other] += z[k, s, i] * z[other, s, i] * upstream[s, i]
                for n in range(n_channels):
                    weight[n, n_chosen] = upstream[s, i] * precision[n, s, i] * precision[n, s, i]
                n_chosen += 1
    if own_noise:
        factor = np.float32(share.sum() / max(chosen_share, 1e-20))
        _curve_channels(chosen, weight * factor, curvature)
        noise_curvature[:] *= factor
    else:
        for a in range(n_states * n_design):
            for b in range(n_states * n_design):
                k, q, other, c = a // n_design, a % n_design, b // n_design, b % n_design
                row, column = max(k, other) * n_design + max(q, c), min(k, other) * n_design + min(q, c)
                curvature[0, a, b] = curvature[0, row, column]
    return objective, by_sticky, by_free, d_context, d_logits, d_before
