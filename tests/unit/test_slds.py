"""Laplace-EM: its bound against exact evidence, derivatives against autograd, and monotone steps."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gdm_core import SLDS
from gdm_core.analysis.state_scores import matched_accuracy
from gdm_core.maths import hmm
from gdm_core.models.switching import laplace_em as em
from gdm_core.models.switching import slds
from gdm_core.models.switching.dynamics import DynamicsPrior
from tests.support.switching import (
    dense_observation,
    evidence_on_a_grid,
    exact_evidence,
    random_parameters,
    random_trials,
    walk,
)

KINDS = ["sticky", "recurrent", "recurrent_only"]


# ---- the bound --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("seed", range(2))
def test_bound_is_below_the_exact_evidence(seed, missing):
    rng = np.random.default_rng(seed)
    p = random_parameters(rng, "sticky")
    trials = random_trials(rng, (5, 3), missing=missing)
    exact = sum(exact_evidence(p, y) for y in trials)
    reached = em.infer(em.Observed.prepare(trials), p, tolerance=1e-10).elbo
    assert reached <= exact + 1e-9
    assert reached > exact - 8.0  # mean field is loose on unlikely data


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_bound_is_the_evidence_with_one_state(kind, missing):
    rng = np.random.default_rng(7)
    p = random_parameters(rng, kind, k=1)
    trials = random_trials(rng, (6, 1, 4), missing=missing)
    exact = sum(dense_observation(p, y, [0] * len(y))[0] for y in trials)
    assert em.infer(em.Observed.prepare(trials), p).elbo == pytest.approx(exact, abs=1e-8)


@pytest.mark.parametrize("kind", ["recurrent", "recurrent_only"])
def test_recurrent_bound_is_below_the_evidence_on_a_grid(kind):
    rng = np.random.default_rng(0)
    p = random_parameters(rng, kind, d=1, recurrence=2.0)
    y = random_trials(rng, (5,), missing=0.1)[0]
    exact = evidence_on_a_grid(p, y)
    reached = em.infer(em.Observed.prepare([y]), p, tolerance=1e-10).elbo
    assert reached <= exact + 1e-6
    assert reached > exact - 8.0  # mean field is loose on unlikely data


def test_expected_log_softmax_is_a_tight_lower_bound():
    rng = np.random.default_rng(12)
    p = random_parameters(rng, "recurrent", k=4, recurrence=1.5).transitions
    x = rng.normal(size=(6, 2))
    half = rng.normal(size=(6, 2, 2)) * np.array([0.05, 0.1, 0.2, 0.4, 0.8, 0.0])[:, None, None]
    cover = half @ np.swapaxes(half, 1, 2)
    bounded = p.expected(x, cover)
    for t in range(1, 6):
        draws = x[t - 1] + rng.normal(size=(20_000, 2)) @ half[t - 1].T
        exact = np.stack([hmm.log_normalise(p.logits(np.full(len(draws), i), draws))[0] for i in range(4)])
        error = 6 * exact.std(axis=1) / np.sqrt(exact.shape[1]) + 1e-9
        assert (bounded[t] <= exact.mean(axis=1) + error).all()
        assert (bounded[t] >= exact.mean(axis=1) - error - 2.0 * np.trace(cover[t - 1])).all()


# ---- the smoother -----------------------------------------------------------------------------------------------
def test_smoother_equals_dense_conditioning():
    rng = np.random.default_rng(13)
    p = random_parameters(rng, "sticky", k=1)
    y = random_trials(rng, (9,), missing=0.3)[0]
    now = em.infer(em.Observed.prepare([y]), p)
    _, mean, cover = dense_observation(p, y, [0] * 9)
    np.testing.assert_allclose(now.x.mean, mean, atol=1e-9)
    for t in range(9):
        np.testing.assert_allclose(now.x.variance[t], cover[t, :, t], atol=1e-9)
        if t:
            np.testing.assert_allclose(now.x.moments[t, :2, 2:4], cover[t, :, t - 1] + np.outer(mean[t], mean[t - 1]))


def torch_log_joint(p, y, chain, starts, x):
    """Return E_q(z)[log p(x, z, y)] step by step, for autograd."""

    def as_tensor(array):
        return torch.as_tensor(np.asarray(array, dtype=float))

    def log_normal(error, cover):
        return -0.5 * error @ torch.linalg.solve(as_tensor(cover), error)

    total = torch.zeros((), dtype=torch.float64)
    transitions = p.transitions
    for t in range(len(y)):
        seen = np.isfinite(y[t])
        error = as_tensor(np.nan_to_num(y[t])) - as_tensor(p.emission.loadings) @ x[t] - as_tensor(p.emission.offset)
        total = total - 0.5 * (as_tensor(seen / p.emission.noise) * error**2).sum()
        if starts[t]:
            total = total + log_normal(x[t] - as_tensor(p.start_mean), p.start_covariance)
            continue
        inputs = torch.cat([x[t - 1], torch.ones(1, dtype=torch.float64)])
        for k, weight in enumerate(chain.states[t]):
            mean = as_tensor(p.dynamics.coefficients[k]) @ inputs
            total = total + weight * log_normal(x[t] - mean, p.dynamics.covariance[k])
        if transitions.recurrent:
            logits = as_tensor(transitions.bias) + as_tensor(transitions.weights) @ x[t - 1]
            total = total + (as_tensor(chain.pairs[t]) * torch.log_softmax(logits, dim=1)).sum()
    return total


@pytest.mark.parametrize("kind", KINDS)
def test_laplace_gradient_and_hessian_equal_autograd(kind):
    rng = np.random.default_rng(14)
    p = random_parameters(rng, kind, k=3)
    trials = random_trials(rng, (4, 3), missing=0.2)
    observed = em.Observed.prepare(trials)
    chain = em.first_posterior(observed, p).chain
    x = rng.normal(size=(7, 2))
    quadratic = em.quadratic_part(observed, p, chain)
    _, gradient, curve = em.log_joint(quadratic, p, chain, x)
    joined = np.concatenate(trials)

    def function(path):
        return torch_log_joint(p, joined, chain, observed.starts, path)

    at = torch.tensor(x, requires_grad=True)
    (expected,) = torch.autograd.grad(function(at), at)
    np.testing.assert_allclose(gradient, expected.numpy(), atol=1e-9)
    hessian = torch.autograd.functional.hessian(function, at).numpy()
    ours = np.zeros((7, 2, 7, 2))
    for t in range(7):
        ours[t, :, t] = quadratic.diagonal[t] + curve[t]
        if t:
            ours[t, :, t - 1], ours[t - 1, :, t] = quadratic.below[t], quadratic.below[t].T
    np.testing.assert_allclose(-hessian, ours, atol=1e-9)


@pytest.mark.parametrize("kind", ["recurrent", "recurrent_only"])
def test_newton_climbs_to_the_mode(kind):
    rng = np.random.default_rng(15)
    p = random_parameters(rng, kind, k=3, recurrence=5.0)
    observed = em.Observed.prepare(random_trials(rng, (40,)))
    chain = em.first_posterior(observed, p).chain
    quadratic = em.quadratic_part(observed, p, chain)
    x = 10 * rng.normal(size=(40, 2))
    values = [em.log_joint(quadratic, p, chain, x)[0]]
    for _ in range(20):
        x = em.laplace(quadratic, p, chain, x, steps=1).mean
        values.append(em.log_joint(quadratic, p, chain, x)[0])
    assert np.diff(values).min() >= -1e-9
    mode = em.laplace(quadratic, p, chain, x, steps=5)
    assert np.abs(em.log_joint(quadratic, p, chain, mode.mean)[1]).max() < 0.05


@pytest.mark.parametrize("kind", ["recurrent", "recurrent_only"])
@pytest.mark.parametrize("known", [True, False])
def test_gradient_of_weights_equals_differences(kind, known):
    rng = np.random.default_rng(16)
    p = random_parameters(rng, kind, k=3)
    now = em.infer(em.Observed.prepare(random_trials(rng, (12,))), p)
    path = (now.chain, now.x.mean, None if known else now.x.variance)
    gradient = p.transitions.gradient(*path)
    for i in range(len(gradient)):
        step = np.zeros(len(gradient))
        step[i] = 1e-5
        ahead, behind = (p.transitions.add_step(sign * step).objective(*path) for sign in (1, -1))
        assert (ahead - behind) / 2e-5 == pytest.approx(gradient[i], abs=1e-6)


def test_curvature_of_weights_equals_gradient_slope():
    rng = np.random.default_rng(18)
    p = random_parameters(rng, "recurrent", k=3)
    now = em.infer(em.Observed.prepare(random_trials(rng, (40,))), p)
    information = p.transitions.information(now.chain, now.x.mean)
    for i, row in enumerate(information):
        step = np.zeros(len(information))
        step[i] = 1e-5
        ahead, behind = (p.transitions.add_step(sign * step).gradient(now.chain, now.x.mean) for sign in (1, -1))
        np.testing.assert_allclose((behind - ahead) / 2e-5, row, atol=1e-5)


# ---- EM ---------------------------------------------------------------------------------------------------------
def bound_of(observed, p, chain, entropy, x):
    """Return the bound of any q(z) and q(x)."""
    terms = em.Terms.prepare(observed, p, x)
    return terms.under(chain, p, observed.starts) + entropy + terms.path


@pytest.mark.parametrize("kind", KINDS)
def test_every_block_raises_the_objective(kind):
    rng = np.random.default_rng(17)
    observed = em.Observed.prepare(random_trials(rng, (60, 25), missing=0.15))
    prior = DynamicsPrior.stay(2, 1, np.ones(2))
    p = random_parameters(rng, kind, k=3)
    now = em.first_posterior(observed, p)
    for _ in range(15):
        x = em.infer_path(observed, p, now)[0]
        after_path = bound_of(observed, p, now.chain, now.chain_entropy, x)
        assert after_path >= now.elbo - 1e-9
        new = em.m_step(observed, p, replace(now, x=x), prior)
        level = after_path + p.log_prior(prior)
        mixed = p
        for block in ("emission", "dynamics", "transitions"):
            mixed = replace(mixed, **{block: getattr(new, block)})
            reached = bound_of(observed, mixed, now.chain, now.chain_entropy, x) + mixed.log_prior(prior)
            assert reached >= level - 1e-8, block
            level = reached
        p = new
        now = em.infer_states(observed, p, x)
        assert now.elbo + p.log_prior(prior) >= level - 1e-8


# ---- the whole model --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["recurrent", *(pytest.param(k, marks=pytest.mark.bulk) for k in KINDS[::2])])
def test_noisy_states_are_recovered(kind):
    rng = np.random.default_rng(22)
    z = np.repeat(np.arange(30) % 3, 20)
    y = (walk(rng, z) @ rng.normal(size=(2, 6)) + 0.3 * rng.normal(size=(600, 6))).astype(np.float32)
    y[rng.random(y.shape) < 0.1] = np.nan
    model = SLDS(n_states=3, transitions=kind, n_iter=40).fit(y, calibrate=False)
    assert matched_accuracy(model.predict(y), z) > 0.95
    assert np.diff([p.objective for p in model.history_]).min() > -1e-9


@pytest.mark.bulk
def test_long_recording_starts_on_an_excerpt(monkeypatch):
    """A fit that starts on an excerpt needs fewer iterations and scores as high."""
    rng = np.random.default_rng(23)
    z = np.repeat(rng.integers(0, 3, 60), 20)
    y = (walk(rng, z, 0.3) @ rng.normal(size=(2, 6)) + 0.3 * rng.normal(size=(1200, 6))).astype(np.float32)
    y[rng.random(y.shape) < 0.05] = np.nan
    few = em.Observed.prepare([y]).excerpt(400)
    assert few.y.shape == (400, 6)
    np.testing.assert_array_equal(np.flatnonzero(few.starts), np.arange(0, 400, 50))
    np.testing.assert_array_equal(few.y[-50:], np.nan_to_num(y[-50:]))
    whole = SLDS(3, transitions="recurrent", seed=0).fit(y)
    monkeypatch.setattr(slds, "EXCERPT", 400)
    begun = SLDS(3, transitions="recurrent", seed=0).fit(y)
    assert len(begun.history_) < len(whole.history_)
    assert begun.elbo_ > whole.elbo_ - 0.005
