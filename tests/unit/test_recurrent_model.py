"""The GDM with memory as a whole: what it finds and forecasts. What every model promises: tests/contract."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from datasets import nascar
from gdm_core.analysis.metrics import matched_accuracy
from gdm_core.forecast import outcomes
from gdm_core.maths.rows import make_rows
from gdm_core.models.gdm.model import GDM
from gdm_core.trials import as_trials

CPU = torch.device("cpu")

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(scope="module")
def soft():
    return nascar.train_test("soft", seed=2, T=500)


@pytest.fixture(scope="module", params=["bigru", pytest.param("transformer", marks=pytest.mark.bulk)])
def fitted(request, soft):
    return GDM(4, 2, transition="gru", posterior=request.param, n_steps=150, seed=0).fit(soft[0])


def test_finds_the_states(fitted, soft):
    test = soft[1]
    assert matched_accuracy(fitted.predict(test), test.labels) > 0.85
    assert 0 <= fitted.stickiness_ < 1


def test_forecasts_are_useful(fitted, soft):
    y = soft[1].y
    found = fitted.forecast(y, 10, n_paths=40, origins=np.arange(10, 480, 5))
    truth = outcomes(y, found.origins, 10)
    at = found.origins[:, None]
    missed = np.square(found.mean - truth).mean()
    still = np.square(y[at] - truth).mean()  # persistence
    assert missed < 0.2 * still


def test_networks_read_trials_laid_end_to_end_as_trials_apart(fitted, soft):
    a, b = soft[1].y[:150], soft[1].y[150:230]
    joined = make_rows([fitted.scaler_.apply(a), fitted.scaler_.apply(b)], CPU)
    with torch.no_grad():
        together = fitted._net.view(joined).posterior
        apart = torch.cat([fitted._net.view(make_rows([fitted.scaler_.apply(y)], CPU)).posterior for y in (a, b)])
    torch.testing.assert_close(together, apart, atol=1e-4, rtol=1e-5)


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
