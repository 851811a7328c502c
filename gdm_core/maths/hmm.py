"""Messages of a hidden Markov chain, by a tree over time: every level is one set of array operations.

Trials are laid end to end in one flat sequence. `starts` marks the first sample of each, where the chain begins
anew, so trials of any length need no padding and no loop.

A chain whose transitions do not look at the previous state (`log_transitions` of shape [T, 1, K]) has independent
states given everything else, and needs no messages at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

# Below this share of a row's scale a product is computed again in log space, so that no path is lost to underflow.
_TINY = 1e-150
# Stands in for log 0: far below any log-probability, but differences of two of them stay finite.
LOG_ZERO = -1e10


@dataclass(frozen=True)
class ChainPosterior:
    """What is known of the states after seeing everything.

    log_likelihood  log of the sum over all paths, over all trials
    states          [T, K] marginal probabilities
    pairs           [T, R, K] probability of (state before, state now); zero at the start of a trial. R is K, or 1 where
                    transitions do not use the state before, which is then summed over
    """

    log_likelihood: float
    states: Float
    pairs: Float

    @classmethod
    def independent(cls, states: Float, starts: Bool, rows: int) -> ChainPosterior:
        """States [T, K] as if neighbours had nothing to do with each other; `rows` is R."""
        before = np.ones((len(states), 1)) if rows == 1 else np.concatenate([states[:1], states[:-1]])
        pairs = before[:, :, None] * states[:, None, :]
        pairs[starts] = 0.0
        return cls(0.0, states, pairs)

    @cached_property
    def left(self) -> Float:
        """[T, R] how probably each state was left by the step into each sample."""
        return row_sum(self.pairs)

    @cached_property
    def left_along(self) -> Float:
        """[R, T] the same along time."""
        return np.ascontiguousarray(self.left.T)

    @cached_property
    def reached(self) -> Float:
        """[T, K] how probably it reached each state."""
        reached: Float = self.pairs[:, 0] if self.pairs.shape[1] == 1 else np.einsum("trk->tk", self.pairs)
        return reached

    @cached_property
    def counts(self) -> Float:
        """[R, K] how often each step was made."""
        counts: Float = self.pairs.sum(axis=0)
        return counts


def row_max(values: Float) -> Float:
    """Maximum over a short last axis, several times faster than numpy's own reduction."""
    top = values[..., 0].copy()
    for column in range(1, values.shape[-1]):
        np.maximum(top, values[..., column], out=top)
    return top


def row_sum(values: Float) -> Float:
    """Sum over a short last axis, likewise."""
    result: Float = np.einsum("...k->...", values)
    return result


def softmax(log_weights: Float) -> tuple[Float, Float]:
    """(probabilities, log-sum-exp) over the last axis."""
    top = row_max(log_weights)
    p = np.exp(log_weights - top[..., None])
    total = row_sum(p)
    p /= total[..., None]
    return p, top + np.log(total)


def log_normalise(log_weights: Float) -> tuple[Float, Float]:
    """Subtract the log-sum-exp of the last axis; returns (normalised, log-sum-exp)."""
    total = softmax(log_weights)[1]
    return log_weights - total[..., None], total


def posterior(log_likelihoods: Float, log_initial: Float, log_transitions: Float, starts: Bool) -> ChainPosterior:
    """Forward-backward.

    log_likelihoods  [T, K]
    log_initial      [K]
    log_transitions  [K, K] or [T, K, K], row t leading into sample t, or [T, 1, K] where the state before is not used
    starts           [T] first sample of each trial; the transition into it is ignored
    """
    log_likelihoods = np.maximum(log_likelihoods, LOG_ZERO)
    if log_transitions.ndim == 3 and log_transitions.shape[1] == 1:
        log_prior = np.where(starts[:, None], log_initial, log_transitions[:, 0])
        states, log_sums = softmax(np.maximum(log_prior, LOG_ZERO) + log_likelihoods)
        pairs = np.where(starts[:, None], 0.0, states)[:, None, :]
        return ChainPosterior(float(log_sums.sum()), states, pairs)
    steps = _steps(log_likelihoods, log_initial, log_transitions, starts)
    levels = _products(*_scaled(steps))
    forward = _forward(levels)  # [T, K] log weight of each state before its sample is seen, up to a constant
    backward = _backward(levels)
    pairs = _pairs(forward, levels[0], backward, steps)
    states = np.einsum("tij->tj", pairs)
    pairs[starts] = 0.0
    root, scale = levels[-1]
    total = scale[0, 0] + np.log(root[0, 0].sum())
    return ChainPosterior(float(total), states, pairs)


