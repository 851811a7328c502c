"""Where a GDM fit starts."""

import numpy as np
import pytest
import torch

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
