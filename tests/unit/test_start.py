"""Where a GDM fit starts."""

import numpy as np
import pytest
import torch

from datasets import formula1
from gdm_core import GDM, Trial
from gdm_core.analysis.metrics import matched_accuracy
from gdm_core.maths.discriminant import MARGIN, discriminant


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
