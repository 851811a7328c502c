"""The hand-written pass against autograd.

To the bit only what the same calls give in the same process.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from gdm_core.maths.rows import Rows, WindowSampler
from gdm_core.models.gdm import fused
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.fit import Adam
from gdm_core.models.gdm.fused import objective_of
from gdm_core.models.gdm.module import importance_objective, sampled_elbo
from tests.support.gdm import CPU, generator, random_module, random_rows

POSTERIORS = ("window", "window_linear", "linear")


def autograd(module, rows: Rows, noise, temperature: float, importance: bool):
    """Objective per time step and its gradient by name."""
    bound = importance_objective if importance else sampled_elbo
    per_row = bound(module, rows, noise, temperature)
    scored = per_row if rows.scored is None else per_row * rows.scored
    objective = scored.sum() / rows.n_scored
    module.zero_grad()
    objective.backward()
    gradients = {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in module.named_parameters()}
    return objective.item(), gradients


def compare(config: GDMConfig, rows: Rows, importance: bool, temperature: float = 0.8) -> None:
    """The fused pass works in float32, so autograd does in float64: what they differ by is rounding."""
    n_words = 0 if rows.words is None else rows.words.shape[1]
    module = random_module(config, rows.y.shape[1], seed=3, dtype=torch.float32, n_words=n_words)
    assert fused.supports(config, module)
    n_samples = 3
    noise = fused.Noise(config.seed).draw(config.n_states, n_samples, len(rows))
    objective = objective_of(module, config)
    value = objective(fused.Batch(rows, config.lags), noise, temperature, importance)
    found = {name: view.copy() for name, view in objective.g.items()}
    trainable = {name: p.requires_grad for name, p in module.named_parameters()}

    def double(part):
        return part.double() if part is not None and part.dtype == torch.float32 else part

    exact = replace(
        rows,
        y=double(rows.y),
        known=double(rows.known),
        past=double(rows.past),
        scored=double(rows.scored),
        words=double(rows.words),
    )
    gumbels = -torch.as_tensor(noise[1]).permute(1, 2, 0).double()  # [S, R, K]
    expected, gradients = autograd(module.double(), exact, gumbels, temperature, importance)
    assert value == pytest.approx(expected, rel=2e-5, abs=2e-5)
    for name, gradient in gradients.items():
        if trainable[name]:
            scale = float(gradient.abs().max())
            np.testing.assert_allclose(found[name], gradient, rtol=0, atol=3e-4 * scale + 1e-6, err_msg=name)


@pytest.mark.parametrize("importance", [False, True])
@pytest.mark.parametrize("lags", [1, 2, 3])
@pytest.mark.parametrize(("posterior", "sticky"), itertools.product(POSTERIORS, ["learn", 0.3]))
def test_value_and_gradient_are_those_of_autograd(posterior, sticky, lags, importance):
    config = GDMConfig(3, 2, posterior=posterior, stickiness=sticky, lags=lags, n_hidden=5)
    compare(config, random_rows(40, 1, 7, 25, dtype=torch.float32), importance)


@pytest.mark.parametrize("importance", [False, True])
@pytest.mark.parametrize("posterior", POSTERIORS)
def test_words_that_rows_were_given(posterior, importance):
    config = GDMConfig(4, 2, posterior=posterior, n_hidden=4)
    rows = random_rows(40, 1, 20, dtype=torch.float32)
    weight = torch.rand((len(rows), 3), generator=generator(5)) * 4
    weight[10:30] = 0
    compare(config, replace(rows, words=weight), importance)
    windows = WindowSampler(replace(rows, words=weight), 8, 3, 3, generator())
    compare(config, windows.draw(), importance)


@pytest.mark.parametrize("importance", [False, True])
@pytest.mark.parametrize("posterior", POSTERIORS)
def test_missing_values_and_windows(posterior, importance):
    config = GDMConfig(4, 2, posterior=posterior, lags=2, n_hidden=4)
    rows = random_rows(90, 3, 60, missing=0.2, dtype=torch.float32)
    assert rows.known is not None
    compare(config, rows, importance)
    windows = WindowSampler(rows, 16, 5, context=3, generator=generator()).draw()
    assert windows.scored is not None
    compare(config, windows, importance)


@pytest.mark.parametrize("importance", [False, True])
@pytest.mark.parametrize("sticky", ["learn", 0.3])
@pytest.mark.parametrize(
    ("transition", "posterior"), [("gru", "bigru"), ("gru", "window"), ("gru", "linear"), ("linear", "bigru")]
)
def test_memory_in_transition_and_posterior(transition, posterior, sticky, importance):
    config = GDMConfig(3, 2, transition=transition, posterior=posterior, stickiness=sticky, n_hidden=6)
    rows = random_rows(150, 1, 40, 7, 49, missing=0.1, dtype=torch.float32)
    compare(config, rows, importance)
    # Windows of rows step across seams and over the ends: there, memory is cut.
    compare(config, WindowSampler(rows, 64, 6, 32, generator(1), after=32).draw(), importance)


@pytest.mark.parametrize("temperature", [0.05, 1.0, 5.0])
def test_temperatures_and_state_counts(temperature):
    for k in (1, 2, 7):
        compare(GDMConfig(k, 2, n_hidden=4), random_rows(50, dtype=torch.float32), False, temperature)


def test_fixed_projection_stays_where_it_is():
    config = GDMConfig(3, 2, train_projection=False, n_hidden=4)
    module = random_module(config, dtype=torch.float32)
    objective = fused.FusedObjective(module, config)
    at = slice(0, module.projection.numel())
    assert (objective.trainable[at] == 0).all()
    assert (objective.trainable[module.projection.numel() :] == 1).all()
    compare(config, random_rows(50, dtype=torch.float32), True)


def test_noise_at_its_floor_gets_no_gradient():
    config = GDMConfig(2, 2, n_hidden=4)
    module = random_module(config, dtype=torch.float32)
    with torch.no_grad():
        module.log_noise[1] = -20.0
    objective = fused.FusedObjective(module, config)
    objective(fused.Batch(random_rows(30, dtype=torch.float32), 1), fused.Noise(0).draw(2, 2, 30), 0.9, False)
    assert objective.g["log_noise"][1] == 0
    assert (objective.g["log_noise"][[0, 2]] != 0).all()


def test_parameters_return_to_the_module():
    config = GDMConfig(3, 2, n_hidden=4)
    module, other = random_module(config, dtype=torch.float32), random_module(config, seed=9, dtype=torch.float32)
    fused.FusedObjective(module, config).write_to(other)
    for (name, ours), theirs in zip(module.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, theirs), name


def test_adam_is_that_of_torch():
    start, gradients = np.float32([1.0, -2.0, 0.5]), np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    ours, flat = Adam(3), start.copy()
    parameter = torch.nn.Parameter(torch.tensor(start))
    theirs = torch.optim.Adam([parameter], lr=0.02, betas=(0.9, 0.99))
    for gradient in gradients:
        ours.ascend(flat, gradient, 0.02)
        parameter.grad = -torch.as_tensor(gradient)  # ours climbs, theirs descends
        theirs.step()
    np.testing.assert_allclose(flat, parameter.detach(), rtol=1e-4)


def test_noise_is_exponential_seeded_and_never_zero():
    first, again, other = (fused.Noise(seed, pool=50_000) for seed in (0, 0, 1))
    drawn = [first.draw(3, 2, 500) for _ in range(40)]
    for exponential, logarithm, total in drawn:
        expected = again.draw(3, 2, 500)
        np.testing.assert_array_equal(exponential, expected[0])
        np.testing.assert_allclose(logarithm, np.log(exponential), atol=1e-6)
        np.testing.assert_allclose(total, np.log(exponential.sum(0)), atol=1e-6)
    assert not np.array_equal(drawn[0][0], other.draw(3, 2, 500)[0])
    assert not np.array_equal(drawn[0][0], drawn[-1][0])
    values = np.concatenate([part[0].ravel() for part in drawn])
    assert values.min() > 0
    assert values.mean() == pytest.approx(1, abs=5 / len(values) ** 0.5)
    assert first.draw(4, 1, 7)[0].shape == (4, 1, 7)  # another shape starts another pool


@pytest.mark.parametrize(
    "config",
    [
        GDMConfig(transition="gru", posterior="transformer"),
        GDMConfig(covariance="full"),
        GDMConfig(posterior="sticky"),
        GDMConfig(posterior="transformer"),
    ],
)
def test_what_it_does_not_cover_is_left_to_autograd(config):
    assert not fused.supports(config, random_module(config, dtype=torch.float32).to(CPU))
