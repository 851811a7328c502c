"""What every model refuses, and what it says then. The models are those of test_contract.py."""

from __future__ import annotations

import numpy as np
import pytest

import gdm_core
from gdm_core.errors import ConfigError, DataError, FitError
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
    "no samples": (np.zeros((0, N_CHANNELS)), DataError, "at least one of each"),
    "one sample": (noise(1, N_CHANNELS), DataError, "has 1 sample"),
    "one sample in one trial": ([noise(60, N_CHANNELS), noise(1, N_CHANNELS)], DataError, "'trial 1' has 1 sample"),
    "infinite": (spoiled(7, 2, np.inf), DataError, "sample 7, channel 2"),
    "too large for float32": (spoiled(3, 1, 1e300), DataError, "too large"),
    "empty channel": (spoiled(slice(None), 1, np.nan), DataError, "Channel y2 has no observed value"),
    "constant channel": (spoiled(slice(None), 3, 4.2), DataError, "Channel y4 is constant"),
    "other channels": ([noise(60, N_CHANNELS), noise(60, 3)], DataError, "4 channels but .* has 3"),
    "one dimension": (noise(60), DataError, "1 dimensions"),
    "three dimensions": (noise(4, 5, 6), DataError, "dimensions"),
    "text": (np.array([["a", "b"], ["c", "d"]]), DataError, "not numeric"),
    "too few channels": (noise(60, 1), ConfigError, "n_latent .* is 2 but the data has 1"),
    "too few samples": (noise(5, N_CHANNELS), ConfigError, "n_states .* is 3 but there are only 5"),
}


@pytest.mark.parametrize(("data", "error", "message"), BAD_DATA.values(), ids=BAD_DATA.keys())
@every_model
def test_unusable_data_is_refused_with_a_reason(name, data, error, message):
    with pytest.raises(error, match=message):
        MODELS[name]().fit(data)


@every_model
def test_unusable_questions_are_refused_with_a_reason(name, tmp_path):
    model, y = fitted(name), recordings()[0]
    with pytest.raises(DataError, match="fitted on 4 channels, this data has 3"):
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
    with pytest.raises(DataError, match="start from was fitted on 4 channels"):
        model.warm_start().fit(y[:, :3])
    new = MODELS[name]()
    for verb in (new.predict, new.predict_proba, new.smooth, new.latent, new.score, new.forecast):
        with pytest.raises(FitError, match="not fitted"):
            verb(y)
    for verb in (lambda: new.sample(5), new.warm_start, lambda: new.save(tmp_path / "x")):
        with pytest.raises(FitError, match="not fitted"):
            verb()


@pytest.mark.parametrize(("field", "value"), [("n_states", 0), ("n_states", 2.5), ("n_latent", 0), ("seed", -1)])
@every_model
def test_impossible_parameters_are_named(name, field, value):
    with pytest.raises(ConfigError, match=f"{field}.* is {value}"):
        MODELS[name](**{field: value})


OWN = [
    ("GDM", "n_states", 0, r"n_states \(K\) is 0; expected a whole number from 1 to 64"),
    ("GDM", "n_states", 65, "n_states .* is 65"),
    ("GDM", "n_states", True, "n_states .* is True"),
    ("GDM", "n_latent", 0, r"n_latent \(D\) is 0"),
    ("GDM", "lags", 0, "lags is 0"),
    ("GDM", "temperature", 0.0, r"temperature \(tau\) is 0.0; .* positive"),
    ("GDM", "temperature", -1, "temperature .* is -1"),
    ("GDM", "temperature", float("nan"), "temperature .* is nan"),
    ("GDM", "temperature_start", 0, "temperature_start is 0"),
    ("GDM", "stickiness", 1.0, r"stickiness \(gamma\) is 1.0; expected 'learn' or a number in \[0, 1\)"),
    ("GDM", "stickiness", -0.1, "stickiness .* is -0.1"),
    ("GDM", "stickiness", "often", "stickiness .* is 'often'"),
    ("GDM", "transition", "lstm", "transition is 'lstm'; expected one of 'linear', 'gru'"),
    ("GDM", "posterior", "cnn", "posterior is 'cnn'"),
    ("GDM", "preset", "slow", "preset is 'slow'"),
    ("GDM", "covariance", "round", "covariance is 'round'"),
    ("GDM", "readout", "loud", "readout is 'loud'"),
    ("GDM", "batch_size", 1, "batch_size is 1"),
    ("GDM", "n_hidden", 0, "n_hidden is 0"),
    ("GDM", "device", 3, "device is 3"),
    ("GDMMixture", "dynamics", "chaotic", "dynamics is 'chaotic'"),
    ("GDMMixture", "posterior", "bigru", "posterior is 'bigru'"),
    ("GDMMixture", "temperature", -1, "temperature .* is -1"),
    ("GDMMixture", "stickiness", 1.5, "stickiness .* is 1.5"),
    ("GDMMixture", "stickiness", "maybe", "stickiness .* is 'maybe'"),
    ("GDMMixture", "batch_size", 10, "batch_size is 10"),
    *((family, field, 0, f"{field} is 0") for family in ("GDM", "GDMMixture") for field in ("n_steps", "n_samples")),
    *((family, "n_iter", 0, "n_iter is 0") for family in ("ARHMM", "SLDS", "PDLDS")),
    *((family, "n_restarts", 0, "n_restarts is 0") for family in ("GDM", "ARHMM", "SLDS", "PDLDS")),
    ("ARHMM", "lags", 0, "lags is 0"),
    ("ARHMM", "n_iter", -1, "n_iter is -1"),
    ("ARHMM", "transitions", "recurrent", "transitions is 'recurrent'"),
    ("SLDS", "n_restarts", True, "n_restarts is True"),
    ("SLDS", "transitions", "stationary", "transitions is 'stationary'"),
    ("PDLDS", "offset", "none", "offset is 'none'"),
    *(("PDLDS", "smoothness", value, "smoothness .* is") for value in (1.2, "much", float("nan"))),
    *(("PDLDS", "sparsity", value, "sparsity is") for value in (0.5, 0, True)),
]


@pytest.mark.parametrize(("family", "field", "value", "message"), OWN)
def test_impossible_parameters_of_a_family_are_named_with_their_range(family, field, value, message):
    with pytest.raises(ConfigError, match=message):
        getattr(gdm_core, family)(**{field: value})


@pytest.mark.parametrize("family", ["GDM", "ARHMM"])
def test_trials_must_be_longer_than_the_lags(family):
    model = getattr(gdm_core, family)(1, lags=3)
    with pytest.raises(DataError, match=r"'trial 1' has 3 sample\(s\); this model needs at least 4"):
        model.fit([noise(60, N_CHANNELS), noise(3, N_CHANNELS)])
    assert model.fit([noise(60, N_CHANNELS), noise(4, N_CHANNELS)]).params_
