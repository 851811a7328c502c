"""Switching models: forecasts, diverging fits and the causal filter."""

from dataclasses import replace

import numpy as np
import pytest

from gdm_core import ARHMM, SLDS
from gdm_core.errors import DataError
from gdm_core.models.progress import Status
from gdm_core.models.switching.dynamics import Dynamics
from gdm_core.models.switching.filtering import filter_up_to
from tests.support.switching import dense_observation, parameters_of, random_parameters, random_trials, walk

MODELS = [
    *[(ARHMM, kind) for kind in ("stationary", "sticky", "recurrent_only")],
    *[(SLDS, kind) for kind in ("sticky", "recurrent", "recurrent_only")],
]
FAST = {"n_iter": 5, "n_restarts": 1}
every_model = pytest.mark.parametrize(("model_class", "kind"), MODELS)


def recordings(seed=0, lengths=(110, 96, 40), missing=0.05):
    rng = np.random.default_rng(seed)
    emission = rng.normal(size=(2, 5))
    trials = []
    for length in lengths:
        z = np.repeat(rng.integers(0, 3, size=length // 15 + 1), 15)[:length]
        y = walk(rng, z) @ emission + 0.1 * rng.normal(size=(length, 5))
        y[rng.random(y.shape) < missing] = np.nan
        trials.append(y.astype(np.float32))
    return trials


@every_model
def test_unobserved_data_adds_nothing_to_the_bound(model_class, kind):
    y, unseen = recordings(lengths=(96,))[0], np.full((20, 5), np.nan, np.float32)
    model = model_class(n_states=3, transitions=kind, **FAST).fit(y)
    n_seen = np.isfinite(y).any(axis=1).sum()
    assert -20.0 < n_seen * (model.score([y, unseen]) - model.score(y)) <= 20e-6
    with pytest.raises(DataError):
        model.score(unseen)


@pytest.mark.parametrize("model_class", [ARHMM, SLDS])
@pytest.mark.parametrize("poison", [np.nan, -1.0])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # NumPy warns before the fit diverges
def test_diverging_fit_keeps_last_good_parameters(model_class, poison, monkeypatch):
    y = recordings(lengths=(110,))[0]
    model = model_class(n_states=2, **FAST)
    steps = model.fit_iter(y)
    next(steps)
    good = {name: value.copy() for name, value in model.params_.items()}
    honest = Dynamics.fit

    def broken(moments, prior):
        dynamics = honest(moments, prior)
        return replace(dynamics, covariance=poison * dynamics.covariance)

    monkeypatch.setattr(Dynamics, "fit", broken)
    assert list(steps) == []
    assert model.status_ is Status.FAILED
    for name, value in good.items():
        np.testing.assert_array_equal(value, model.params_[name])


def test_constant_stretch_does_not_break_a_fit():
    """Long constant stretches give steps of zero variance in most samples."""
    y = recordings(lengths=(200,), missing=0.0)[0]
    y[50:150] = y[50]
    for model_class in (ARHMM, SLDS):
        model = model_class(n_states=4, **FAST).fit(y, calibrate=False)
        assert model.status_ is not Status.FAILED
        assert np.isfinite(model.elbo_)


@pytest.mark.parametrize("model", [ARHMM(3, 2, transitions="recurrent_only", **FAST), SLDS(3, 2, **FAST)])
def test_path_of_a_model_agrees_with_states(model):
    rng = np.random.default_rng(0)
    y = np.repeat(rng.normal(size=(8, 3)) * 3, 15, axis=0) + 0.3 * rng.normal(size=(120, 3))
    y[50:53] = np.nan
    path = model.fit(y).viterbi(y)
    assert path.shape == (120,)
    assert (path == model.predict(y)).mean() > 0.9
    np.testing.assert_array_equal(model.viterbi([y, y])[1], path)


# ---- the causal filter ----------------------------------------------------------------------------------------------
def test_one_state_filter_equals_dense_conditioning():
    rng = np.random.default_rng(19)
    p = random_parameters(rng, "sticky", k=1)
    y = random_trials(rng, (14,), missing=0.3)[0]
    belief = filter_up_to(np.arange(14), y, p)
    for t in range(14):
        _, mean, cover = dense_observation(p, y[: t + 1], [0] * (t + 1))
        np.testing.assert_allclose(belief.mean[t, 0], mean[-1], atol=1e-9)
        np.testing.assert_allclose(belief.covariance[t, 0], cover[-1, :, -1], atol=1e-9)


def test_one_step_forecast_equals_kalman_filter():
    rng = np.random.default_rng(21)
    y = np.cumsum(rng.normal(size=(200, 3)), axis=0).astype(np.float32)
    model = SLDS(n_states=1, n_latent=2, n_iter=5, n_restarts=1).fit(y, calibrate=False)
    standard, p = model.scaler_.apply(y), parameters_of(model)
    t = 12
    _, mean, cover = dense_observation(p, standard[: t + 1].astype(float), [0] * (t + 1))
    a, b = p.dynamics.coefficients[0, :, :-1], p.dynamics.coefficients[0, :, -1]
    centre = p.emission.loadings @ (a @ mean[-1] + b) + p.emission.offset
    ahead = a @ cover[-1, :, -1] @ a.T + p.dynamics.covariance[0]
    spread = p.emission.loadings @ ahead @ p.emission.loadings.T + np.diag(p.emission.noise)
    n, deviation = 20_000, np.sqrt(np.diag(spread))
    found = model.forecast(y, horizon=1, n_paths=n, origins=[t], adaptive=False)
    assert (np.abs(model.scaler_.apply(found.mean[0]) - centre) < 6 * deviation / np.sqrt(n)).all()
    np.testing.assert_allclose(found.std[0, 0] / model.scaler_.scale, deviation, rtol=0.05)
