"""The generative model of the GDM: likelihoods, bounds and invariances."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from gdm_core.maths.relaxed import gumbel, gumbel_softmax_kl
from gdm_core.maths.rows import Rows
from gdm_core.models.gdm import module as generative
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.module import GdmModule, elbo, importance_objective, sampled_elbo
from tests.support.gdm import TAU, generator, random_module, random_rows
from tests.support.quadrature import integrate

FEED_FORWARD = ("window", "linear")
CONFIGS = {
    "window": GDMConfig(3, 2, n_hidden=4),
    "linear places": GDMConfig(3, 2, posterior="linear", stickiness=0.0),
    "sticky": GDMConfig(3, 2, posterior="sticky"),
    "network": GDMConfig(3, 2, transition="network", n_hidden=4),
    "memory": GDMConfig(3, 2, transition="gru", posterior="bigru", n_hidden=4),
    "attention": GDMConfig(3, 2, posterior="transformer", n_hidden=4),
    "memory and attention": GDMConfig(3, 2, transition="gru", posterior="transformer", n_hidden=4),
}
every_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())


def noise_for(rows: Rows, k: int, n_samples: int = 2, seed: int = 4) -> torch.Tensor:
    return gumbel((n_samples, len(rows), k), generator(seed), torch.float64)


# ---- the bound ------------------------------------------------------------------------------------------------------
def two_samples(seed: int, missing: bool = False) -> Rows:
    rows = random_rows(2, n_channels=2, seed=seed)
    if not missing:
        return rows
    known = torch.tensor([[1.0, 1.0], [0.0, 1.0]], dtype=torch.float64)
    return replace(rows, y=rows.y * known, known=known)


@pytest.mark.parametrize("gamma", [0.0, 0.6])
@pytest.mark.parametrize("posterior", FEED_FORWARD)
def test_bound_is_the_elbo_below_the_likelihood(posterior, gamma):
    config = GDMConfig(2, 1, stickiness=gamma, stickiness_scale=1.0, posterior=posterior, n_hidden=4)
    for seed, missing in ((0, False), (1, True)):
        module, rows = random_module(config, 2, seed, scale=0.8), two_samples(seed, missing)
        exact = integrate(module, rows, TAU)
        assert exact.mass == pytest.approx(0, abs=1e-6)  # the quadrature itself
        bound = elbo(module, rows)
        assert bound < exact.evidence
        # Moments are exact without stickiness, and slightly conservative with it.
        assert bound < exact.elbo + 2e-3
        assert bound > exact.elbo - (2e-3 if gamma == 0 else 0.05)


@pytest.mark.parametrize(
    ("posterior", "transition"), [("sticky", "linear"), ("window", "network"), ("window", "gru"), ("bigru", "gru")]
)
def test_sampled_bound_is_the_elbo(posterior, transition):
    check_sampled_bound(GDMConfig(2, 1, posterior=posterior, transition=transition, n_hidden=4))


@pytest.mark.parametrize("lasting", [False, True])
def test_bound_holds_for_scale_noise_and_chain(lasting):
    check_sampled_bound(GDMConfig(2, 1, stickiness=0.5, stickiness_scale=6.0, n_hidden=4), lasting)


def check_sampled_bound(config: GDMConfig, lasting: bool = False) -> None:
    module, rows = random_module(config, 2, seed=1, lasting=lasting).eval(), two_samples(0)
    exact = integrate(module, rows, TAU)
    bound = elbo(module, rows, n_samples=10_000)
    assert bound < exact.evidence
    assert bound == pytest.approx(exact.elbo, abs=0.03)


@pytest.mark.parametrize("posterior", ["window", "sticky"])
def test_training_estimate_is_unbiased(posterior):
    config = GDMConfig(2, 1, stickiness=0.7, posterior=posterior, n_hidden=4)
    module, rows = random_module(config, 2, seed=2), two_samples(1)
    exact = integrate(module, rows, TAU)
    with torch.no_grad():
        noise = noise_for(rows, 2, 3_000)
        values = torch.stack([sampled_elbo(module, rows, part).sum() for part in noise.split(100)])
    error = float(values.std()) / len(values) ** 0.5
    assert abs(float(values.mean()) - exact.elbo) < 4 * error


def test_weighted_objective_tightens_with_samples():
    """Without stickiness the objective bounds the likelihood."""
    module, rows = random_module(GDMConfig(2, 1, stickiness=0.0, n_hidden=4), 2, seed=1, scale=0.8), two_samples(0)
    exact = integrate(module, rows, TAU)
    with torch.no_grad():
        found = [
            float(importance_objective(module, rows, noise_for(rows, 2, s * 80).unflatten(0, (s, 80))[:, i]).sum())
            for s in (1, 8, 64)
            for i in range(80)
        ]
    values = np.reshape(found, (3, 80))
    (one, eight, many), error = values.mean(1), values.std(1) / 80**0.5
    assert abs(one - exact.elbo) < 4 * error[0]  # one sample makes the ELBO's estimate
    assert one < eight < many + 4 * error[1]
    assert many < exact.evidence + 4 * error[2]


@pytest.mark.parametrize(
    ("posterior", "transition"), [("window", "linear"), ("transformer", "linear"), ("bigru", "gru")]
)
def test_bound_in_pieces_is_the_bound(posterior, transition, monkeypatch):
    config = GDMConfig(3, 2, posterior=posterior, transition=transition, n_hidden=4)
    module, rows = random_module(config).eval(), random_rows(60, 3, 40)
    whole = elbo(module, rows, n_samples=400)
    # In pieces the sampled bound draws other noise, and long memories are cut.
    exact = 1e-9 if posterior == "window" else 1e-8
    elements, close = (300, exact) if transition == "linear" else (100_000, 0.02)
    monkeypatch.setattr(generative, "BOUND_ELEMENTS", elements)
    assert elbo(module, rows, n_samples=400) == pytest.approx(whole, rel=close)


# ---- gradients ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("objective", [sampled_elbo, importance_objective])
@every_config
def test_every_intended_parameter_receives_a_gradient(config, objective):
    module, rows = random_module(config), random_rows(30, 20)
    objective(module, rows, noise_for(rows, 3, 4)).sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert float(parameter.grad.abs().max()) > 0, name


def row_noises(module: GdmModule, rows: Rows) -> torch.Tensor:
    """Return the noise covariance [R, N, N] of each row."""
    with torch.no_grad():
        return torch.diag_embed(torch.exp(2 * module.row_log_noise(rows)).expand(len(rows), -1))


# ---- likelihoods ----------------------------------------------------------------------------------------------------
def test_likelihood_of_observed_entries_is_marginal():
    module = random_module(GDMConfig(3, 2), 4)
    rows = random_rows(40, n_channels=4, missing=0.3)
    z = torch.softmax(torch.randn(1, 40, 3, generator=generator(), dtype=torch.float64), -1)
    with torch.no_grad():
        view = module.view(rows)
        found = module.log_likelihood(z, view.design, rows)[0]
        mean = module.mean(z, view.design)[0]
        noises = row_noises(module, rows)
    for t, noise in enumerate(noises):
        at = rows.known[t] > 0
        expected = 0.0
        if at.any():
            expected = multivariate_normal(mean[t, at], noise[at][:, at]).logpdf(rows.y[t, at])
        assert float(found[t]) == pytest.approx(float(expected), abs=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_expected_likelihood_is_average_over_states(missing):
    module = random_module(GDMConfig(3, 2), 4)
    rows = random_rows(5, n_channels=4, missing=missing)
    z = torch.softmax(2 * torch.randn(500, 5, 3, generator=generator(), dtype=torch.float64), -1)
    mean = z.mean(0)
    centred = z - mean
    covariances = torch.einsum("srk,srl->rkl", centred, centred) / len(z)
    with torch.no_grad():
        view = module.view(rows)
        exact = module.expected_log_likelihood(mean, covariances, view, rows)
        torch.testing.assert_close(exact, module.log_likelihood(z, view.design, rows).mean(0))


def test_noise_has_a_floor():
    module = random_module(GDMConfig(2, 2))
    with torch.no_grad():
        module.log_noise.fill_(-50.0)
    assert float(module.log_deviation().detach().exp().max()) == pytest.approx(1e-4)


# ---- nesting --------------------------------------------------------------------------------------------------------
def state_free(module: GdmModule, rows: Rows) -> float:
    """Return log p(y) of the autoregression of state 0."""
    with torch.no_grad():
        means = module.view(rows).design @ module.dynamics[0]
    parts = zip(rows.y, means, row_noises(module, rows), strict=True)
    return sum(float(multivariate_normal(mean, noise).logpdf(y)) for y, mean, noise in parts)


def test_identical_states_equal_one_state():
    module = random_module(GDMConfig(3, 2, stickiness=0.0, posterior="linear"))
    rows = random_rows(30, 12)
    with torch.no_grad():
        module.dynamics.copy_(module.dynamics[:1].expand_as(module.dynamics))
        loose = elbo(module, rows)
        # A posterior equal to the prior leaves no gap.
        for part in (module.transition.weight, module.posterior.weight):
            part.zero_()
        for part in (module.transition.bias, module.posterior.bias, module.initial):
            part.copy_(torch.tensor([0.3, -1.0, 0.5]))
    exact = state_free(module, rows)
    assert elbo(module, rows) == pytest.approx(exact, abs=1e-4)
    assert loose < exact


@pytest.mark.parametrize("transition", ["linear", "network", "gru"])
@pytest.mark.parametrize("posterior", [*FEED_FORWARD, "sticky", "bigru", "transformer"])
def test_one_state_equals_an_autoregression(posterior, transition):
    config = GDMConfig(1, 2, posterior=posterior, transition=transition, n_hidden=4)
    module, rows = random_module(config).eval(), random_rows(30, 12)
    assert elbo(module, rows) == pytest.approx(state_free(module, rows), abs=1e-4)


def test_prior_ignores_position_without_recurrence():
    module, rows = random_module(GDMConfig(3, 2)), random_rows(30)
    moved = replace(rows, past=rows.past + 3.0)
    z = torch.softmax(torch.randn(1, 30, 3, generator=generator(), dtype=torch.float64), -1)
    with torch.no_grad():
        before, after = (module.prior_logits(module.view(r).context, z, r) for r in (rows, moved))
        assert (before - after)[:, 1:].abs().min() > 1e-3
        module.transition.weight.zero_()
        before, after = (module.prior_logits(module.view(r).context, z, r) for r in (rows, moved))
        torch.testing.assert_close(before, after)
        gamma, scale = module.transition.gamma, module.transition.scale
        expected = (1 - gamma) * module.transition.bias + gamma * scale * z[0, :-1]
        torch.testing.assert_close(before[0, 1:], expected)


def test_stickiness_stays_in_its_range():
    module = random_module(GDMConfig(3, 2))
    for value in (-1e4, -3.0, 0.0, 3.0, 1e4):
        with torch.no_grad():
            module.transition.stickiness_logit.fill_(value)
        assert 0 <= float(module.transition.gamma.detach()) < 1


# ---- invariances ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("posterior", FEED_FORWARD)
def test_windows_have_no_seam(posterior):
    """Rows have the same values and gradients in a window and in the whole recording."""
    config = GDMConfig(3, 2, posterior=posterior, n_hidden=4)
    module, rows = random_module(config), random_rows(70, 5, 50, missing=0.1)
    noise = noise_for(rows, 3)
    window = rows.draw(16, 6, 3, generator(3))
    # Histories are unique and identify each row of the batch.
    found = (window.past[:, None] == rows.past).all(-1) & (window.age[:, None] == rows.age)
    scored = window.scored > 0
    assert found[scored].sum(1).eq(1).all()
    which = found.long().argmax(1)
    in_windows = sampled_elbo(module, window, noise[:, which])[scored]
    whole = sampled_elbo(module, rows, noise)[which[scored]]
    torch.testing.assert_close(in_windows, whole)
    names = [name for name, _ in module.named_parameters()]
    expected = torch.autograd.grad(whole.sum(), list(module.parameters()), retain_graph=True, allow_unused=True)
    gradients = torch.autograd.grad(in_windows.sum(), list(module.parameters()), allow_unused=True)
    for name, ours, theirs in zip(names, gradients, expected, strict=True):
        torch.testing.assert_close(ours, theirs, msg=lambda text, name=name: f"{name}: {text}")


def test_prior_uses_initial_state_at_trial_starts():
    module, rows = random_module(GDMConfig(3, 2)), random_rows(4, 3)
    z = torch.full((1, 7, 3), 1 / 3, dtype=torch.float64)
    with torch.no_grad():
        logits = module.prior_logits(module.view(rows).context, z, rows)[0]
    starts = torch.tensor([0, 4])
    torch.testing.assert_close(logits[starts], module.initial.detach().expand(2, -1))
    assert (gumbel_softmax_kl(logits, module.initial.detach().expand_as(logits)) > 1e-6).sum() == 5
