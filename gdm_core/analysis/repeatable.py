"""States of repeated recordings, such as laps, whose places return in recordings that were kept aside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from gdm_core.maths.threads import one_thread
from gdm_core.models.registry import import_family
from gdm_core.trials import Trials

Floats = npt.NDArray[np.float32]
FEWEST = 6  # recordings: three to fit, and three to keep aside
RETURNS = 0.85  # least correlation of a state's place with that of recordings kept aside


@dataclass(frozen=True, eq=False)
class RepeatableStates:
    """Soft states of L aligned recordings of T samples, fitted to half of them.

    states     [L, T, K]
    aside      [L] whether each recording was kept aside
    agreement  [K] correlation along the recording of each state's mean share, between fitted recordings and others
    clusters   the same for k-means with as many clusters
    """

    states: Floats
    aside: npt.NDArray[np.bool_]
    agreement: Floats
    clusters: Floats

    @property
    def places(self) -> Floats:
        """Return [T, K] mean share of each state along the fitted recordings."""
        return np.asarray(self.states[~self.aside].mean(axis=0))


def repeatable_states(trials: Trials, n_states: Sequence[int] = (2, 3, 4, 5), seed: int = 0) -> RepeatableStates:
    """Fit the most states whose places all return in the recordings kept aside, every second one.

    trials    recordings of equal length, aligned sample by sample
    n_states  numbers of states to try
    seed      of fits and clusters
    """
    if len(trials) < FEWEST or len({trial.n_samples for trial in trials}) > 1:
        raise DataError(f"There are {len(trials)} recordings; at least {FEWEST} of equal length are needed.")
    aside = np.arange(len(trials)) % 2 == 1
    fitted = Trials(tuple(trial for trial, out in zip(trials, aside, strict=True) if not out), name=trials.name)
    found: dict[int, tuple[Floats, Floats]] = {}
    for k in n_states:
        config = {"n_states": k, "n_latent": min(2, trials.n_channels), "posterior": "linear", "seed": seed}
        model = import_family("gdm")(**config).fit(fitted)
        states = np.stack([model.predict_proba(trial) for trial in trials])
        found[k] = states, agreement(states, aside)
    returning = [k for k, (_, agrees) in found.items() if agrees.min() >= RETURNS]
    chosen = max(returning) if returning else max(found, key=lambda k: found[k][1].min())
    states, agrees = found[chosen]
    return RepeatableStates(states, aside, agrees, agreement(_clusters(trials, aside, chosen, seed), aside))


def agreement(states: Floats, aside: npt.NDArray[np.bool_]) -> Floats:
    """Return [K] correlation of each state's mean share along fitted recordings with the others; 0 for constant shares."""
    here, there = (states[chosen].mean(axis=0, dtype=np.float64) for chosen in (~aside, aside))
    here, there = here - here.mean(axis=0), there - there.mean(axis=0)
    size = np.sqrt((here**2).sum(axis=0) * (there**2).sum(axis=0))
    return np.asarray(np.where(size > 1e-12, (here * there).sum(axis=0) / np.maximum(size, 1e-12), 0), np.float32)


def _clusters(trials: Trials, aside: npt.NDArray[np.bool_], k: int, seed: int) -> Floats:
    """Return [L, T, K] clusters of the samples, fitted to the recordings that were not kept aside."""
    from sklearn.cluster import KMeans  # slow import

    y = np.nan_to_num(np.stack([trial.y for trial in trials]))
    with one_thread():
        model = KMeans(k, n_init=4, random_state=seed).fit(y[~aside].reshape(-1, y.shape[-1]))
        label = model.predict(y.reshape(-1, y.shape[-1]))
    return np.eye(k, dtype=np.float32)[label].reshape(*y.shape[:2], k)
