"""Warnings where data leave the range of the training data."""

import warnings

import numpy as np
import pytest

from gdm_core import ARHMM
from gdm_core.engine.compare import Comparison
from gdm_core.errors import FitWarning
from gdm_core.models.extrapolation import describe_held_out
from gdm_core.trials import as_trials


def halves(y):
    return as_trials(y[: len(y) // 2]), as_trials(y[len(y) // 2 :])


def walk(seed, drift=0.3, n_samples=600):
    return np.cumsum(np.random.default_rng(seed).normal(size=(n_samples, 2)) + drift, axis=0)


def smooth_noise(seed, n_samples=2000, memory=0.99):
    noise = np.random.default_rng(seed).normal(size=(n_samples, 3))
    y = noise / np.sqrt(1 - memory**2)
    for before, after, step in zip(y, y[1:], noise, strict=False):
        after[:] = memory * before + step
    return y


def test_score_and_forecast_outside_the_fit_warn():
    train, test = halves(walk(0))
    model = ARHMM(2, 1, seed=0).fit(train)
    for verb in (model.score, lambda data: model.forecast(data, horizon=2)):
        with pytest.warns(FitWarning, match=r"standard deviations from the fitted mean of y[12]"):
            verb(test)
        with warnings.catch_warnings():
            warnings.simplefilter("error", FitWarning)
            verb(train)


def test_comparison_notes_data_outside_the_fit():
    train, test = halves(walk(1))
    setting = ("arhmm", {"n_states": 2, "n_latent": 1})
    found = Comparison({"A": setting}, (0,), train, test).run()
    assert describe_held_out(train, test) in found.notes
    assert not describe_held_out(train, train)


@pytest.mark.bulk
def test_few_alarms_on_stationary_data_and_drift_is_found():
    alarms = sum(bool(describe_held_out(*halves(smooth_noise(seed)))) for seed in range(1000, 1200))
    found = sum(bool(describe_held_out(*halves(walk(seed, 0.3, 2000)))) for seed in range(200))
    assert alarms <= 0.02 * 200
    assert found >= 0.9 * 200
