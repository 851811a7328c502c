"""The Behaviour page as a script: first visit, recordings, files, names of states and bouts."""

import json
import re

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from datasets import mice
from datasets.tables import template
from gdm_core.analysis import bout_scores
from gdm_core.analysis.bouts import BoutRule
from gdm_core.engine.results import from_levels
from gdm_core.errors import DataError
from gdm_studio.plot.figures.base import untyped
from pages.behaviour import recordings
from pages.lab import naming
from pages.lab.labelling import labels
from pages.ui import shipped
from tests.support.controls import control
from tests.support.drawn import record, words
from tests.support.file_corpus import kind
from tests.support.last_bits import other_last_bits
from tests.support.page import opened

FIRST = recordings.ChosenRecordings("simulated", "egocentric", (("frames", 2000), ("seed", 0)))


# ---- the page -----------------------------------------------------------------------------------------------------
def test_first_visit_shows_precomputed_result_without_jobs(engine):
    engine.auto = False
    app = opened("behaviour", view="Clips")
    assert "Tab `Clips` to Bouts" in app.toast[0].value, "a link to a removed tab opens the first one"
    assert f"{shipped.load(recordings.SHIPPED).result.scores['scores']['macro_f1']:.3f}" in words(app)
    assert app.session_state["fit-behaviour"].poll().status == "fresh"
    assert not engine.waiting("fit")
    assert not engine.waiting("ask-scores")


FIGURES = {
    "Bouts/Durations": {"dwell-expert", "dwell-inferred"},
    "Bouts/Proportions": {"proportions", "entropy", "usage", "usage-expert"},
    "Bouts/Transitions": {"matrix", "matrix-expert"},
    "Labels": set(),
    "Trials": {"trial-scores"},
    "Prediction": {"envelope"},
    "Suggest settings": set(),
    "Export": {"behaviour-export-preview"},
}


def test_every_tab_draws_its_figures(engine, monkeypatch):
    drawn = record(monkeypatch)
    app = opened("behaviour")
    for name, figures in FIGURES.items():
        app.session_state["view"], _, app.session_state["bouts"] = name.partition("/")
        app.run()
        assert figures <= set(drawn), name


def test_smoothing_recuts_bouts_and_measures_them(engine, monkeypatch):
    drawn = record(monkeypatch)
    app = opened("behaviour")
    engine.auto = False
    jobs, row = len(engine.jobs), list(drawn["strips"][0]["data"][0]["y"]).index("bouts")

    def bouts() -> np.ndarray:
        return untyped(drawn["strips"][0]["data"][0]["customdata"])[row]

    before = bouts()
    control(app, "slider", "smooth").set_value(4.0).run().run()
    assert (bouts() != before).any()
    assert [job.name for job in engine.jobs[jobs:]] == ["ask-scores"]
    assert [name for name in app.query_params if name.startswith("smooth")]


def test_precomputed_states_equal_those_of_the_model():
    data, bundle = recordings.load_simulated(FIRST), shipped.load(recordings.SHIPPED)
    soft = bundle.result.model().predict_proba(data.test)
    for exact, kept in zip(soft, bundle.result.states.test, strict=True):
        np.testing.assert_allclose(exact, from_levels(kept), atol=0.012)


def test_link_is_independent_of_rounding():
    asked = recordings.ChosenRecordings("simulated", "egocentric", (("frames", 1000), ("seed", 3)))
    here = recordings.load_simulated(asked)
    with other_last_bits() as made:
        there = recordings.load_simulated(asked)
    assert there.train[0].recipe in made
    assert (here.bouts_of, here.start, labels.key_of(here)) == (there.bouts_of, there.start, labels.key_of(there))
    assert here.train.fingerprint == there.train.fingerprint


@pytest.mark.bulk
def test_refit_of_precomputed_result_is_as_good():
    from assets.make_demo import fit_result

    data, bundle = recordings.load_simulated(FIRST), shipped.load(recordings.SHIPPED)
    result = fit_result(data.train, dict(bundle.config))
    assert result.elbo == pytest.approx(bundle.result.elbo, abs=0.5)
    rule = BoutRule(*bundle.result.scores["options"])
    assert rule == data.expert_rule
    found = bout_scores.scores(result.model_bytes, data.train, data.test, rule.smooth_s, rule.shortest_s)
    assert found["macro_f1"] == pytest.approx(bundle.result.scores["scores"]["macro_f1"], abs=0.08)


