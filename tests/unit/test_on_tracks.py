"""Accuracy and forecasts of model families on simulated tracks."""

from functools import cache

import numpy as np
import pytest

from datasets import nascar
from gdm_core import ARHMM, GDM, PDLDS, SLDS, GDMMixture
from gdm_core.analysis.state_scores import matched_accuracy
from gdm_core.forecast import outcomes
from gdm_core.models.base import StateModel
from gdm_core.models.progress import Status
from gdm_core.trials import Trial

pytestmark = pytest.mark.usefixtures("one_torch_thread")

MODELS: dict[str, tuple[StateModel, str]] = {
    "gdm": (GDM(4, 2), "soft"),
    "memory": (GDM(4, 2, transition="gru", posterior="bigru", n_steps=150), "soft"),
    "attention": (GDM(4, 2, transition="gru", posterior="transformer", n_steps=150), "soft"),
    "mixture": (GDMMixture(4, 2), "soft"),
    "arhmm": (ARHMM(4, 2, transitions="sticky"), "soft"),
    "slds": (SLDS(4, 2, transitions="recurrent", n_iter=15), "soft"),
    "pdlds": (PDLDS(4, 2, n_iter=20), "standard"),
}
ACCURACY = {"gdm": 0.9, "memory": 0.85, "attention": 0.85, "mixture": 0.88}
SLOW = ("memory", "attention", "mixture")
every_model = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.bulk] * (name in SLOW)) for name in MODELS]
)


@cache
def fitted(name: str) -> tuple[StateModel, Trial]:
    """Return a shared fit and a held-out trial."""
    model, setting = MODELS[name]
    train, test = nascar.train_test(setting, seed=2, T=500)
    model.fit(train, calibrate=False)
    return model, test


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.bulk] * (name in SLOW)) for name in ACCURACY])
def test_states_are_found(name):
    model, test = fitted(name)
    assert matched_accuracy(model.predict(test), test.labels) > ACCURACY[name]


@every_model
def test_forecasts_beat_persistence(name):
    model, test = fitted(name)
    found = model.forecast(test, 10, n_paths=40, origins=np.arange(10, 480, 5))
    truth = outcomes(test.y, found.origins, 10)
    still = np.square(test.y[found.origins][:, None] - truth).mean()
    assert np.square(found.mean - truth).mean() < (0.2 if name in ACCURACY else 0.5) * still


@pytest.mark.bulk
def test_mixture_recovers_positions():
    model, test = fitted("mixture")
    assert np.square(model.smooth(test) - test.y).mean() < 0.02 * np.square(test.y - test.y.mean(0)).mean()
    x = np.c_[model.latent(test), np.ones(len(test.y))]
    left = test.position - x @ np.linalg.lstsq(x, test.position, rcond=None)[0]
    assert left.std() < 0.05 * test.position.std()  # up to an affine map


def test_long_trial_is_fitted_in_windows():
    model = GDM(4, 2, transition="gru", n_steps=10, batch_size=512).fit(
        nascar.simulate("soft", T=1200, seed=0).y, calibrate=False
    )
    assert model.status_ is not Status.CANCELLED
    assert np.isfinite(model.elbo_)
