"""The Gumbel Dynamical Model as an estimator: diverging fits, warm starts, forecasts."""

import numpy as np
import pytest
import torch

from gdm_core import GDM
from gdm_core.errors import ConfigError
from gdm_core.maths.gaps import spread_stretches
from gdm_core.models import variants
from gdm_core.models.gdm import fit as svi
from gdm_core.models.progress import Status
from gdm_core.models.scaling import Scaler
from gdm_core.trials import as_trials
from tests.support.gdm import random_module
from tests.support.switching import walk

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def recording(seed: int = 0, length: int = 200) -> np.ndarray:
    """Return a walk that changes between three directions."""
    rng = np.random.default_rng(seed)
    x = walk(rng, np.repeat(np.arange(length // 20 + 1) % 3, 20)[:length])
    return x @ np.random.default_rng(1).normal(size=(2, 5)) + 0.1 * rng.normal(size=(length, 5))


@pytest.fixture(scope="module")
def fitted() -> GDM:
    return GDM(3, 2, n_steps=150).fit(recording())


def with_parameters(config: dict, seed: int = 0, **values: np.ndarray) -> GDM:
    """Return a model with parameters set by hand."""
    model = GDM(**config)
    module = random_module(model.config, 2, seed, dtype=torch.float32)
    model.params_ = {name: np.float32(values.get(name, old)) for name, old in module.state_dict().items()}
    model.scaler_, model.status_ = Scaler(np.zeros(2, np.float32), np.ones(2, np.float32)), Status.MAX_STEPS
    return model


# ---- a fit that goes wrong --------------------------------------------------------------------------------------------
def assert_last_good_is_kept(model: GDM, y: np.ndarray, good: dict[str, np.ndarray]) -> None:
    assert model.status_ is Status.FAILED
    assert model.params_.keys() == good.keys()
    for name, value in model.params_.items():
        np.testing.assert_array_equal(value, good[name], err_msg=name)
    assert np.isfinite(model.predict_proba(y)).all()
    assert model.calibration_ is None
    assert np.isnan(model.elbo_)  # never shown as a result


@pytest.mark.parametrize("posterior", ["window", "bigru"])
def test_diverging_fit_keeps_last_good_parameters(posterior, monkeypatch):
    """The learning rate explodes half way."""
    exploding = lambda index, rise, fall, total, peak: 0.01 if index < 25 or total == 30 else 1e30  # noqa: E731
    monkeypatch.setattr(svi, "learning_rate", exploding)
    y, model, good = recording(), GDM(3, 2, posterior=posterior, n_steps=60), {}
    for progress in model.fit_iter(y):
        assert progress.step <= 20
        good = model.params_
    assert good
    assert_last_good_is_kept(model, y, good)


# ---- forecasts ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("k", [1, 3])
def test_noise_free_forecasts_are_matrix_powers(k):
    """Equal states forecast k steps by k applications of the companion matrix."""
    rng = np.random.default_rng(1)
    part = 0.5 * rng.normal(size=(2, 2))  # x_{t-1} -> y
    offset, projection = rng.normal(size=2), np.eye(2) + 0.2 * rng.normal(size=(2, 2))
    one = np.concatenate([part.T, offset[None], np.zeros((1, 2))])
    model = with_parameters(
        {"n_states": k, "n_latent": 2, "n_hidden": 4},
        dynamics=np.tile(one, (k, 1, 1)), projection=projection, log_noise=np.full(2, -30.0),
    )  # fmt: skip
    y = rng.normal(size=(12, 2)).astype(np.float32)
    found = model.forecast(y, horizon=6, n_paths=5, origins=[1, 11])
    companion = np.eye(3)  # of (y_t, 1)
    companion[:2] = np.concatenate([part @ projection, offset[:, None]], axis=1)
    for row, origin in enumerate((1, 11)):
        state = np.append(y[origin], 1.0)
        for h in range(1, 7):
            expected = (np.linalg.matrix_power(companion, h) @ state)[:2]
            np.testing.assert_allclose(found.mean[row, h - 1], expected, atol=5e-3)


# ---- parameters --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"stickiness": 0.5}, {"temperature": 0.3}, {"readout": "amortised"}])
def test_changed_parameters_leave_the_original_alone(fitted, change):
    trial, before = as_trials(recording())[0], fitted.predict_proba(recording())
    changed = variants.with_parameters(fitted, **change)
    states = variants.infer_quickly(changed, trial)
    np.testing.assert_allclose(states.sum(axis=1), 1, atol=1e-4)
    assert np.abs(states - variants.infer_quickly(fitted, trial)).max() > 1e-3
    np.testing.assert_array_equal(fitted.predict_proba(recording()), before)
    with pytest.raises(ConfigError, match=r"cannot change n_states \(only: readout, stickiness, temperature\)"):
        variants.with_parameters(fitted, n_states=3)


def test_fixed_stickiness_cannot_be_learned_afterwards(fitted):
    fixed = variants.with_parameters(fitted, stickiness=0.5)
    assert fixed.stickiness_ == pytest.approx(0.5)
    with pytest.raises(ConfigError, match="Fit a new model to learn it"):
        variants.with_parameters(fixed, stickiness="learn")


@pytest.mark.parametrize("options", [{"preset": "paper"}, {"posterior": "linear"}, {"transition": "network"}])
def test_lasting_states_are_refused_where_they_cannot_apply(options):
    with pytest.raises(ConfigError, match="lasting is True, which needs"):
        GDM(3, 2, lasting=True, **options).fit(recording())


def test_long_recording_is_scored_on_even_stretches():
    y = np.arange(50_000, dtype=np.float32)[:, None]
    y[:20_000] = np.nan
    found = spread_stretches([y, y], 10_000)
    assert {len(one) for one in found} == {2_000}
    begins = [one[0, 0] for one in found]
    assert begins == [20_000, 40_000, 30_000]
    assert spread_stretches([y], 50_000)[0] is y


def test_many_states_of_positions_are_fitted():
    rng = np.random.default_rng(0)
    angle = np.cumsum(rng.uniform(0.05, 0.15, 1_500))
    circle = np.stack([np.cos(angle), np.sin(angle), np.cos(2 * angle), np.sin(3 * angle)], axis=1)
    model = GDM(12, 2, posterior="linear", seed=0).fit(
        circle + 0.01 * rng.standard_normal(circle.shape), calibrate=False
    )
    assert model.elbo_ > -2  # 0.3; -5.3 and failed from the logits of the clusters
