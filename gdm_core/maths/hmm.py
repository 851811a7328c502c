"""Messages of a hidden Markov chain by a tree over time, with vectorised levels.

Trials are concatenated. `starts` marks the first sample of each, where the chain restarts, so trials of any length need
neither padding nor a loop.

If transitions ignore the previous state (`log_transitions` of shape [T, 1, K]), states are conditionally independent and
need no messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

# Sums of numbers up to one are exact above this, despite underflow; smaller ones are computed in log space.
_TINY = 1e-150
_NONE = np.zeros(0, np.int64)
_LOG_NUMBERS = 2_000_000  # numbers per chunk of a sum in log space
# Replaces log 0 to keep differences finite.
LOG_ZERO = -1e10


@dataclass(frozen=True)
class ChainPosterior:
    """Smoothed posterior of the states.

    log_likelihood  of all trials
    states          [T, K] marginal probabilities
    pairs           [T, R, K] probabilities of (previous state, state); zero at the start of a trial. R is K, or 1 if
                    transitions ignore the previous state, which is summed out
    """

    log_likelihood: float
    states: Float
    pairs: Float

    @classmethod
    def independent(cls, states: Float, starts: Bool, rows: int) -> ChainPosterior:
        """Return a posterior of independent states [T, K]; `rows` is R."""
        before = np.ones((len(states), 1)) if rows == 1 else np.concatenate([states[:1], states[:-1]])
        pairs = before[:, :, None] * states[:, None, :]
        pairs[starts] = 0.0
        return cls(0.0, states, pairs)

    @cached_property
    def left(self) -> Float:
        """Probabilities [T, R] of the previous state of each step."""
        return row_sum(self.pairs)

    @cached_property
    def left_along(self) -> Float:
        """Transpose [R, T] of `left`."""
        return np.ascontiguousarray(self.left.T)

    @cached_property
    def reached(self) -> Float:
        """Probabilities [T, K] of the next state of each step."""
        reached: Float = self.pairs[:, 0] if self.pairs.shape[1] == 1 else np.einsum("trk->tk", self.pairs)
        return reached

    @cached_property
    def counts(self) -> Float:
        """Expected numbers [R, K] of transitions."""
        counts: Float = self.pairs.sum(axis=0)
        return counts


def row_max(values: Float) -> Float:
    """Return the maximum over a short last axis, several times faster than numpy."""
    top = values[..., 0].copy()
    for column in range(1, values.shape[-1]):
        np.maximum(top, values[..., column], out=top)
    return top


def row_sum(values: Float) -> Float:
    """Return the sum over a short last axis, faster than numpy."""
    result: Float = np.einsum("...k->...", values)
    return result


def softmax(log_weights: Float) -> tuple[Float, Float]:
    """Return (probabilities, log-sum-exp) over the last axis."""
    top = row_max(log_weights)
    p = np.exp(log_weights - top[..., None])
    total = row_sum(p)
    p /= total[..., None]
    return p, top + np.log(total)


def log_normalise(log_weights: Float) -> tuple[Float, Float]:
    """Return (weights less their log-sum-exp, log-sum-exp) over the last axis."""
    total = softmax(log_weights)[1]
    return log_weights - total[..., None], total


def posterior(log_likelihoods: Float, log_initial: Float, log_transitions: Float, starts: Bool) -> ChainPosterior:
    """Run the forward-backward algorithm.

    log_likelihoods  [T, K]
    log_initial      [K]
    log_transitions  [K, K], or [T, K, K] into each sample, or [T, 1, K] if the previous state is ignored
    starts           [T] first sample of each trial; the transition into it is ignored
    """
    log_likelihoods = np.maximum(log_likelihoods, LOG_ZERO)
    if log_transitions.ndim == 3 and log_transitions.shape[1] == 1:
        log_prior = np.where(starts[:, None], log_initial, log_transitions[:, 0])
        states, log_sums = softmax(np.maximum(log_prior, LOG_ZERO) + log_likelihoods)
        pairs = np.where(starts[:, None], 0.0, states)[:, None, :]
        return ChainPosterior(float(log_sums.sum()), states, pairs)
    levels = _products(_steps(log_likelihoods, log_initial, log_transitions, starts))
    pairs = _pairs(_forward(levels), levels[0], _backward(levels))
    states = np.einsum("tij->tj", pairs)
    pairs[starts] = 0.0
    # The root begins with the start of a trial, so all its rows are equal.
    total = softmax(levels[-1].logs(np.zeros(1, np.int64))[0, 0])[1]
    return ChainPosterior(float(total), states, pairs)


def filter_states(log_likelihoods: Float, log_initial: Float, log_transitions: Float, starts: Bool) -> Float:
    """Return the filtered probabilities [T, K], given samples up to each one."""
    log_likelihoods = np.maximum(log_likelihoods, LOG_ZERO)
    if log_transitions.ndim == 3 and log_transitions.shape[1] == 1:
        log_prior = np.where(starts[:, None], log_initial, log_transitions[:, 0])
        return softmax(np.maximum(log_prior, LOG_ZERO) + log_likelihoods)[0]
    levels = _products(_steps(log_likelihoods, log_initial, log_transitions, starts))
    pairs = _pairs(_forward(levels), levels[0], np.zeros(log_likelihoods.shape))
    return np.asarray(np.einsum("tij->tj", pairs))


def most_probable_path(chain: ChainPosterior) -> npt.NDArray[np.int64]:
    """Return the path of states [T] with the highest posterior probability (Viterbi)."""
    states, pairs = (np.log(np.maximum(p, np.finfo(np.float64).tiny)) for p in (chain.states, chain.pairs))
    if pairs.shape[1] == 1:
        return np.asarray(states.argmax(axis=1))
    begins: Bool = np.logical_not(chain.pairs.any(axis=(1, 2)))
    best, came_from = states[0], np.empty(states.shape, np.int64)
    for t in range(1, len(states)):
        paths = best[:, None] + (states[t] if begins[t] else pairs[t] - states[t - 1][:, None])
        came_from[t] = paths.argmax(axis=0)
        best = paths.max(axis=0)
    path = np.empty(len(states), np.int64)
    path[-1] = best.argmax()
    for t in range(len(states) - 1, 0, -1):
        path[t - 1] = came_from[t, path[t]]
    return path


class _Level(NamedTuple):
    """Products of adjacent steps, exp(rows[n, i]) * matrices[n, i, j] * exp(columns[n, j]).

    matrices    [n, K, K] at most one. Underflow affects numbers below 1e-300, so sums above _TINY are exact
    rows        [n, K]
    columns     [n, K]
    sharp       [m] sorted products with an entry below _TINY, which also have logs
    sharp_logs  [m, K, K]
    """

    matrices: Float
    rows: Float
    columns: Float
    sharp: npt.NDArray[np.int64]
    sharp_logs: Float

    def logs(self, chosen: npt.NDArray[np.int64]) -> Float:
        """Return logs [m, K, K] of the chosen products."""
        with np.errstate(divide="ignore"):
            found = np.log(self.matrices[chosen])
        found += self.rows[chosen][:, :, None]
        found += self.columns[chosen][:, None, :]
        if len(self.sharp):
            place = np.minimum(np.searchsorted(self.sharp, chosen), len(self.sharp) - 1)
            kept = self.sharp[place] == chosen
            found[kept] = self.sharp_logs[place[kept]]
        return found


def _scaled(logs: Float) -> tuple[Float, Float, Float]:
    """Return (matrices, rows, columns) of a level from the logs [m, K, K] of its products."""
    columns = row_max(logs.swapaxes(1, 2))
    matrices = logs - columns[:, None, :]
    rows = row_max(matrices)
    matrices -= rows[:, :, None]
    return np.exp(matrices, out=matrices), rows, columns


def _steps(log_likelihoods: Float, log_initial: Float, log_transitions: Float, starts: Bool) -> _Level:
    """Return the steps: transition times likelihood, or at a start the initial distribution in each row."""
    moves = np.maximum(log_transitions, LOG_ZERO)
    n = len(log_likelihoods)
    if moves.ndim == 2:
        one, its_rows, its_columns = _scaled(moves[None])
        matrices, rows = np.repeat(one, n, axis=0), np.repeat(its_rows, n, axis=0)
        columns = log_likelihoods + its_columns
        sharp = np.arange(n if one.min() < _TINY else 0)
    else:
        rows, columns = row_max(moves), log_likelihoods.copy()
        matrices = np.exp(moves - rows[:, :, None])
        sharp = _with_tiny_entries(matrices)
        if len(sharp):
            matrices[sharp], rows[sharp], its_columns = _scaled(moves[sharp])
            columns[sharp] += its_columns
    matrices[starts], rows[starts] = 1.0, 0.0
    columns[starts] = np.maximum(log_initial, LOG_ZERO) + log_likelihoods[starts]
    sharp = sharp[(matrices[sharp] < _TINY).any(axis=(1, 2))]
    logs = (moves if moves.ndim == 2 else moves[sharp]) + log_likelihoods[sharp][:, None, :]
    return _Level(matrices, rows, columns, sharp, logs)


def _with_tiny_entries(matrices: Float) -> npt.NDArray[np.int64]:
    """Return the indices of matrices with an entry below _TINY."""
    if matrices.min() >= _TINY:
        return _NONE
    return np.flatnonzero((matrices < _TINY).any(axis=(1, 2)))


def _products(steps: _Level) -> list[_Level]:
    """Return all levels: level l has products of 2^l adjacent steps, the last level one matrix."""
    levels = [steps]
    while len(levels[-1].matrices) > 1:
        levels.append(_joined(levels[-1]))
    return levels


def _joined(level: _Level) -> _Level:
    """Return the products of adjacent pairs."""
    n = len(level.matrices)
    left, right = slice(0, n - n % 2, 2), slice(1, None, 2)
    between = level.columns[left] + level.rows[right]
    top = row_max(between)[:, None]
    products = (level.matrices[left] * np.exp(between - top)[:, None, :]) @ level.matrices[right]
    sharp = _with_tiny_entries(products)
    peak = row_max(products)
    if len(sharp):
        np.maximum(peak, _TINY, out=peak)  # smaller ones are recomputed below
    products /= peak[:, :, None]
    rows, columns = level.rows[left] + (top + np.log(peak)), level.columns[right]
    logs = level.sharp_logs[:0]
    if len(sharp):
        logs = _log_products(level, 2 * sharp, 2 * sharp + 1)
        columns = columns.copy()
        products[sharp], rows[sharp], columns[sharp] = _scaled(logs)
    if n % 2:
        products = np.concatenate([products, level.matrices[-1:]])
        rows, columns = np.concatenate([rows, level.rows[-1:]]), np.concatenate([columns, level.columns[-1:]])
        if len(level.sharp) and level.sharp[-1] == n - 1:
            sharp, logs = np.append(sharp, n // 2), np.concatenate([logs, level.sharp_logs[-1:]])
    return _Level(products, rows, columns, sharp, logs)


def _log_products(level: _Level, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> Float:
    """Return logs [m, K, K] of products of two matrices, summed in log space."""
    k = level.matrices.shape[1]
    found = np.empty((len(left), k, k))
    for first in range(0, len(left), max(1, _LOG_NUMBERS // k**3)):
        part = slice(first, first + max(1, _LOG_NUMBERS // k**3))
        terms = level.logs(left[part])[:, :, None, :] + level.logs(right[part]).swapaxes(1, 2)[:, None, :, :]
        found[part] = _log_sum(terms)
    return found


def _log_sum(terms: Float) -> Float:
    """Return the log-sum-exp over the last axis; -inf if all terms are."""
    top = np.maximum(row_max(terms), -np.finfo(np.float64).max)
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(row_sum(np.exp(terms - top[..., None]))))


def _forward(levels: list[_Level]) -> Float:
    """Return the log weights [T, K] of each state before each step, given earlier steps."""
    n_states = levels[0].rows.shape[1]
    weights = np.full((1, n_states), LOG_ZERO)
    weights[0, 0] = 0.0  # any state, because the first step is the start of a trial
    for level in reversed(levels[:-1]):
        n = len(level.matrices)
        left, right = slice(0, n - n % 2, 2), slice(1, None, 2)
        below = np.empty((n, n_states))
        below[::2] = weights
        weights = weights[: n // 2]
        before = weights + level.rows[left]
        before -= row_max(before)[:, None]
        sums = (np.exp(before)[:, None, :] @ level.matrices[left])[:, 0]
        below[right] = _relative(sums, level.columns[left], weights, level, 0)
        weights = below
    return weights


def _backward(levels: list[_Level]) -> Float:
    """Return the log weights [T, K] of the steps after each step."""
    n_states = levels[0].rows.shape[1]
    weights = np.zeros((1, n_states))
    for level in reversed(levels[:-1]):
        n = len(level.matrices)
        left, right = slice(0, n - n % 2, 2), slice(1, None, 2)
        below = np.empty((n, n_states))
        if n % 2:
            below[-1] = weights[-1]
        weights = weights[: n // 2]
        below[right] = weights
        after = weights + level.columns[right]
        after -= row_max(after)[:, None]
        sums = (level.matrices[right] @ np.exp(after)[:, :, None])[:, :, 0]
        below[left] = _relative(sums, level.rows[right], weights, level, 1)
        weights = below
    return weights


def _relative(sums: Float, scale: Float, weights: Float, level: _Level, odd: int) -> Float:
    """Return the log weights of a vector times products of a level, shifted to a maximum of zero.

    sums      [m, K] scaled sums over states
    scale     [m, K] logs of their scales
    weights   [m, K] log of the vector, to recompute sums that are too small
    odd       0: multiply even products from the left, 1: odd products from the right
    """
    lost = np.flatnonzero((sums < _TINY).any(axis=1)) if len(level.sharp) else np.zeros(0, np.intp)
    if len(lost):
        sums[lost] = 1.0
    found = np.log(sums)
    found += scale
    if len(lost):
        logs = level.logs(2 * lost + odd)
        found[lost] = _log_sum((logs if odd else logs.swapaxes(1, 2)) + weights[lost][:, None, :])
    found -= row_max(found)[:, None]
    return np.maximum(found, LOG_ZERO, out=found)


def _pairs(forward: Float, steps: _Level, backward: Float) -> Float:
    """Return the probabilities [T, K, K] of each step, from the log weights before and after it."""
    before, after = forward + steps.rows, backward + steps.columns
    before -= row_max(before)[:, None]
    after -= row_max(after)[:, None]
    pairs = np.exp(before)[:, :, None] * steps.matrices
    pairs *= np.exp(after)[:, None, :]
    total = np.einsum("tij->t", pairs)
    lost = np.flatnonzero(total < _TINY)
    if len(lost):  # forward and backward weights disagree by more than the range of floats
        joint = forward[lost][:, :, None] + steps.logs(lost) + backward[lost][:, None, :]
        pairs[lost] = softmax(joint.reshape(len(lost), -1))[0].reshape(joint.shape)
        total[lost] = 1.0
    pairs /= total[:, None, None]
    return pairs


def sample_index(log_weights: npt.NDArray[Any], rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Sample an index from each row of unnormalised log-probabilities [..., K]."""
    noise = rng.exponential(size=log_weights.shape)
    result: npt.NDArray[np.int64] = np.argmax(log_weights - np.log(noise), axis=-1)
    return result
