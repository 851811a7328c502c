"""Newton's steps of a fit, and the start that they begin from."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from datasets import nascar
from gdm_core import GDM
from gdm_core.analysis.metrics import matched_accuracy
from gdm_core.models.gdm import fused
from gdm_core.models.gdm.ascent import DECAY, FIRST_SHARE, NewtonAscent
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.fit import plan
from gdm_core.models.gdm.start import whitening_projection
from tests.support.gdm import random_module, random_rows

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_a_step_takes_its_share_of_the_way_to_the_least_squares_solution(missing):
    """With one state nothing is random: the best dynamics are a regression of y on the design."""
    config = GDMConfig(1, 2, n_hidden=4)
    module = random_module(config, n_channels=5, seed=3, dtype=torch.float32)
    rows = random_rows(400, n_channels=5, missing=missing, dtype=torch.float32)
    objective, batch = fused.FusedObjective(module, config), fused.Batch(rows, config.lags)
    objective(batch, fused.Noise(0).draw(1, 1, 400), 0.9, False)
    before = objective.p["dynamics"][0].copy()
    design = module.view(rows).design.detach().double().numpy()
    NewtonAscent(objective).ascend(0.0, 0.0, batch.observed)
    taken = objective.p["dynamics"][0] - before
    known = np.ones((400, 5)) if rows.known is None else rows.known.double().numpy()
    for n in range(5):
        there = known[:, n, None] * design
        best = np.linalg.lstsq(there, known[:, n] * rows.y[:, n].double().numpy(), rcond=None)[0]
        whole = (best - before[:, n])[:-1]  # the last row of the design is the first sample alone
        # Missing entries make the curvature of all channels an approximation of each channel's own.
        np.testing.assert_allclose(
            taken[:-1, n], FIRST_SHARE * whole, rtol=0, atol=(0.01 if missing == 0 else 0.25) * np.abs(whole).max()
        )


def test_states_that_are_places_and_what_autograd_fits_keep_their_recipe():
    for config, steps in (
        (GDMConfig(), 240),
        (GDMConfig(posterior="window_linear"), 240),
        (GDMConfig(transition="gru"), None),
        (GDMConfig(posterior="bigru"), None),
        (GDMConfig(posterior="linear"), None),
        (GDMConfig(covariance="full"), None),
        (GDMConfig(transition="gru", posterior="transformer"), None),
        (GDMConfig(transition="gru", posterior="linear"), None),
    ):
        chosen = plan(config, random_module(config, n_channels=10, dtype=torch.float32))
        assert (chosen.newton, chosen.steps) == (steps is not None, steps or config.steps)
    few = random_module(GDMConfig(), n_channels=4, dtype=torch.float32)
    assert not plan(GDMConfig(), few).newton, "their noise cannot be told"
    assert plan(GDMConfig(n_steps=7), few).steps == 7


def test_weights_of_logits_lose_what_nothing_pulls_them_to():
    config = GDMConfig(3, 2)
    module = random_module(config, n_channels=10, dtype=torch.float32)
    objective = fused.FusedObjective(module, config)
    fused_batch = fused.Batch(random_rows(100, n_channels=10, dtype=torch.float32), config.lags)
    objective(fused_batch, fused.Noise(0).draw(3, 1, 100), 0.9, False)
    before = {name: values.copy() for name, values in objective.p.items()}
    objective.g["transition.weight"][...] = 0
    NewtonAscent(objective).ascend(0.5, 0.0, None)
    np.testing.assert_allclose(
        objective.p["transition.weight"],
        (1 - DECAY["transition.weight"] * 0.5) * before["transition.weight"],
        rtol=1e-5,
    )
    assert not np.allclose(objective.p["transition.bias"], before["transition.bias"])


def test_a_channel_that_is_mostly_noise_does_not_turn_the_projection():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2000, 2))
    noise = np.where(np.arange(12) < 6, 0.02, 2.0)  # standardised, all channels are equally large
    y = x @ rng.standard_normal((2, 12)) + noise * rng.standard_normal((2000, 12))
    y = torch.as_tensor((y - y.mean(0)) / y.std(0), dtype=torch.float32)

    def left(weighted: bool) -> float:
        found = (y @ whitening_projection(y, 2, weighted).T).double().numpy()
        return float(np.mean((x - found @ np.linalg.lstsq(found, x, rcond=None)[0]) ** 2))

    assert left(True) < 0.001
    assert left(False) > 10 * left(True)


def test_a_track_seen_through_an_unlucky_emission_is_found():
    """Some channels of this one hardly see the track: with plain principal components a fit named 0.73 of its states."""
    train, test = nascar.train_test("soft", 304)
    assert matched_accuracy(GDM(seed=304).fit(train).predict(test), test.labels) > 0.85
