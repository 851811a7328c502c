"""Exact moments of the Gumbel-Softmax against quadrature and samples."""

import numpy as np
import pytest
import torch
from scipy import integrate
from scipy.special import expit

from gdm_core.maths.relaxed import gumbel, log_sample, moments
from tests.support.gdm import generator

TEMPERATURES = (0.01, 0.3, 0.99, 3.0)


def logits_of(k, rows=1, scale=2.0, seed=0):
    return scale * torch.randn(rows, k, generator=generator(100 * k + seed), dtype=torch.float64)


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("k", [2, 3, 6, 12])
def test_moments_are_those_of_samples(k, temperature):
    logits, n = logits_of(k)[0], 30_000
    z = log_sample(logits, temperature, gumbel((n, k), generator(k), torch.float64)).exp()
    exact = moments(logits, temperature, second=True)
    error = z.std(0) / n**0.5
    assert ((z.mean(0) - exact.mean).abs() < 5 * error + 2e-4).all()
    products = z[:, :, None] * z[:, None, :]
    error = products.std(0) / n**0.5
    assert ((products.mean(0) - exact.second).abs() < 5 * error + 2e-4).all()


@pytest.mark.parametrize("temperature", TEMPERATURES)
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


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_moments_fit_together(temperature):
    logits = logits_of(5, 40)
    found = moments(logits, temperature, second=True)
    torch.testing.assert_close(found.mean.sum(-1), torch.ones(40, dtype=torch.float64))
    torch.testing.assert_close(found.second.sum(-1), found.mean)  # since z sums to one
    torch.testing.assert_close(found.second, found.second.transpose(1, 2))
    assert float(torch.linalg.eigvalsh(found.covariance).min()) > -1e-4
    assert (found.second >= -1e-6).all()


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_renaming_states_renames_moments(temperature):
    logits, order = logits_of(6, 10), [4, 2, 0, 5, 1, 3]
    found, renamed = moments(logits, temperature, True), moments(logits[:, order], temperature, True)
    torch.testing.assert_close(renamed.mean, found.mean[:, order])
    torch.testing.assert_close(renamed.second, found.second[:, order][:, :, order])


def test_cold_states_are_categorical_and_hot_ones_even():
    logits = logits_of(5, 3)
    torch.testing.assert_close(moments(logits, 0.01).mean, torch.softmax(logits, -1), atol=1e-3, rtol=0)
    warm = (moments(logits, 10.0).mean - 0.2).abs().max()
    assert warm < (moments(logits, 1.0).mean - 0.2).abs().max() < (moments(logits, 0.1).mean - 0.2).abs().max()


def test_level_of_the_logits_and_company_do_not_matter(monkeypatch):
    logits = logits_of(4, 30)
    expected = moments(logits, 0.7, True)
    torch.testing.assert_close(moments(logits + 11.0, 0.7).mean, expected.mean)
    monkeypatch.setattr("gdm_core.maths.relaxed._MOMENT_ELEMENTS", 500)
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
