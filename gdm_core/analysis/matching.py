"""Colours of states that stay the same from one fit to the next.

The numbers of fitted states are arbitrary. Figures and exports show them in an order: column j of a figure is column
order[j] of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Order = tuple[int, ...]
States = npt.NDArray[np.floating[Any]]
Array = npt.NDArray[np.float32]
Columns = npt.NDArray[np.intp]

TRUTH_WEIGHT = 0.5
WIDEST_WEIGHT = 2.0  # states get their colours back after a fit with fewer
LEAST_CORRELATION = 0.45  # over time, of two states in one colour
ALIKE = 18.0  # difference (OKLab x 100) below which colours are easily confused
MAX_SAMPLES = 6_000  # evenly spaced samples per comparison


def overlap(first: States, second: States, centred: bool = False) -> npt.NDArray[np.float64]:
    """Return the cosine similarity [K1, K2] of states over time; if centred, their correlation."""
    stride = -(-len(first) // MAX_SAMPLES) or 1
    a, b = (np.nan_to_num(np.asarray(states[::stride], np.float64)) for states in (first, second))  # [t, K]
    if centred:
        a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    norm = np.sqrt(np.outer((a**2).sum(axis=0), (b**2).sum(axis=0)))
    shared: npt.NDArray[np.float64] = np.divide(a.T @ b, norm, out=np.zeros_like(norm), where=norm > 1e-12)
    return shared


def match(states: States, references: Sequence[tuple[States, float]]) -> Order:
    """Return the order in which `states` [T, K] match the references (states, weight) best.

    States without a match follow in order of appearance.
    """
    from scipy.optimize import linear_sum_assignment

    n_states = states.shape[1]
    value = np.zeros((n_states, n_states))  # [place, state]
    for reference, weight in references:
        if len(reference) == len(states):
            shared = overlap(reference, states)[:n_states]
            value[: len(shared)] += weight * shared
    # A small preference for early states breaks ties.
    rank = np.empty(n_states)
    rank[_by_appearance(states)] = np.arange(n_states)
    places = np.arange(n_states)
    value -= 1e-4 * np.abs(places[:, None] - rank[None, :]) / max(1, n_states)
    return tuple(int(state) for state in linear_sum_assignment(value, maximize=True)[1])


def _by_appearance(states: States) -> npt.NDArray[np.int64]:
    """Return states by the first sample at which each is the strongest; others come last."""
    strongest = np.nan_to_num(states).argmax(axis=1)
    first = np.full(states.shape[1], len(states))
    present, at = np.unique(strongest, return_index=True)
    first[present] = at
    return np.argsort(first, kind="stable")


def state_adjacency(states: States) -> npt.NDArray[np.float64]:
    """Return how often two states follow each other or overlap [K, K]; sums to 1."""
    soft = np.nan_to_num(np.asarray(states, np.float64))
    strongest = soft.argmax(axis=1)
    n_states = soft.shape[1]
    adjacency = overlap(soft, soft)
    follows = np.bincount(strongest[:-1] * n_states + strongest[1:], minlength=n_states**2).reshape(n_states, n_states)
    found = follows / max(1.0, follows.sum() - np.trace(follows)) + adjacency / max(
        1e-9, adjacency.sum() - np.trace(adjacency)
    )
    np.fill_diagonal(found, 0)
    total: npt.NDArray[np.float64] = (found + found.T) / max(1e-9, 2 * found.sum())
    return total


def contrasting_order(states: States, differences: npt.NDArray[Any]) -> Order:
    """Return an order that gives adjacent states distinct colours.

    differences   [n, n] between colours, for at least K colours
    """
    order = _by_appearance(states)
    adjacency = state_adjacency(states)
    alike = np.exp(-((differences[: len(order), : len(order)] / ALIKE) ** 2))

    def confusion(tried: npt.NDArray[np.int64]) -> float:
        return float((adjacency[np.ix_(tried, tried)] * alike).sum())

    pairs = [(i, j) for j in range(len(order)) for i in range(j)]
    while True:
        tried = [order.copy() for _ in pairs]
        for one, pair in zip(tried, pairs, strict=True):
            one[[*pair]] = one[[*pair[::-1]]]
        best = min(tried, key=confusion, default=order)
        if confusion(best) > confusion(order) - 1e-3:  # too small a gain for a change of order
            return tuple(int(state) for state in order)
        order = best


def find_order(
    raw: tuple[Array, ...],
    truth: tuple[Array, ...] | None,
    anchor: tuple[Array, ...] | None,
    differences: npt.NDArray[Any] | None = None,
    widest: tuple[Array, ...] | None = None,
) -> Order:
    """Return the order of the model's states.

    It matches the previous states (`anchor`), earlier ones with more states (`widest`) and the true states, if any; otherwise,
    with `differences` of colours, adjacent states get distinct colours.
    """
    states = np.concatenate(raw)
    given = ((anchor, 1.0), (widest, WIDEST_WEIGHT), (truth, TRUTH_WEIGHT))
    references = [(np.concatenate(parts), weight) for parts, weight in given if parts is not None]
    if not references and differences is not None and states.shape[1] <= len(differences):
        return contrasting_order(states, differences)
    return match(states, references)


def in_order(states: tuple[Array, ...], order: Order) -> tuple[Array, ...]:
    """Return states in an order."""
    return tuple(part[:, list(order)] for part in states)


def inverse(order: Order) -> Order:
    return tuple(int(i) for i in np.argsort(order))


def parse_order(text: str | None, n_states: int) -> Order | None:
    """Parse an order from a URL, such as "3-1-2"; None if invalid."""
    parts = (text or "").split("-")
    if sorted(parts) != sorted(str(k + 1) for k in range(n_states)):
        return None
    return tuple(int(part) - 1 for part in parts)


def format_order(order: Order) -> str:
    """Format an order for a URL."""
    return "-".join(str(state + 1) for state in order)


# ---- colours of several models ------------------------------------------------------------------------------------
def share_columns(rows: Sequence[States], most: int) -> list[Columns]:
    """Return a column [K] for each state [T, K] of each row, the same for states that match.

    States are matched by their correlation over time with the columns of the rows before. States that match none get new
    columns, up to `most`.
    """
    from scipy.optimize import linear_sum_assignment

    shared = np.zeros((len(rows[0]), 0), np.float32)
    found = []
    for states in rows:
        n_shared, n_states = shared.shape[1], states.shape[1]
        correlation = overlap(shared, states, centred=True)
        known, own = linear_sum_assignment(correlation, maximize=True)
        order = np.argsort(-correlation[known, own])
        n_matched = max(
            int((correlation[known, own] >= LEAST_CORRELATION).sum()), n_states - (most - n_shared)
        )  # without room for new columns, the best of the other matches count
        columns = np.full(n_states, -1)
        columns[own[order[:n_matched]]] = known[order[:n_matched]]
        new = columns < 0
        columns[new] = n_shared + np.arange(new.sum())
        shared = np.concatenate([shared, states[:, new]], axis=1)
        found.append(columns)
    return found


def to_columns(states: States, columns: Columns, n_columns: int) -> States:
    """Return states [T, K] as [T, n_columns], each in its column."""
    wide = np.zeros((len(states), n_columns), np.float32)
    wide[:, columns] = states
    return wide
