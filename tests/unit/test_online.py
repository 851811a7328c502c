"""Online states: filtered states sample by sample."""

import pickle
from functools import cache

import numpy as np
import pytest

from gdm_core import ARHMM, GDM, PDLDS, SLDS, GDMMixture
from gdm_core.errors import ConfigError, DataError
from gdm_core.maths import hmm
from gdm_core.models.switching import filtering
from tests.support.switching import parameters_of

pytestmark = pytest.mark.usefixtures("one_torch_thread")

K = 3
FEW = {"n_states": K, "n_latent": 2}
EXACT = {
    "gdm": GDM(**FEW, n_steps=40, lasting=False),
    "gdm network": GDM(**FEW, n_steps=10, transition="network"),
    "gdm memory": GDM(**FEW, n_steps=10, transition="gru", posterior="window"),
    "gdm places": GDM(**FEW, n_steps=20, posterior="linear"),
    "arhmm": ARHMM(**FEW, n_iter=4, n_restarts=1),
    "arhmm sticky": ARHMM(**FEW, n_iter=4, n_restarts=1, transitions="sticky", lags=2),
    "arhmm recurrent": ARHMM(**FEW, n_iter=4, n_restarts=1, transitions="recurrent_only"),
}


def recording(n: int = 90, gaps: bool = True) -> np.ndarray:
    rng = np.random.default_rng(3)
    y = np.sin(np.arange(n)[:, None] / np.array([4.0, 5.0, 7.0, 9.0])) * np.repeat(rng.normal(size=(n // 15, 4)), 15, 0)
    y = y + 0.2 * rng.normal(size=y.shape)
    if gaps:
        y[rng.random(y.shape) < 0.05] = np.nan
        y[40:43] = np.nan
    return y.astype(np.float32)


@cache
def fitted(name: str):
    """Return a fit that tests share; its recording has gaps for an AR-HMM."""
    model = EXACT[name]
    model.fit(recording(gaps=name.startswith("arhmm")), calibrate=False)
    return model


QUICK = ("gdm", "gdm places", "arhmm", "arhmm sticky")


@pytest.mark.parametrize("lag", [0, 4])
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.bulk) for name in EXACT]
)
def test_filter_equals_smoothing_of_the_past(name, lag):
    y, model = recording(gaps=name.startswith("arhmm")), fitted(name)
    known = model.filter(y, lag)
    assert known.shape == (len(y), K)
    for t in (*range(model.min_samples - 1, len(y), 12), 41, 42, len(y) - 1):
        np.testing.assert_allclose(known[t], model.predict_proba(y[: t + lag + 1])[t], atol=1e-4, err_msg=f"sample {t}")


def test_filter_across_gaps_is_causal():
    y = recording()
    model = fitted("gdm")
    known = model.filter(y)
    for t in (20, 41, 43):
        np.testing.assert_allclose(model.filter(y[: t + 1]), known[: t + 1], atol=1e-6)


@pytest.mark.parametrize("transitions", ["sticky", "recurrent", pytest.param("recurrent_only", marks=pytest.mark.bulk)])
def test_slds_equals_its_filter_over_the_whole_recording(transitions):
    y = recording()
    model = SLDS(**FEW, n_iter=3, n_restarts=1, transitions=transitions).fit(y)
    belief = filtering.filter_up_to(np.arange(len(y)), model.scaler_.apply(y), parameters_of(model))
    np.testing.assert_allclose(model.filter(y), hmm.softmax(belief.log_weight)[0], atol=1e-6)


@pytest.mark.parametrize("model", [GDM(**FEW, n_steps=20), SLDS(**FEW, n_iter=2), ARHMM(**FEW, n_iter=2)])
def test_memory_is_constant(model):
    y = recording()
    for _ in model.fit_iter(y, finish=False):
        pass
    online = model.online(lag=3)
    sizes = []
    for sample in y:
        online.step(sample)
        sizes.append(len(pickle.dumps(online)))
    assert abs(sizes[-1] - sizes[50]) < 100  # counters grow


def test_whole_recording_and_printed_result():
    y = recording()
    model = ARHMM(**FEW, n_iter=2).fit(y)
    one, both = model.filter(y), model.filter([y, y[:30]])
    np.testing.assert_array_equal(both[0], one)
    assert both[1].shape == (30, K)
    online = model.online(lag=1)
    before = online.step(y[0])
    assert before.sample == -1
    assert np.isnan(before.shares).all()
    assert str(online.step(y[1])).startswith("sample 0: S1 ")
    assert model.filter(y[:3], lag=10).shape == (3, K)


def test_errors_say_what_to_do():
    y = recording()
    for model, why in (
        (GDM(**FEW, n_steps=4, posterior="bigru"), "posterior='bigru' needs whole recordings.*posterior='window'"),
        (GDM(**FEW, n_steps=4, posterior="transformer"), "posterior='transformer'"),
        (GDM(**FEW, n_steps=4, posterior="sticky"), "posterior='sticky' needs whole recordings"),
        (PDLDS(**FEW, n_iter=1, n_restarts=1), "PDLDS cannot follow.*smoothed"),
        (GDMMixture(**FEW, n_steps=2), "GDMMixture cannot follow.*A GDM can"),
    ):
        for _ in model.fit_iter(y, finish=False):
            pass
        with pytest.raises(ConfigError, match=why):
            model.online()
    online = ARHMM(**FEW, n_iter=2).fit(y).online()
    with pytest.raises(DataError, match=r"shape \(3,\).*4 channels"):
        online.step([1.0, 2.0, 3.0])
    with pytest.raises(DataError, match="Sample 0 is infinite in channel 2"):
        online.step([1.0, 2.0, np.inf, 0.0])
    with pytest.raises(ConfigError, match="lag is -1"):
        fitted("arhmm").online(lag=-1)
