"""Functions at the top of the library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gdm_core
from gdm_core import ARHMM
from gdm_core.errors import ConfigError
from gdm_core.models.variants import format_call
from gdm_studio.datasets import nascar

ROOT = Path(__file__).resolve().parents[2]
FEW = {"n_states": 3, "n_latent": 2, "n_iter": 4, "n_restarts": 1}


@pytest.fixture(autouse=True)
def own_store(tmp_path, monkeypatch):
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path))


@pytest.fixture(scope="module")
def laps():
    return nascar.train_test("standard", seed=0, T=160)


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
    alone = gdm_core.suggest(np.asarray(laps[0].y[:, :1]), "arhmm", states=[1, 2], seeds=[0], n_iter=2)
    assert alone.settings["n_latent"] == 1  # one channel has one dimension


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
