"""One training step of a GDM: the draws of a batch, the objective, its gradient and the curvature for Newton steps.

Time is the last axis. Loops run over blocks of rows, which stay in the processor's cache and are copied to arrays of their
own: an index `begin + i` in an innermost loop would keep it from vector instructions, and so would np.exp. Arrays are copied
by loops: assigning one to a slice compiles ten times as long. Indices: n channels, k states, q columns of the design,
s draws, i rows of a block.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gdm_core.compiled import compiled, inlined
from gdm_core.compiled.batches import Batch, Block, Curvature, Emission, Inputs, Settings

Array = npt.NDArray[np.float32]

BLOCK, LEAST_BLOCK = 256, 64  # draws of all rows of a block, and rows
CURVATURE_DRAWS = 1024  # draws for the curvature of each channel, with noise per state
_ZERO, _ONE, _HALF = np.float32(0), np.float32(1), np.float32(0.5)
_HALF_LOG_2PI = np.float32(0.5 * math.log(2 * math.pi))


@inlined
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


@inlined
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


@inlined
def exponential(place: int, key: np.uint32) -> np.float32:
    """Return a standard exponential variable, a function of place and key."""
    x = np.uint32(np.uint32(np.uint32(place) * np.uint32(0x9E3779B9)) ^ key)
    x = np.uint32(np.uint32(x ^ np.uint32(x >> np.uint32(16))) * np.uint32(0x7FEB352D))
    x = np.uint32(np.uint32(x ^ np.uint32(x >> np.uint32(15))) * np.uint32(0x846CA68B))
    x = np.uint32(np.uint32(x ^ np.uint32(x >> np.uint32(16))) >> np.uint32(8))
    return -_log((np.float32(np.int32(x)) + _HALF) * np.float32(2**-24))


@inlined
def _copy(values: Array, begin: int, end: int, target: Array, at: int) -> None:
    """Copy columns `begin` to `end` of [C, R] into `target`, from column `at`."""
    for c in range(len(values)):
        source, row = values[c, begin:end], target[c, at : at + end - begin]
        for i in range(end - begin):
            row[i] = source[i]


@inlined
def _fill_design(linked: Array, before: Array, begin: int, end: int, design: Array) -> None:
    """Fill the design [P, i] of a block: the row before, one if there is one, one if there is none."""
    n_latent, its_linked = len(before), linked[begin:end]
    for d in range(n_latent):
        its_before, row = before[d, begin:end], design[d]
        for i in range(end - begin):
            row[i] = its_before[i] * its_linked[i]
    for i in range(end - begin):
        design[n_latent, i], design[n_latent + 1, i] = its_linked[i], _ONE - its_linked[i]


@inlined
def _fill_means(dynamics: Array, design: Array, n: int, means: Array) -> None:
    """Fill the means [K, i] of a channel under each pure state."""
    means[:] = 0
    for k in range(dynamics.shape[0]):
        for q in range(dynamics.shape[1]):
            slope = dynamics[k, q, n]
            for i in range(means.shape[1]):
                means[k, i] += slope * design[q, i]


@compiled
def evidence(batch: Batch, before: Array, emission: Emission) -> Array:
    """Return the log-likelihood of each pure state [K, R], up to a constant per row; 0 in first rows."""
    n_states, n_design, n_channels = emission.dynamics.shape
    n_rows, log_noise = len(batch.linked), emission.log_noise
    found = np.zeros((n_states, n_rows), np.float32)
    y, known = np.zeros((n_channels, BLOCK), np.float32), np.ones((n_channels, BLOCK), np.float32)
    design, means = np.zeros((n_design, BLOCK), np.float32), np.zeros((n_states, BLOCK), np.float32)
    total = np.zeros((n_states, BLOCK), np.float32)
    for begin in range(0, n_rows, BLOCK):
        end = min(begin + BLOCK, n_rows)
        _copy(batch.y, begin, end, y, 0)
        _copy(batch.known, begin, end, known, 0)
        _fill_design(batch.linked, before, begin, end, design)
        total[:] = 0
        for n in range(n_channels):
            _fill_means(emission.dynamics, design, n, means)
            for k in range(n_states):
                log_sd = log_noise[min(k, len(log_noise) - 1), n]
                precision = np.exp(-log_sd)
                for i in range(BLOCK):
                    error = (y[n, i] - means[k, i]) * precision
                    total[k, i] -= known[n, i] * (_HALF * error * error + log_sd)
        for k in range(n_states):
            for i in range(end - begin):
                found[k, begin + i] = total[k, i] * batch.linked[begin + i]
    return found


@inlined
def _new_block(n_states: int, n_draws: int, size: int, n_channels: int, n_design: int) -> Block:
    """Return a block of zeros in which everything is observed."""
    rows, draws, channels = (n_states, size), (n_states, n_draws, size), (n_channels, n_draws, size)
    return Block(
        y=np.zeros((n_channels, size), np.float32), known=np.ones((n_channels, size), np.float32),
        share=np.zeros(size, np.float32), design=np.zeros((n_design, size), np.float32),
        context=np.zeros(rows, np.float32), logits=np.zeros(rows, np.float32),
        noise=np.zeros(draws, np.float32), z=np.zeros(draws, np.float32),
        previous=np.zeros(draws, np.float32), last=np.zeros((n_states, n_draws), np.float32),
        delta=np.zeros(draws, np.float32), pull=np.zeros(draws, np.float32),
        total_noise=np.zeros((n_draws, size), np.float32), means=np.zeros((n_channels, n_states, size), np.float32),
        error=np.zeros(channels, np.float32), precision=np.zeros(channels, np.float32),
        value=np.zeros((n_draws, size), np.float32), upstream=np.zeros((n_draws, size), np.float32),
        d_z=np.zeros(draws, np.float32), d_design=np.zeros((n_design, size), np.float32),
        d_context=np.zeros(rows, np.float32), d_logits=np.zeros(rows, np.float32),
    )  # fmt: skip


@inlined
def _load(batch: Batch, inputs: Inputs, begin: int, end: int, block: Block) -> None:
    """Copy rows into a block; those beyond its end keep older values and have no share."""
    _copy(batch.y, begin, end, block.y, 0)
    _copy(batch.known, begin, end, block.known, 0)
    _copy(inputs.context, begin, end, block.context, 0)
    _copy(inputs.logits, begin, end, block.logits, 0)
    _fill_design(batch.linked, inputs.before, begin, end, block.design)
    block.share[:] = 0
    for i in range(end - begin):
        block.share[i] = batch.share[begin + i]


@inlined
def _draw(block: Block, temperature: np.float32, place: int, key: np.uint32) -> None:
    """Fill exponential noise and the soft states that it gives; `place` numbers the first entry."""
    z, noise, logits = block.z, block.noise, block.logits
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


@inlined
def _draw_back(block: Block, temperature: np.float32) -> None:
    """Add the slopes of logits from those of soft states."""
    z, d_z, d_logits = block.z, block.d_z, block.d_logits
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


@inlined
def _follow(block: Block, initial: Array, sticky: np.float32, free: np.float32) -> None:
    """Fill the soft states of the row before, and prior less posterior logits."""
    z, previous, last, delta = block.z, block.previous, block.last, block.delta
    logits, context, follows = block.logits, block.context, block.design[len(block.design) - 2]
    n_states, n_draws, size = z.shape
    for k in range(n_states):
        for s in range(n_draws):
            previous[k, s, 0], last[k, s] = last[k, s], z[k, s, size - 1]
            for i in range(size - 1):
                previous[k, s, i + 1] = z[k, s, i]
            for i in range(size):
                prior = sticky * previous[k, s, i] + free * context[k, i]
                delta[k, s, i] = follows[i] * prior + (_ONE - follows[i]) * initial[k] - logits[k, i]


@inlined
def _follow_back(block: Block, settings: Settings, d_initial: Array) -> tuple[float, float]:
    """Fill the slopes of context and logits, turn `pull` into that of the prior; return slopes in its factors."""
    pull, previous, noise, upstream = block.pull, block.previous, block.noise, block.upstream
    context, follows, free = block.context, block.design[len(block.design) - 2], settings.free
    d_context, d_logits, total_noise, d_z = block.d_context, block.d_logits, block.total_noise, block.d_z
    n_states, n_draws, size = pull.shape
    by_state, by_context, factor = _ZERO, _ZERO, np.float32(n_states)
    d_logits[:], d_context[:] = 0, 0
    for k in range(n_states):
        at_start = _ZERO
        for s in range(n_draws):
            for i in range(size):
                pull[k, s, i] *= -upstream[s, i]
                at_start += (_ONE - follows[i]) * pull[k, s, i]
            if (
                settings.importance
            ):  # draws are fixed; each pulls q by its weight: d log q / d logits = 1 - K E / sum(E)
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
            d_z[k, s, size - 1] = 0
            for i in range(size - 1):
                d_z[k, s, i] = settings.sticky * pull[k, s, i + 1]
        d_initial[k] += at_start
    return float(by_state), float(by_context)


@inlined
def _diverge(block: Block) -> None:
    """Fill `value` with minus draws of the divergence, their slopes in delta, and sum_k E_k."""
    delta, noise, pull, value, total_noise = block.delta, block.noise, block.pull, block.value, block.total_noise
    n_states, n_draws, size = delta.shape
    factor, peak, total = np.float32(n_states), np.empty(size, np.float32), np.empty(size, np.float32)
    total_noise[:], value[:] = 0, 0
    for s in range(n_draws):
        peak[:], total[:] = -np.inf, 0
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


@inlined
def _weigh(block: Block, importance: bool) -> float:
    """Fill the slopes of the objective in `value`, the log importance weights, and return the objective."""
    value, share, upstream = block.value, block.share, block.upstream
    n_draws, size = value.shape
    even, objective = _ONE / np.float32(n_draws), 0.0
    peak, total = np.empty(size, np.float32), np.zeros(size, np.float32)
    peak[:] = -np.inf
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
            if not importance:
                objective += upstream[s, i] * value[s, i]
    for i in range(size if importance else 0):
        objective += share[i] * (_log(total[i] * even) + peak[i])
    return objective


@inlined
def _explain(block: Block, emission: Emission, first_log_noise: Array) -> None:
    """Add log p(y | z) to `value`; fill means, standardised errors and precisions."""
    y, known, z, means, design = block.y, block.known, block.z, block.means, block.design
    error, precision, value, log_noise = block.error, block.precision, block.value, emission.log_noise
    n_states, n_draws, size = z.shape
    own_noise, follows, log_sd = len(log_noise) > 1, design[len(design) - 2], np.empty(size, np.float32)
    for n in range(len(y)):
        first = first_log_noise[n]
        _fill_means(emission.dynamics, design, n, means[n])
        for s in range(n_draws):
            for i in range(size):
                error[n, s, i] = y[n, i]
            log_sd[:] = _ZERO if own_noise else log_noise[0, n]
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


@inlined
def _explain_back(block: Block, emission: Emission, importance: bool, slopes: Emission) -> None:
    """Add the slopes of the likelihood and, for draws that move, that of `d_z`; fill that of the design."""
    z, means, error, precision, design = block.z, block.means, block.error, block.precision, block.design
    known, upstream, d_z, d_design = block.known, block.upstream, block.d_z, block.d_design
    dynamics, log_noise, d_dynamics, d_log_noise = (
        emission.dynamics,
        emission.log_noise,
        slopes.dynamics,
        slopes.log_noise,
    )
    n_states, n_draws, size = z.shape
    own_noise, follows = len(log_noise) > 1, design[len(design) - 2]
    d_mean, d_log_sd = np.empty((n_draws, size), np.float32), np.empty((n_draws, size), np.float32)
    of_state = np.empty(size, np.float32)
    d_design[:] = 0
    for n in range(len(error)):
        total = _ZERO
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
                total = _ZERO
                for s in range(n_draws):
                    for i in range(size):
                        total += z[k, s, i] * d_log_sd[s, i]
                d_log_noise[k, n] += total
            if not importance:
                its_noise = log_noise[k, n] if own_noise else _ZERO
                for s in range(n_draws):
                    for i in range(size):
                        d_z[k, s, i] += d_mean[s, i] * means[n, k, i] + its_noise * d_log_sd[s, i]
            for q in range(len(design)):
                slope, total = dynamics[k, q, n], _ZERO
                for i in range(size):
                    total += design[q, i] * of_state[i]
                    d_design[q, i] += slope * of_state[i]
                d_dynamics[k, q, n] += total


@inlined
def _curve(block: Block, curvature: Array) -> None:
    """Add sum_s,i u z_k z_l d_q d_c where l <= k and c <= q; draws are summed first."""
    z, upstream, design = block.z, block.upstream, block.design
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
                    total = _ZERO
                    for i in range(size):
                        total += column[i] * design[c, i]
                    curvature[k * n_design + q, other * n_design + c] += total


@inlined
def _mirror(curvature: Array, n_design: int) -> None:
    """Complete a curvature of which `_curve` has filled one part."""
    for a in range(len(curvature)):
        for b in range(len(curvature)):
            k, q, other, c = a // n_design, a % n_design, b // n_design, b % n_design
            row, column = max(k, other) * n_design + max(q, c), min(k, other) * n_design + min(q, c)
            curvature[a, b] = curvature[row, column]


@inlined
def _curve_channels(weighted: Array, weight: Array, factor: np.float32, curvature: Array) -> None:
    """Fill the curvature of each channel from some draws z d [K P, J] and their weights [N, J], times a factor."""
    size, n_draws = weighted.shape
    products = np.empty((n_draws, size * (size + 1) // 2), np.float32)
    for j in range(n_draws):
        at = 0
        for a in range(size):
            for b in range(a + 1):
                products[j, at] = weighted[a, j] * weighted[b, j] * factor
                at += 1
    sums = weight @ products
    for n in range(len(weight)):
        at = 0
        for a in range(size):
            for b in range(a + 1):
                curvature[n, a, b] = sums[n, at]
                curvature[n, b, a] = sums[n, at]
                at += 1


@compiled
def step(
    batch: Batch, inputs: Inputs, emission: Emission, settings: Settings, d_inputs: Inputs, slopes: Emission,
    curvature: Curvature,
) -> tuple[float, float, float]:  # fmt: skip
    """Return the objective and its slopes in `sticky` and `free`; fill those in inputs and emission, and the curvature."""
    n_states, n_design, n_channels = emission.dynamics.shape
    n_rows, n_draws, own_noise = len(batch.linked), settings.n_draws, len(emission.log_noise) > 1
    size, temperature, sticky = max(LEAST_BLOCK, BLOCK // n_draws), settings.temperature, settings.sticky
    block = _new_block(n_states, n_draws, size, n_channels, n_design)
    z, design, upstream, precision = block.z, block.design, block.upstream, block.precision
    previous, pull, follows = block.previous, block.pull, design[n_design - 2]
    slopes.dynamics[:], slopes.initial[:], slopes.log_noise[:] = 0, 0, 0
    curvature.dynamics[:], curvature.log_noise[:] = 0, 0
    objective, by_sticky, by_free, key = 0.0, 0.0, 0.0, np.uint32(settings.seed)
    every = max(1, n_draws * n_rows // CURVATURE_DRAWS)  # of all draws, for the curvature with noise per state
    chosen = np.zeros((n_states * n_design, own_noise * (n_draws * n_rows // every + n_draws)), np.float32)
    weight, n_chosen, chosen_share, total_share = np.zeros((n_channels, chosen.shape[1]), np.float32), 0, 0.0, 0.0
    for begin in range(0, n_rows, size):
        end = min(begin + size, n_rows)
        _load(batch, inputs, begin, end, block)
        _draw(block, temperature, begin * n_states * n_draws, key)
        _follow(block, emission.initial, sticky, settings.free)
        _diverge(block)
        _explain(block, emission, settings.first_log_noise)
        objective += _weigh(block, settings.importance)

        slope_sticky, slope_free = _follow_back(block, settings, slopes.initial)
        by_sticky, by_free = by_sticky + slope_sticky, by_free + slope_free
        _explain_back(block, emission, settings.importance, slopes)
        if not settings.importance:
            _draw_back(block, temperature)
            for s in range(n_draws * (begin > 0)):  # the last row of the block before, through this one's first prior
                mean = _ZERO
                for k in range(n_states):
                    mean += previous[k, s, 0] * pull[k, s, 0]
                for k in range(n_states):
                    slope = sticky * previous[k, s, 0] * (pull[k, s, 0] - mean) / temperature
                    d_inputs.logits[k, begin - 1] += slope
        _copy(block.d_logits, 0, end - begin, d_inputs.logits, begin)
        _copy(block.d_context, 0, end - begin, d_inputs.context, begin)
        for d in range(n_design - 2):
            for i in range(end - begin):
                d_inputs.before[d, begin + i] = block.d_design[d, i] * follows[i]

        if not own_noise:
            _curve(block, curvature.dynamics[0])
            continue
        for i in range(end - begin):
            total_share += block.share[i]
        for s in range(n_draws):
            for i in range(-(s * n_rows + begin) % every, end - begin, every):
                chosen_share += upstream[s, i]
                for k in range(n_states):
                    for q in range(n_design):
                        chosen[k * n_design + q, n_chosen] = z[k, s, i] * design[q, i]
                    for other in range(n_states):
                        curvature.log_noise[k, other] += z[k, s, i] * z[other, s, i] * upstream[s, i]
                for n in range(n_channels):
                    weight[n, n_chosen] = upstream[s, i] * precision[n, s, i] * precision[n, s, i]
                n_chosen += 1
    if own_noise:
        factor = np.float32(total_share / max(chosen_share, 1e-20))
        _curve_channels(chosen, weight, factor, curvature.dynamics)
        for k in range(n_states):
            for other in range(n_states):
                curvature.log_noise[k, other] *= factor
    else:
        _mirror(curvature.dynamics[0], n_design)
    return objective, by_sticky, by_free
