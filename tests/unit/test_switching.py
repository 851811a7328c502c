"""What switching models promise beside what every model does (tests/contract)."""

import pickle
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from gdm_core import ARHMM, SLDS, Status
from gdm_core.errors import ConfigError
from gdm_core.models.switching.dynamics import Dynamics
from gdm_core.models.switching.transitions import Transitions

MODELS = [
    *[(ARHMM, kind) for kind in ("stationary", "sticky", "recurrent_only")],
    *[(SLDS, kind) for kind in ("sticky", "recurrent", "recurrent_only")],
]
FAST = {"n_iter": 5, "n_restarts": 1}
every_model = pytest.mark.parametrize(("model_class", "kind"), MODELS)


def recordings(seed=0, lengths=(110, 96, 40), missing=0.05):
    rng = np.random.default_rng(seed)
    emission = rng.normal(size=(2, 5))
    moves = np.array([[1.0, 0.0], [-0.5, 0.8], [-0.5, -0.8]])
    trials = []
    for length in lengths:
        z = np.repeat(rng.integers(0, 3, size=length // 15 + 1), 15)[:length]
        x = np.cumsum(moves[z] + 0.1 * rng.normal(size=(length, 2)), axis=0)
        y = x @ emission + 0.1 * rng.normal(size=(length, 5))
        y[rng.random(y.shape) < missing] = np.nan
        trials.append(y.astype(np.float32))
    return trials


@every_model
def test_forecasts_see_where_the_path_is_going(model_class, kind):
    y = recordings(lengths=(400,), missing=0.0)[0]
    model = model_class(n_states=3, transitions=kind, n_iter=15, n_restarts=2).fit(y)
    forecast = model.forecast(y, horizon=3, n_paths=100, origins=np.arange(10, 390))
    error = ((forecast.mean[:, 0] - y[11:391]) ** 2).mean()
    persistence = ((y[10:390] - y[11:391]) ** 2).mean()
    # Where the states do not depend on the place, a model that looks at nothing else can only know their shares.
    assert error < (1.0 if kind == "recurrent_only" else 0.5) * persistence


@cache
def fitted(model_class, kind):
    """To recordings(); no test changes it."""
    return model_class(n_states=3, transitions=kind, n_iter=20, n_restarts=2).fit(recordings())


@every_model
def test_warm_start_splits_merges_and_keeps(model_class, kind):
    trials, model = recordings(), fitted(model_class, kind)
    same = model.warm_start(n_iter=2).fit(trials)
    assert same.history_[0].objective == pytest.approx(model.history_[-1].objective, abs=0.02)
    for k in (5, 2, 1):
        changed = model.warm_start(n_states=k, n_iter=2).fit(trials)
        assert changed.predict_proba(trials[0]).shape[1] == k
        assert np.isfinite(changed.elbo_)
    more = model.warm_start(n_states=4, n_iter=10).fit(trials)
    assert more.history_[-1].elbo > model.history_[-1].elbo - 0.5


@every_model
def test_nothing_observed_has_probability_one(model_class, kind):
    model = model_class(n_states=3, transitions=kind, **FAST).fit(recordings(lengths=(96,))[0])
    assert -1.0 < model.score(np.full((20, 5), np.nan)) <= 1e-6, "mean field may stay below"


@pytest.mark.parametrize("model_class", [ARHMM, SLDS])
@pytest.mark.parametrize("poison", [np.nan, -1.0])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # numpy's, on the way to saying that it diverged
def test_a_diverging_fit_says_so_and_keeps_its_last_good_parameters(model_class, poison, monkeypatch):
    y = recordings(lengths=(110,))[0]
    model = model_class(n_states=2, **FAST)
    steps = model.fit_iter(y)
    next(steps)
    good = {name: value.copy() for name, value in model.params_.items()}
    honest = Dynamics.fitted

    def broken(moments, prior):
        dynamics = honest(moments, prior)
        return replace(dynamics, covariance=poison * dynamics.covariance)

    monkeypatch.setattr(Dynamics, "fitted", broken)
    assert list(steps) == []
    assert model.status_ is Status.DIVERGED
    for name, value in good.items():
        np.testing.assert_array_equal(value, model.params_[name])


def test_a_model_travels_without_its_last_posterior():
    y = recordings(lengths=(110,))[0]
    model = SLDS(n_states=2, **FAST).fit(y)
    before = model.predict_proba(y)
    again = pickle.loads(pickle.dumps(model))
    assert len(pickle.dumps(model)) < 100_000
    np.testing.assert_array_equal(again.predict_proba(y), before)


def test_stopped_clocks_do_not_stop_a_fit():
    """Long stretches without any movement give steps of zero variance in most samples."""
    y = recordings(lengths=(200,), missing=0.0)[0]
    y[50:150] = y[50]
    for model_class in (ARHMM, SLDS):
        model = model_class(n_states=4, **FAST).fit(y)
        assert model.status_ is not Status.DIVERGED
        assert np.isfinite(model.elbo_)


def test_unknown_transitions_and_orders_are_named():
    with pytest.raises(ConfigError, match="each state"):
        ARHMM(n_states=3, **FAST).fit(recordings(lengths=(60,))[0]).relabelled([0, 0, 1])
    with pytest.raises(ConfigError, match="choose one of"):
        Transitions.blank("markov", 2, 2)