def _pairs(forward: Float, level: tuple[Float, Float], backward: Float, steps: Float) -> Float:
    """[T, K, K] probability of each step, from log weights before it and after it: exponentials of [T, K] alone."""
    matrices, scale = level
    before = forward + scale
    before -= row_max(before)[:, None]
    after = backward - row_max(backward)[:, None]
    pairs = np.exp(before)[:, :, None] * matrices
    pairs *= np.exp(after)[:, None, :]
    total = np.einsum("tij->t", pairs)
    lost = np.flatnonzero(total < _TINY)
    if len(lost):  # what is likely before and what is likely after disagree by more than the range of numbers
        joint = forward[lost][:, :, None] + steps[lost] + backward[lost][:, None, :]
        pairs[lost] = softmax(joint.reshape(len(lost), -1))[0].reshape(joint.shape)
        total[lost] = 1.0
    pairs /= total[:, None, None]
    return pairs


def filtered(log_likelihoods: Float, log_initial: Float, log_transitions: Float, starts: Bool) -> Float:
    """[T, K] probability of each state given the samples up to and including its own."""
    log_likelihoods = np.maximum(log_likelihoods, LOG_ZERO)
    if log_transitions.ndim == 3 and log_transitions.shape[1] == 1:
        log_prior = np.where(starts[:, None], log_initial, log_transitions[:, 0])
        return softmax(np.maximum(log_prior, LOG_ZERO) + log_likelihoods)[0]
    steps = _steps(log_likelihoods, log_initial, log_transitions, starts)
    forward = _forward(_products(*_scaled(steps)))
    joint = forward[:, :, None] + steps
    weights = softmax(joint.reshape(len(joint), -1))[0].reshape(joint.shape)
    return np.asarray(np.einsum("tij->tj", weights))


def _steps(log_likelihoods: Float, log_initial: Float, log_transitions: Float, starts: Bool) -> Float:
    """[T, K, K] log weight of stepping from a state to another and seeing the sample there."""
    steps = np.maximum(log_transitions, LOG_ZERO) + log_likelihoods[:, None, :]
    steps[starts] = np.maximum(log_initial, LOG_ZERO) + log_likelihoods[starts][:, None, :]
    return steps


def _scaled(steps: Float) -> tuple[Float, Float]:
    """(matrices with row maxima of one, log of the row scales)."""
    scale = row_max(steps)
    return np.exp(steps - scale[:, :, None]), scale


def _join(left: tuple[Float, Float], right: tuple[Float, Float]) -> tuple[Float, Float]:
    """Row-scaled products of matrices."""
    (a, a_scale), (b, b_scale) = left, right
    top = row_max(b_scale)[:, None]
    product = (a * np.exp(b_scale - top)[:, None, :]) @ b  # [n, K, K]
    peak = row_max(product)
    scale = a_scale + top
    lost = peak < _TINY
    if lost.any():
        n, row = np.nonzero(lost)
        with np.errstate(divide="ignore"):
            weights = np.maximum(np.log(a[n, row]), LOG_ZERO) + b_scale[n]  # [lost rows, K]
        shift = weights.max(axis=1)
        product[n, row] = (np.exp(weights - shift[:, None])[:, None, :] @ b[n])[:, 0]
        peak[n, row] = product[n, row].max(axis=1)
        scale = np.broadcast_to(scale, peak.shape).copy()
        scale[n, row] = a_scale[n, row] + shift
    return product / peak[:, :, None], scale + np.log(peak)


