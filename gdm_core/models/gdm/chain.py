"""Hidden Markov chain of pure states that informs q(z).

The evidence for state k at time t is the model's likelihood log p(y_t | z_t = e_k, past). The chain keeps its state with
probability `stay` and changes to each other state with equal probability. Its posterior enters the logits of q as a
constant: any q gives a valid bound, and a new recording needs no optimisation.
"""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from gdm_core.arrays import Array
from gdm_core.compiled import guide
from gdm_core.compiled.batches import Batch
from gdm_core.maths.rows import Rows

MIN_LOG_PROBABILITY = -10.0
MIN_STAY, MAX_STAY = 0.3, 0.9995
_NONE: Array = np.zeros((0, 0), np.float32)


def make_batch(rows: Rows) -> Batch:
    """Return rows with time as the last axis."""

    def along(values: Tensor) -> Array:
        return np.ascontiguousarray(values.numpy(force=True).T, np.float32)

    y = along(rows.y)
    past = y if rows.past is rows.y else along(rows.past)
    known, chain = (_NONE if part is None else along(part) for part in (rows.known, rows.chain))
    share = np.ones(len(rows), np.float32) if rows.scored is None else along(rows.scored)
    return Batch(y, past, known, along(rows.age > 0), share / np.float32(rows.n_scored), chain)


def chain_log_probabilities(evidence: Array, linked: Array, stay: float, filtered: bool = False) -> tuple[Array, float]:
    """Return smoothed or filtered log-probabilities [K, R] of the chain, and `stay` as they estimate it.

    evidence  [K, R] log-likelihood of each pure state
    """
    probabilities, kept = guide.probabilities(evidence, linked, stay, not filtered)
    return log_probabilities(probabilities), min(max(kept, MIN_STAY), MAX_STAY)


def log_probabilities(probabilities: Array) -> Array:
    """Return bounded logarithms."""
    return np.log(np.maximum(probabilities, np.float32(math.exp(MIN_LOG_PROBABILITY))))
