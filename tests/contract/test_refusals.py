"""Invalid data, parameters and requests, which every model of test_contract.py rejects."""

import numpy as np
import pytest

import gdm_core
from gdm_core.errors import ConfigError, DataError
from gdm_core.models.estimator import NotFittedError
from tests.contract.test_contract import MODELS, N_CHANNELS, every_model, fitted, recordings

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


def spoiled(rows, channels, value) -> np.ndarray:
    y = noise(60, N_CHANNELS)
    y[rows, channels] = value
    return y


BAD_DATA = {
    "no trials": ([], DataError, "list of trials is empty"),
    "no samples": (np.zeros((0, N_CHANNELS)), DataError, "shape"),
    "one sample": (noise(1, N_CHANNELS), DataError, "has 1 sample"),
    "one sample in one trial": ([noise(60, N_CHANNELS), noise(1, N_CHANNELS)], DataError, "'trial 1' has 1 sample"),
    "infinite": (spoiled(7, 2, np.inf), DataError, "sample 7, channel 2"),
    "too large for float32": (spoiled(3, 1, 1e300), DataError, "too large"),
    "empty channel": (spoiled(slice(None), 1, np.nan), DataError, "Channel y2 has no observed value"),
    "constant channel": (spoiled(slice(None), 3, 4.2), DataError, "Channel y4 is constant"),
    "other channels": ([noise(60, N_CHANNELS), noise(60, 3)], DataError, "4 channels but .* has 3"),
    "one dimension": (noise(60), DataError, "1 dimensions"),
    "four dimensions": (noise(4, 5, 6, 2), DataError, "4 dimensions"),
    "no channels": (np.zeros((60, 0)), DataError, "0 feature"),
    "text": (np.array([["a", "b"], ["c", "d"]]), DataError, "not numeric"),
    "too few channels": (noise(60, 1), ConfigError, "n_latent .* is 2 but the data has 1"),
    "too few samples": (noise(5, N_CHANNELS), ConfigError, "need at least 18 observed samples, but there are 5"),
}


@pytest.mark.parametrize(("data", "error", "message"), BAD_DATA.values(), ids=BAD_DATA.keys())
@every_model
def test_invalid_data_is_refused(name, data, error, message):
    with pytest.raises(error, match=message):
        MODELS[name]().fit(data)


@every_model
def test_invalid_requests_are_refused(name, tmp_path):
    model, y = fitted(name), recordings()[0]
    with pytest.raises(DataError, match=r"X has 3 features, but .* is expecting 4"):
        model.predict(y[:, :3])
    with pytest.raises(DataError, match="has 1 sample"):
        model.predict(y[:1])
    with pytest.raises(DataError, match="infinite"):
        model.score(spoiled(0, 0, -np.inf))
    for keywords, message in (
        ({"horizon": 0}, "horizon is 0"),
        ({"n_paths": 1}, "n_paths is 1"),
        ({"origins": [len(y)]}, "origins must lie in 0..109"),
        ({"origins": [-1]}, "origins must lie"),
    ):
        with pytest.raises(ConfigError, match=message):
            model.forecast(y, **keywords)
    with pytest.raises(ConfigError, match="n_samples is 0"):
        model.sample(0)
    new = MODELS[name]()
    for verb in (new.predict, new.predict_proba, new.smooth, new.latent, new.score, new.forecast):
        with pytest.raises(NotFittedError, match="not fitted"):
            verb(y)
    for verb in (lambda: new.sample(5), lambda: new.calibrate(y), lambda: new.save(tmp_path / "x")):
        with pytest.raises(NotFittedError, match="not fitted"):
            verb()


@pytest.mark.parametrize(("field", "value"), [("n_states", 0), ("n_states", 2.5), ("n_latent", 0), ("seed", -1)])
@every_model
def test_invalid_parameters_are_named(name, field, value):
    with pytest.raises(ConfigError, match=f"{field}.* is {value}"):
        MODELS[name](**{field: value}).fit(recordings()[0])


OWN = [
    ("GDM", "n_states", 65, "from 1 to 64"),
    ("GDM", "n_states", True, "is True"),
    ("GDM", "temperature", float("nan"), "is nan"),
    ("GDM", "stickiness", 1.0, r"\[0, 1\)"),
    ("GDM", "stickiness", "often", "'often'"),
    ("GDM", "transition", "lstm", "'linear', 'network', 'gru'"),
    ("GDM", "batch_size", 1, "is 1"),
    ("GDM", "device", 3, "is 3"),
    ("GDM", "device", "abacus", "'abacus'"),
    ("GDM", "outliers", "drop", "'keep', 'ignore'"),
    ("GDM", "repeats", "drop", "'auto', 'keep'"),
    ("GDMMixture", "dynamics", "chaotic", "'chaotic'"),
    ("GDMMixture", "posterior", "bigru", "'bigru'"),
    ("GDMMixture", "n_steps", 0, "is 0"),
    ("ARHMM", "lags", 0, "is 0"),
    ("ARHMM", "transitions", "recurrent", "'recurrent'"),
    ("SLDS", "n_restarts", True, "is True"),
    ("SLDS", "transitions", "stationary", "'stationary'"),
    ("PDLDS", "n_iter", 0, "is 0"),
    ("PDLDS", "sparsity", 0.5, "is"),
]


@pytest.mark.parametrize(("family", "field", "value", "message"), OWN)
def test_invalid_parameters_of_a_family_are_named(family, field, value, message):
    with pytest.raises(ConfigError, match=f"{field}.*{message}"):
        getattr(gdm_core, family)(**{field: value}).fit(recordings()[0])


def test_trials_shorter_than_the_lags_are_refused():
    model = gdm_core.ARHMM(1, lags=3)
    with pytest.raises(DataError, match=r"'trial 1' has 3 sample\(s\); this model needs at least 4"):
        model.fit([noise(60, N_CHANNELS), noise(3, N_CHANNELS)])
    assert model.fit([noise(60, N_CHANNELS), noise(4, N_CHANNELS)]).params_
