"""Conventions of scikit-learn: estimator checks, parameters, names of features, pipelines and cross-validation."""

import inspect
import json
import pickle
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from gdm_core import ARHMM, GDM, PDLDS, SLDS, GDMMixture, LabelModel, Trial
from gdm_core.errors import ConfigError, DataError, FitError
from gdm_core.models.loading import model_from_bytes
from gdm_core.models.registry import FAMILIES, import_family

pytestmark = [
    pytest.mark.usefixtures("one_torch_thread"),
    pytest.mark.filterwarnings("ignore::gdm_core.errors.FitWarning"),  # fits of a few steps
]

EM: dict[str, Any] = {"n_states": 2, "n_iter": 2, "n_restarts": 1}
SMALL: dict[str, Any] = {
    "gdm": GDM(n_states=2, n_steps=4),
    "arhmm": ARHMM(**EM),
    "slds": SLDS(**EM),
    "pdlds": PDLDS(**EM),
    "gdm_mixture": GDMMixture(n_states=2, n_steps=2),
}
OURS = [import_family(family) for family, (module, _) in FAMILIES.items() if module.startswith("gdm_core")]

EXPECTED_FAILURES = {
    "check_methods_sample_order_invariance": "the order of samples is what these models describe",
    "check_methods_subset_invariance": "states of a sample depend on the samples before and after it",
}


def checks() -> list[Any]:
    found = []
    for family, model in SMALL.items():
        bulk = () if family == "arhmm" else (pytest.mark.bulk,)  # families share their base class
        generated = estimator_checks_generator(
            model, legacy=True, expected_failed_checks=EXPECTED_FAILURES, mark="xfail"
        )
        for number, item in enumerate(generated):
            (estimator, check), marks = (item.values, item.marks) if hasattr(item, "marks") else (item, ())
            name = getattr(check, "func", check).__name__
            found.append(pytest.param(estimator, check, id=f"{family}-{number}-{name}", marks=(*marks, *bulk)))
    return found


@pytest.mark.parametrize(("model", "check"), checks())
def test_scikit_learn_estimator_checks(model, check):
    check(model)


@pytest.mark.parametrize("kind", OURS)
def test_configuration_is_the_signature(kind):
    wanted = {one.name: one.default for one in fields(kind.config_class)}
    signature = inspect.signature(kind)
    assert {name: one.default for name, one in signature.parameters.items()} == wanted
    assert kind().get_params() == wanted
    for one in fields(kind.config_class):
        assert f"\n{one.name}   " in kind.__doc__
        assert one.metadata["about"].endswith("."), one.name
    with pytest.raises(TypeError, match=rf"{kind.__name__}\(\) got an unexpected keyword argument 'n_state'"):
        kind(n_state=3)
    assert kind(5, 3).get_params() == wanted | {"n_states": 5, "n_latent": 3}


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape)


def test_set_params_takes_effect_at_the_next_fit():
    y, model = noise(60, 2), clone(SMALL["gdm"])
    states = model.fit(y).predict_proba(y)
    assert model.set_params(n_states=3) is model
    np.testing.assert_array_equal(model.predict_proba(y), states)
    assert (model.config.n_states, model.n_states) == (2, 3)
    assert model.fit(y).predict_proba(y).shape == (60, 3)
    with pytest.raises(ValueError, match="Invalid parameter 'n_state' for estimator GDM"):
        model.set_params(n_state=3)


def test_failed_check_of_parameters_leaves_model_unfitted():
    y, model = noise(60, 2), clone(SMALL["arhmm"]).fit(noise(60, 2))
    with pytest.raises(ConfigError, match="n_states"):
        model.set_params(n_states=0).fit(y)
    with pytest.raises(FitError, match="not fitted"):
        model.predict(y)


@pytest.mark.parametrize("kind", OURS)
def test_numpy_scalars_are_valid_parameters(kind):
    """Grids from np.arange give NumPy scalars; saved models hold JSON."""
    model = kind(n_states=np.int64(3), seed=np.int32(1))
    assert model.get_params() == kind(n_states=3, seed=1).get_params()
    assert json.loads(json.dumps(vars(model.set_params(n_latent=np.int64(4)).config)))["n_latent"] == 4


