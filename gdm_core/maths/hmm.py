"""Posteriors of hidden Markov chains over concatenated trials. `starts` marks the first sample of each.

If transitions ignore the previous state (`log_transitions` of shape [T, 1, K]), states are conditionally independent and
need no messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gdm_core.arrays import Bool, Float, Ints, Values
from gdm_core.compiled import as_floats, chains
from gdm_core.compiled.chains import LOG_ZERO


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
        return self.pairs[:, 0] if self.pairs.shape[1] == 1 else np.einsum("trk->tk", self.pairs)

    @cached_property
    def counts(self) -> Float:
        """Expected numbers [R, K] of transitions."""
        return self.pairs.sum(axis=0)


def row_max(values: Float) -> Float:
    """Return the maximum over a short last axis, several times faster than numpy."""
    top = values[..., 0].copy()
    for column in range(1, values.shape[-1]):
        np.maximum(top, values[..., column], out=top)
    return top


def row_sum(values: Float) -> Float:
    """Return the sum over a short last axis, faster than numpy."""
    return np.einsum("...k->...", values)


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
    if log_transitions.ndim == 3 and log_transitions.shape[1] == 1:
        log_prior = np.where(starts[:, None], log_initial, log_transitions[:, 0])
        states, log_sums = softmax(np.maximum(log_prior, LOG_ZERO) + np.maximum(log_likelihoods, LOG_ZERO))
        pairs = np.where(starts[:, None], 0.0, states)[:, None, :]
        return ChainPosterior(float(log_sums.sum()), states, pairs)
    evidence, first, moves, chances = _prepare(log_likelihoods, log_initial, log_transitions)
    logs, weights, total = chains.forward(evidence, first, moves, chances, starts)
    states, pairs = chains.smooth(logs, weights, evidence, moves, chances, starts)
    return ChainPosterior(total, states, pairs)


def filter_states(log_likelihoods: Float, log_initial: Float, log_transitions: Float, starts: Bool) -> Float:
    """Return the filtered probabilities [T, K], given samples up to each one."""
    if log_transitions.ndim == 3 and log_transitions.shape[1] == 1:
        return posterior(log_likelihoods, log_initial, log_transitions, starts).states
    weights = chains.forward(*_prepare(log_likelihoods, log_initial, log_transitions), starts)[1]
    weights /= row_sum(weights)[:, None]
    return weights


def most_probable_path(chain: ChainPosterior) -> Ints:
    """Return the path of states [T] with the highest posterior probability (Viterbi)."""
    if chain.pairs.shape[1] == 1:
        return np.asarray(chain.states.argmax(axis=1))
    states, pairs = (np.log(np.maximum(p, np.finfo(np.float64).tiny)) for p in (chain.states, chain.pairs))
    return chains.best_path(states, pairs, np.logical_not(chain.pairs.any(axis=(1, 2))))


def _prepare(log_likelihoods: Float, log_initial: Float, log_transitions: Float) -> tuple[Float, Float, Float, Float]:
    """Return evidence [T, K], initial and transition log-probabilities above LOG_ZERO, and the transitions' exponentials."""
    evidence, first, moves = (
        as_floats(np.maximum(part, LOG_ZERO)) for part in (log_likelihoods, log_initial, log_transitions)
    )
    moves = moves[None] if moves.ndim == 2 else moves
    return evidence, first, moves, np.exp(moves)


def sample_index(log_weights: Values, rng: np.random.Generator) -> Ints:
    """Sample an index from each row of unnormalised log-probabilities [..., K]."""
    noise = rng.exponential(size=log_weights.shape)
    return np.argmax(log_weights - np.log(noise), axis=-1)
