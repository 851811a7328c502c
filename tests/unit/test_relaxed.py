"""The Gumbel-Softmax in log space: densities, samples, the exact divergence, and exact moments."""

import mpmath
import numpy as np
import pytest
import torch
from scipy import integrate, stats
from scipy.special import expit
from torch.distributions import RelaxedOneHotCategorical
from torch.distributions.relaxed_categorical import ExpRelaxedCategorical

from gdm_core.maths.relaxed import (
    gumbel,
    gumbel_softmax_kl,
    log_density,
    log_mixture,
    log_sample,
    moments,
    sampled_kl,
    sticky_kl_bound,
)
from tests.support.gdm import generator

TEMPERATURES = (0.05, 0.3, 0.99, 3.0)
MANY_STATES = (2, 3, 5, 8, 12, 20, pytest.param(64, marks=pytest.mark.bulk))


def logits_of(k, rows=1, scale=1.0, seed=0):
    return scale * torch.randn(rows, k, generator=generator(100 * k + seed), dtype=torch.float64)


def draws(logits, temperature, n, seed=0):
    """Return samples [n, K] of log z."""
    noise = gumbel((n, logits.shape[-1]), generator(seed), torch.float64)
    return log_sample(logits, temperature, noise)


# ---- densities ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("k", [2, 3, 8])
def test_density_equals_torch(k, temperature):
    logits = logits_of(k, 5, scale=2)
    tau = torch.tensor(temperature, dtype=torch.float64)
    log_z = log_sample(logits, temperature, gumbel((5, k), generator(1), torch.float64))
    ours = log_density(log_z, logits, temperature)
    torch.testing.assert_close(ours, ExpRelaxedCategorical(tau, logits=logits).log_prob(log_z))
    if temperature >= 0.3:  # at lower temperatures some z underflow to zero
        plain = RelaxedOneHotCategorical(tau, logits=logits).log_prob(log_z.exp())
        torch.testing.assert_close(ours - log_z.sum(-1), plain, rtol=1e-6, atol=1e-6)


# ---- samples --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("temperature", [0.01, 0.3, 0.99, 8.0])
def test_largest_state_is_categorical_at_every_temperature(temperature):
    logits = torch.tensor([0.0, 1.5, -1.0, 0.4, -2.5], dtype=torch.float64)
    n = 40_000
    counts = torch.bincount(draws(logits, temperature, n, seed=3).argmax(-1), minlength=5).numpy()
    expected = n * torch.softmax(logits, -1).numpy()
    assert stats.chisquare(counts, expected).pvalue > 1e-3
    # The test has the power to see a small error.
    assert stats.chisquare(counts, n * torch.softmax(1.05 * logits, -1).numpy()).pvalue < 1e-3


def test_gumbel_noise_is_standard_and_seeded():
    noise = gumbel((200_000,), generator(0), torch.float64).numpy()
    assert stats.kstest(noise, "gumbel_r").pvalue > 1e-3
    assert torch.equal(gumbel((7, 3), generator(5)), gumbel((7, 3), generator(5)))
    assert not torch.equal(gumbel((7, 3), generator(5)), gumbel((7, 3), generator(6)))
    single = gumbel((500_000,), generator(1))
    assert single.dtype == torch.float32
    assert torch.isfinite(single).all()


# ---- float32 --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("temperature", [0.01, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("k", [2, 5, 12])
def test_float32_stays_finite_for_extreme_logits(k, temperature):
    g = generator(k)
    extreme = torch.where(torch.rand(300, k, generator=g) < 0.5, -30.0, 30.0)
    logits = torch.cat([extreme, 60 * torch.rand(300, k, generator=g) - 30]).requires_grad_()
    prior = logits.detach().flip(0).clone().requires_grad_()
    noise = gumbel(logits.shape, g)
    log_z = log_sample(logits, temperature, noise)
    covariance = moments(logits, temperature, second=True).covariance
    values = {
        "log z": log_z,
        "density": log_density(log_z, logits, temperature),
        "density of the other": log_density(log_z, prior, temperature),
        "exact": gumbel_softmax_kl(logits, prior),
        "sampled": sampled_kl(prior - logits, torch.log_softmax(-noise, -1)),
        "bound": sticky_kl_bound((prior - logits).detach(), 0.9, covariance),
    }
    for name, value in values.items():
        assert value.dtype == torch.float32, name
        assert torch.isfinite(value).all(), name
        if value.requires_grad:
            found = torch.autograd.grad(value.sum(), [logits, prior], retain_graph=True, allow_unused=True)
            assert all(torch.isfinite(gradient).all() for gradient in found if gradient is not None), name


