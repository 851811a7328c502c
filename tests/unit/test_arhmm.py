"""The autoregressive HMM: exact evidence, monotone EM and recovery."""

import itertools

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from gdm_core import ARHMM
from gdm_core.analysis.state_scores import matched_accuracy
from gdm_core.maths.gaps import carry_forward, interpolate_gaps
from gdm_core.maths.pca import ComponentScores, PartialRows
from gdm_core.models.progress import Status
from gdm_core.models.switching import arhmm_em as em
from gdm_core.models.switching.dynamics import Dynamics, DynamicsPrior, weighted_moments
from gdm_core.models.switching.transitions import Transitions
from tests.support.switching import walk


def random_model(rng, kind, n_states=2, n_latent=2, n_channels=4, lags=1):
    """Return random scores and parameters."""
    k, d, n = n_states, n_latent, n_channels
    basis = np.linalg.qr(rng.normal(size=(n, d)))[0]
    scores = ComponentScores(
        rng.normal(size=n), 0.5 + rng.random(n), basis, 0.5 + rng.random(d), 0.3 if n > d else 1.0, np.ones(d)
    )
    spread = rng.normal(size=(k + 1, d, d))
    spread = spread @ np.swapaxes(spread, 1, 2) + 0.2 * np.eye(d)
    blank = Transitions.blank(kind, k, d)
    weights = rng.normal(size=(k, d)) if blank.recurrent else blank.weights
    transitions = Transitions(kind, np.log(np.full(k, 1 / k)), rng.normal(size=blank.bias.shape), weights)
    dynamics = Dynamics(0.5 * rng.normal(size=(k, d, d * lags + 1)), spread[:k])
    return scores, em.ARParameters(dynamics, transitions, rng.normal(size=d), spread[k])


def fill_from_past(y, factors):
    return np.array([factors.fill(y[: t + 1])[t] for t in range(len(y))])


def evidence_by_enumeration(y, scores, p, lags):
    """Sum the densities of the observed entries over all K^T paths."""
    k = len(p.dynamics.covariance)
    x = scores.project(fill_from_past(y, scores.factors))
    loadings = scores.basis * scores.scale
    n, d = loadings.shape
    across = scores.residual_variance * (np.eye(n) - scores.basis @ scores.basis.T) if n > d else 0.0

    def density(t, z):
        seen = np.isfinite(y[t])
        if not seen.any():
            return 0.0
        if t < lags:
            mean, spread = p.start_mean, p.start_covariance
        else:
            inputs = np.concatenate([*(x[t - lag] for lag in range(1, lags + 1)), [1.0]])
            mean, spread = p.dynamics.coefficients[z] @ inputs, p.dynamics.covariance[z]
        centre, cover = scores.expand(mean), loadings @ spread @ loadings.T + across
        unweighted = cover / scores.weight[:, None] / scores.weight
        return multivariate_normal(centre[seen], unweighted[np.ix_(seen, seen)]).logpdf(y[t, seen])

    table = np.array([[density(t, z) for z in range(k)] for t in range(len(y))])
    total = []
    for path in itertools.product(range(k), repeat=len(y)):
        weight = p.transitions.log_initial[path[0]] + table[0, path[0]]
        for t in range(1, len(y)):
            logits = p.transitions.logits(np.array(path[t - 1]), x[t - 1])
            weight += logits[path[t]] - np.logaddexp.reduce(logits) + table[t, path[t]]
        total.append(weight)
    return np.logaddexp.reduce(total)


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize(("lags", "n_channels"), [(1, 4), (2, 4), (1, 2)])
@pytest.mark.parametrize("kind", ["stationary", "sticky", "recurrent_only"])
def test_evidence_equals_enumeration(kind, lags, n_channels, missing):
    rng = np.random.default_rng(lags + n_channels)
    scores, p = random_model(rng, kind, n_channels=n_channels, lags=lags)
    trials = [rng.normal(size=(t, n_channels)) for t in (6, 4)]
    for y in trials:
        y[rng.random(y.shape) < missing] = np.nan
    if missing:
        trials[0][3] = np.nan
    series = em.ScoreSeries.prepare(trials, scores, lags)
    expected = sum(evidence_by_enumeration(y, scores, p, lags) for y in trials)
    # without residuals, a fill is as exact as a division by a noise of 1e-8 allows
    assert em.e_step(series, p).elbo == pytest.approx(expected, abs=1e-8 if n_channels > 2 else 1e-6)


