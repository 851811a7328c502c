"""Isolated values far from their neighbours: which are found, and models that ignore them."""

import numpy as np
import pytest

from datasets import nascar, regimes
from gdm_core import ARHMM, GDM, PDLDS, SLDS, load_model
from gdm_core.analysis.state_scores import matched_accuracy
from gdm_core.maths.spikes import find_new_spikes, find_spikes

EM = {"n_iter": 3, "n_restarts": 1}
FAMILIES = {GDM: {"n_steps": 20}, ARHMM: EM, SLDS: EM, PDLDS: EM}


def noise_with_spikes(seed=0):
    """Return standardised noise [T, 3] with pairs of spikes, and where they are."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(2000, 3)).astype(np.float32)
    at = np.zeros(y.shape, bool)
    at[100::200, 0] = at[101::200, 0] = at[150::100, 1] = True
    y[at] += rng.choice([-15, 15], at.sum()).astype(np.float32)
    return y, at


@pytest.mark.parametrize("find", [find_spikes, find_new_spikes])
def test_isolated_values_are_spikes(find):
    y, at = noise_with_spikes()
    y[1000:1005] = np.nan
    at[1000:1005] = False
    found = find(y)
    assert found[at].all()
    assert found[~at].mean() < 0.005


@pytest.mark.parametrize("find", [find_spikes, find_new_spikes])
def test_three_values_in_a_row_are_no_spikes(find):
    y, _ = noise_with_spikes(1)
    y[:] = np.where(np.abs(y) > 6, 0, y)
    y[500:503, 2] = 20
    assert find(y)[502, 2] == 0
    assert find_spikes(y)[500:503, 2].sum() == 0


@pytest.mark.parametrize("kind", ["levels", "variances", "drift", "walk"])
def test_changes_of_regime_are_no_spikes(kind):
    found = [find_spikes(regimes.simulate(kind, 2000, seed)[0].y).mean() for seed in range(3)]
    assert max(found) < 0.002


@pytest.mark.parametrize("setting", ["soft", "standard"])
def test_tracks_have_no_spikes(setting):
    assert not find_spikes(nascar.train_test(setting, 3)[0].y).any()


def test_constant_and_switching_channels_have_no_spikes():
    y = np.zeros((400, 2))
    y[::5, 1] = 1  # a fifth of the samples: no exceptions
    assert not find_spikes(y).any()


def test_new_spikes_do_not_depend_on_later_values():
    y, _ = noise_with_spikes(2)
    np.testing.assert_array_equal(find_new_spikes(y)[:900], find_new_spikes(y[:900]))


@pytest.mark.parametrize("family", FAMILIES)
def test_outliers_can_be_ignored(family):
    (trial,) = regimes.simulate("outliers", 300, seed=5)
    missing = np.where(find_spikes(trial.y), np.nan, trial.y)
    assert np.isnan(missing).any()
    options = {"n_states": 3, "n_latent": 3, "seed": 1} | FAMILIES[family]
    model, other = family(**options, outliers="ignore").fit(trial), family(**options).fit(missing)
    np.testing.assert_array_equal(model.predict_proba(trial), other.predict_proba(missing))
    assert model.score(trial) == other.score(missing)
    assert np.isfinite(model.smooth(trial)).all()


@pytest.mark.parametrize("family", [GDM, pytest.param(ARHMM, marks=pytest.mark.bulk)])
def test_regimes_are_found_among_outliers(family, tmp_path):
    (trial,) = regimes.simulate("outliers", 1500, seed=6)
    model = family(n_states=3, n_latent=3, outliers="ignore").fit(trial, calibrate=False)
    assert matched_accuracy(model.predict(trial), trial.labels) > 0.98
    few = trial.slice(0, 400)
    assert matched_accuracy(model.filter(few).argmax(axis=1), few.labels) > 0.95
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict(trial), model.predict(trial))


def test_forecasts_ignore_outliers_causally():
    y, at = (part[:900] for part in noise_with_spikes(3))
    model = ARHMM(n_states=2, n_latent=3, outliers="ignore", **EM).fit(y)
    origins = np.flatnonzero(at.any(axis=1) & (np.arange(len(y)) > 100))
    found = model.forecast(y, horizon=1, origins=origins, adaptive=False)
    assert np.abs(found.mean).max() < 2
    longer = np.concatenate([y, y[:50] + 30])
    again = model.forecast(longer, horizon=1, origins=origins, adaptive=False)
    np.testing.assert_array_equal(found.mean, again.mean)


def test_filter_ignores_outliers():
    y = noise_with_spikes(4)[0][:120]
    model = ARHMM(n_states=2, n_latent=3, outliers="ignore", **EM).fit(y)
    np.testing.assert_array_equal(model.filter(y), model.filter(np.where(find_new_spikes(y), np.nan, y)))