def _products(matrices: Float, scale: Float) -> list[tuple[Float, Float]]:
    """Level l holds the products of 2^l neighbours; an odd one out moves up alone. The last level is one matrix."""
    levels = [(matrices, scale)]
    while len(levels[-1][0]) > 1:
        m, s = levels[-1]
        pairs = len(m) // 2
        joined = _join((m[: 2 * pairs : 2], s[: 2 * pairs : 2]), (m[1 : 2 * pairs : 2], s[1 : 2 * pairs : 2]))
        if len(m) % 2:
            joined = (np.concatenate([joined[0], m[-1:]]), np.concatenate([joined[1], s[-1:]]))
        levels.append(joined)
    return levels


def _log_times(weights: Float, matrices: Float, scale: Float) -> Float:
    """log of (exp(weights) as a row vector, times the matrix), its largest entry set to zero."""
    weights = weights + scale
    weights = weights - row_max(weights)[:, None]
    with np.errstate(divide="ignore"):
        product = np.log((np.exp(weights)[:, None, :] @ matrices)[:, 0])
    return np.maximum(product - row_max(product)[:, None], LOG_ZERO)


def _log_times_column(matrices: Float, scale: Float, weights: Float) -> Float:
    """log of (the matrix times exp(weights) as a column vector), its largest entry set to zero."""
    with np.errstate(divide="ignore"):
        product = scale + np.log((matrices @ np.exp(weights)[:, :, None])[:, :, 0])
    return np.maximum(product - row_max(product)[:, None], LOG_ZERO)


def _forward(levels: list[tuple[Float, Float]]) -> Float:
    """[T, K] log weight of each state before each step, from the products to its left only."""
    n_states = levels[0][0].shape[1]
    weights = np.full((1, n_states), LOG_ZERO)
    weights[0, 0] = 0.0  # the first step is the start of a trial, so it does not matter where the chain was
    for matrices, scale in reversed(levels[:-1]):
        pairs = len(matrices) // 2
        below = np.empty((len(matrices), n_states))
        below[::2] = weights
        below[1 : 2 * pairs : 2] = _log_times(weights[:pairs], matrices[: 2 * pairs : 2], scale[: 2 * pairs : 2])
        weights = below
    return weights


def _backward(levels: list[tuple[Float, Float]]) -> Float:
    """[T, K] log weight of everything after each step."""
    n_states = levels[0][0].shape[1]
    weights = np.zeros((1, n_states))
    for matrices, scale in reversed(levels[:-1]):
        pairs = len(matrices) // 2
        below = np.empty((len(matrices), n_states))
        below[1 : 2 * pairs : 2] = weights[:pairs]
        below[: 2 * pairs : 2] = _log_times_column(
            matrices[1 : 2 * pairs : 2], scale[1 : 2 * pairs : 2], weights[:pairs]
        )
        if len(matrices) % 2:
            below[-1] = weights[-1]
        weights = below
    return weights


def sample_index(log_weights: npt.NDArray[Any], rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """One draw from each row of unnormalised log-probabilities [..., K]."""
    noise = rng.exponential(size=log_weights.shape)
    result: npt.NDArray[np.int64] = np.argmax(log_weights - np.log(noise), axis=-1)
    return result


def resized_states(states: Float, errors: Float, n_states: int) -> Float:
    """[T, K] soft states turned into [T, n_states]: the most used are split by the side of their errors [T, D] on
    which a sample lies, the least used are dropped and their samples go where they were next most likely."""
    states = states.copy()
    while states.shape[1] < n_states:
        used = int(states.sum(axis=0).argmax())
        weight = states[:, used]
        centred = errors - (weight @ errors) / weight.sum()
        direction = np.linalg.eigh((centred * weight[:, None]).T @ centred)[1][:, -1]
        side = (centred @ direction > 0).astype(np.float64)
        states = np.concatenate([states, (weight * side)[:, None]], axis=1)
        states[:, used] = weight * (1 - side)
    while states.shape[1] > n_states:
        states = np.delete(states, int(states.sum(axis=0).argmin()), axis=1) + 1e-6
        states /= states.sum(axis=1, keepdims=True)
    return states
