"""First guesses at the states of a path, as starts of fits.

Clusters of steps find states that move differently, even those of a few samples. Clusters of windows find lasting states:
k-means assigns each window to the linear autoregression with the highest likelihood.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from sklearn.cluster import KMeans

from gdm_core.arrays import Bool, Float, Ints, Values

WINDOW = 20  # samples
_PLACE_WEIGHT = 0.7  # of values next to steps
_CLUSTERED = 20_000  # samples that clusters of single samples are found on
_COMPARED = 100  # samples in which most data have enough different values for all states
_MOST_WINDOWS = 400
_TRIES = 8  # draws of first windows
_ROUNDS = 10
_RIDGE = 0.3  # samples that the prior of an autoregression is worth: no change
_LEAST_NOISE = 0.05  # of the variance of steps, which the prior noise of a window has


def candidate_states(
    x: Float, starts: Bool, n_states: int, numbers: Iterable[int], seed: int = 0, known: Bool | None = None
) -> list[Ints]:
    """Return different guesses at the states [T] of a path.

    x             [T, D] of about unit variance; trials end to end
    starts        [T] first samples of trials, and of what follows a long gap
    numbers       of guesses: 0 to 3 by steps, windows, steps with values, values; then the same from other seeds
    known         [T] samples with an observation; None for all
    """
    steps = np.zeros_like(x)
    steps[1:] = np.diff(x, axis=0)
    steps[starts] = 0.0
    moved = steps / np.maximum(np.sqrt((steps**2).mean(axis=0)), 1e-12)
    found = []
    for number in numbers:
        random = int(np.random.default_rng([seed, number]).integers(2**31))
        view = number % 4
        if view == 0:
            found.append(cluster_samples(moved, n_states, random, n_tries=3))
        elif view == 1:
            found.append(_window_clusters(x, starts, n_states, random, known))
        elif view == 2:
            found.append(
                cluster_samples(np.concatenate([moved, _PLACE_WEIGHT * x], axis=1), n_states, random, n_tries=3)
            )
        else:
            found.append(cluster_samples(x, n_states, random, n_tries=1))
    return found


def cluster_samples(features: Values, n_states: int, seed: int, n_tries: int) -> Ints:
    """Return k-means labels of single samples."""
    thinned = features[:: max(1, len(features) // _CLUSTERED)]
    few = thinned[:_COMPARED]
    if len(np.unique(few, axis=0)) < n_states and len(np.unique(thinned, axis=0)) < n_states:
        return np.arange(len(features)) * n_states // len(features)
    fitted = KMeans(n_states, n_init=n_tries, random_state=seed).fit(thinned)
    labels = fitted.labels_ if len(thinned) == len(features) else fitted.predict(features)
    return np.asarray(labels, np.int64)


def _window_clusters(x: Float, starts: Bool, n_states: int, seed: int, known: Bool | None) -> Ints:
    """Return k-means labels of windows, by the likelihood of each under the autoregressions of states."""
    n = len(x)
    age = np.arange(n) - np.maximum.accumulate(np.where(starts, np.arange(n), 0))
    first = np.flatnonzero(age % max(WINDOW, n // _MOST_WINDOWS) == 0)
    joint = np.concatenate([x, np.roll(x, 1, axis=0), np.ones((n, 1))], axis=1)
    joint[starts if known is None else starts | ~known] = 0.0
    moments = np.stack([part.T @ part for part in np.split(joint, first[1:])])  # [W, M, M]
    # One window is too short to estimate its dynamics: the first guesses take its neighbours in.
    wide, inside = moments.copy(), np.flatnonzero(~starts[first[1:]])
    wide[inside + 1] += moments[inside]
    wide[inside] += moments[inside + 1]
    noise = np.maximum((np.diff(x, axis=0)[~starts[1:]] ** 2).mean(axis=0), 1e-8) * _LEAST_NOISE
    cost = _costs(moments, wide, noise)  # [W, W]
    picked = _spread_windows(cost, n_states, np.random.default_rng(seed))
    labels = cost[:, picked].argmin(axis=2).T  # [tries, W]
    flat = moments.reshape(len(moments), -1)
    for _ in range(_ROUNDS):
        member = np.eye(n_states)[labels]
        of_states = (np.swapaxes(member, 1, 2) @ flat).reshape(len(labels), n_states, *moments.shape[1:])
        costs = _costs(moments, of_states, noise)  # [tries, W, K]
        before, labels = labels, costs.argmin(axis=2)
        if (labels == before).all():
            break
    best = costs.min(axis=2).sum(axis=1).argmin()
    return np.repeat(labels[best], np.diff(first, append=n))


def _costs(moments: Float, of_states: Float, noise: Float) -> Float:
    """Return twice the negative log-likelihood [..., W, K] of windows under the autoregressions of states.

    moments     [W, M, M] sums of outer products of [x, x before, 1]
    of_states   [..., K, M, M] the same of the samples that each autoregression is estimated from
    noise       [D] prior variance
    """
    d, m = len(noise), moments.shape[-1]
    prior = np.eye(d, m - d)
    inputs = of_states[..., d:, d:] + _RIDGE * np.eye(m - d)
    across = of_states[..., d:, :d] + _RIDGE * prior.T
    coefficients = np.swapaxes(np.linalg.solve(inputs, across), -1, -2)
    mix = np.concatenate([np.broadcast_to(np.eye(d), (*coefficients.shape[:-1], d)), -coefficients], axis=-1)
    scatter = mix @ of_states @ np.swapaxes(mix, -1, -2) + (d + 2) * np.diag(noise)
    covariance = scatter / (of_states[..., -1:, -1:] + d + 2)
    forms = np.swapaxes(mix, -1, -2) @ np.linalg.solve(covariance, mix)
    forms[..., -1, -1] += np.linalg.slogdet(covariance)[1]  # times the number of samples
    flat = forms.reshape(*forms.shape[:-2], m * m)
    return np.asarray(moments.reshape(-1, m * m) @ np.swapaxes(flat, -1, -2))


def _spread_windows(cost: Float, n_states: int, rng: np.random.Generator) -> Ints:
    """Return windows [tries, K], each drawn by what the ones before leave unexplained, as in k-means++."""
    own = np.diagonal(cost)
    picked = np.empty((_TRIES, n_states), np.int64)
    for row in picked:
        row[0] = rng.integers(len(cost))
        least = cost[:, row[0]]
        for k in range(1, n_states):
            weight = np.maximum(least - own, 0.0) + 1e-9
            row[k] = rng.choice(len(cost), p=weight / weight.sum())
            least = np.minimum(least, cost[:, row[k]])
    return picked
