"""Newton's steps of a fit, and the start that they begin from."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from datasets import formula1, nascar
from gdm_core import GDM, Trial
from gdm_core.analysis.metrics import matched_accuracy
from gdm_core.models.gdm import fused
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.fit import DECAY, FIRST_SHARE, NewtonAscent, plan
from gdm_core.models.gdm.posteriors import MARGIN, discriminant
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


# ---- where a fit begins ---------------------------------------------------------------------------------------------
def polygon(n_sides: int, n_samples: int = 600, lap: int = 30, noise: float = 0.01) -> Trial:
    """A car on a polygon of sides of different speeds: within a state its move hardly varies."""
    rng = np.random.default_rng(n_sides)
    angle = 2 * np.pi * np.arange(n_sides) / n_sides
    out, along = np.stack([np.cos(angle), np.sin(angle)], 1), np.stack([-np.sin(angle), np.cos(angle)], 1)
    speed = rng.uniform(0.6, 1.4, n_sides) * 2 * np.pi / lap
    x, path, labels = out[0], [], []
    for _ in range(n_samples):
        side = int((out @ x).argmax())
        x = x + speed[side] * along[side] - 0.1 * out[side] * (out[side] @ x - 1)
        path.append(x)
        labels.append(side)
    y = np.array(path) @ rng.standard_normal((2, 10)) + noise * rng.standard_normal((n_samples, 10))
    return Trial(y=y, labels=np.array(labels))


def test_logits_are_never_too_sure_of_themselves_to_be_learned_from():
    features = torch.cat([torch.zeros(50, 2), torch.ones(50, 2)]) + 1e-4 * torch.randn(100, 2)
    member = torch.nn.functional.one_hot(torch.arange(100) // 50, 2).float()
    weight, bias = discriminant(features, member)
    logits = features @ weight + bias
    assert torch.equal(logits.argmax(1), member.argmax(1))
    assert float(logits.diff(dim=1).abs().median()) == pytest.approx(MARGIN, rel=1e-3)


@pytest.mark.parametrize("n_sides", [3, 5])
def test_states_whose_moves_hardly_vary_are_found(n_sides):
    """The first logits of such states once were thousands of nats apart, and the fit never came back from there."""
    trial = polygon(n_sides)
    model = GDM(n_sides, 2, seed=0).fit(trial)
    assert matched_accuracy(model.predict(trial), trial.labels) > 0.99
    assert model.elbo_ > GDM(1, 2, seed=0).fit(trial).elbo_ + 10


def test_a_state_that_a_rare_switch_tells_is_known_no_better_than_others():
    """The brake of a car: of two thousand samples one in ten has it on, and for these alone logits were hundreds of nats apart."""
    rng = np.random.default_rng(0)
    brake = np.repeat(rng.random(200) < 0.1, 10).astype(float)
    speed = np.cumsum(rng.standard_normal(2000) - 3 * brake + 0.3) * 0.1
    values = torch.as_tensor(
        np.stack([speed - speed.mean(), brake], 1) / [speed.std(), brake.std()], dtype=torch.float32
    )
    labels = torch.as_tensor(np.where(brake > 0, 2, speed > np.median(speed)))
    member = torch.nn.functional.one_hot(labels, 3).float()
    ranges = []
    for every_state in (False, True):
        weight, bias = discriminant(values, member, every_state)
        logits = values @ weight + bias
        ranges.append(float((logits.amax(1) - logits.amin(1))[labels == 2].median()))
    assert ranges[0] > 100
    assert ranges[1] == pytest.approx(2 * MARGIN, rel=0.05)


def test_channels_that_are_on_or_off_leave_states_of_places_a_bound():
    """A fit to a car's speed, throttle, brake and gear once ended at a bound of -713 nats a sample."""
    session = formula1.simulate_race("shanghai", drivers=1, laps=3)
    car = formula1.to_trials(session, session.codes[0], channels=("speed", "throttle", "brake", "gear"))
    model = GDM(3, 2, posterior="linear", seed=0).fit(car)
    assert model.elbo_ > 0
