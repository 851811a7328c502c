"""The GDM with memory as a whole: what it finds, forecasts, keeps and refuses."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from datasets import nascar
from gdm_core.analysis.metrics import matched_accuracy
from gdm_core.errors import ConfigError
from gdm_core.forecast import outcomes
from gdm_core.maths.rows import make_rows
from gdm_core.models.gdm.model import GDM
from gdm_core.models.loading import load_model
from gdm_core.trials import as_trials

CPU = torch.device("cpu")
POSTERIORS = ("bigru", "transformer")

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(scope="module")
def soft():
    return nascar.train_test("soft", seed=2, T=500)


@pytest.fixture(scope="module", params=POSTERIORS)
def fitted(request, soft):
    return GDM(4, 2, transition="gru", posterior=request.param, n_steps=150, seed=0).fit(soft[0])


def test_finds_the_states(fitted, soft):
    test = soft[1]
    assert matched_accuracy(fitted.predict(test), test.labels) > 0.85
    assert 0 <= fitted.stickiness_ < 1


def test_forecasts_look_only_back(fitted, soft):
    y = soft[1].y[:120]
    later = y.copy()
    later[81:] = later[81:][::-1] + 3.0
    origins = np.arange(40, 81, 10)
    ours, theirs = (fitted.forecast(data, 5, n_paths=20, origins=origins) for data in (y, later))
    np.testing.assert_array_equal(ours.mean, theirs.mean)
    earlier = y.copy()
    earlier[70] += 3.0
    changed = fitted.forecast(earlier, 5, n_paths=20, origins=origins)
    assert (ours.mean[:3] == changed.mean[:3]).all()
    assert (ours.mean[3:] != changed.mean[3:]).any()


def test_forecasts_are_useful(fitted, soft):
    y = soft[1].y
    found = fitted.forecast(y, 10, n_paths=40, origins=np.arange(10, 480, 5))
    truth = outcomes(y, found.origins, 10)
    at = found.origins[:, None]
    missed = np.square(found.mean - truth).mean()
    still = np.square(y[at] - truth).mean()  # persistence
    assert missed < 0.2 * still


@pytest.mark.parametrize("name", POSTERIORS)
def test_same_seed_same_fit_and_files_to_the_bit(name, soft, tmp_path):
    state = torch.get_rng_state()
    models = [GDM(3, 2, transition="gru", posterior=name, n_steps=30, seed=4).fit(soft[0]) for _ in range(2)]
    assert torch.equal(state, torch.get_rng_state())
    for key, value in models[0].params_.items():
        np.testing.assert_array_equal(value, models[1].params_[key])
    models[0].save(tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(models[0].predict_proba(soft[1]), again.predict_proba(soft[1]))
    assert models[0].score(soft[1]) == again.score(soft[1])


def test_company_changes_nothing(fitted, soft):
    a, b = soft[1].y[:150], soft[1].y[150:230]
    alone = [fitted.predict_proba(y) for y in (a, b)]
    for order in ((a, b), (b, a)):
        for found, y in zip(fitted.predict_proba(list(order)), order, strict=True):
            np.testing.assert_array_equal(found, alone[0 if len(y) == 150 else 1])
    joined = make_rows([fitted.scaler_.apply(a), fitted.scaler_.apply(b)], CPU)
    with torch.no_grad():
        together = fitted._net.view(joined).posterior
        apart = torch.cat([fitted._net.view(make_rows([fitted.scaler_.apply(y)], CPU)).posterior for y in (a, b)])
    torch.testing.assert_close(together, apart, atol=1e-4, rtol=1e-5)


def test_warm_start_from_four_states_to_five_and_three(fitted, soft):
    for k in (5, 3):
        model = fitted.warm_start(n_states=k, n_steps=20).fit(soft[0])
        assert model.predict_proba(soft[0]).shape == (500, k)
        assert model.elbo_ > fitted.elbo_ - 8


def test_generates_and_copes_with_gaps_and_short_trials(fitted, soft):
    y, z, x = fitted.sample(50, seed=1)
    assert y.shape == (50, 10)
    assert z.shape == (50, 4)
    np.testing.assert_allclose(z.sum(1), 1, atol=1e-5)
    assert np.isfinite(x).all()
    holes = soft[1].y[:60].copy()
    holes[10:20, 3] = np.nan
    holes[30] = np.nan
    assert np.isfinite(fitted.predict_proba(holes)).all()
    assert np.isfinite(fitted.score(holes))
    assert fitted.predict_proba(soft[1].y[:2]).shape == (2, 4)


def test_one_state():
    y = nascar.simulate("soft", T=200, seed=0).y
    model = GDM(1, 2, transition="gru", n_steps=20).fit(y)
    np.testing.assert_allclose(model.predict_proba(y), 1, atol=1e-6)
    assert np.isfinite(model.elbo_)


def test_long_trials_go_through_mini_batches():
    y = nascar.simulate("soft", T=3000, seed=0).y
    model = GDM(4, 2, transition="gru", n_steps=40, batch_size=1024).fit(y)
    assert model.status_ != "diverged"
    assert np.isfinite(model.elbo_)


def test_untrained_control_and_the_papers_recipe(soft):
    model = GDM(4, 2, transition="gru", preset="paper", n_steps=3, n_samples=2).fit(soft[0])
    assert model.posterior_ == "bigru"
    control = model.untrained(as_trials(soft[0]))
    assert np.isfinite(control.predict_proba(soft[0])).all()


def test_unknown_choices_are_refused():
    with pytest.raises(ConfigError, match="transition"):
        GDM(4, 2, transition="lstm")
    with pytest.raises(ConfigError, match="posterior"):
        GDM(4, 2, transition="gru", posterior="rnn")
