"""What families find, fill in and foretell on a simulated track. What every model promises on any data: tests/contract."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from datasets import nascar
from gdm_core.analysis.metrics import matched_accuracy
from gdm_core.errors import ConfigError
from gdm_core.forecast import outcomes
from gdm_core.models.base import StateModel, Status
from gdm_core.models.gdm.model import GDM
from gdm_core.models.mixture.model import GDMMixture
from gdm_core.models.pdlds.model import PDLDS
from gdm_core.trials import Trial

pytestmark = pytest.mark.usefixtures("one_torch_thread")

MODELS: dict[str, tuple[StateModel, str]] = {
    "memory": (GDM(4, 2, transition="gru", posterior="bigru", n_steps=150), "soft"),
    "attention": (GDM(4, 2, transition="gru", posterior="transformer", n_steps=150), "soft"),
    "mixture": (GDMMixture(4, 2), "soft"),
    "pdlds": (PDLDS(4, 2, n_iter=20), "standard"),
}
every_model = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.bulk] * (name == "attention")) for name in MODELS]
)


@cache
def fitted(name: str) -> tuple[StateModel, Trial]:
    """A fit that the tests share, and the trial that it has not seen."""
    model, setting = MODELS[name]
    train, test = nascar.train_test(setting, seed=2, T=500)
    return model.fit(train), test


@pytest.mark.parametrize(
    ("name", "accuracy"), [("memory", 0.85), pytest.param("attention", 0.85, marks=pytest.mark.bulk), ("mixture", 0.88)]
)
def test_states_are_found(name, accuracy):
    model, test = fitted(name)
    assert matched_accuracy(model.predict(test), test.labels) > accuracy
    assert 0 <= model.stickiness_ < 1


@every_model
def test_forecasts_beat_persistence(name):
    model, test = fitted(name)
    found = model.forecast(test, 10, n_paths=40, origins=np.arange(10, 480, 5))
    truth = outcomes(test.y, found.origins, 10)
    still = np.square(test.y[found.origins][:, None] - truth).mean()
    assert np.square(found.mean - truth).mean() < (0.5 if name == "pdlds" else 0.2) * still


@every_model
def test_gaps_are_filled_with_what_was_likely_there(name):
    model, test = fitted(name)
    holes = np.array(test.y)
    holes[10:20, 3], holes[30:33], holes[:, 4] = np.nan, np.nan, np.nan
    filled = model.smooth(holes)
    assert np.isfinite(filled).all()
    assert np.abs(filled[30:33] - test.y[30:33])[:, :4].mean() < 0.5 * test.y.std()


def test_a_mixture_recovers_positions():
    model, test = fitted("mixture")
    assert np.square(model.smooth(test) - test.y).mean() < 0.02 * np.square(test.y - test.y.mean(0)).mean()
    x = np.c_[model.latent(test), np.ones(len(test.y))]
    left = test.position - x @ np.linalg.lstsq(x, test.position, rcond=None)[0]
    assert left.std() < 0.05 * test.position.std()  # up to an affine map


def test_a_mixture_starts_warm_with_another_stickiness():
    model, train = fitted("mixture")[0], nascar.train_test("soft", seed=2, T=500)[0]
    warm = model.warm_start(stickiness=0.5, n_steps=10).fit(train)
    assert warm.stickiness_ == 0.5
    assert warm.elbo_ > model.elbo_ - 3
    assert warm.warm_start(stickiness="learn", n_steps=10).fit(train).stickiness_ != 0.5
    with pytest.raises(ConfigError, match="n_latent"):
        model.warm_start(n_latent=1)


@pytest.mark.parametrize(
    "model", [GDM(4, 2, transition="gru", n_steps=40, batch_size=1024), GDMMixture(4, 2, n_steps=20, batch_size=600)]
)
def test_long_trials_go_through_windows(model):
    model.fit(nascar.simulate("soft", T=3000, seed=0).y)
    assert model.status_ is not Status.DIVERGED
    assert np.isfinite(model.elbo_)
