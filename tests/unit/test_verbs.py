"""Functions at the top of the library, also with failed fits and data outside of a fit."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gdm_core
from gdm_core import ARHMM, GDM, SLDS
from gdm_core.analysis.comparisons import fit_cell
from gdm_core.engine.compare import Comparison
from gdm_core.errors import ConfigError, FitError, FitWarning
from gdm_core.labels import LabelModel
from gdm_core.models.extrapolation import describe_held_out
from gdm_core.models.progress import Status
from gdm_core.models.variants import format_call
from gdm_core.trials import Trial, as_trials
from gdm_studio.datasets import nascar, regimes
from tests.support.quick_model import quick_model

ROOT = Path(__file__).resolve().parents[2]
FEW = {"n_states": 3, "n_latent": 2, "n_iter": 4, "n_restarts": 1}


@pytest.fixture(autouse=True)
def own_store(tmp_path, monkeypatch):
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path))


@pytest.fixture(scope="module")
def laps():
    return nascar.train_test("standard", seed=0, T=240)


def test_suggest_takes_an_array(laps):
    reports = []
    found = gdm_core.suggest(
        np.asarray(laps[0].y), "arhmm", states=[1, 2, 3], seeds=[0], progress=lambda *n: reports.append(n), n_iter=4
    )
    assert found.settings["n_states"] in (1, 2, 3)
    assert str(found).startswith(found.sentences[0])
    frame = found.to_frame()
    assert frame.loc[frame.taken, "n_states"].tolist() == [found.settings["n_states"]]
    assert reports[-1] == (6, 6)


def test_compare_names_models_and_baselines(laps):
    models = [ARHMM(**FEW), ARHMM(**FEW, transitions="sticky", seed=4)]
    found = gdm_core.compare(models, *laps, seeds=[0, 1])
    assert list(found.cells) == [format_call(ARHMM(**FEW)), format_call(ARHMM(**FEW, transitions="sticky"))]
    assert all(list(by_seed) == [0, 1] for by_seed in found.cells.values())
    frame = found.to_frame()
    assert list(frame.index[:2]) == list(found.cells)
    assert len(frame) == 2 + len(found.baselines) > 2
    assert np.isfinite(frame.states[:2]).all()
    assert (frame.message == "").all()
    text = str(found)
    assert all(name in text for name in frame.index)
    assert "State accuracy: " in text
    by_name = gdm_core.compare({"one": models[0]}, *laps, seeds=[0])
    assert list(by_name.cells) == ["one"]
    with pytest.raises(ConfigError, match="Two of these models are the same"):
        gdm_core.compare([ARHMM(), ARHMM(seed=3)], *laps)


def test_sweep_fits_every_combination_and_seed(laps):
    model = ARHMM(**FEW)
    found = gdm_core.sweep(model, {"n_states": [2, 3], "n_latent": [1, 99]}, *laps, seeds=[0, 1], scorer="")
    frame = found.to_frame()
    assert len(found) == len(frame) == 8
    assert frame.loc[frame.n_latent == 1, "elbo_test"].notna().all()
    assert frame.loc[frame.n_latent == 99, "message"].str.contains("n_latent").all()
    assert str(found).startswith("4 of 8 fits\n")
    assert model.params_ == {}
    with pytest.raises(ConfigError, match="ARHMM has no parameter stickyness"):
        gdm_core.sweep(model, {"stickyness": [0.1]}, *laps)


# ---- failed fits ---------------------------------------------------------------------------------------------------
REASON = "below that of a single autoregression"
pytestmark = pytest.mark.filterwarnings("ignore::gdm_core.errors.FitWarning")


def failing() -> GDM:
    """Return a model whose fit of two steps is worse than a single autoregression."""
    return GDM(3, 2, preset="paper", n_steps=2, n_samples=2)


def test_failed_fit_warns_and_can_be_raised(laps):
    with pytest.warns(FitWarning, match=REASON):
        model = failing().fit(laps[0])
    assert model.status_ is Status.FAILED
    assert model.calibration_ is None
    with pytest.raises(FitError, match="Try another seed, fewer states"):
        model.raise_if_failed()
    quick_model().fit(laps[0]).raise_if_failed()


def test_compare_leaves_failed_setting_out(laps):
    found = gdm_core.compare({"good": quick_model(), "bad": failing()}, *laps, seeds=[0])
    assert REASON in found.failures["bad"]
    assert found.verdict("states").means.keys() >= {"good"}
    assert "bad" not in found.verdict("states").means
    frame = found.to_frame()
    assert REASON in frame.message["bad"]
    assert frame.loc["bad"].drop("message").isna().all()


def test_compare_shows_no_numbers_where_one_seed_failed(laps, monkeypatch):
    def fit(family, setting, *trials):
        if setting["seed"] == 1 and setting["n_states"] == 2:
            raise FitError("it is cursed")
        return fit_cell(family, setting, *trials)

    monkeypatch.setattr("gdm_core.engine.compare.fit_cell", fit)
    found = gdm_core.compare({"good": quick_model(), "mixed": quick_model(2)}, *laps, seeds=[0, 1])
    assert list(found.cells["mixed"]) == [0]
    assert found.to_frame().loc["mixed"].drop("message").isna().all()
    assert "mixed" not in found.verdict("density").means


def test_sweep_lists_failed_fit_with_its_reason(laps):
    model = GDM(3, 2, n_steps=20, n_samples=2)
    frame = gdm_core.sweep(model, {"preset": ["fast", "paper"]}, *laps, scorer="").to_frame().set_index("preset")
    assert frame.message["fast"] == ""
    assert REASON in frame.message["paper"]
    assert frame.loc["paper", ["elbo_train", "elbo_test"]].isna().all()


def test_suggest_never_takes_a_failed_setting(laps):
    quick = {"states": [2, 3], "seeds": [0], "n_steps": 2}
    found = gdm_core.suggest(laps[0], ["arhmm", "gdm-paper"], n_iter=2, **quick)
    assert {probe.model for probe in found.verdict.probes} == {"arhmm"}
    for number, sentence in zip((2, 3), found.left_out, strict=True):
        assert sentence.startswith(f"GDM as in the paper, K = {number} is left out.")
        assert REASON in sentence
        assert sentence in str(found)
    with pytest.raises(FitError, match=REASON):
        gdm_core.suggest(laps[0], "gdm-paper", **quick)


def test_study_refuses_failed_fit():
    rng = np.random.default_rng(0)
    recordings = {f"r{i}": Trial(rng.standard_normal((200, 2)).cumsum(axis=0), name=f"r{i}") for i in range(4)}
    sheet = pd.DataFrame({"recording": list(recordings), "animal": list("abcd"), "group": list("xxyy")})
    with pytest.raises(FitError, match=REASON):
        gdm_core.Study.fit(recordings, sheet, failing())
    failed = failing().fit(list(recordings.values()))
    with pytest.raises(FitError, match=REASON):
        gdm_core.Study.fit(recordings, sheet, failed)


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_failed_fit_names_many_missing_values(share):
    random = np.random.default_rng(0)
    y = random.standard_normal((400, 2)).cumsum(axis=0)
    y[random.random(y.shape) < share] = np.nan
    failure = failing().fit(y, calibrate=False).failure_
    assert REASON in failure
    assert ("60% of the values are missing" in failure) == (share > 0.5)


def test_labels_refuse_failed_fit(laps):
    failed = failing().fit(laps[0])
    with pytest.raises(FitError, match=REASON):
        LabelModel(failed).fit(laps[0], laps[0].labels)


@pytest.mark.parametrize("family", [ARHMM, SLDS, GDM])
def test_kept_repeats_collapse_a_state(family):
    y = np.array(regimes.simulate("levels", 1500, seed=3)[0].y)
    if family is GDM:
        stops = np.random.default_rng(0).standard_normal(1500)
        y = np.column_stack([y, np.where(np.arange(1500) < 1000, stops, stops[1000])])
    else:
        y[500:1000] = y[500]
    model = family(n_states=3, n_latent=2, repeats="keep").fit(y, calibrate=False)
    assert model.status_ is Status.FAILED
    assert "has collapsed" in model.failure_
    assert 'repeats="auto"' in model.failure_


@pytest.mark.parametrize("family", [ARHMM, SLDS])
def test_noise_free_data_do_not_collapse(family):
    angle = 0.1 * np.arange(800) * np.repeat([1.0, -2.0], 400)
    y = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    model = family(n_states=2, n_latent=2).fit(y, calibrate=False)
    assert model.status_ is not Status.FAILED, model.failure_


# ---- data outside of the fit ---------------------------------------------------------------------------------------
def halves(y):
    return as_trials(y[: len(y) // 2]), as_trials(y[len(y) // 2 :])


def walk(seed, drift=0.3, n_samples=600):
    return np.cumsum(np.random.default_rng(seed).normal(size=(n_samples, 2)) + drift, axis=0)


def smooth_noise(seed, n_samples=2000, memory=0.99):
    noise = np.random.default_rng(seed).normal(size=(n_samples, 3))
    y = noise / np.sqrt(1 - memory**2)
    for before, after, step in zip(y, y[1:], noise, strict=False):
        after[:] = memory * before + step
    return y


def test_score_and_forecast_outside_the_fit_warn():
    train, test = halves(walk(0))
    model = ARHMM(2, 1, seed=0).fit(train)
    for verb in (model.score, lambda data: model.forecast(data, horizon=2)):
        with pytest.warns(FitWarning, match=r"standard deviations from the fitted mean of y[12]"):
            verb(test)
        with warnings.catch_warnings():
            warnings.simplefilter("error", FitWarning)
            verb(train)


def test_comparison_notes_data_outside_the_fit():
    train, test = halves(walk(1))
    setting = ("arhmm", {"n_states": 2, "n_latent": 1})
    found = Comparison({"A": setting}, (0,), train, test).run()
    assert describe_held_out(train, test) in found.notes
    assert not describe_held_out(train, train)


@pytest.mark.bulk
def test_few_alarms_on_stationary_data_and_drift_is_found():
    alarms = sum(bool(describe_held_out(*halves(smooth_noise(seed)))) for seed in range(1000, 1200))
    found = sum(bool(describe_held_out(*halves(walk(seed, 0.3, 2000)))) for seed in range(200))
    assert alarms <= 0.02 * 200
    assert found >= 0.9 * 200
