"""Arrays of a training step of a GDM, with time as the last axis.

Indices: N channels, R rows, K states, P columns of the design, D latent, S draws, i rows of a block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gdm_core.compiled import compiled, inlined

Array = npt.NDArray[np.float32]


class Batch(NamedTuple):
    """Rows of a step. `known` and `chain` are empty if everything is observed, or without a chain."""

    y: Array  # [N, R] 0 where missing
    past: Array  # [N, R] with gaps filled
    known: Array  # [N, R] 1 where observed
    linked: Array  # [R] 1 where a row follows the row before, 0 where a trial starts
    share: Array  # [R] weight of each row in the objective
    chain: Array  # [K, R] log-probabilities of the chain of states


class Inputs(NamedTuple):
    """What networks make of a batch, or the slopes of the objective in it."""

    before: Array  # [D, R] x of the row before
    context: Array  # [K, R] logits of the prior without the sticky term
    logits: Array  # [K, R] of the posterior


class Emission(NamedTuple):
    """Parameters of the likelihood and of first rows, or the slopes of the objective in them."""

    dynamics: Array  # [K, P, N]
    initial: Array  # [K] logits of the prior in rows that start a trial
    log_noise: Array  # [1, N], or [K, N] per state


class Settings(NamedTuple):
    """What a step leaves as it is. The prior's logits are `sticky` z_{t-1} + `free` context."""

    first_log_noise: Array  # [N] in rows that start a trial
    sticky: np.float32
    free: np.float32
    temperature: np.float32
    n_draws: int
    seed: int
    importance: bool  # weigh draws by importance instead of maximising the ELBO


class Curvature(NamedTuple):
    """Minus second derivatives: of the dynamics in units of 1 / R, or for each channel with noise per state."""

    dynamics: Array  # [1, K P, K P] or [N, K P, K P]
    log_noise: Array  # [K, K] of states with noise of their own


class Block(NamedTuple):
    """Rows of a block, their draws, and the slopes of the objective in them."""

    y: Array  # [N, i]
    known: Array  # [N, i]
    share: Array  # [i]
    design: Array  # [P, i]
    context: Array  # [K, i]
    logits: Array  # [K, i]
    noise: Array  # [K, S, i] exponential variables
    z: Array  # [K, S, i]
    previous: Array  # [K, S, i] z of the row before
    last: Array  # [K, S] z of the last row of the block before
    delta: Array  # [K, S, i] logits of the prior less those of the posterior
    pull: Array  # [K, S, i] slopes of the log-density ratio in delta, then of the objective in the prior
    total_noise: Array  # [S, i] sum_k E_k
    means: Array  # [N, K, i] of each pure state
    error: Array  # [N, S, i] standardised
    precision: Array  # [N, S, i] inverse standard deviations, 0 where missing
    value: Array  # [S, i] log p(y, z) - log q(z)
    upstream: Array  # [S, i] slopes of the objective in the value
    d_z: Array  # [K, S, i]
    d_design: Array  # [P, i]
    d_context: Array  # [K, i]
    d_logits: Array  # [K, i]


@inlined
def _copy(values: Array, begin: int, end: int, target: Array, at: int) -> None:
    """Copy columns `begin` to `end` of [C, R] into `target`, from column `at`."""
    for c in range(len(values)):
        source, row = values[c, begin:end], target[c, at : at + end - begin]
        for i in range(end - begin):
            row[i] = source[i]


@compiled
def take_windows(batch: Batch, begins: npt.NDArray[np.int64], length: int, context: int) -> Batch:
    """Return windows of `length` scored rows after `context` others; rows outside the data are zero and not scored."""
    total, span = len(batch.linked), context + length
    size = len(begins) * span
    y, known = np.zeros((len(batch.y), size), np.float32), np.zeros((len(batch.known), size), np.float32)
    past = y if len(known) == 0 else np.zeros((len(y), size), np.float32)
    chain = np.zeros((len(batch.chain), size), np.float32)
    linked, share, n_scored = np.zeros(size, np.float32), np.zeros(size, np.float32), 0
    for w in range(len(begins)):
        first = begins[w] - context
        low, high = max(first, 0), min(first + span, total)
        if low >= high:
            continue
        at = w * span + low - first
        _copy(batch.y, low, high, y, at)
        _copy(batch.chain, low, high, chain, at)
        if len(known) > 0:
            _copy(batch.known, low, high, known, at)
            _copy(batch.past, low, high, past, at)
        for i in range(high - low):
            linked[at + i] = batch.linked[low + i]
            if at + i >= w * span + context:
                share[at + i], n_scored = 1, n_scored + 1
    share /= np.float32(max(n_scored, 1))
    return Batch(y, past, known, linked, share, chain)
