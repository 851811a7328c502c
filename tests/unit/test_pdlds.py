"""p-dLDS behind the verbs that every model has. What every model promises: tests/contract."""

import numpy as np
import pytest

from datasets import nascar
from gdm_core import load_model
from gdm_core.analysis.metrics import paper_accuracy
from gdm_core.errors import FitError
from gdm_core.maths.emission import Observed
from gdm_core.models.base import Status
from gdm_core.models.loading import model_from_bytes
from gdm_core.models.pdlds import em, filtering
from gdm_core.models.pdlds.model import PDLDS


@pytest.fixture(scope="module")
def pair():
    return nascar.train_test("standard", 0, T=400)


@pytest.fixture(scope="module")
def fitted(pair):
    return PDLDS(4, 2, seed=0, n_iter=20).fit(pair[0])


def test_a_fit_climbs_and_coefficients_have_signs(fitted, pair):
    test = pair[1]
    objective = [progress.objective for progress in fitted.history_]
    assert np.diff(objective).min() > -1e-9
    soft, c = fitted.predict_proba(test), fitted.coefficients(test)
    assert soft.shape == c.shape == (400, 4)
    assert c.min() < 0 < c.max()
    assert np.mean((fitted.smooth(test) - test.y) ** 2) < 1e-3 * test.y.var()


def test_states_from_coefficients_beat_the_majority_by_far(fitted, pair):
    train, test = pair
    c, c_test = fitted.coefficients(train), fitted.coefficients(test)
    majority = np.bincount(test.labels).max() / len(test.labels)
    assert paper_accuracy(c, train.labels, c_test, test.labels) > majority + 0.3


def test_filtering_side_by_side_forgets_the_seams(fitted, pair):
    model, (train, _) = fitted, pair
    y = model.scaler_.apply(train.y)
    origins = np.array([130, 200, 255])
    together = filtering.filtered(origins, y, model._parameters)
    for i, t in enumerate(origins):
        alone = filtering.blank(1, model._parameters)
        information, linear = model._parameters.emission.information(Observed.prepare([y]))
        for step in range(t + 1):
            alone = filtering.predicted(alone, model._parameters) if step else alone
            alone = filtering.updated(alone, information[step : step + 1], linear[step : step + 1], model._parameters)
        d = model._parameters.reach.shape[1]
        gap = np.abs(model._parameters.reach @ (together.mean[i, :d] - alone.mean[0, :d]))
        assert gap.max() < 1e-2


def test_offsets_have_the_parts_they_name(pair):
    train = pair[0].slice(0, 150)
    drift, operators = (PDLDS(3, 2, offset=o, n_iter=3, n_restarts=1).fit(train) for o in ("drift", "operators"))
    assert (drift.params_["operators"][:, :, 2] == 0).all()
    assert drift.params_["drift"].shape == (2,)
    assert np.abs(operators.params_["operators"][:, :, 2]).max() > 0
    assert operators.params_["drift"].shape == (0,)
    for model in (drift, operators):
        np.testing.assert_array_equal(
            model_from_bytes(model.to_bytes()).predict_proba(train), model.predict_proba(train)
        )


def test_trials_end_to_end_are_trials_apart(fitted, pair):
    """The bound of two recordings laid end to end is the sum of their bounds: nothing leaks over the seam."""
    p, prior = fitted._parameters, fitted._prior
    ys = [fitted.scaler_.apply(part.y) for part in (pair[1].slice(0, 50), pair[1].slice(200, 290))]
    together = em.infer(Observed.prepare(ys), p, prior, tolerance=1e-10)
    apart = [em.infer(Observed.prepare([y]), p, prior, tolerance=1e-10) for y in ys]
    assert together.elbo == pytest.approx(sum(one.elbo for one in apart), abs=1e-2)
    np.testing.assert_allclose(together.c.mean[50:], apart[1].c.mean, atol=1e-2)


def test_samples_that_run_off_are_refused(fitted, tmp_path):
    fitted.save(tmp_path / "model.safetensors")
    wild = load_model(tmp_path / "model.safetensors")
    wild.params_ = fitted.params_ | {"level": np.full(4, 2.0), "operators": np.tile(np.eye(2, 3), (4, 1, 1))}
    assert np.isfinite(wild.sample(10, seed=0)[0]).all()
    with pytest.raises(FitError, match="ran off to infinity after"):
        wild.sample(1000, seed=0)


def test_missing_values(fitted, pair):
    train, test = pair
    without = np.array(test.y)
    without[:, 4] = np.nan
    assert np.abs(fitted.latent(without) - fitted.latent(test)).max() < 0.2, "a channel never seen costs nothing"
    y = np.array(train.y[:200])
    y[10:13], y[60:90, 1] = np.nan, np.nan
    model = PDLDS(3, 2, n_iter=8, n_restarts=1).fit(y)
    assert np.diff([progress.objective for progress in model.history_]).min() > -1e-9
    assert np.isfinite(model.elbo_)


def test_warm_start(fitted, pair):
    train = pair[0]
    again = fitted.warm_start(n_iter=3).fit(train)
    assert again.history_[0].objective > fitted.history_[0].objective
    held = fitted.warm_start(smoothness=0.5, n_iter=3).fit(train)
    assert (held.params_["carry"] == 0.5).all()


@pytest.mark.parametrize("n_channels", [1, 2])
def test_as_many_latents_as_channels(n_channels):
    y = np.cumsum(np.random.default_rng(2).standard_normal((120, n_channels)), axis=0)
    model = PDLDS(2, n_channels, n_iter=10, n_restarts=1).fit(y)
    assert model.status_ is not Status.DIVERGED
    assert np.isfinite(model.score(y))