# ---- divergence -----------------------------------------------------------------------------------------------------
def exact_divergence(delta):
    """Return the divergence from E[log X] of a sum X of exponentials, in hundreds of digits."""
    with mpmath.workdps(60 + 10 * len(delta)):
        d = [mpmath.mpf(float(value)) for value in delta]
        mean = [mpmath.exp(value) for value in d]
        k = len(d)
        share = [mpmath.fprod(mean[i] / (mean[i] - mean[j]) for j in range(k) if j != i) for i in range(k)]
        log_mean = mpmath.fsum(w * value for w, value in zip(share, d, strict=True)) - mpmath.euler - mpmath.digamma(k)
        return float(-mpmath.fsum(d) + k * log_mean)


@pytest.mark.parametrize("scale", [0.3, 3.0, 15.0])
@pytest.mark.parametrize("k", MANY_STATES)
def test_divergence_is_exact(k, scale):
    posterior, prior = logits_of(k, 2, scale), logits_of(k, 2, scale, seed=1)
    expected = [exact_divergence(row) for row in prior - posterior]
    np.testing.assert_allclose(gumbel_softmax_kl(posterior, prior), expected, rtol=1e-10, atol=1e-7)
    single = gumbel_softmax_kl(posterior.float(), prior.float())
    np.testing.assert_allclose(single, expected, rtol=3e-6, atol=3e-5 * k)


def test_divergence_is_zero_only_if_equal():
    posterior, prior = logits_of(6, 200, 3), logits_of(6, 200, 3, seed=1)
    assert (gumbel_softmax_kl(posterior, prior) > 0).all()
    torch.testing.assert_close(
        gumbel_softmax_kl(posterior, posterior), torch.zeros(200, dtype=torch.float64), atol=1e-6, rtol=0
    )
    assert (gumbel_softmax_kl(posterior[:, :1], prior[:, :1]).abs() < 1e-6).all()  # one state


def test_rest_of_the_batch_has_no_effect(monkeypatch):
    posterior, prior = logits_of(4, 50, 2), logits_of(4, 50, 2, seed=1)
    expected = gumbel_softmax_kl(posterior, prior)
    alone = torch.cat([gumbel_softmax_kl(q[None], p[None]) for q, p in zip(posterior, prior, strict=True)])
    torch.testing.assert_close(alone, expected, atol=1e-6, rtol=1e-7)
    monkeypatch.setattr("gdm_core.maths.relaxed.CHUNK_ELEMENTS", 1000)  # several pieces
    torch.testing.assert_close(gumbel_softmax_kl(posterior, prior), expected, atol=1e-12, rtol=0)
    assert gumbel_softmax_kl(posterior.reshape(5, 10, 4), prior.reshape(5, 10, 4)).shape == (5, 10)


def test_gradients_are_right():
    logits, prior = logits_of(4, 3).requires_grad_(), logits_of(4, 3, seed=1).requires_grad_()
    noise = gumbel((3, 4), generator(2), torch.float64)
    log_z = torch.log_softmax(logits_of(4, 3, seed=2), -1).requires_grad_()
    assert torch.autograd.gradcheck(lambda z, a: log_density(z, a, 0.7), (log_z, logits))
    assert torch.autograd.gradcheck(lambda a: log_sample(a, 0.7, noise), (logits,))
    assert torch.autograd.gradcheck(gumbel_softmax_kl, (logits, prior), atol=1e-5)
    assert torch.autograd.gradcheck(lambda a, b: sampled_kl(b - a, torch.log_softmax(-noise, -1)), (logits, prior))


def test_mixture_derivatives_match_its_value():
    delta = logits_of(5, 2, 2)
    found = log_mixture(delta, with_products=True)
    torch.testing.assert_close(found.mean.sum(-1), torch.ones(2, dtype=torch.float64), atol=1e-6, rtol=0)
    step = 1e-3
    for direction in torch.eye(5, dtype=torch.float64):
        up, down = (log_mixture(delta + sign * step * direction) for sign in (1, -1))
        torch.testing.assert_close((up.value - down.value) / (2 * step), found.mean @ direction, atol=1e-5, rtol=0)
        hessian = torch.diag_embed(found.mean) - found.products
        torch.testing.assert_close((up.mean - down.mean) / (2 * step), hessian @ direction, atol=1e-5, rtol=0)


