"""Most probable paths of states, against enumeration of all paths."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from gdm_core import ARHMM, SLDS
from gdm_core.maths import hmm

EM: dict[str, Any] = {"n_states": 3, "n_latent": 2, "n_iter": 4, "n_restarts": 1}


def log_joint(path: Any, table: Any, initial: Any, transitions: Any, starts: Any) -> float:
    total = 0.0
    for t, state in enumerate(path):
        step = initial[state] if starts[t] else transitions[t, path[t - 1] % transitions.shape[1], state]
        total += step + table[t, state]
    return float(total)


@pytest.mark.parametrize("rows", [3, 1])
@pytest.mark.parametrize("seed", range(6))
def test_path_is_the_best_of_all(seed: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    table = 2 * rng.normal(size=(7, 3))
    initial, transitions = (hmm.log_normalise(2 * rng.normal(size=shape))[0] for shape in ((3,), (7, rows, 3)))
    starts = np.isin(np.arange(7), [0, 4])
    found = hmm.most_probable_path(hmm.posterior(table, initial, transitions, starts))
    if rows == 1:
        transitions = np.repeat(transitions, 3, axis=1)
    best = max(product(range(3), repeat=7), key=lambda path: log_joint(path, table, initial, transitions, starts))
    assert tuple(found) == best


@pytest.mark.parametrize("model", [ARHMM(transitions="recurrent_only", **EM), SLDS(**EM)])
def test_path_of_a_model_agrees_with_states(model: Any) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(rng.normal(size=(8, 3)) * 3, 15, axis=0) + 0.3 * rng.normal(size=(120, 3))
    y[50:53] = np.nan
    path = model.fit(y).viterbi(y)
    assert path.shape == (120,)
    assert (path == model.predict(y)).mean() > 0.9
    np.testing.assert_array_equal(model.viterbi([y, y])[1], path)
