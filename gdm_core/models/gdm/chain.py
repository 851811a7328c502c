"""Hidden Markov chain of pure states that informs q(z).

The evidence for state k at time t is the model's likelihood log p(y_t | z_t = e_k, past). The chain keeps its state with
probability `stay` and changes to each other state with equal probability. Its posterior enters the logits of q as a
constant: any q gives a valid bound, and a new recording needs no optimisation.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gdm_core.maths import hmm
from gdm_core.maths.rows import Rows

Array = npt.NDArray[np.float32]
Float = npt.NDArray[np.float64]

MIN_LOG_PROBABILITY = -10.0
MIN_STAY, MAX_STAY = 0.3, 0.9995
_PIECE_ROWS, _RUN_UP = 50_000, 1_000


def log_transitions(stay: float, n_states: int) -> Float:
    """Return the log transition matrix [K, K]."""
    move = (1 - stay) / max(n_states - 1, 1)
    matrix: Float = np.log(np.full((n_states, n_states), move) + (stay - move) * np.eye(n_states))
    return matrix


def chain_log_probabilities(evidence: Tensor, rows: Rows, stay: float, filtered: bool) -> Tensor:
    """Return smoothed log-probabilities [R, K] of the chain, or filtered ones.

    evidence  [R, K] log-likelihood of each pure state
    """
    table = evidence.double().numpy(force=True)
    starts = rows.age.numpy(force=True) <= 0
    starts[0] = True
    k = table.shape[1]
    initial, transitions = np.full(k, -math.log(k)), log_transitions(stay, k)
    probabilities = np.empty_like(table)
    for begin in range(0, len(table), _PIECE_ROWS):
        end = min(begin + _PIECE_ROWS, len(table))
        head, tail = max(0, begin - _RUN_UP), end + _RUN_UP
        first = starts[head:tail].copy()
        first[0] = True
        piece = (table[head:tail], initial, transitions, first)
        found = hmm.filter_states(*piece) if filtered else hmm.posterior(*piece).states
        probabilities[begin:end] = found[begin - head : end - head]
    return torch.as_tensor(log_probabilities(probabilities)).to(evidence)


def log_probabilities(probabilities: Float) -> Float:
    """Return bounded logarithms."""
    logs: Float = np.log(np.maximum(probabilities, math.exp(MIN_LOG_PROBABILITY)))
    return logs


def advance(before: Float | None, evidence: Float, stay: float) -> Float:
    """Return filtered probabilities [K] after one more sample; `before` is None at the start of a recording."""
    k = len(evidence)
    predicted = np.full(k, 1 / k) if before is None else before @ np.exp(log_transitions(stay, k))
    weighted = predicted * np.exp(evidence - evidence.max())
    total = weighted.sum()
    result: Float = weighted / total if total > 0 else predicted
    return result


class WarmChain:
    """The chain during a fit.

    Parameters change little between refreshes, so a few sweeps from the previous messages are enough.
    """

    def __init__(self, age: npt.NDArray[np.int64], n_states: int, stay: float) -> None:
        self.stay = stay
        self._starts = age <= 0
        self._starts[0] = True
        self._ends = np.append(self._starts[1:], True)
        self._forward: Array = np.full((n_states, len(age)), 1 / n_states, np.float32)
        self._backward: Array = np.ones((n_states, len(age)), np.float32)

    def refresh(self, evidence: Array, sweeps: int) -> Array:
        """Update the messages by `evidence` [K, R], re-estimate `stay`, and return log-probabilities [K, R]."""
        k = len(evidence)
        if k == 1:
            return np.zeros_like(evidence)
        weight = np.exp(evidence - evidence.max(axis=0))
        move = np.float32((1 - self.stay) / (k - 1))
        excess = np.float32(self.stay) - move
        forward, backward = self._forward, self._backward
        for _ in range(sweeps):
            before = self._predict(forward, excess, move)
            forward = before * weight
            forward /= forward.sum(axis=0)
            after = np.empty_like(backward)
            pulled = weight * backward
            pulled *= 1 / pulled.sum(axis=0)
            after[:, :-1] = excess * pulled[:, 1:] + move
            after[:, self._ends] = 1.0
            backward = after
        self._forward, self._backward = forward, backward
        both = forward * backward
        both /= both.sum(axis=0)
        self._estimate_stay(weight)
        logs: Array = np.log(np.maximum(both, np.float32(math.exp(MIN_LOG_PROBABILITY))))
        return logs

    def _predict(self, forward: Array, excess: np.float32, move: np.float32) -> Array:
        before = np.empty_like(forward)
        before[:, 1:] = forward[:, :-1]
        before *= excess
        before += move
        before[:, self._starts] = 1 / len(forward)
        return before

    def _estimate_stay(self, weight: Array) -> None:
        k = len(weight)
        inside = ~self._starts[1:]
        if not inside.any():
            return
        move = np.float32((1 - self.stay) / (k - 1))
        past = self._forward[:, :-1]
        future = weight[:, 1:] * self._backward[:, 1:]
        same = np.float32(self.stay) * (past * future).sum(axis=0)
        total = same + move * (past.sum(axis=0) * future.sum(axis=0) - (past * future).sum(axis=0))
        stayed = float((same / np.maximum(total, 1e-30))[inside].mean())
        self.stay = min(max(stayed, MIN_STAY), MAX_STAY)
