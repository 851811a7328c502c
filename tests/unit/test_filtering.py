"""The causal filter of switching linear systems."""

import numpy as np

from gdm_core import SLDS
from gdm_core.maths.side_by_side import STRETCH
from gdm_core.models.switching.filtering import filtered
from tests.support.switching import dense_observation, random_parameters, random_trials


def test_filter_with_one_state_equals_conditioning_on_the_past():
    rng = np.random.default_rng(19)
    p = random_parameters(rng, "sticky", k=1)
    y = random_trials(rng, (14,), missing=0.3)[0]
    belief = filtered(np.arange(14), y, p)
    for t in range(14):
        _, mean, cover = dense_observation(p, y[: t + 1], [0] * (t + 1))
        np.testing.assert_allclose(belief.mean[t, 0], mean[-1], atol=1e-9)
        np.testing.assert_allclose(belief.covariance[t, 0], cover[-1, :, -1], atol=1e-9)


def test_filter_is_causal_and_forgets_where_it_was_cut():
    rng = np.random.default_rng(20)
    p = random_parameters(rng, "recurrent", k=3)
    y = random_trials(rng, (4 * STRETCH,))[0]
    everything = filtered(np.arange(len(y)), y, p)
    for t in (0, 5, STRETCH - 1, STRETCH, 2 * STRETCH + 7):
        alone = filtered(np.array([t]), y[: t + 1], p)
        np.testing.assert_allclose(alone.mean[0], everything.mean[t], atol=1e-12)
        np.testing.assert_allclose(alone.log_weight[0], everything.log_weight[t], atol=1e-9)


def test_one_step_forecast_is_that_of_the_kalman_filter():
    rng = np.random.default_rng(21)
    y = np.cumsum(rng.normal(size=(200, 3)), axis=0).astype(np.float32)
    model = SLDS(n_states=1, n_latent=2, n_iter=5, n_restarts=1).fit(y)
    standard, p = model.scaler_.apply(y), model._parameters
    t = 12
    _, mean, cover = dense_observation(p, standard[: t + 1].astype(float), [0] * (t + 1))
    a, b = p.dynamics.coefficients[0, :, :-1], p.dynamics.coefficients[0, :, -1]
    centre = p.emission.loadings @ (a @ mean[-1] + b) + p.emission.offset
    ahead = a @ cover[-1, :, -1] @ a.T + p.dynamics.covariance[0]
    spread = p.emission.loadings @ ahead @ p.emission.loadings.T + np.diag(p.emission.noise)
    n = 20_000
    paths = model._paths(standard, np.array([t]), 1, n, seed=0)[:, 0, 0]
    assert (np.abs(paths.mean(axis=0) - centre) < 6 * np.sqrt(np.diag(spread) / n)).all()
    np.testing.assert_allclose(np.cov(paths.T), spread, rtol=0.1, atol=0.05 * np.abs(spread).max())
