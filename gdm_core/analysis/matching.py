"""Which fitted state gets which colour, so that colours stay with the states from one fit to the next.

A fit numbers its states as it likes. What is drawn and exported is a fixed reordering of them: column j of the picture
is column order[j] of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Order = tuple[int, ...]
States = npt.NDArray[np.floating[Any]]
Array = npt.NDArray[np.float32]

TRUTH_WEIGHT = 0.5
ALIKE = 18.0  # difference (OKLab x 100) at which two colours begin to be taken for each other
MAX_SAMPLES = 6_000  # of each comparison; evenly spaced ones say as much as all of them


def overlap(first: States, second: States) -> npt.NDArray[np.float64]:
    """[K1, K2] how much two states share: 1 where they are the same at all times, 0 where they never meet."""
    stride = -(-len(first) // MAX_SAMPLES) or 1
    a = np.nan_to_num(np.asarray(first[::stride], np.float64))  # [t, K1]
    b = np.nan_to_num(np.asarray(second[::stride], np.float64))  # [t, K2]
    norm = np.sqrt(np.outer((a**2).sum(axis=0), (b**2).sum(axis=0)))
    shared: npt.NDArray[np.float64] = np.divide(a.T @ b, norm, out=np.zeros_like(norm), where=norm > 0)
    return shared


def match(states: States, references: Sequence[tuple[States, float]]) -> Order:
    """The order in which `states` [T, K] look most like the references (states [T, any number], weight).

    Without a reference (or for states that resemble nothing), states are taken in the order in which they are first
    the strongest.
    """
    from scipy.optimize import linear_sum_assignment

    n_states = states.shape[1]
    value = np.zeros((n_states, n_states))  # [place, state]
    for reference, weight in references:
        if len(reference) == len(states):
            shared = overlap(reference, states)[:n_states]
            value[: len(shared)] += weight * shared
    # A whisper of preference settles ties the same way every time: early states first.
    rank = np.empty(n_states)
    rank[_by_appearance(states)] = np.arange(n_states)
    places = np.arange(n_states)
    value -= 1e-4 * np.abs(places[:, None] - rank[None, :]) / max(1, n_states)
    return tuple(int(state) for state in linear_sum_assignment(value, maximize=True)[1])


def _by_appearance(states: States) -> npt.NDArray[np.int64]:
    """States in the order in which each is first the strongest; those that never are come last."""
    strongest = np.nan_to_num(states).argmax(axis=1)
    first = np.full(states.shape[1], len(states))
    present, at = np.unique(strongest, return_index=True)
    first[present] = at
    return np.argsort(first, kind="stable")


def neighbours(states: States) -> npt.NDArray[np.float64]:
    """[K, K] how often one state follows another as the strongest, or stands beside it at the same moment; sums to 1."""
    soft = np.nan_to_num(np.asarray(states, np.float64))
    strongest = soft.argmax(axis=1)
    n_states = soft.shape[1]
    beside = overlap(soft, soft)
    follows = np.bincount(strongest[:-1] * n_states + strongest[1:], minlength=n_states**2).reshape(n_states, n_states)
    found = follows / max(1.0, follows.sum() - np.trace(follows)) + beside / max(1e-9, beside.sum() - np.trace(beside))
    np.fill_diagonal(found, 0)
    total: npt.NDArray[np.float64] = (found + found.T) / max(1e-9, 2 * found.sum())
    return total


def contrasting(states: States, differences: npt.NDArray[Any]) -> Order:
    """The order in which neighbouring states have colours that are told apart, as near to that of their appearance as
    exchanging two states at a time leads.

    differences   [n, n] between the colours of at least as many places
    """
    order = _by_appearance(states)
    beside = neighbours(states)
    alike = np.exp(-((differences[: len(order), : len(order)] / ALIKE) ** 2))
    pairs = [(i, j) for j in range(len(order)) for i in range(j)]

    def mixed_up(tried: npt.NDArray[np.int64]) -> float:
        return float((beside[np.ix_(tried, tried)] * alike).sum())

    cost = mixed_up(order)
    while pairs:
        trials = [np.array(order) for _ in pairs]
        for tried, (i, j) in zip(trials, pairs, strict=True):
            tried[[i, j]] = tried[[j, i]]
        costs = [mixed_up(tried) for tried in trials]
        best = int(np.argmin(costs))
        if costs[best] > cost - 1e-3:  # less is not worth another number for a state
            break
        order, cost = trials[best], costs[best]
    return tuple(int(state) for state in order)


def order_of(
    raw: tuple[Array, ...],
    truth: tuple[Array, ...] | None,
    anchor: tuple[Array, ...] | None,
    differences: npt.NDArray[Any] | None = None,
) -> Order:
    """Colours for the model's states: those of the picture before, and of the known states where there are any; else, if
    `differences` of colours are given, so that neighbouring states differ in theirs."""
    states = np.concatenate(raw)
    references = []
    if anchor is not None:
        references.append((np.concatenate(anchor), 1.0))
    if truth is not None:
        references.append((np.concatenate(truth), TRUTH_WEIGHT))
    if not references and differences is not None and states.shape[1] <= len(differences):
        return contrasting(states, differences)
    return match(states, references)


def in_order(states: tuple[Array, ...], order: Order) -> tuple[Array, ...]:
    """States of the model in the order of colours."""
    return tuple(part[:, list(order)] for part in states)


def inverse(order: Order) -> Order:
    return tuple(int(i) for i in np.argsort(order))


def parse(text: str | None, n_states: int) -> Order | None:
    """An order as an address holds it ("3-1-2", counted from one), or None where it is not one for `n_states` states."""
    parts = (text or "").split("-")
    if sorted(parts) != sorted(str(k + 1) for k in range(n_states)):
        return None
    return tuple(int(part) - 1 for part in parts)


def text_of(order: Order) -> str:
    """The order for an address."""
    return "-".join(str(state + 1) for state in order)