def test_incomplete_rows_equal_dense_conditioning():
    rng = np.random.default_rng(1)
    scores, p = random_model(rng, "sticky", n_channels=5)
    loadings = scores.basis * scores.scale / scores.weight[:, None]
    across = scores.residual_variance * (np.eye(5) - scores.basis @ scores.basis.T)
    across = across / scores.weight[:, None] / scores.weight
    y = rng.normal(size=(8, 5))
    y[:, 1:][rng.random((8, 4)) < 0.5] = np.nan
    mean = rng.normal(size=(8, 2, 2))
    _, after, spread = PartialRows.reduce(y, scores).condition(mean, p.dynamics.covariance, scores)
    for row, k in itertools.product(range(8), range(2)):
        seen = np.isfinite(y[row])
        prior = p.dynamics.covariance[k]
        cover = (loadings @ prior @ loadings.T + across)[np.ix_(seen, seen)]
        gain = prior @ loadings[seen].T @ np.linalg.inv(cover)
        error = y[row, seen] - scores.expand(mean[row, k])[seen]
        np.testing.assert_allclose(after[row, k], mean[row, k] + gain @ error, atol=1e-9)
        np.testing.assert_allclose(spread[row, k], prior - gain @ loadings[seen] @ prior, atol=1e-9)


def test_filling_uses_only_the_past_or_straight_lines():
    y = np.array([[np.nan, 1.0], [2.0, np.nan], [np.nan, np.nan], [5.0, np.nan]])
    np.testing.assert_array_equal(carry_forward(y), [[0.0, 1.0], [2.0, 1.0], [2.0, 1.0], [5.0, 1.0]])
    np.testing.assert_array_equal(interpolate_gaps(y), [[2.0, 1.0], [2.0, 1.0], [3.5, 1.0], [5.0, 1.0]])
    assert np.isnan(y[0, 0])  # the input is unchanged


def test_regression_is_the_posterior_mode():
    """Small changes of coefficients or noise do not raise the log posterior."""
    rng = np.random.default_rng(2)
    joint = np.concatenate([rng.normal(size=(50, 4)), np.ones((50, 1))], axis=1)
    weights = rng.random((50, 2))
    prior = DynamicsPrior.stay(2, 1, np.array([0.3, 0.5]))
    moments = weighted_moments(weights, joint)

    def objective(dynamics):
        return float((weights * dynamics.log_density(joint)).sum()) + dynamics.log_prior(prior)

    best = Dynamics.fit(moments, prior)
    top = objective(best)
    for _ in range(50):
        shift = 1e-3 * rng.normal(size=best.coefficients.shape)
        tilt = 1e-3 * rng.normal(size=best.covariance.shape)
        moved = Dynamics(best.coefficients + shift, best.covariance + tilt + np.swapaxes(tilt, 1, 2))
        assert objective(moved) < top


def wandering(rng, n_samples=400, n_channels=5):
    """Return a walk that changes between three directions, and its states."""
    z = np.repeat(np.arange(n_samples // 20 + 1) % 3, 20)[:n_samples]
    y = walk(rng, z) @ rng.normal(size=(2, n_channels)) + 0.05 * rng.normal(size=(n_samples, n_channels))
    return y.astype(np.float32), z


@pytest.mark.parametrize(("kind", "lags"), [("stationary", 1), ("sticky", 3), ("recurrent_only", 1)])
def test_em_never_lowers_its_objective(kind, lags):
    rng = np.random.default_rng(3)
    trials = [wandering(rng, t)[0] for t in (150, 96, 31)]
    trials[0][rng.random(trials[0].shape) < 0.2] = np.nan
    trials[1][40:50] = np.nan
    model = ARHMM(n_states=3, transitions=kind, lags=lags, n_iter=20, n_restarts=2).fit(trials, calibrate=False)
    objective = np.array([p.objective for p in model.history_])
    assert len(objective) > 2
    assert np.diff(objective).min() > -1e-9


def test_states_are_recovered():
    y, z = wandering(np.random.default_rng(5), 600)
    model = ARHMM(n_states=3, transitions="sticky").fit(y)
    assert matched_accuracy(model.predict(y), z) > 0.97
    assert model.status_ in (Status.CONVERGED, Status.MAX_STEPS)


def test_excerpt_keeps_rows_with_their_gaps():
    rng = np.random.default_rng(7)
    y = rng.normal(size=(3000, 3))
    y[rng.random(y.shape) < 0.1] = np.nan
    scores = ComponentScores.fit([y], 2)
    series = em.ScoreSeries.prepare([y], scores, 1)
    part = series.excerpt(400)
    assert len(part.x) == 400
    assert part.starts.sum() == 8
    assert not part.full[part.partial_rows].any()
    # The excerpted rows keep their likelihoods.
    _, p = random_model(rng, "sticky")
    whole, small = em.log_likelihoods(series, p)[0], em.log_likelihoods(part, p)[0]
    kept = (np.linspace(0, 3000 - 50, 8).astype(int)[:, None] + np.arange(50)).ravel()
    np.testing.assert_allclose(small, whole[kept], atol=1e-10)
