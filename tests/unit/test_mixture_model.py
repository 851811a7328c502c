"""The 3-level mixture behind the verbs of a model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from datasets import nascar
from gdm_core.analysis.metrics import matched_accuracy
from gdm_core.errors import ConfigError, DataError
from gdm_core.forecast import outcomes
from gdm_core.maths.rows import make_rows
from gdm_core.models.loading import load_model
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


def test_forecasts_look_only_back_and_beat_persistence(fitted, soft):
    y = soft[1].y[:300]
    origins = np.arange(5, 280, 5)
    found = fitted.forecast(y, 10, n_paths=40, origins=origins)
    later = y.copy()
    later[101:] += 5.0
    changed = fitted.forecast(later, 10, n_paths=40, origins=origins)
    np.testing.assert_array_equal(found.mean[origins <= 100], changed.mean[origins <= 100])
    assert (found.mean[origins > 105] != changed.mean[origins > 105]).any()
    alone = fitted.forecast(y[:101], 10, n_paths=40, origins=origins[origins <= 100])
    np.testing.assert_allclose(alone.mean, found.mean[origins <= 100], atol=0.15)
    truth = outcomes(y, origins, 10)
    still = np.square(y[origins][:, None] - truth)
    assert np.nanmean(np.square(found.mean - truth)) < 0.2 * np.nanmean(still)


def test_same_seed_same_fit_and_files_to_the_bit(soft, tmp_path):
    state = torch.get_rng_state()
    models = [GDMMixture(3, 2, seed=4, n_steps=10).fit(soft[0]) for _ in range(2)]
    assert torch.equal(state, torch.get_rng_state())
    for key, value in models[0].params_.items():
        np.testing.assert_array_equal(value, models[1].params_[key])
    models[0].save(tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    assert isinstance(again, GDMMixture)
    np.testing.assert_array_equal(models[0].predict_proba(soft[1]), again.predict_proba(soft[1]))
    assert models[0].score(soft[1]) == again.score(soft[1])
    ours, theirs = (m.forecast(soft[1].y[:50], 3, n_paths=10).mean for m in (models[0], again))
    np.testing.assert_array_equal(ours, theirs)


def test_company_changes_nothing(fitted, soft):
    a, b = soft[1].y[:150], soft[1].y[150:230]
    alone = {len(y): fitted.predict_proba(y) for y in (a, b)}
    for order in ((a, b), (b, a)):
        for found, y in zip(fitted.predict_proba(list(order)), order, strict=True):
            np.testing.assert_array_equal(found, alone[len(y)])


def test_generates_and_copes_with_gaps_and_short_trials(fitted, soft):
    y, z, x = fitted.sample(60, seed=1)
    assert y.shape == (60, 10)
    assert x.shape == (60, 2)
    np.testing.assert_allclose(z.sum(1), 1, atol=1e-5)
    np.testing.assert_array_equal(y, fitted.sample(60, seed=1)[0])
    holes = soft[1].y[:60].copy()
    holes[10:20, 3] = np.nan
    holes[30:33] = np.nan
    assert np.isfinite(fitted.predict_proba(holes)).all()
    assert np.isfinite(fitted.score(holes))
    filled = fitted.smooth(holes)
    assert np.abs(filled[30:33] - soft[1].y[30:33]).mean() < 0.3 * soft[1].y.std()
    assert fitted.predict_proba(soft[1].y[:2]).shape == (2, 4)


def test_fits_with_gaps(soft):
    y = soft[0].y[:300].copy()
    y[np.random.default_rng(0).random(y.shape) < 0.1] = np.nan
    model = GDMMixture(4, 2, n_steps=20).fit(y)
    assert model.status_ != "diverged"
    assert np.isfinite(model.elbo_)


def test_one_state():
    y = nascar.simulate("soft", T=200, seed=0).y
    model = GDMMixture(1, 2, n_steps=10).fit(y)
    np.testing.assert_allclose(model.predict_proba(y), 1, atol=1e-6)
    assert np.isfinite(model.elbo_)


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


def test_bad_input_is_refused(fitted):
    for name, value in (
        ("dynamics", "chaotic"), ("posterior", "bigru"), ("n_states", 0), ("temperature", -1), ("stickiness", 1.5),
        ("n_samples", 0), ("n_steps", 0), ("batch_size", 10), ("stickiness", "maybe"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=name):
            GDMMixture(**{name: value})
    with pytest.raises(DataError, match="channels"):
        fitted.predict(np.zeros((10, 3)))
    with pytest.raises(ConfigError, match="n_latent"):
        GDMMixture(4, 5).fit(np.random.default_rng(0).normal(size=(50, 3)))
