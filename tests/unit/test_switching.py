"""What switching models promise behind the common verbs."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from gdm_core import ARHMM, SLDS, Status, load_model
from gdm_core.errors import ConfigError, DataError, FitError
from gdm_core.models.switching import arhmm_em, laplace_em
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
def test_verbs_have_their_shapes_and_units(model_class, kind):
    trials = recordings()
    model = model_class(n_states=3, transitions=kind, **FAST).fit(trials)
    for y, p, x, smooth in zip(
        trials, model.predict_proba(trials), model.latent(trials), model.smooth(trials), strict=True
    ):
        assert p.shape == (len(y), 3)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-5)
        assert x.shape == (len(y), 2)
        assert np.nanmean((y - smooth) ** 2) < 0.1 * np.nanvar(y)
    y, z, x = model.sample(70, seed=3)
    assert (y.shape, z.shape, x.shape) == ((70, 5), (70, 3), (70, 2))
    assert (z.sum(axis=1) == 1).all()
    assert np.isfinite(model.score(trials))
    assert model.status_ in (Status.CONVERGED, Status.MAX_STEPS)


@every_model
def test_same_seed_same_fit_and_the_global_generator_is_left_alone(model_class, kind, tmp_path):
    trials = recordings()
    np.random.seed(5)  # noqa: NPY002 (it is the global generator that is watched)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = (model_class(n_states=3, transitions=kind, seed=4, **FAST).fit(trials) for _ in range(2))
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    for name, value in first.params_.items():
        np.testing.assert_array_equal(value, second.params_[name], err_msg=name)
    first.save(tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    for name, value in first.params_.items():
        assert value.dtype == again.params_[name].dtype
        np.testing.assert_array_equal(value, again.params_[name], err_msg=name)
    np.testing.assert_array_equal(first.predict_proba(trials[1]), again.predict_proba(trials[1]))
    np.testing.assert_array_equal(
        first.forecast(trials[1], origins=[30]).lower, again.forecast(trials[1], origins=[30]).lower
    )


@every_model
def test_order_of_trials_does_not_matter_to_the_bit(model_class, kind):
    trials = recordings()
    one = model_class(n_states=3, transitions=kind, **FAST).fit(trials)
    other = model_class(n_states=3, transitions=kind, **FAST).fit(trials[::-1])
    for name, value in one.params_.items():
        np.testing.assert_allclose(value, other.params_[name], rtol=1e-6, atol=1e-8, err_msg=name)


@every_model
def test_a_trial_scores_the_same_alone_as_beside_others(model_class, kind):
    trials = recordings()
    model = model_class(n_states=3, transitions=kind, **FAST).fit(trials)
    together = model.score(trials) * sum(len(y) for y in trials)
    assert together == pytest.approx(sum(model.score(y) * len(y) for y in trials), rel=1e-9)


@every_model
def test_forecasts_are_causal(model_class, kind):
    y = recordings(lengths=(160,))[0]
    model = model_class(n_states=3, transitions=kind, **FAST).fit(y)
    changed = y.copy()
    changed[101:] = 7.0
    origins = [5, 40, 100]
    plain, other = (model.forecast(data, horizon=4, n_paths=50, origins=origins) for data in (y, changed))
    np.testing.assert_array_equal(plain.mean, other.mean)
    np.testing.assert_array_equal(plain.upper, other.upper)


@every_model
def test_forecasts_see_where_the_path_is_going(model_class, kind):
    y = recordings(lengths=(400,), missing=0.0)[0]
    model = model_class(n_states=3, transitions=kind, n_iter=15, n_restarts=2).fit(y)
    forecast = model.forecast(y, horizon=3, n_paths=100, origins=np.arange(10, 390))
    error = ((forecast.mean[:, 0] - y[11:391]) ** 2).mean()
    persistence = ((y[10:390] - y[11:391]) ** 2).mean()
    # Where the states do not depend on the place, a model that looks at nothing else can only know their shares.
    assert error < (1.0 if kind == "recurrent_only" else 0.5) * persistence


@every_model
def test_renaming_states_changes_names_only(model_class, kind):
    y = recordings(lengths=(200,))[0]
    model = model_class(n_states=3, transitions=kind, **FAST).fit(y)
    renamed = model.relabelled([2, 0, 1])
    assert renamed.score(y) == pytest.approx(model.score(y), abs=1e-6)
    np.testing.assert_allclose(renamed.predict_proba(y), model.predict_proba(y)[:, [2, 0, 1]], atol=1e-4)
    with pytest.raises(ConfigError, match="each state"):
        model.relabelled([0, 0, 1])


@every_model
def test_one_state_and_short_trials_work(model_class, kind):
    y = recordings(lengths=(96,))[0]
    model = model_class(n_states=1, transitions=kind, **FAST).fit([y, y[:2]])
    assert (model.predict_proba(y) == 1.0).all()
    assert np.isfinite(model.forecast(y, origins=[50]).mean).all()
    assert model.predict_proba(y[:2]).shape == (2, 1)


@every_model
def test_warm_start_splits_merges_and_keeps(model_class, kind):
    trials = recordings()
    model = model_class(n_states=3, transitions=kind, n_iter=20, n_restarts=2).fit(trials)
    same = model.warm_start(n_iter=2).fit(trials)
    assert same.history_[0].objective == pytest.approx(model.history_[-1].objective, abs=0.02)
    for k in (5, 2, 1):
        changed = model.warm_start(n_states=k, n_iter=2).fit(trials)
        assert changed.predict_proba(trials[0]).shape[1] == k
        assert np.isfinite(changed.elbo_)
    more = model.warm_start(n_states=4, n_iter=10).fit(trials)
    assert more.history_[-1].elbo > model.history_[-1].elbo - 0.5


@every_model
def test_closing_early_leaves_a_usable_model(model_class, kind):
    trials = recordings()
    model = model_class(n_states=3, transitions=kind, **FAST)
    steps = model.fit_iter(trials)
    next(steps)
    shown = model.predict(trials[0])
    steps.close()
    assert shown.shape == (110,)
    assert model.status_ is Status.CANCELLED
    assert np.isfinite(model.elbo_)


@every_model
def test_untrained_control_knows_less(model_class, kind):
    trials = recordings()
    model = model_class(n_states=3, transitions=kind, n_iter=10, n_restarts=1).fit(trials)
    control = model.untrained(trials, seed=1)
    assert control.score(trials) < model.score(trials)
    np.testing.assert_array_equal(control.predict(trials[0]), model.untrained(trials, seed=1).predict(trials[0]))
    assert not np.array_equal(control.params_["coefficients"], model.untrained(trials, seed=2).params_["coefficients"])


@every_model
def test_gaps_of_any_shape_are_bridged(model_class, kind):
    y = recordings(lengths=(200,), missing=0.0)[0]
    model = model_class(n_states=3, transitions=kind, **FAST).fit(y)
    gap = y.copy()
    gap[:7] = np.nan
    gap[90:110] = np.nan
    gap[150:, 0] = np.nan
    assert np.isfinite(model.predict_proba(gap)).all()
    assert np.isfinite(model.smooth(gap)).all()
    assert np.isfinite(model.score(gap))
    assert np.isfinite(model.forecast(gap, horizon=2, origins=[3, 95, 199]).mean).all()
    nothing = np.full_like(y[:20], np.nan)
    # Nothing observed has probability one; mean field may stay below it.
    assert -1.0 < model.score(nothing) <= 1e-6


@every_model
def test_unusable_data_is_refused_with_a_reason(model_class, kind):
    model = model_class(n_states=2, transitions=kind, **FAST)
    with pytest.raises(FitError, match="not fitted"):
        model.predict(np.zeros((10, 3)))
    still = np.random.default_rng(0).normal(size=(50, 3))
    still[:, 1] = 4.0
    with pytest.raises(DataError, match="constant"):
        model.fit(still)
    with pytest.raises(ConfigError, match="n_latent"):
        model.fit(np.random.default_rng(0).normal(size=(50, 1)))
    with pytest.raises(DataError, match="at least"):
        model.fit(np.random.default_rng(0).normal(size=(1, 3)))


@pytest.mark.parametrize(("model_class", "module"), [(ARHMM, arhmm_em), (SLDS, laplace_em)])
@pytest.mark.parametrize("poison", [np.nan, -1.0])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # numpy's, on the way to saying that it diverged
def test_a_diverging_fit_says_so_and_keeps_its_last_good_parameters(model_class, module, poison, monkeypatch):
    y = recordings(lengths=(110,))[0]
    model = model_class(n_states=2, **FAST)
    steps = model.fit_iter(y)
    next(steps)
    good = {name: value.copy() for name, value in model.params_.items()}
    honest = module.m_step

    def broken(*args, **settings):
        p = honest(*args, **settings)
        return replace(p, dynamics=replace(p.dynamics, covariance=poison * p.dynamics.covariance))

    monkeypatch.setattr(module, "m_step", broken)
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


def test_unknown_transitions_are_named():
    with pytest.raises(ConfigError, match="choose one of"):
        Transitions.blank("markov", 2, 2)
