"""Failed fits are shown with their reason, and never ranked, tested or exported."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import gdm_core
from gdm_core import ARHMM, GDM, SLDS
from gdm_core.engine import worker
from gdm_core.errors import FitError, FitWarning
from gdm_core.labels import LabelModel
from gdm_core.models.progress import Status
from gdm_core.models.registry import FAMILIES, NAMED_MODELS
from gdm_core.trials import Trial, as_trials
from gdm_studio.datasets import nascar, regimes
from tests.support.simple_model import SimpleModel

REASON = "below that of a single autoregression"
pytestmark = pytest.mark.filterwarnings("ignore::gdm_core.errors.FitWarning")


class TooNoisy(SimpleModel):
    """Claims far too much noise if it has more than four states."""

    family = "too_noisy"

    def _fit(self, ys):
        yield from super()._fit(ys)
        if self.config.n_states > 4:
            self.params_["noise"] = self.params_["noise"] * np.float32(50)


@pytest.fixture(autouse=True)
def own_store(tmp_path, monkeypatch):
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path))
    monkeypatch.setitem(FAMILIES, "too_noisy", (__name__, "TooNoisy"))
    monkeypatch.setitem(NAMED_MODELS, "too-noisy", ("too_noisy", {}))


@pytest.fixture(scope="module")
def laps():
    return nascar.train_test("standard", seed=0, T=240)


def test_failed_fit_warns_and_can_be_raised(laps):
    with pytest.warns(FitWarning, match=REASON):
        model = TooNoisy(n_states=5).fit(laps[0])
    assert model.status_ is Status.FAILED
    assert model.calibration_ is None
    with pytest.raises(FitError, match="Try another seed, fewer states"):
        model.raise_if_failed()
    TooNoisy(n_states=4).fit(laps[0]).raise_if_failed()


def test_compare_leaves_failed_setting_out(laps):
    found = gdm_core.compare({"good": TooNoisy(n_states=3), "bad": TooNoisy(n_states=5)}, *laps, seeds=[0])
    assert REASON in found.failures["bad"]
    assert found.verdict("states").means.keys() >= {"good"}
    assert "bad" not in found.verdict("states").means
    frame = found.to_frame()
    assert REASON in frame.message["bad"]
    assert frame.loc["bad"].drop("message").isna().all()


def test_compare_shows_no_numbers_where_one_seed_failed(laps, monkeypatch):
    validate = TooNoisy._validate

    def check(self, ys):
        cursed = self.config.seed == 1 and self.config.n_states == 2
        return validate(self, ys)._replace(**({"failure": "it is cursed"} if cursed else {}))

    monkeypatch.setattr(TooNoisy, "_validate", check)
    found = gdm_core.compare({"good": TooNoisy(n_states=3), "mixed": TooNoisy(n_states=2)}, *laps, seeds=[0, 1])
    assert list(found.cells["mixed"]) == [0]
    assert found.to_frame().loc["mixed"].drop("message").isna().all()
    assert "mixed" not in found.verdict("density").means


def test_sweep_lists_failed_fit_with_its_reason(laps):
    frame = gdm_core.sweep(TooNoisy(), {"n_states": [3, 5]}, *laps, scorer="").to_frame().set_index("n_states")
    assert frame.message[3] == ""
    assert REASON in frame.message[5]
    assert frame.loc[5, ["elbo_train", "elbo_test"]].isna().all()


def test_suggest_never_takes_a_failed_setting():
    walk = np.random.default_rng(0).standard_normal((400, 2)).cumsum(axis=0)
    found = gdm_core.suggest(walk, "too-noisy", states=[3, 4, 5], seeds=[0])
    assert {probe.setting["n_states"] for probe in found.verdict.probes} == {3, 4}
    (sentence,) = found.left_out
    assert sentence.startswith("too-noisy, K = 5 is left out.")
    assert REASON in sentence
    assert sentence in str(found)
    with pytest.raises(FitError, match=REASON):
        gdm_core.suggest(walk, "too-noisy", states=[5, 6], seeds=[0])


def test_engine_refuses_failed_fit(laps, monkeypatch):
    control = SimpleNamespace(report_is_due=False, checkpoint=lambda step: None)
    monkeypatch.setattr(worker._local, "control", control, raising=False)
    with pytest.raises(FitError, match=REASON):
        worker.fit(as_trials(laps[0]), None, "key", "too_noisy", {"n_states": 5}, ())
    assert worker.fit(as_trials(laps[0]), None, "key", "too_noisy", {"n_states": 4}, ()).fit_status == "converged"


def test_study_refuses_failed_fit():
    rng = np.random.default_rng(0)
    recordings = {f"r{i}": Trial(rng.standard_normal((200, 2)).cumsum(axis=0), name=f"r{i}") for i in range(4)}
    sheet = pd.DataFrame({"recording": list(recordings), "animal": list("abcd"), "group": list("xxyy")})
    with pytest.raises(FitError, match=REASON):
        gdm_core.Study.fit(recordings, sheet, TooNoisy(n_states=5))
    failed = TooNoisy(n_states=5).fit(list(recordings.values()))
    with pytest.raises(FitError, match=REASON):
        gdm_core.Study.fit(recordings, sheet, failed)


def test_labels_refuse_failed_fit(laps):
    failed = TooNoisy(n_states=5).fit(laps[0])
    with pytest.raises(FitError, match=REASON):
        LabelModel(failed).fit(laps[0], laps[0].labels)


@pytest.mark.parametrize("family", [ARHMM, SLDS, GDM])
def test_kept_repeats_collapse_a_state(family):
    y = np.array(regimes.simulate("levels", 1500, seed=0)[0].y)
    if family is GDM:
        stops = np.random.default_rng(0).standard_normal(1500)
        y = np.column_stack([y, np.where(np.arange(1500) < 1000, stops, stops[1000])])
    else:
        y[500:1000] = y[500]
    model = family(n_states=3, n_latent=2, repeats="keep")
    for _ in model.fit_iter(y, calibrate=False):
        pass
    assert model.status_ is Status.FAILED
    assert "has collapsed" in model.failure_
    assert 'repeats="auto"' in model.failure_


@pytest.mark.parametrize("family", [ARHMM, SLDS])
def test_noise_free_data_do_not_collapse(family):
    angle = 0.1 * np.arange(800) * np.repeat([1.0, -2.0], 400)
    y = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    model = family(n_states=2, n_latent=2)
    for _ in model.fit_iter(y, calibrate=False):
        pass
    assert model.status_ is not Status.FAILED, model.failure_
