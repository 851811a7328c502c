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

# Sums of numbers up to one are exact above this, despite underflow; chains with smaller ones are computed in log space.
_TINY = 1e-150
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


def posterior(
    log_likelihoods: Float, log_initial: Float, log_transitions: Float, starts: Bool, smooth: bool = True
) -> ChainPosterior:
    """Run the forward-backward algorithm, or the forward pass alone.

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
    pairs, total = _probabilities(log_likelihoods, log_initial, log_transitions, starts, smooth)
    states = np.einsum("tij->tj", pairs)
    pairs[starts] = 0.0
    return ChainPosterior(total, states, pairs)


def filter_states(log_likelihoods: Float, log_initial: Float, log_transitions: Float, starts: Bool) -> Float:
    """Return the filtered probabilities [T, K], given samples up to each one."""
    return posterior(log_likelihoods, log_initial, log_transitions, starts, smooth=False).states


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


def _probabilities(
    log_likelihoods: Float, log_initial: Float, log_transitions: Float, starts: Bool, smooth: bool
) -> tuple[Float, float]:
    """Return the probabilities [T, K, K] of each step, from later steps as well if `smooth`, and the log-likelihood."""
    moves = np.maximum(log_transitions, LOG_ZERO)
    first = np.maximum(log_initial, LOG_ZERO) + log_likelihoods[starts]
    levels = _products(_steps(log_likelihoods, first, moves, starts))
    if levels:
        backward = _backward(levels) if smooth else np.zeros(log_likelihoods.shape)
        pairs = _pairs(_forward(levels), levels[0], backward)
        if pairs is not None:
            root = levels[-1]
            # The root begins with the start of a trial, so all its rows are equal.
            total = softmax(np.log(root.matrices[0, 0]) + root.rows[0, 0] + root.columns[0])[1]
            return pairs, float(total)
    return _log_probabilities(log_likelihoods, first, moves, starts, smooth)


class _Level(NamedTuple):
    """Products of adjacent steps, exp(rows[n, i]) * matrices[n, i, j] * exp(columns[n, j]).

    matrices    [n, K, K] from _TINY to one
    rows        [n, K]
    columns     [n, K]
    """

    matrices: Float
    rows: Float
    columns: Float


def _steps(log_likelihoods: Float, first: Float, moves: Float, starts: Bool) -> _Level:
    """Return the steps: transition times likelihood, or at a start `first` in each row."""
    if moves.ndim == 2:
        its_columns = row_max(moves.T)
        logs = moves - its_columns
        its_rows = row_max(logs)
        n = len(log_likelihoods)
        matrices, rows = (
            np.repeat(np.exp(logs - its_rows[:, None])[None], n, axis=0),
            np.repeat(its_rows[None], n, axis=0),
        )
        columns = log_likelihoods + its_columns
    else:
        rows, columns = row_max(moves), log_likelihoods.copy()
        matrices = np.exp(moves - rows[:, :, None])
    matrices[starts], rows[starts], columns[starts] = 1.0, 0.0, first
    return _Level(matrices, rows, columns)


def _products(steps: _Level) -> list[_Level]:
    """Return all levels: level l has products of 2^l adjacent steps, the last level one matrix; none if one underflows."""
    levels = [steps]
    while len(levels[-1].matrices) > 1:
        if levels[-1].matrices.min() < _TINY:
            return []
        levels.append(_joined(levels[-1]))
    return levels if levels[-1].matrices.min() >= _TINY else []


def _joined(level: _Level) -> _Level:
    """Return the products of adjacent pairs."""
    n = len(level.matrices)
    left, right = slice(0, n - n % 2, 2), slice(1, None, 2)
    between = level.columns[left] + level.rows[right]
    top = row_max(between)[:, None]
    products = (level.matrices[left] * np.exp(between - top)[:, None, :]) @ level.matrices[right]
    peak = row_max(products)
    products /= peak[:, :, None]
    rows, columns = level.rows[left] + (top + np.log(peak)), level.columns[right]
    if n % 2:
        products = np.concatenate([products, level.matrices[-1:]])
        rows, columns = np.concatenate([rows, level.rows[-1:]]), np.concatenate([columns, level.columns[-1:]])
    return _Level(products, rows, columns)


def _forward(levels: list[_Level]) -> Float:
    """Return the log weights [T, K] of each state before each step, given earlier steps."""
    weights = _any_state(levels[0].rows.shape[1])
    for level in reversed(levels[:-1]):
        n = len(level.matrices)
        left = slice(0, n - n % 2, 2)
        below = np.empty((n, weights.shape[1]))
        below[::2] = weights
        before = weights[: n // 2] + level.rows[left]
        before -= row_max(before)[:, None]
        sums = (np.exp(before)[:, None, :] @ level.matrices[left])[:, 0]
        below[1::2] = _relative(np.log(sums) + level.columns[left])
        weights = below
    return weights


def _backward(levels: list[_Level]) -> Float:
    """Return the log weights [T, K] of the steps after each step."""
    weights = np.zeros((1, levels[0].rows.shape[1]))
    for level in reversed(levels[:-1]):
        n = len(level.matrices)
        right = slice(1, None, 2)
        below = np.empty((n, weights.shape[1]))
        below[-1] = weights[-1]
        below[right] = weights[: n // 2]
        after = weights[: n // 2] + level.columns[right]
        after -= row_max(after)[:, None]
        sums = (level.matrices[right] @ np.exp(after)[:, :, None])[:, :, 0]
        below[: n - n % 2 : 2] = _relative(np.log(sums) + level.rows[right])
        weights = below
    return weights


def _any_state(n_states: int) -> Float:
    """Return log weights [1, K] before the first step, which is the start of a trial: any state will do."""
    weights = np.full((1, n_states), LOG_ZERO)
    weights[0, 0] = 0.0
    return weights


def _relative(found: Float) -> Float:
    """Return log weights [m, K] shifted to a maximum of zero."""
    found -= row_max(found)[:, None]
    return np.maximum(found, LOG_ZERO, out=found)


def _pairs(forward: Float, steps: _Level, backward: Float) -> Float | None:
    """Return the probabilities [T, K, K] of each step, from the log weights before and after it; None on underflow."""
    before, after = forward + steps.rows, backward + steps.columns
    before -= row_max(before)[:, None]
    after -= row_max(after)[:, None]
    pairs = np.exp(before)[:, :, None] * steps.matrices
    pairs *= np.exp(after)[:, None, :]
    total = np.einsum("tij->t", pairs)
    if total.min() < _TINY:  # forward and backward weights disagree by more than the range of floats
        return None
    pairs /= total[:, None, None]
    return pairs


# ---- chains that underflow, in log space ------------------------------------------------------------------------
def _log_probabilities(
    log_likelihoods: Float, first: Float, moves: Float, starts: Bool, smooth: bool
) -> tuple[Float, float]:
    """Return the same as `_probabilities` from logarithms of all products."""
    steps = np.array(moves + log_likelihoods[:, None, :])
    steps[starts] = first[:, None, :]
    levels = [steps]
    while len(levels[-1]) > 1:
        level = levels[-1]
        joined = _log_products(level[:-1:2], level[1::2])
        levels.append(np.concatenate([joined, level[-1:]]) if len(level) % 2 else joined)
    forward: Float = _any_state(steps.shape[1])
    backward: Float = np.zeros((1, steps.shape[1]))
    for level in reversed(levels[:-1]):
        n = len(level)
        before, after = np.empty(level.shape[:2]), np.empty(level.shape[:2])
        before[::2], after[-1], after[1::2] = forward, backward[-1], backward[: n // 2]
        before[1::2] = _relative(_log_sum(forward[: n // 2, None, :] + level[:-1:2].swapaxes(1, 2)))
        after[: n - n % 2 : 2] = _relative(_log_sum(level[1::2] + backward[: n // 2, None, :]))
        forward, backward = before, after
    joint = forward[:, :, None] + steps + (backward[:, None, :] if smooth else 0.0)
    return softmax(joint.reshape(len(joint), -1))[0].reshape(joint.shape), float(_log_sum(levels[-1][0, :1])[0])


def _log_products(left: Float, right: Float) -> Float:
    """Return logs [m, K, K] of products of matrices, given their logs."""
    size = max(1, _LOG_NUMBERS // left.shape[1] ** 3)
    parts = [slice(begin, begin + size) for begin in range(0, len(left), size)]
    return np.concatenate([_log_sum(left[at][:, :, None, :] + right[at].swapaxes(1, 2)[:, None]) for at in parts])


def _log_sum(terms: Float) -> Float:
    """Return the log-sum-exp over the last axis; -inf if all terms are."""
    top = np.maximum(row_max(terms), -np.finfo(np.float64).max)
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(row_sum(np.exp(terms - top[..., None]))))


def sample_index(log_weights: npt.NDArray[Any], rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Sample an index from each row of unnormalised log-probabilities [..., K]."""
    noise = rng.exponential(size=log_weights.shape)
    result: npt.NDArray[np.int64] = np.argmax(log_weights - np.log(noise), axis=-1)
    return result