@pytest.mark.parametrize("gamma", [0.0, 0.2, 0.6, 0.99])
@pytest.mark.parametrize("k", [2, 4, 9])
def test_bound_exceeds_the_sticky_divergence(k, gamma):
    before, posterior, context = (logits_of(k, 1, 2, seed)[0] for seed in range(3))
    z = draws(before, 0.9, 4000, seed=k).exp()
    exact = moments(before, 0.9, second=True)
    free = (1 - gamma) * context
    sampled = gumbel_softmax_kl(posterior.expand(4000, -1), free + gamma * z)
    bound = float(sticky_kl_bound(free + gamma * exact.mean - posterior, gamma, exact.covariance))
    error = float(sampled.std()) / 4000**0.5
    assert bound > float(sampled.mean()) - 4 * error - 1e-6
    assert bound < float(sampled.mean()) + 4 * error + 0.2 * k * gamma**2 + 1e-6  # and is tight


# ---- moments --------------------------------------------------------------------------------------------------------
COLD_TO_HOT = (0.01, 0.3, 0.99, 3.0, 10.0)


@pytest.mark.parametrize("temperature", COLD_TO_HOT)
@pytest.mark.parametrize("k", [3, 12])
def test_moments_equal_sample_moments(k, temperature):
    logits, n = logits_of(k, scale=2)[0], 30_000
    z = log_sample(logits, temperature, gumbel((n, k), generator(k), torch.float64)).exp()
    exact = moments(logits, temperature, second=True)
    error = z.std(0) / n**0.5
    assert ((z.mean(0) - exact.mean).abs() < 5 * error + 2e-4).all()
    products = z[:, :, None] * z[:, None, :]
    error = products.std(0) / n**0.5
    assert ((products.mean(0) - exact.second).abs() < 5 * error + 2e-4).all()


@pytest.mark.parametrize("temperature", COLD_TO_HOT)
@pytest.mark.parametrize("gap", [0.0, 1.3, -6.0])
def test_two_states_match_quadrature(gap, temperature):
    def expected(power):
        def term(noise):  # the difference of two Gumbel variables is logistic
            return expit((gap + noise) / temperature) ** power / (4 * np.cosh(noise / 2) ** 2)

        return integrate.quad(
            term, -80, 80, points=[-gap - 30 * temperature, -gap, -gap + 30 * temperature], limit=400
        )[0]

    logits = torch.tensor([gap, 0.0], dtype=torch.float64)
    found = moments(logits, temperature, second=True)
    assert float(found.mean[0]) == pytest.approx(expected(1), abs=2e-4)
    assert float(found.second[0, 0]) == pytest.approx(expected(2), abs=2e-4)


@pytest.mark.parametrize("temperature", COLD_TO_HOT)
def test_moments_are_consistent(temperature):
    logits = logits_of(5, 40, 2)
    found = moments(logits, temperature, second=True)
    torch.testing.assert_close(found.mean.sum(-1), torch.ones(40, dtype=torch.float64))
    torch.testing.assert_close(found.second.sum(-1), found.mean)  # since z sums to one
    torch.testing.assert_close(found.second, found.second.transpose(1, 2))
    assert float(torch.linalg.eigvalsh(found.covariance).min()) > -1e-4
    assert (found.second >= -1e-6).all()


@pytest.mark.parametrize("temperature", [0.3, 0.99, 3.0])
def test_slope_of_the_mean_equals_differences(temperature):
    logits = torch.randn(5, 4, dtype=torch.float64, generator=generator(0))
    slope = moments(logits, temperature, second=True).slope(temperature)
    for k, step in enumerate(0.05 * torch.eye(4, dtype=torch.float64)):
        change = moments(logits + step, temperature).mean - moments(logits - step, temperature).mean
        torch.testing.assert_close(slope[..., k], change / 0.1, atol=2e-3, rtol=0)


def test_moments_ignore_logit_level_and_batching(monkeypatch):
    logits = logits_of(4, 30, 2)
    expected = moments(logits, 0.7, True)
    torch.testing.assert_close(moments(logits + 11.0, 0.7).mean, expected.mean)
    monkeypatch.setattr("gdm_core.maths.relaxed.MOMENT_ELEMENTS", 500)
    pieces = moments(logits.reshape(3, 10, 4), 0.7, True)
    torch.testing.assert_close(pieces.mean.reshape(30, 4), expected.mean)
    torch.testing.assert_close(pieces.second.reshape(30, 4, 4), expected.second)


def test_one_state_and_extreme_logits():
    one = moments(torch.tensor([[3.0], [-20.0]]), 0.5, True)
    np.testing.assert_allclose(one.mean, 1, atol=1e-6)
    np.testing.assert_allclose(one.second, 1, atol=1e-6)
    extreme = torch.where(torch.rand(200, 8, generator=generator()) < 0.5, -30.0, 30.0)
    for temperature in (0.01, 0.99):
        found = moments(extreme, temperature, True)
        assert found.mean.dtype == torch.float32
        assert torch.isfinite(found.mean).all()
        assert torch.isfinite(found.second).all()
        torch.testing.assert_close(found.mean.sum(-1), torch.ones(200))