def test_model_works_in_pipelines():
    y, model = noise(40, 2), clone(SMALL["gdm"])
    pipeline = make_pipeline(StandardScaler(), model)
    assert pipeline.fit(y).predict(y).shape == (40,)
    assert np.isfinite(clone(pipeline).set_params(gdm__n_states=3).fit(y).score(y))
    assert make_pipeline(model, LogisticRegression()).fit(y, y[:, 0] > 0).predict(y).shape == (40,)
    frame = pd.DataFrame(y, index=np.arange(40) / 25, columns=["a", "b"])
    table = clone(model).set_output(transform="pandas").fit_transform(frame)
    assert list(table.columns) == ["S1", "S2"]
    assert (table.index == frame.index).all()
    np.testing.assert_array_equal(table.to_numpy(), clone(model).fit(y).transform(y))
    piped = make_pipeline(clone(model)).set_output(transform="pandas").fit(frame)
    assert isinstance(piped.transform(frame), pd.DataFrame)
    assert isinstance(clone(clone(model).set_output(transform="pandas")).fit_transform(frame), pd.DataFrame)


def test_grid_search_refuses_shuffled_folds():
    frame = pd.DataFrame(noise(120, 2), columns=["a", "b"])
    search = GridSearchCV(clone(SMALL["arhmm"]), {"n_states": [1, 2]}, cv=KFold(3), error_score="raise").fit(frame)
    assert search.best_params_["n_states"] in (1, 2)
    shuffled = KFold(3, shuffle=True, random_state=0)
    with pytest.raises(DataError, match=r"shuffled folds\. For cross-validation, use KFold\(shuffle=False\)"):
        clone(search).set_params(cv=shuffled).fit(frame)
    with pytest.raises(DataError, match="the index decreases at row 1"):
        clone(SMALL["arhmm"]).fit(frame[::-1])
    several = GridSearchCV(clone(SMALL["arhmm"]), {"n_states": [2]}, cv=2, error_score="raise")
    assert np.isfinite(several.fit(noise(4, 40, 2)).best_score_)


def test_other_channels_or_rates_than_fitted_are_refused():
    frame = pd.DataFrame(noise(60, 2), columns=["a", "b"])
    model = clone(SMALL["arhmm"]).fit(frame)
    assert list(model.feature_names_in_) == ["a", "b"]
    again = pickle.loads(pickle.dumps(model))
    other = frame.rename(columns={"b": "B"})
    for data in (frame[["b", "a"]], Trial(frame.to_numpy(), channels=("b", "a")), other):
        with pytest.raises(DataError, match="in the same order: a, b"):
            again.predict(data)
    slow = clone(model).fit(Trial(frame.to_numpy(), rate_hz=25))
    assert model_from_bytes(slow.to_bytes()).rate_hz_ == 25
    with pytest.raises(DataError, match="has 50 samples per second, the training data has 25"):
        slow.predict(Trial(frame.to_numpy(), rate_hz=50))
    np.testing.assert_array_equal(slow.predict(Trial(frame.to_numpy(), rate_hz=24.9)), slow.predict(frame.to_numpy()))
    np.testing.assert_array_equal(model.predict(frame), model.predict(frame.to_numpy()))
    assert not hasattr(model.fit(frame.to_numpy()), "feature_names_in_")


def test_array_of_recordings_is_a_list_of_them():
    y, model = noise(3, 40, 2), clone(SMALL["arhmm"])
    found = model.fit(y).predict_proba(y)
    assert [part.shape for part in found] == [(40, 2)] * 3
    for one, other in zip(found, clone(model).fit(list(y)).predict_proba(list(y)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_tensor_with_gradients_is_refused():
    y = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    assert clone(SMALL["arhmm"]).fit(y).predict(y).shape == (60,)
    with pytest.raises(DataError, match=r"Pass tensor\.detach\(\)"):
        clone(SMALL["arhmm"]).fit(y.requires_grad_())


def test_label_model_clones_and_reports_missing_fit():
    model = LabelModel(seed=3)
    assert clone(model).get_params() == {"model": None, "seed": 3}
    with pytest.raises(FitError, match="not fitted"):
        model.predict(noise(20, 2))
