"""The control "Time scale" on Behaviour, Your data, Compare and Study."""

import io

import numpy as np
import pandas as pd
import pytest

from gdm_core.analysis.time_scale import ScaleChoice
from gdm_studio.plot.figures.base import untyped
from pages.behaviour import recordings
from pages.lab import time_scale
from pages.lab.dataset import Dataset
from tests.support.controls import control
from tests.support.drawn import record, words
from tests.support.labelling_page import DATA, table
from tests.support.offered import file_makers
from tests.support.page import opened
from tests.support.scripts import same_from_script
from tests.support.your_data_page import uploaded

SIMULATED = recordings.ChosenRecordings("simulated", "egocentric", (("frames", 1000), ("seed", 0)))
FRAMES, LENGTH, STEP = 1000, 31, 3
WINDOWS = -(-FRAMES // STEP)


@pytest.fixture
def data() -> Dataset:
    return time_scale.summarise(recordings.load_simulated(SIMULATED), LENGTH)


def test_windows_and_their_recordings_have_one_order(data):
    assert data.train[0].n_samples == WINDOWS
    assert [trial.name for trial in data.recordings] == [trial.name for trial in data.trials]
    assert data.recording(0).n_samples == FRAMES
    assert data.fitted_recordings[0] is data.recording(0)
    assert data.to_samples(0, np.ones((data.train[0].n_samples, 2), np.float32)).shape == (FRAMES, 2)


def test_script_makes_the_same_windows(data):
    same_from_script(data)


def test_every_tab_works_on_windows_and_files_have_every_sample(engine, monkeypatch):
    drawn = record(monkeypatch)
    app = uploaded("walk.csv", table())
    app.button(key="fit").click().run()
    control(app, "segmented_control", "scale").set_value("own").run()
    control(app, "number_input", "window").set_value(1.0).run()
    assert "windows of 0.967 s" in words(app), "an odd number of samples"
    n_samples = DATA[0].n_samples
    assert app.session_state["fit-your_data"].poll().spec.trials[0].n_samples == n_samples // 2
    assert untyped(drawn["strips"][0]["data"][0]["customdata"]).shape[1] == n_samples
    tabs = ("Bouts/Proportions", "Bouts/Transitions", "Labels/Agreement", "Labels/Labelling", "Trials/", "Prediction/")
    for name in (*tabs, "Suggest settings/", "Export/"):
        app.session_state["view"], _, shown = name.partition("/")
        app.session_state[app.session_state["view"].lower()] = shown
        app.run()
    name = next(name for name in file_makers(app) if name.endswith("-states.csv"))
    assert len(pd.read_csv(io.BytesIO(file_makers(app)[name]()))) == n_samples


def test_automatic_scale_is_explained_and_fitted(engine, monkeypatch):
    choice = ScaleChoice(
        31, 5, "clear", ("Use windows of 31 samples, and 5 states.", "Certain: windows separate better.")
    )
    monkeypatch.setattr(time_scale, "choose_scale", lambda trials: choice)
    app = opened("behaviour", scale="Auto", frames=f"{FRAMES}")
    app.run()
    assert "Recommended: windows of 1.03 s. Certain: windows separate better." in words(app)
    assert app.session_state["fit-behaviour"].poll().spec.trials[0].n_samples == WINDOWS
    app.session_state["view"] = "Suggest settings"
    app.run()
    assert "**Use windows of 31 samples, and 5 states.**" in [each.value for each in app.markdown]


def test_compare_fits_windows(engine):
    engine.auto = False
    app = opened("compare", scale="Steps", window="40")
    assert "windows of 41 steps" in words(app)
    assert control(app, "segmented_control", "scale")


def test_study_fits_windows(engine):
    app = opened("study", found="Fitted")
    assert " samples" in words(app)
    control(app, "segmented_control", "scale").set_value("own").run()
    assert " windows" in words(app)
