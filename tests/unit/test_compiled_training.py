"""Compiled loops of training step and read-out: noise, windows, and equality with plain Python."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from gdm_core.compiled import training
from gdm_core.compiled.batches import take_windows
from gdm_core.models.gdm.chain import make_batch
from tests.support.gdm import random_rows

# Steps in two blocks, with both objectives, shared noise and noise per state.
STEPS = """
import torch
from gdm_core.models.gdm.chain import chain_log_probabilities, make_batch
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.fused import FusedObjective
from gdm_core.models.gdm.readout import read_out
from tests.support.gdm import random_module, random_rows
config, total = GDMConfig(2, 1, n_hidden=2), []
for lasting in (False, True):
    rows = random_rows(100, 40, n_channels=2, missing=0.2, dtype=torch.float32)
    batch = make_batch(rows)
    module = random_module(config, 2, dtype=torch.float32, lasting=lasting)
    objective = FusedObjective(module)
    chain, stay = chain_log_probabilities(objective.evidence(batch), batch.linked, 0.9)
    for importance in (False, True):
        value = objective(batch._replace(chain=chain), 2, 5, importance)
        total += [value, stay, *objective.gradient, *objective.curvature.dynamics.ravel(), *chain.ravel()]
    found = read_out(module, rows, 4)
    total += [*found.log_bound.tolist(), *found.states.flatten().tolist()]
"""


def test_plain_python_gives_the_same_step():
    """Numba's arithmetic must not differ from Python's, in types or in overflow."""
    scope: dict[str, list[float]] = {}
    exec(STEPS, scope)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", STEPS + "print(*map(float, total))"],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    np.testing.assert_allclose(np.array(done.stdout.split(), float), scope["total"], rtol=1e-3, atol=1e-4)


def test_noise_is_exponential_and_depends_on_place_and_key():
    drawn = np.array([[training.exponential(place, np.uint32(key)) for place in range(20_000)] for key in (0, 12345)])
    assert drawn.min() > 0
    for power, mean in ((1, 1.0), (2, 2.0), (3, 6.0)):
        values = drawn.ravel() ** power
        assert values.mean() == pytest.approx(mean, abs=5 * values.std() / values.size**0.5)
    for one, other in ((drawn[0], drawn[1]), (drawn[0, 1:], drawn[0, :-1]), (drawn[0, 64:], drawn[0, :-64])):
        assert abs(np.corrcoef(one, other)[0, 1]) < 5 / len(one) ** 0.5


def test_windows_keep_rows_and_score_what_is_inside():
    batch = make_batch(random_rows(50, 30, missing=0.1, dtype=torch.float32))
    found = take_windows(batch, np.array([-2, 40, 75, 200]), 10, 3)
    assert found.y.shape == (3, 52)
    np.testing.assert_array_equal(found.y[:, 13:26], batch.y[:, 37:50])
    np.testing.assert_array_equal(found.linked[13:26], batch.linked[37:50])
    np.testing.assert_array_equal(np.flatnonzero(found.share), [*range(5, 13), *range(16, 26), *range(29, 34)])
    assert found.share.sum() == pytest.approx(1)
    assert not found.y[:, 34:].any()
    outside_first = take_windows(batch, np.array([90, 40]), 10, 3)
    np.testing.assert_array_equal(np.flatnonzero(outside_first.share), np.arange(16, 26))
