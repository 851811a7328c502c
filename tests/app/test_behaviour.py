"""Behaviour: opens with a finished fit, reads recordings, names and merges states, and says what is wrong with a file."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from datasets import mice
from gdm_core.analysis import bout_scores
from gdm_core.analysis.bouts import BoutRule
from gdm_studio.plot.figures.base import untyped
from pages.behaviour import recordings
from pages.lab import naming, shipped
from pages.lab.view import KNOWN_THEN
from tests.support.controls import control
from tests.support.drawn import record, words
from tests.support.page import opened
from tests.support.sliders import slider

FIRST = recordings.ChosenRecordings("simulated", "egocentric", (("frames", 2000), ("seed", 0)))
CONFIG = {"n_states": 5, "temperature": 0.99, "stickiness": "learn", "posterior": "linear", "n_latent": 6, "seed": 0}


# ---- the page -----------------------------------------------------------------------------------------------------
def test_it_opens_with_the_finished_result_before_any_worker_has_done_anything(engine):
    engine.auto = False
    text = words(opened("behaviour"))
    assert f"{shipped.load(recordings.SHIPPED).more['scores']['macro_f1']:.3f}" in text
    assert "Macro-F1" in text
    assert "Simulated mice" in text
    assert not engine.waiting("main")
    assert not engine.waiting("ask-scores")


def test_the_bundled_states_are_those_of_the_bundled_model():
    data, bundle = recordings.load_simulated(FIRST), shipped.load(recordings.SHIPPED)
    soft = bundle.result.model().predict_proba(data.test)
    for exact, kept in zip(soft, bundle.look.test, strict=True):
        np.testing.assert_allclose(exact, kept, atol=0.012)


@pytest.mark.bulk
def test_fitting_the_bundled_result_anew_finds_as_good_states():
    from assets.make_demo import fitted

    data, bundle = recordings.load_simulated(FIRST), shipped.load(recordings.SHIPPED)
    result = fitted(data.train, dict(bundle.config))
    assert result.elbo == pytest.approx(bundle.result.elbo, abs=0.5)
    rule = BoutRule(*bundle.more["options"])
    assert rule == data.expert_rule
    found = bout_scores.measure(result.model_bytes, data.train, data.test, rule.smooth_s, rule.shortest_s)
    assert found["macro_f1"] == pytest.approx(bundle.more["scores"]["macro_f1"], abs=0.08)


@pytest.mark.bulk
def test_another_setting_is_fitted_and_scored(engine):
    app = opened("behaviour")
    slider(app, "K").set_value(4).run()
    fits = [job for job in engine.jobs if job.slot in ("main", "warm")]
    assert [job.work.config["n_states"] for job in fits if job.slot == "main"] == [5, 4]
    assert engine.jobs[-1].slot.startswith("ask-")
    assert "Median bout" in words(app)


@pytest.mark.parametrize(
    "tab",
    ["Bouts", "Shares", "Transitions", "Labels", "Clips", "Trials", "Prediction", "Features", "Export & reproduce"],
)
def test_every_tab_draws(engine, tab):
    app = opened("behaviour", view=tab)
    assert 'class="gdm-message' not in words(app)


@pytest.mark.bulk
def test_the_strips_show_what_could_have_been_known_then(engine, monkeypatch):
    """The states of the strips and the poses; bouts are smoothed over what came later, and the caption says so."""
    engine.real = True  # its sketch has no filter
    drawn = record(monkeypatch)
    opened("behaviour", frames="300", seed="1")
    smoothed = drawn["strips"][0]
    opened("behaviour", frames="300", seed="1", then="true").run()
    then = drawn["strips"][0]
    assert then["caption"].startswith(f"{KNOWN_THEN} Smoothing bouts still looks ahead.")
    assert KNOWN_THEN not in smoothed["caption"]


def test_calms21_that_is_not_there_says_where_to_get_it(engine):
    app = opened("behaviour", source="CalMS21, from a file")
    assert "s0vdx-0k302" in words(app)
    assert "licence" in words(app)
    app.selectbox(key="source").set_value("simulated").run()
    assert "Macro-F1" in words(app)


def test_one_part_of_calms21_is_said_to_be_there_and_the_other_to_be_missing(engine, tmp_path):
    frame = [[[1.0] * 7, [2.0] * 7]] * 2
    trial = {"keypoints": [frame] * 60, "scores": [[[1.0] * 7] * 2] * 60, "annotations": [0] * 60}
    content = {"annotator-id_0": {"task1/test/mouse070_task1_annotator1": trial}}
    (tmp_path / "calms21_task1_test.json").write_text(json.dumps(content))
    for path in ("calms21_task1_test.json", ""):
        app = opened("behaviour", source="CalMS21, from a file")
        app.text_input(key="path").set_value(path).run()
        assert "test trials of CalMS21, but the train trials are missing" in words(app), path
        assert "calms21_task1_train.json" in words(app)


def test_a_path_that_leads_out_of_the_data_folder_is_refused(engine):
    app = opened("behaviour", source="CalMS21, from a file")
    app.text_input(key="path").set_value("../../etc/passwd").run()
    assert "outside the data folder" in words(app)


def test_a_damaged_tracking_file_is_named_and_the_page_goes_on(engine, tmp_path):
    (tmp_path / "broken.h5").write_bytes(b"this is no HDF5 file")
    app = opened("behaviour", source="A tracking file")
    assert "broken.h5" in words(app)
    assert app.button(key="behaviour-again")


def test_a_link_to_a_file_that_is_not_there_opens_no_other_one(engine, tmp_path):
    whole = mice.simulate_recordings(1, 300, seed=3)[0]
    np.savez(tmp_path / "pair.npz", keypoints=whole.xy, scores=whole.scores)
    app = opened("behaviour")
    app.query_params["file"] = "gone.npz"
    app.selectbox(key="source").set_value("file").run()
    engine.jobs.clear()
    for _ in range(2):
        assert "&#x27;gone.npz&#x27;, which is not in the data folder" in words(app)
        assert not engine.jobs
        app.run()
    app.selectbox(key="file").set_value("pair.npz").run()
    assert "gone.npz" not in words(app)
    assert [job.slot for job in engine.jobs if job.slot == "main"] == ["main"]


def test_a_tracking_file_in_the_data_folder_is_fitted(engine, tmp_path):
    whole = mice.simulate_recordings(1, 300, seed=3)[0]
    np.savez(tmp_path / "pair.npz", keypoints=whole.xy, scores=whole.scores, labels=np.asarray(whole.labels, np.int64))
    app = opened("behaviour", source="A tracking file")
    assert "pair.npz" in words(app)
    assert "first 60 %" in str(control(app, "selectbox", "trial").options)


def test_names_travel_to_the_legend_and_another_recording_forgets_them(engine):
    app = opened("behaviour")
    control(app, "text_input", "name2").set_value("sniffing").run()
    assert "sniffing" in words(app)
    app.number_input(key="mice").set_value(4).run()
    assert "sniffing" not in words(app)


def test_states_have_the_colours_of_the_labels_that_they_mostly_stand_for(engine):
    app = opened("behaviour")
    data, bundle = recordings.load_simulated(FIRST), shipped.load(recordings.SHIPPED)
    weight = naming.weights(bundle.look.train, [trial.labels for trial in data.train], 4)
    worn = naming.label_colours(weight)
    keys = re.findall(r'<span[^>]*><i style="background:([^"]+)"></i>([^<]+)</span>', words(app))
    colour = {name: value for value, name in keys}
    mostly = weight.argmax(axis=1)
    shown = {colour[f"S{k + 1}"] for k in range(5)}
    assert len(shown) == 5
    assert shown & {colour[word] for word in data.label_names} == {colour[data.label_names[w]] for w in worn if w < 4}
    assert {w for w in worn if w < 4} == set(mostly)


def test_from_labels_leaves_names_and_mergers_of_the_visitor_alone(engine):
    app = opened("behaviour")
    control(app, "text_input", "name1").set_value("sniffing")
    control(app, "selectbox", "into2").set_value("S1")
    control(app, "selectbox", "hue3").set_value("magenta").run()
    app.button(key="behaviour-name-by-labels").click().run()
    names = [control(app, "text_input", f"name{k}").value for k in range(1, 6)]
    assert names[0] == "sniffing"
    assert names[1] == ""
    known = recordings.load_simulated(FIRST).label_names
    assert all(re.sub(r" \d+$", "", name) in known for name in names[2:])
    assert control(app, "selectbox", "into2").value == "S1"
    assert control(app, "selectbox", "hue3").value == "magenta"


def test_held_bouts_are_cut_at_once_and_measured_when_they_are_let_go(engine, monkeypatch):
    drawn = record(monkeypatch)
    app = opened("behaviour")
    jobs, row = len(engine.jobs), list(drawn["strips"][0]["data"][0]["y"]).index("bouts")

    def bouts() -> np.ndarray:
        return untyped(drawn["strips"][0]["data"][0]["customdata"])[row]

    def poses() -> str:
        return next(e.proto.json for e in app.get("bidi_component") if e.proto.component_name == "gdm_player")

    before, sent = bouts(), poses()
    control(app, "slider", "smooth").hold(4.0).run()
    assert (bouts() != before).any()
    assert poses() == sent, "poses are too large to send with every value"
    assert len(engine.jobs) == jobs, "nothing is measured before it is let go"
    assert "Scores follow once the slider is let go." in words(app)
    assert not [name for name in app.query_params if name.startswith("smooth")]
    control(app, "slider", "smooth").set_value(4.0).run().run()
    assert poses() != sent
    assert [job.slot for job in engine.jobs[jobs:]] == ["ask-scores"]
    assert "Scores follow" not in words(app)
    assert [name for name in app.query_params if name.startswith("smooth")]
