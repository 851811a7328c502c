"""Estimator checks of scikit-learn; those that do not apply are listed with a reason and must fail."""

from __future__ import annotations

import inspect
import json
import warnings
from dataclasses import fields
from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from gdm_core import ARHMM, GDM
from gdm_core.errors import ConfigError, FitError, GdmError
from gdm_core.models.registry import FAMILIES, import_family
from gdm_core.models.variants import with_parameters, without_correction

SMALL: dict[str, Any] = {
    "gdm": GDM(n_states=2, n_latent=1, n_steps=10),
    "arhmm": ARHMM(n_states=2, n_latent=1, n_iter=3, n_restarts=1),
}
OURS = [import_family(family) for family, (module, _) in FAMILIES.items() if module.startswith("gdm_core")]

DO_NOT_APPLY = {
    "check_no_attributes_set_in_init": "a model that is not fitted says so: status_ is None, params_ is empty",
    "check_estimators_unfitted": "the library has an error of its own for it, FitError",
    "check_transformers_unfitted": "the library has an error of its own for it, FitError",
    "check_do_not_raise_errors_in_init_or_set_params": "a parameter out of its range is refused where it is set",
    "check_n_features_in_after_fitting": "the library speaks of channels, in a DataError of its own words",
    "check_estimators_empty_data_messages": "the library's own words: what shape the trial has, and what is expected",
    "check_dtype_object": "text among numbers is a DataError that names the trial, not a TypeError",
    "check_methods_sample_order_invariance": "samples are moments of a recording: their order is what is modelled",
    "check_methods_subset_invariance": "a part of a recording is another recording, and one sample is none",
    "check_array_api_input": "arrays are NumPy's, as scikit-learn leaves it unless told otherwise",
}


def checks() -> list[Any]:
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # models do not inherit from BaseEstimator
        for family, model in SMALL.items():
            for number, (_, check) in enumerate(estimator_checks_generator(model, legacy=True)):
                name = getattr(check, "func", check).__name__
                found.append(pytest.param(family, check, name, id=f"{family}-{number}-{name}"))
    return found


@pytest.mark.parametrize(("family", "check", "name"), checks())
def test_scikit_learn_estimator_checks(family, check, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name not in DO_NOT_APPLY:
            check(clone(SMALL[family]))
            return
        with pytest.raises((AssertionError, GdmError, SkipTest)):
            check(clone(SMALL[family]))


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


def test_repr_is_the_call_with_fit_status():
    model = GDM(n_states=2, n_latent=1, stickiness=0.5, n_steps=10)
    assert eval(repr(model)).get_params() == model.get_params()
    y = np.random.default_rng(0).standard_normal((40, 2))
    assert repr(model.fit(y)).startswith("GDM(n_states=2, n_latent=1, stickiness=0.5, n_steps=10) [max_steps, ELBO -")


def test_set_params_resets_an_incompatible_fit():
    y = np.random.default_rng(0).standard_normal((40, 2))
    model = GDM(n_states=2, n_latent=1, n_steps=10).fit(y)
    states = model.predict_proba(y)
    assert model.set_params(temperature=0.5) is model
    assert not np.array_equal(model.predict_proba(y), states)
    with pytest.raises(FitError, match="not fitted yet"):
        model.set_params(n_states=3).predict(y)
    assert model.config.n_states == 3
    with pytest.raises(ConfigError, match="GDM has no parameter n_state; it has n_states"):
        model.set_params(n_state=3)


def test_changed_parameter_leaves_the_original_alone():
    y = np.random.default_rng(0).standard_normal((60, 2))
    model = GDM(n_states=2, n_latent=1, n_steps=10).fit(y)
    states = model.predict_proba(y)
    quick = without_correction(model)
    assert quick.config.readout == "amortised"
    assert not np.array_equal(quick.predict_proba(y), states)
    np.testing.assert_array_equal(model.predict_proba(y), states)
    with pytest.raises(ConfigError, match=r"cannot change n_states \(only: readout, temperature\)"):
        with_parameters(model, n_states=3)
    hard = ARHMM(n_states=2, n_latent=1, n_iter=3, n_restarts=1).fit(y)
    assert without_correction(hard) is hard


def test_next_states_is_a_distribution_or_none():
    y = np.random.default_rng(0).standard_normal((60, 2))
    found = GDM(n_states=3, n_latent=1, n_steps=10).fit(y)._next_states(y, np.full(3, 1 / 3))
    assert found.shape == (60, 3)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    assert ARHMM(n_states=2, n_latent=1, n_iter=3, n_restarts=1).fit(y)._next_states(y, np.full(2, 0.5)) is None


@pytest.mark.parametrize("kind", OURS)
def test_numpy_scalars_are_valid_parameters(kind):
    """Grids from np.arange give NumPy scalars; saved models hold JSON."""
    model = kind(n_states=np.int64(3), seed=np.int32(1))
    assert model.get_params() == kind(n_states=3, seed=1).get_params()
    assert json.loads(json.dumps(model.set_params(n_latent=np.int64(4)).get_params()))["n_latent"] == 4


def test_model_works_in_pipelines():
    y, model = np.random.default_rng(0).standard_normal((40, 2)), GDM(n_states=2, n_latent=1, n_steps=10)
    pipeline = make_pipeline(StandardScaler(), model)
    assert pipeline.fit(y).predict(y).shape == (40,)
    assert np.isfinite(clone(pipeline).set_params(gdm__n_states=3).fit(y).score(y))
    assert make_pipeline(model, LogisticRegression()).fit(y, y[:, 0] > 0).predict(y).shape == (40,)
    frame = pd.DataFrame(y, index=np.arange(40) / 25)
    table = clone(model).set_output(transform="pandas").fit_transform(frame)
    assert list(table.columns) == ["S1", "S2"]
    assert (table.index == frame.index).all()
    np.testing.assert_array_equal(table.to_numpy(), model.transform(y))
    piped = make_pipeline(clone(model)).set_output(transform="pandas").fit(frame)
    assert isinstance(piped.transform(frame), pd.DataFrame)
    assert isinstance(clone(clone(model).set_output(transform="pandas")).fit_transform(frame), pd.DataFrame)
    with pytest.raises(ConfigError, match="choose 'default' or 'pandas'"):
        model.set_output(transform="polars")