def test_uploaded_file_opens_in_your_data(engine):
    app = opened("behaviour", source="Tracking file")
    control(app, "file_uploader", "behaviour-file").set_value(
        ("poses.csv", template("deeplabcut.csv"), "text/csv")
    ).run()
    assert "<h1>Your data</h1><p>poses.csv</p>" in words(app)


def test_missing_calms21_links_to_its_source(engine):
    app = opened("behaviour", source="CalMS21")
    assert "s0vdx-0k302" in words(app)
    assert "fit-behaviour" not in app.session_state
    app.selectbox(key="source").set_value("simulated").run()
    assert app.session_state["fit-behaviour"].poll().status == "fresh"


def test_missing_half_of_calms21_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path))
    frame = [[[1.0] * 7, [2.0] * 7]] * 2
    trial = {"keypoints": [frame] * 60, "scores": [[[1.0] * 7] * 2] * 60, "annotations": [0] * 60}
    content = {"annotator-id_0": {"task1/test/mouse070_task1_annotator1": trial}}
    (tmp_path / "calms21_task1_test.json").write_text(json.dumps(content))
    for path in ("calms21_task1_test.json", ""):
        options = {"path": path, "train": 1, "test": 1}
        with pytest.raises(DataError, match=r"calms21_task1_train\.json"):
            recordings.load(recordings.ChosenRecordings("calms21", "egocentric", tuple(options.items())))


def test_damaged_tracking_file_is_named(engine, tmp_path):
    (tmp_path / "broken.h5").write_bytes(b"this is no HDF5 file")
    app = opened("behaviour", source="Tracking file")
    assert "broken.h5" in words(app)
    assert app.button(key="behaviour-again")


def test_doubts_of_a_file_in_the_data_folder_are_asked(engine, tmp_path):
    one = kind("poses with unknown words")
    (tmp_path / "poses.csv").write_bytes(one.content)
    app = opened("behaviour", source="Tracking file")
    assert not engine.jobs
    asked = control(app, "selectbox", "_ask-animals")
    asked.set_value(one.asks["animals"]).run()
    assert [job.name for job in engine.jobs if job.name == "fit"] == ["fit"]
    assert control(app, "number_input", "rate").value == one.rate


def test_link_to_missing_file_opens_no_other_file(engine, tmp_path):
    whole = mice.simulate_recordings(1, 300, seed=3)[0]
    np.savez(tmp_path / "pair.npz", keypoints=whole.xy, scores=whole.scores)
    app = opened("behaviour", source=recordings.SOURCES["file"], file="gone.npz")
    assert "gone.npz" in words(app)
    assert not engine.jobs
    app.selectbox(key="file").set_value("pair.npz").run()
    assert "gone.npz" not in words(app)
    assert "first 60%" in str(control(app, "selectbox", "trial").options)
    assert [job.name for job in engine.jobs if job.name == "fit"] == ["fit"]


def _name_states() -> None:
    import streamlit as st

    from pages.lab import naming

    st.session_state["names"] = naming.controls("page", 3, st.session_state["of"]).names


def test_state_names_belong_to_their_recording():
    app = AppTest.from_function(_name_states)
    app.session_state["of"] = "one"
    control(app.run(), "text_input", "name2").set_value("sniffing").run()
    assert app.session_state["names"] == ("S1", "sniffing", "S3")
    app.session_state["of"] = "other"
    assert app.run().session_state["names"] == ("S1", "S2", "S3")


def test_states_take_colours_of_matching_labels(engine):
    app = opened("behaviour")
    data, bundle = recordings.load_simulated(FIRST), shipped.load(recordings.SHIPPED)
    weight = naming.weights(
        tuple(map(from_levels, bundle.result.states.train)), [trial.labels for trial in data.train], 4
    )
    worn = naming.label_colours(weight)
    keys = re.findall(r'<i style="background:([^"]+)"></i>([^<]+)<', words(app))
    colour = {name: value for value, name in keys}
    mostly = weight.argmax(axis=1)
    shown = {colour[f"S{k + 1}"] for k in range(5)}
    assert len(shown) == 5
    assert shown & {colour[word] for word in data.train.label_names} == {
        colour[data.train.label_names[w]] for w in worn if w < 4
    }
    assert {w for w in worn if w < 4} == set(mostly)
