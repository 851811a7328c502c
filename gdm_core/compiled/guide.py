"""The hidden Markov chain that guides q(z): it keeps its state with one probability and changes to all others alike."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gdm_core.compiled import compiled, inlined

Array = npt.NDArray[np.float32]
Float = npt.NDArray[np.float64]


@inlined
def advance(before: Float, evidence: Array, stay: float, after: Float, weight: Float) -> None:
    """Fill filtered probabilities [K] after one more sample, and the likelihood [K] relative to the best state."""
    n_states = len(before)
    move, best, total = (1 - stay) / max(n_states - 1, 1), evidence.max(), 0.0
    for k in range(n_states):
        weight[k] = np.exp(float(evidence[k] - best))
        after[k] = ((stay - move) * before[k] + move) * weight[k]
        total += after[k]
    for k in range(n_states):
        after[k] /= total


@compiled
def probabilities(evidence: Array, linked: Array, stay: float, smooth: bool) -> tuple[Array, float]:
    """Return smoothed or filtered probabilities [K, R], and the mean probability of keeping a state.

    evidence  [K, R] log-likelihoods; the first row of a trial, where `linked` is 0, has equal probabilities before it
    """
    n_states, n_rows = evidence.shape
    found, now, before = np.empty((n_states, n_rows), np.float32), np.empty(n_states), np.empty(n_states)
    weight, future = np.empty(n_states), np.ones(n_states)
    for t in range(n_rows):
        if t == 0 or linked[t] == 0:
            before[:] = 1 / n_states
        advance(before, evidence[:, t], stay, now, weight)
        for k in range(n_states):
            found[k, t] = now[k]
        before, now = now, before
    if not smooth:
        return found, stay
    move, kept, n_steps = (1 - stay) / max(n_states - 1, 1), 0.0, 0
    for t in range(n_rows - 1, -1, -1):
        total = 0.0
        for k in range(n_states):
            now[k] = found[k, t] * future[k]
            total += now[k]
        for k in range(n_states):
            found[k, t] = now[k] / total
        if t == 0 or linked[t] == 0:
            future[:] = 1
            continue
        best, total, same, either = evidence[:, t].max(), 0.0, 0.0, 0.0
        for k in range(n_states):
            future[k] *= np.exp(float(evidence[k, t] - best))
            total += future[k]
        for k in range(n_states):
            later = future[k] / total
            future[k] = (stay - move) * later + move
            same += found[k, t - 1] * stay * later
            either += found[k, t - 1] * future[k]
        kept += same / either
        n_steps += 1
    return found, kept / n_steps if n_steps > 0 else stay
