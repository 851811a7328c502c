"""Contract of every model family. A new model joins with one line in MODELS."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binom
from sklearn.base import clone

import gdm_core
from gdm_core import Trial, Trials, load_model
from gdm_core.analysis.inference import calibrate
from gdm_core.forecast import coverage
from gdm_core.models.base import StateModel
from gdm_core.models.loading import model_from_bytes
from gdm_core.models.progress import Status
from gdm_core.models.registry import FAMILIES
from gdm_core.models.scaling import Scaler
from gdm_core.models.switching.base import SwitchingModel
from gdm_core.models.variants import infer_quickly, make_untrained
from gdm_core.trials import as_trials
from tests.support.gdm import state_axes

N_CHANNELS, K = 4, 3
SWITCHING = {"n_iter": 4, "n_restarts": 1}


def other(name: str, **own: Any) -> Callable[..., StateModel]:
    return lambda **changes: getattr(gdm_core, name)(**({"n_states": K, "n_latent": 2} | own | changes))


def gdm(**own: Any) -> Callable[..., StateModel]:
    return other("GDM", **({"n_steps": 40, "n_hidden": 8} | own))


MODELS: dict[str, Callable[..., StateModel]] = {
    "gdm": gdm(),
    "gdm places": gdm(posterior="linear", temperature=0.5),
    "gdm sticky": gdm(posterior="sticky", n_steps=20),
    "gdm as published": gdm(preset="paper", n_steps=20, n_samples=3),
    "gdm network": gdm(transition="network", n_steps=20),
    "gdm memory": gdm(transition="gru", n_steps=12),
    "gdm attention": gdm(posterior="transformer", n_steps=12),
    "arhmm": other("ARHMM", **SWITCHING),
    "arhmm sticky": other("ARHMM", transitions="sticky", lags=2, **SWITCHING),
    "arhmm recurrent": other("ARHMM", transitions="recurrent_only", **SWITCHING),
    "slds": other("SLDS", **SWITCHING),
    "slds recurrent": other("SLDS", transitions="recurrent", **SWITCHING),
    "slds recurrent only": other("SLDS", transitions="recurrent_only", **SWITCHING),
    "pdlds": other("PDLDS", n_iter=3, n_restarts=1),
    "gdm mixture": other("GDMMixture", n_steps=60),
    "gdm mixture without noise": other("GDMMixture", dynamics="deterministic"),
    "gdm mixture previous": other("GDMMixture", posterior="previous", n_steps=150),
}

# Fits of so few steps are worse than a single autoregression, so they must report failure.
TOO_SHORT = {"gdm as published"}
# Observations do not correct a path without noise, so it explains noisy data worse, too.
WITHOUT_NOISE = {"gdm mixture without noise"}

# `make test` runs one model of each family, `make test-all` also its variants.
FIRST_OF_FAMILIES = ("gdm", "arhmm", "slds recurrent", "pdlds", "gdm mixture")
every_model = pytest.mark.parametrize(
    "name", [name if name in FIRST_OF_FAMILIES else pytest.param(name, marks=pytest.mark.bulk) for name in MODELS]
)


pytestmark = pytest.mark.usefixtures("one_torch_thread")


@cache
def recordings(seed: int = 0, lengths: tuple[int, ...] = (110, 70, 40)) -> tuple[np.ndarray, ...]:
    """Return four channels of a stable path around three centres, with some missing values."""
    rng = np.random.default_rng(seed)
    emission = np.random.default_rng(99).normal(size=(2, N_CHANNELS))
    centres = np.array([[3.0, 0.0], [-1.5, 2.6], [-1.5, -2.6]])
    turn = 0.9 * np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])
    found = []
    for length in lengths:
        states = np.repeat(rng.integers(0, 3, size=length // 12 + 1), 12)[:length]
        x = np.zeros((length, 2))
        for t in range(1, length):
            centre = centres[states[t]]
            x[t] = centre + turn @ (x[t - 1] - centre) + 0.1 * rng.normal(size=2)
        y = x @ emission + 0.1 * rng.normal(size=(length, N_CHANNELS)) + 5.0
        y[rng.random(y.shape) < 0.02] = np.nan
        y = y.astype(np.float32)
        y.flags.writeable = False
        found.append(y)
    return tuple(found)


@cache
def fitted(name: str) -> StateModel:
    """Return a fit that tests share and do not change."""
    return MODELS[name]().fit(list(recordings()))


# Axes of parameters that index states, in addition to the GDM's.
AXES = dict.fromkeys(("log_step", "operators", "carry", "level", "step", "jump"), (0,))
CHAIN_AXES = dict.fromkeys(("coefficients", "covariance", "log_initial", "transition_weights"), (0,)) | {
    "transition_bias": (0, 1)
}


def relabelled(model: Any, order: list[int]) -> Any:
    """Return the model with permuted states: new state i is the old state order[i]."""
    renamed = copy_of(model)
    renamed.params_ = dict(model.params_)
    for name, value in model.params_.items():
        others = AXES.get(name) or state_axes(name, value.ndim)
        for axis in CHAIN_AXES.get(name, ()) if isinstance(model, SwitchingModel) else others:
            if renamed.params_[name].shape[axis] > 1:  # states without recurrence share one row
                renamed.params_[name] = renamed.params_[name].take(order, axis)
    return renamed


def copy_of(model: StateModel) -> StateModel:
    """Return a copy without calibration."""
    copy = clone(model)
    copy.scaler_, copy.factors_ = model.scaler_, model.factors_
    copy.params_, copy.status_ = model.params_, model.status_
    return copy


def assert_same_model(one: StateModel, two: StateModel) -> None:
    assert one.params_.keys() == two.params_.keys()
    for name, value in one.params_.items():
        assert value.dtype == two.params_[name].dtype, name
        np.testing.assert_array_equal(value, two.params_[name], err_msg=name)


# ---- shapes and units -------------------------------------------------------------------------------------------------
@every_model
def test_verbs_have_their_shapes_and_finite_scores(name):
    model, trials = fitted(name), recordings()
    assert (model.status_ is Status.FAILED) == (name in TOO_SHORT | WITHOUT_NOISE)
    assert model.status_ is not Status.CANCELLED
    assert np.isfinite(model.elbo_)
    assert np.isfinite([progress.elbo for progress in model.history_]).all()
    assert model.score(list(trials)) == pytest.approx(model.elbo_)
    for verb, width in (("predict_proba", K), ("smooth", N_CHANNELS), ("latent", 2)):
        results = getattr(model, verb)(list(trials))
        assert [result.shape for result in results] == [(len(y), width) for y in trials], verb
        assert all(np.isfinite(result).all() for result in results), verb
    for exact, rough in ((model.predict_proba(one), infer_quickly(model, Trial(one))) for one in trials):
        np.testing.assert_allclose(rough.sum(axis=1), 1, atol=1e-4)
        assert np.abs(exact - rough).mean() < 0.06
    for y, p, z in zip(trials, model.predict_proba(list(trials)), model.predict(list(trials)), strict=True):
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-4)
        assert p.min() >= -1e-6
        np.testing.assert_array_equal(z, p.argmax(axis=1))
        if name != "gdm as published":  # needs thousands of steps
            assert np.nanmean((y - model.smooth(y)) ** 2) < 0.5 * np.nanvar(y, axis=0).mean()
    y, z, x = model.sample(30, seed=1)
    assert (y.shape, z.shape, x.shape) == ((30, N_CHANNELS), (30, K), (30, 2))
    np.testing.assert_allclose(z.sum(axis=1), 1, atol=1e-4)


@every_model
def test_refit_in_other_units_is_equal(name):
    """Units are powers of two, so standardised data is equal to the bit."""
    trials, model = recordings(), fitted(name)
    units = np.float32([4, 0.5, 1, 64])
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002 (the global generator is watched)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    other_units = MODELS[name]().fit([y * units for y in trials])
    other_units.sample(10)
    other_units.forecast(trials[2] * units, 2, n_paths=5, origins=[20])
    assert torch.equal(before[0], torch.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002
    assert_same_model(model, other_units)
    assert [p.elbo for p in other_units.history_] == [p.elbo for p in model.history_]
    y = trials[1]
    observed = np.isfinite(y)
    expected = model.score(y) - (observed * np.log(units.astype(np.float64))).sum() / len(y)
    assert other_units.score(y * units) == pytest.approx(expected, abs=1e-6)
    np.testing.assert_allclose(other_units.smooth(y * units), model.smooth(y) * units, rtol=1e-5)


@every_model
def test_offset_beyond_single_precision_moves_results_by_it(name):
    """Steps of about 1 around 1e9, where float32 values are 64 apart."""
    model, y, offset = fitted(name), recordings()[0], np.array([1e9, -2e9, 0.0, 3e9])
    far = copy_of(model)
    far.scaler_ = Scaler(model.scaler_.center + offset, model.scaler_.scale.astype(np.float64))
    far = model_from_bytes(far.to_bytes())
    moved = y.astype(np.float64) + offset
    np.testing.assert_allclose(far.predict_proba(moved), model.predict_proba(y), atol=2e-3)
    assert far.score(moved) == pytest.approx(model.score(y), abs=2e-3)
    near = copy_of(model)
    ahead, expected = (one.forecast(of, 3, n_paths=10, origins=[50]) for one, of in ((far, moved), (near, y)))
    for ours, theirs in (
        (far.smooth(moved), model.smooth(y)),
        (far.impute(moved), model.impute(y)),
        (ahead.upper, expected.upper),
        (far.sample(5, seed=1)[0], model.sample(5, seed=1)[0]),
    ):
        assert ours.dtype == np.float64
        np.testing.assert_allclose(ours - offset, theirs, atol=0.02)


# ---- 15: nesting ------------------------------------------------------------------------------------------------------
@every_model
def test_one_state_has_probability_one(name):
    y = recordings()[0]
    model = MODELS[name](n_states=1).fit(y)
    np.testing.assert_allclose(model.predict_proba(y), 1, atol=1e-5)
    assert (model.predict(y) == 0).all()
    assert np.isfinite(model.score(y))
    assert np.isfinite(model.forecast(y, 3, n_paths=10, origins=[50]).mean).all()


# ---- 16: other trials, order and containers ------------------------------------------------------------------------------
@every_model
def test_batching_does_not_change_a_trial(name):
    model, trials = fitted(name), list(recordings())
    alone = [model.predict_proba(y) for y in trials]
    scores = [model.score(y) for y in trials]
    for order in ([0, 1, 2], [2, 0, 1]):
        together = model.predict_proba([trials[i] for i in order])
        for i, found in zip(order, together, strict=True):
            np.testing.assert_array_equal(found, alone[i])
        weights = [len(trials[i]) for i in order]
        mean = np.average([scores[i] for i in order], weights=weights)
        assert model.score([trials[i] for i in order]) == pytest.approx(mean, rel=1e-9)
    forecasts = model.forecast(trials, 3, n_paths=10, origins=[20])
    np.testing.assert_array_equal(forecasts[2].mean, model.forecast(trials[2], 3, n_paths=10, origins=[20]).mean)


@every_model
def test_containers_and_dtypes_are_equivalent(name):
    model = fitted(name)
    y = np.round(16 * np.nan_to_num(recordings()[0][:50], nan=5.0)) * 1.0  # whole numbers
    expected, score = model.predict_proba(y.astype(np.float32)), model.score(y.astype(np.float32))
    wide = np.zeros((100, 2 * N_CHANNELS))
    wide[::2, ::2] = y
    for data in (y, y.astype(np.int64), np.asfortranarray(y), wide[::2, ::2], y.astype(np.int16), y.tolist()):
        found = model.predict_proba(np.asarray(data) if isinstance(data, list) else data)
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(model.predict_proba(Trial(y)), expected)
    assert isinstance(model.predict_proba([y]), list)
    np.testing.assert_array_equal(model.predict_proba(Trials((Trial(y),)))[0], expected)
    np.testing.assert_array_equal(model.predict_proba(np.stack([y, y])), [expected, expected])
    assert model.score(Trials((Trial(y),))) == score


RARER = ("channel", "samples", "entries")


def with_missing(y: np.ndarray, pattern: str) -> np.ndarray:
    y, rng = y.copy(), np.random.default_rng(0)
    if pattern == "gap":
        y[40:52] = np.nan
    elif pattern == "channel":
        y[30:80, 1] = np.nan
    elif pattern == "samples":
        y[rng.permutation(len(y))[: len(y) // 10]] = np.nan
    else:
        y[rng.random(y.shape) < 0.3] = np.nan
    return y


def score_change(name: str, pattern: str, seed: int) -> float:
    """Return by how much missing values change the score of a recording."""
    whole = list(recordings(seed))
    complete, y = MODELS[name]().fit(whole, calibrate=False), with_missing(whole[0], pattern)
    model = MODELS[name]().fit([y, *whole[1:]], calibrate=False)
    return model.score(y) - complete.score(whole[0])


@pytest.mark.parametrize("pattern", ["gap", *(pytest.param(p, marks=pytest.mark.bulk) for p in RARER)])
@every_model
def test_missing_data_keeps_the_fit_sound(name, pattern):
    whole = list(recordings())
    y = with_missing(whole[0], pattern)
    model = MODELS[name]().fit([y, *whole[1:]])
    missing, scale = np.isnan(y), np.nanstd(whole[0], axis=0)
    hidden = missing & np.isfinite(whole[0])
    if name in WITHOUT_NOISE and model.status_ is Status.FAILED:
        return  # it says so, and is no result
    assert (model.status_ is Status.FAILED) == (name in TOO_SHORT)
    changes, least = [model.score(y) - fitted(name).score(whole[0])], -1.0
    if (name, pattern) == ("gdm", "channel"):  # of one short recording, the start may decide
        changes += [score_change(name, pattern, seed) for seed in range(1, 10)]
        least = -0.5
    assert np.mean(changes) > least
    np.testing.assert_allclose(model.predict_proba(y).sum(axis=1), 1, atol=1e-4)
    values, std = model.impute(y, return_std=True)
    np.testing.assert_array_equal(values[~missing], y[~missing])
    assert np.sqrt((((values - whole[0]) / scale)[hidden] ** 2).mean()) < 1.5
    assert (std[missing] > 0).all()
    assert (std[~missing] == 0).all()
    for found in (model.smooth(y), model.latent(y), model.forecast(y, 2, n_paths=10, origins=[45, 60]).mean):
        assert np.isfinite(found).all()


RARE_EM = ("arhmm sticky", "arhmm recurrent", "slds", "slds recurrent only")


@pytest.mark.parametrize(
    "name", ["arhmm", "slds recurrent", "pdlds", *(pytest.param(name, marks=pytest.mark.bulk) for name in RARE_EM)]
)
def test_em_fits_ignore_the_order_of_trials(name):
    for parameter, value in MODELS[name]().fit(list(recordings())[::-1]).params_.items():
        np.testing.assert_allclose(value, fitted(name).params_[parameter], rtol=1e-6, atol=1e-8, err_msg=parameter)


# ---- 17: names of states ------------------------------------------------------------------------------------------------
@every_model
def test_relabelling_permutes_states(name):
    model, y, order = fitted(name), recordings()[0], [2, 0, 1]
    renamed = relabelled(model, order)
    np.testing.assert_allclose(renamed.predict_proba(y), model.predict_proba(y)[:, order], atol=1e-3)
    assert renamed.score(y) == pytest.approx(model.score(y), abs=1e-3)
    np.testing.assert_allclose(renamed.smooth(y), model.smooth(y), atol=5e-3)


@every_model
def test_untrained_control_scores_lower(name):
    model, trials = fitted(name), list(recordings())
    control, other = (make_untrained(model, as_trials(trials), seed) for seed in (1, 2))
    np.testing.assert_allclose(control.predict_proba(trials[0]).sum(axis=1), 1, atol=1e-4)
    assert control.score(trials) < model.score(trials)
    assert_same_model(control, make_untrained(model, as_trials(trials), 1))
    assert any(not np.array_equal(value, other.params_[field]) for field, value in control.params_.items())


# ---- 18: files ---------------------------------------------------------------------------------------------------------
@every_model
def test_saved_model_is_equal_to_the_bit(name, tmp_path):
    model, y = fitted(name), recordings()[1]
    model.save(tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    assert type(again) is type(model)
    assert again.config == model.config
    assert (again.status_, again.elbo_, again.history_) == (model.status_, model.elbo_, model.history_)
    assert_same_model(model, again)
    np.testing.assert_array_equal(again.predict_proba(y), model.predict_proba(y))
    assert again.score(y) == model.score(y)
    ours, theirs = (m.forecast(y, 4, n_paths=20, origins=[10, 60], seed=2) for m in (model, again))
    np.testing.assert_array_equal(ours.lower, theirs.lower)
    np.testing.assert_array_equal(model.sample(20, seed=4)[0], again.sample(20, seed=4)[0])
    assert not np.array_equal(model.sample(20, seed=4)[0], model.sample(20, seed=5)[0])


# ---- 19 and 20: forecasts -------------------------------------------------------------------------------------------------
@every_model
def test_forecasts_are_causal(name):
    model, y = fitted(name), recordings()[0]
    changed, earlier = y.copy(), y.copy()
    changed[61:] = changed[61:][::-1] + 3.0
    earlier[60] = np.nan_to_num(earlier[60], nan=5.0) + 3.0
    origins = [5, 40, 60]
    ours, later, sooner = (model.forecast(data, 4, n_paths=20, origins=origins) for data in (y, changed, earlier))
    np.testing.assert_array_equal(ours.mean, later.mean)
    np.testing.assert_array_equal(ours.upper, later.upper)
    np.testing.assert_allclose(ours.mean[:2], sooner.mean[:2], rtol=1e-5)
    assert np.abs(ours.mean[2] - sooner.mean[2]).max() > 1e-3  # past data matters


@every_model
def test_later_calibration_equals_that_of_the_fit(name):
    trials = as_trials(list(recordings()))
    later = MODELS[name]().fit(trials, calibrate=False)
    assert later.calibration_ is None
    if later.status_ is Status.FAILED:
        assert fitted(name).calibration_ is None  # a failed fit has no intervals
        return
    found = model_from_bytes(calibrate(later.to_bytes(), trials)).calibration_
    np.testing.assert_array_equal(found.scale, fitted(name).calibration_.scale)


@every_model
def test_coverage_on_own_samples_is_binomial(name):
    """Intervals before calibration cover the model's own samples at their nominal level."""
    model = copy_of(fitted(name))
    levels = (0.5, 0.9)
    inside, n = np.zeros((2, 3)), 0
    for seed in range(12):
        y = model.sample(45, seed=seed)[0]
        if not np.isfinite(y).all() or np.abs(model.scaler_.apply(y)).max() > 1e3:
            continue  # a diverged path
        origins = np.arange(12, 42, 6)
        found = model.forecast(y, 3, n_paths=200, origins=origins, seed=seed, adaptive=False)
        inside += np.array([coverage(found, y, level) for level in levels]) * len(origins)
        n += len(origins)
    assert n >= 40
    # Channels and adjacent origins are correlated, so each origin counts once; 1e-4 on either side.
    for level, held in zip(levels, inside, strict=True):
        low, high = binom.ppf([1e-4, 1 - 1e-4], n, level)
        assert (held >= low).all(), (level, held / n)
        assert (held <= high).all(), (level, held / n)
    assert binom.ppf(1 - 1e-4, n, 0.5) < 0.75 * n  # a band that covers everything fails


def test_every_registered_family_is_tested():
    ours = {family for family, (module, _) in FAMILIES.items() if module.startswith("gdm_core")}
    assert ours == {make().family for make in MODELS.values()}


# ---- running fits ---------------------------------------------------------------------------------------------------------
@every_model
def test_model_is_usable_during_and_after_cancelled_fit(name):
    model, y = MODELS[name](), recordings()[0]
    steps = model.fit_iter(y)
    progress = next(steps)
    assert progress.step <= progress.total
    assert model.predict_proba(y).shape == (len(y), K)
    steps.close()
    assert model.status_ is Status.CANCELLED
    assert np.isfinite(model.elbo_)
    assert model.seconds_ > 0
