"""Failed fits are shown with their reason, and never ranked, tested or exported."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gdm_core
from gdm_core import ARHMM, GDM, SLDS
from gdm_core.analysis.comparisons import fit_cell
from gdm_core.errors import FitError, FitWarning
from gdm_core.labels import LabelModel
from gdm_core.models.progress import Status
from gdm_core.trials import Trial
from gdm_studio.datasets import nascar, regimes
from tests.support.quick_model import quick_model

REASON = "below that of a single autoregression"
pytestmark = pytest.mark.filterwarnings("ignore::gdm_core.errors.FitWarning")


def failing() -> GDM:
    """Return a model whose fit of two steps is worse than a single autoregression."""
    return GDM(3, 2, preset="paper", n_steps=2, n_samples=2)


@pytest.fixture(autouse=True)
def own_store(tmp_path, monkeypatch):
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path))


@pytest.fixture(scope="module")
def laps():
    return nascar.train_test("standard", seed=0, T=240)


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
