"""The 3-level mixture behind the verbs of a model.

To the bit only what the same calls give in the same process.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from datasets import nascar
from gdm_core.analysis.metrics import matched_accuracy
from gdm_core.errors import ConfigError
from gdm_core.forecast import outcomes
from gdm_core.maths.rows import make_rows
from gdm_core.models.mixture.fit import mixture_steps
from gdm_core.models.mixture.model import GDMMixture
from gdm_core.models.mixture.module import bound
from gdm_core.trials import as_trials
from tests.support.mixture import CPU, some_module

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(scope="module")
def soft():
    return nascar.train_test("soft", seed=2, T=500)


@pytest.fixture(scope="module")
def fitted(soft):
    return GDMMixture(4, 2, seed=0).fit(soft[0])


def test_finds_the_states(fitted, soft):
    assert matched_accuracy(fitted.predict(soft[1]), soft[1].labels) > 0.88
    assert 0 <= fitted.stickiness_ < 1
    np.testing.assert_allclose(fitted.predict_proba(soft[1]).sum(1), 1, atol=1e-5)


def test_fitting_raises_the_bound(fitted, soft):
    start = GDMMixture(4, 2, seed=0, n_steps=1).fit(soft[0])
    assert fitted.score(soft[1]) > start.score(soft[1]) + 0.3
    assert fitted.history_[-1].total == fitted.history_[-1].step


def test_smooths_and_recovers_positions(fitted, soft):
    y = soft[1].y
    residual = np.square(fitted.smooth(soft[1]) - y).mean() / np.square(y - y.mean(0)).mean()
    assert residual < 0.02
    x = np.c_[fitted.latent(soft[1]), np.ones(len(y))]
    left = soft[1].position - x @ np.linalg.lstsq(x, soft[1].position, rcond=None)[0]
    assert left.std() < 0.05 * soft[1].position.std()  # up to an affine map


def test_forecasts_beat_persistence(fitted, soft):
    y = soft[1].y[:300]
    origins = np.arange(5, 280, 5)
    found = fitted.forecast(y, 10, n_paths=40, origins=origins)
    alone = fitted.forecast(y[:101], 10, n_paths=40, origins=origins[origins <= 100])
    np.testing.assert_allclose(alone.mean, found.mean[origins <= 100], atol=0.15)
    truth = outcomes(y, origins, 10)
    still = np.square(y[origins][:, None] - truth)
    assert np.nanmean(np.square(found.mean - truth)) < 0.2 * np.nanmean(still)


def test_gaps_are_filled_with_what_was_likely_there(fitted, soft):
    holes = soft[1].y[:60].copy()
    holes[10:20, 3] = np.nan
    holes[30:33] = np.nan
    filled = fitted.smooth(holes)
    assert np.abs(filled[30:33] - soft[1].y[30:33]).mean() < 0.3 * soft[1].y.std()


def test_deterministic_dynamics(soft):
    model = GDMMixture(4, 2, dynamics="deterministic", n_steps=60).fit(soft[0].y[:200])
    assert "log_step" not in model.params_
    assert model.status_ != "diverged"
    y = soft[0].y[:200]
    assert np.isfinite(model.score(y))
    assert model.smooth(y).shape == y.shape
    assert np.isfinite(model.forecast(y, 3, n_paths=10).mean[1:]).all()


def test_long_trials_go_through_windows():
    y = nascar.simulate("soft", T=2000, seed=0).y
    model = GDMMixture(4, 2, n_steps=20, batch_size=600).fit(y)
    assert model.status_ != "diverged"
    assert np.isfinite(model.elbo_)


def test_windows_of_a_trial_estimate_its_bound():
    """Rows that begin mid-trial lose their predecessor and count without it, so a window's values stay in scale."""
    module = some_module()
    y = np.random.default_rng(1).normal(size=(1200, 3))
    rows = make_rows([y], CPU, torch.float64)
    steps = list(mixture_steps(module, rows, 0.9, 2, 1, 1100, 0))
    assert len(steps) == 2
    assert all(step.finite for step in steps)
    whole = bound(some_module(), rows, 0.9, n_samples=4) / 1200
    assert steps[0].elbo == pytest.approx(whole, abs=0.1 * abs(whole))


def test_warm_start(fitted, soft):
    warm = fitted.warm_start(stickiness=0.5, n_steps=10).fit(soft[0])
    assert warm.stickiness_ == 0.5
    assert warm.elbo_ > fitted.elbo_ - 3
    again = warm.warm_start(stickiness="learn", n_steps=10).fit(soft[0])
    assert again.stickiness_ != 0.5
    with pytest.raises(ConfigError, match="n_latent"):
        fitted.warm_start(n_latent=1)


def test_untrained_control(fitted, soft):
    control = fitted.untrained(as_trials(soft[0]))
    assert np.isfinite(control.predict_proba(soft[0])).all()


def test_impossible_parameters_are_named():
    for name, value in (
        ("dynamics", "chaotic"), ("posterior", "bigru"), ("temperature", -1), ("stickiness", 1.5),
        ("n_samples", 0), ("n_steps", 0), ("batch_size", 10), ("stickiness", "maybe"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=name):
            GDMMixture(**{name: value})
