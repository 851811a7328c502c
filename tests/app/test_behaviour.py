"""Behaviour: opens with a finished fit, reads recordings, names and merges states, and says what is wrong with a file."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from datasets import keypoints, mice
from datasets.splits import split_recording, split_trials, usable
from gdm_core.analysis import bout_scores
from gdm_core.analysis.bouts import BoutRule, transition_shares
from gdm_core.analysis.metrics import macro_f1, majority_map, persistence, r2
from gdm_core.errors import DataError
from gdm_core.trials import Trial, Trials
from pages.behaviour import recordings, shipped
from pages.lab import live
from pages.lab.live import screen
from pages.lab.live.pictures import PREVIEW_SAMPLES, Origin, Wanted, previewed
from pages.lab.shipped import both
from pages.recording import analysis_figures, export, naming, player, scores
from pages.recording.naming import Naming, arrange
from pages.recording.view import Here
from pages.ui import navigation
from tests.support.controls import control
from tests.support.live_engine import Kept, QuickEngine, Sketch
from tests.support.recording import view_of
from tests.support.sliders import slider

ROOT = Path(__file__).resolve().parents[2]
SMALL = recordings.Chosen("simulated", "egocentric", (("frames", 300), ("seed", 1)))
FIRST = recordings.Chosen("simulated", "egocentric", (("frames", 2000), ("seed", 0)))
CONFIG = {"n_states": 5, "temperature": 0.99, "stickiness": "learn", "posterior": "linear", "n_latent": 6, "seed": 0}


class Shelf(Kept):
    """What has been fitted, and what the page puts there."""

    def put(self, result) -> str:
        self.results[result.key] = result
        return ""


@pytest.fixture
def engine(monkeypatch, tmp_path) -> QuickEngine:
    made = QuickEngine()
    made.cache = Shelf()
    monkeypatch.setattr(screen, "engine", lambda: made)
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path))
    return made


def opened(**query: str) -> AppTest:
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    for name, value in query.items():
        app.query_params[name] = value
    app = app.switch_page(str(navigation.info("behaviour").path)).run()
    assert not app.exception, app.exception[0].value
    return app


def html(app: AppTest) -> str:
    return " ".join(str(element.value) for element in app.get("html"))


# ---- the page -----------------------------------------------------------------------------------------------------
def test_it_opens_with_the_finished_result_before_any_worker_has_done_anything(engine):
    engine.auto = False
    text = html(opened())
    assert f"{shipped.bundled().more['scores']['macro_f1']:.3f}" in text
    assert "Macro-F1" in text
    assert "Simulated mice" in text
    assert not engine.waiting("main")
    assert not engine.waiting("ask-scores")


def test_the_bundled_result_belongs_to_what_a_first_visit_asks_for(engine):
    data = recordings.load_simulated(FIRST)
    bundle = shipped.bundled()
    assert bundle is not None
    assert bundle.config == CONFIG
    assert bundle.fingerprint == both(data.train, data.test)
    assert bundle.fits(Wanted("gdm", CONFIG, data.train, data.test))
    assert not bundle.fits(Wanted("gdm", CONFIG | {"seed": 1}, data.train, data.test))
    assert not bundle.fits(Wanted("gdm", CONFIG, data.test, data.test))


def test_the_bundled_states_are_those_of_the_bundled_model():
    data, bundle = recordings.load_simulated(FIRST), shipped.bundled()
    soft = bundle.result.model().predict_proba(data.test)
    for exact, kept in zip(soft, bundle.look.test, strict=True):
        np.testing.assert_allclose(exact, kept, atol=0.012)


@pytest.mark.slow
def test_fitting_the_bundled_result_anew_finds_as_good_states():
    from assets.make_demo import fitted

    data, bundle = recordings.load_simulated(FIRST), shipped.bundled()
    result = fitted(data.train, dict(bundle.config))
    assert result.elbo == pytest.approx(bundle.result.elbo, abs=0.5)
    rule = BoutRule(*bundle.more["options"])
    assert rule == data.expert_rule
    found = bout_scores.measure(result.model_bytes, data.train, data.test, rule.smooth_s, rule.shortest_s)
    assert found["macro_f1"] == pytest.approx(bundle.more["scores"]["macro_f1"], abs=0.08)


def test_another_setting_is_fitted_and_scored(engine):
    app = opened()
    slider(app, "K").set_value(4).run()
    assert not app.exception
    fits = [job for job in engine.jobs if job.slot in ("main", "warm")]
    assert [job.work.config["n_states"] for job in fits if job.slot == "main"] == [5, 4]
    assert engine.jobs[-1].slot.startswith("ask-")
    assert "Median bout" in html(app)


@pytest.mark.parametrize(
    "tab", ["Bouts", "Shares", "Transitions", "Labels", "Trials", "Features", "Export & reproduce"]
)
def test_every_tab_draws(engine, tab):
    app = opened(view=tab)
    assert 'class="gdm-message' not in html(app)


def test_calms21_that_is_not_there_says_where_to_get_it(engine):
    app = opened()
    app.selectbox(key="source").set_value("calms21").run()
    assert not app.exception
    assert "s0vdx-0k302" in html(app)
    assert "licence" in html(app)
    app.selectbox(key="source").set_value("simulated").run()
    assert "Macro-F1" in html(app)


def test_one_part_of_calms21_is_said_to_be_there_and_the_other_to_be_missing(engine, tmp_path):
    frame = [[[1.0] * 7, [2.0] * 7]] * 2
    trial = {"keypoints": [frame] * 60, "scores": [[[1.0] * 7] * 2] * 60, "annotations": [0] * 60}
    content = {"annotator-id_0": {"task1/test/mouse070_task1_annotator1": trial}}
    (tmp_path / "calms21_task1_test.json").write_text(json.dumps(content))
    for path in ("calms21_task1_test.json", ""):
        app = opened()
        app.selectbox(key="source").set_value("calms21").run()
        app.text_input(key="path").set_value(path).run()
        assert not app.exception, app.exception[0].value
        assert "test trials of CalMS21, but the train trials are missing" in html(app), path
        assert "calms21_task1_train.json" in html(app)


def test_a_path_that_leads_out_of_the_data_folder_is_refused(engine):
    app = opened()
    app.selectbox(key="source").set_value("calms21").run()
    app.text_input(key="path").set_value("../../etc/passwd").run()
    assert not app.exception
    assert "outside the data folder" in html(app)


def test_a_damaged_tracking_file_is_named_and_the_page_goes_on(engine, tmp_path):
    (tmp_path / "broken.h5").write_bytes(b"this is no HDF5 file")
    app = opened()
    app.selectbox(key="source").set_value("file").run()
    assert not app.exception
    assert "broken.h5" in html(app)
    assert app.button(key="behaviour-again")


def test_a_link_to_a_file_that_is_not_there_opens_no_other_one(engine, tmp_path):
    whole = mice.simulate_recordings(1, 300, seed=3)[0]
    np.savez(tmp_path / "pair.npz", keypoints=whole.xy, scores=whole.scores)
    app = opened()
    app.query_params["file"] = "gone.npz"
    app.selectbox(key="source").set_value("file").run()
    engine.jobs.clear()
    for _ in range(2):
        assert "&#x27;gone.npz&#x27;, which is not in the data folder" in html(app)
        assert not engine.jobs
        app.run()
    app.selectbox(key="file").set_value("pair.npz").run()
    assert not app.exception, app.exception[0].value
    assert "gone.npz" not in html(app)
    assert [job.slot for job in engine.jobs if job.slot == "main"] == ["main"]


def test_a_tracking_file_in_the_data_folder_is_fitted(engine, tmp_path):
    whole = mice.simulate_recordings(1, 300, seed=3)[0]
    np.savez(tmp_path / "pair.npz", keypoints=whole.xy, scores=whole.scores, labels=np.asarray(whole.labels, np.int64))
    app = opened()
    app.selectbox(key="source").set_value("file").run()
    assert not app.exception
    assert "pair.npz" in html(app)
    assert "first 60 %" in str(control(app, "selectbox", "trial").options)


def test_names_travel_to_the_legend_and_another_recording_forgets_them(engine):
    app = opened()
    control(app, "text_input", "name2").set_value("sniffing").run()
    assert "sniffing" in html(app)
    app.number_input(key="mice").set_value(4).run()
    assert "sniffing" not in html(app)


def test_states_have_the_colours_of_the_labels_that_they_mostly_stand_for(engine):
    app = opened()
    data, bundle = recordings.load_simulated(FIRST), shipped.bundled()
    weight = naming.weights(bundle.look.train, [trial.labels for trial in data.train], 4)
    worn = naming.label_colours(weight)
    keys = re.findall(r'<span[^>]*><i style="background:([^"]+)"></i>([^<]+)</span>', html(app))
    colour = {name: value for value, name in keys}
    mostly = weight.argmax(axis=1)
    shown = {colour[f"S{k + 1}"] for k in range(5)}
    assert len(shown) == 5
    assert shown & {colour[word] for word in data.label_names} == {colour[data.label_names[w]] for w in worn if w < 4}
    assert {w for w in worn if w < 4} == set(mostly)


def test_from_labels_leaves_names_and_mergers_of_the_visitor_alone(engine):
    app = opened()
    control(app, "text_input", "name1").set_value("sniffing")
    control(app, "selectbox", "into2").set_value("S1")
    control(app, "selectbox", "hue3").set_value("magenta").run()
    app.button(key="behaviour-name-by-labels").click().run()
    assert not app.exception, app.exception[0].value
    names = [control(app, "text_input", f"name{k}").value for k in range(1, 6)]
    assert names[0] == "sniffing"
    assert names[1] == ""
    words = recordings.load_simulated(FIRST).label_names
    assert all(re.sub(r" \d+$", "", name) in words for name in names[2:])
    assert control(app, "selectbox", "into2").value == "S1"
    assert control(app, "selectbox", "hue3").value == "magenta"


# ---- scores -------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def sketch(tmp_path_factory):
    data = recordings.load_simulated(SMALL)
    model = Sketch(n_states=4).fit(data.train)
    path = tmp_path_factory.mktemp("model") / "m.safetensors"
    model.save(path)
    return data, model, path.read_bytes()


def test_scores_are_those_of_the_library(sketch):
    data, model, content = sketch
    rule = BoutRule(0.5, 0.3)
    found = bout_scores.measure(content, data.train, data.test, 0.5, 0.3)
    known, truth = (np.concatenate([t.labels for t in side]) for side in (data.train, data.test))
    hard, hard_test = (
        np.concatenate([rule.labels(p, 30.0) for p in model.predict_proba(side)]) for side in (data.train, data.test)
    )
    mapping = majority_map(hard, known, 4)
    assert found["macro_f1"] == pytest.approx(macro_f1(mapping[hard_test], truth))
    common = np.bincount(known).argmax()
    assert found["majority"] == pytest.approx((truth == common).mean())
    assert found["majority_f1"] == pytest.approx(macro_f1(np.full(len(truth), common), truth))
    trial = data.test[1]
    assert found["test"][1]["r2"] == pytest.approx(r2(trial.y, model.smooth(trial)))
    assert found["test"][1]["persistence"] == pytest.approx(r2(trial.y, persistence(trial.y)))
    assert len(found["train"]) == len(data.train)
    json.dumps(found)


def test_the_card_holds_scores_against_the_best_line_without_labels(sketch):
    data, _, content = sketch
    found = bout_scores.measure(content, data.train, data.test, 0.0, 0.0)
    lines = {"k-means on steps": {"macro_f1": 0.95}, "10-NN on position": {"macro_f1": 0.99}}
    row = next(row for row in scores.score_rows(found | {"lines": lines}) if row.name == "Macro-F1")
    assert (row.line_name, row.line) == ("k-means on steps", 0.95)
    assert row.verdict == "short", "four trials of ten seconds carry none"
    assert any("10-NN" in name for name, _ in row.others)


def test_recordings_without_labels_are_measured_without_them(sketch):
    data, _, content = sketch
    blank = replace(data.test, trials=tuple(replace(t, labels=None) for t in data.test))
    found = bout_scores.measure(content, data.train, blank, 0.0, 0.0)
    assert "macro_f1" not in found
    assert [row.name for row in scores.score_rows(found | {"lines": {}})] == ["Median bout", "Explains new trials (R²)"]
    assert bout_scores.baselines(data.train, blank, 4) == {}


def test_the_figure_of_trials_draws_every_trial_beside_its_line(sketch):
    data, _, content = sketch
    figure = analysis_figures.trial_scores(bout_scores.measure(content, data.train, data.test, 0.0, 0.0))
    assert len(figure["layout"]["xaxis"]["ticktext"]) == 5
    assert sum(len(trace["customdata"]) for trace in figure["data"]) >= 2 * len(data.train)


def test_transitions_count_bouts_and_the_graph_draws_the_likely_ones():
    matrix = transition_shares(np.repeat([0, 1, 0, 2, 0, 1], 5), 4)
    np.testing.assert_allclose(matrix[0, :3], [0, 2 / 3, 1 / 3])
    assert np.isnan(matrix[3]).all()
    figure = analysis_figures.transition_graph(matrix, [0.5, 0.3, 0.2, 0.0], ["a", "b", "c", "d"], [0, 1, 2])
    arrows = [a for a in figure["layout"]["annotations"] if a.get("showarrow")]
    assert len(arrows) == 4
    assert "b to a 100%" in figure["alt"]


# ---- exports ------------------------------------------------------------------------------------------------------
def test_exported_bouts_are_the_named_and_merged_ones_on_the_page():
    soft = np.eye(3, dtype=np.float32)[np.repeat([0, 1, 2, 0], [30, 20, 40, 10])]
    trial = Trial(np.zeros((100, 2)), 10.0, labels=np.repeat([0, 1], 50), name="t")
    made = arrange(["", "walk", ""], [0, 1, 1])
    states = made.apply(soft)
    here = Here(trial, states, "fresh", Origin(), naming=made, bouts=BoutRule().labels(states, 10.0))
    bouts = export.bouts_of(here)
    assert list(bouts["Behavior"]) == ["S1", "walk", "S1"]
    assert list(bouts["Stop (s)"]) == [3.0, 9.0, 10.0]
    assert (bouts["Mean share"] == 1).all()
    table = export.named_states(here)
    assert [name for name in table if name.startswith("p_")] == ["p_1", "p_2"]
    assert list(table["bout"][[0, 40, 99]]) == ["S1", "walk", "S1"]
    assert set(table["state"]) == {1, 2}
    assert list(export.features_of(trial)) == ["time", "y1", "y2"]


@pytest.mark.parametrize("features", ["egocentric", "keypoints"])
def test_the_script_makes_the_same_trials(features):
    data = recordings.load_simulated(replace(SMALL, features=features))
    space: dict = {}
    exec("\n".join([*data.recipe.imports, *data.recipe.lines]), space)
    for ours, theirs in ((data.train, space["train"]), (data.test, space["test"])):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a.y, b.y)


def test_the_script_of_a_tracking_file_makes_the_same_trials(engine, tmp_path, monkeypatch):
    whole = mice.simulate_recordings(1, 300, seed=3)[0]
    xy = np.array(whole.xy)
    xy[:, 1, 0, 3] = np.nan  # a part that is never seen: its channel cannot be fitted
    np.savez(tmp_path / "pair.npz", keypoints=xy, scores=whole.scores)
    repairs = {"min_score": 0.3, "fill_seconds": 0.2, "drop_outliers": True}
    repairs |= {"undo_side_flips": False, "undo_identity_swaps": False}
    options = {"file": "pair.npz", "rate": 30.0} | repairs
    data = recordings._load_file(recordings.Chosen("file", "keypoints", tuple(options.items())))
    assert any("never vary" in note for note in data.notes)
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    exec("\n".join([*data.recipe.imports, *data.recipe.lines]), space)
    for ours, theirs in ((data.train, space["train"]), (data.test, space["test"])):
        np.testing.assert_array_equal(ours[0].y, theirs[0].y)
        assert ours[0].start_seconds == theirs[0].start_seconds


# ---- data ---------------------------------------------------------------------------------------------------------
def test_recordings_and_trials_are_cut_without_losing_a_frame():
    table = mice.simulate_recordings(1, 101, seed=0)[0]
    first, rest = split_recording(table)
    np.testing.assert_array_equal(np.concatenate([first[0].xy, rest[0].xy]), table.xy)
    np.testing.assert_array_equal(np.concatenate([first[0].labels, rest[0].labels]), table.labels)
    many = Trials(tuple(Trial(np.random.default_rng(i).normal(size=(50, 2))) for i in range(5)))
    train, test = split_trials(many)
    assert (len(train), len(test)) == (3, 2)
    with pytest.raises(DataError, match="at least 40"):
        split_trials(Trials((Trial(np.zeros((10, 1))),)))


def test_channels_that_never_move_are_left_out_and_named():
    y = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    y[:, 1] = 3
    y[:, 2] = np.nan
    sides = [Trials((Trial(part, channels=("a", "b", "c", "d")),)) for part in (y[:40], y[40:])]
    train, test, said = usable(*sides)
    assert train[0].channels == test[0].channels == ("a", "d")
    assert "b, c" in said[0]
    still = Trials((Trial(np.ones((50, 1))),))
    with pytest.raises(DataError, match="None of the 1 channels"):
        usable(still, still)


def test_long_sets_are_previewed_in_part_and_private_fits_are_not_kept():
    long = Trials(tuple(Trial(np.zeros((PREVIEW_SAMPLES // 2, 1)), name=str(i)) for i in range(4)))
    assert previewed(long) == 2
    wanted = Wanted("gdm", CONFIG, long, keep=False)
    assert wanted.request.preview == (0, 1)
    assert not wanted.request.use_cache


def test_a_new_trial_waits_for_the_exact_look(engine):
    data = recordings.load_simulated(SMALL)
    fit = live.Live(engine, "s")
    fit.want(Wanted("gdm", CONFIG | {"n_states": 4}, data.train, data.test))
    shown = fit.poll()
    view = view_of(data, Naming.plain(4), BoutRule(), fit=fit, shown=shown, index=len(data.train))
    assert view.read().states is None
    screen.states_of(fit, shown)
    look, _ = screen.states_of(fit, shown)
    here = replace(view, look=look).read()
    expected = np.asarray(look.test[0])[:, list(shown.order)]
    np.testing.assert_array_equal(here.states, expected)
    mapping = [3, 1, 0, 2]
    read = view.as_labels(here, shown.order, mapping)
    np.testing.assert_array_equal(read, np.array(mapping)[np.asarray(look.test[0]).argmax(axis=1)])


# ---- the player ---------------------------------------------------------------------------------------------------
def test_poses_are_packed_to_within_a_hundredth_of_a_pixel_of_what_the_figure_shows():
    import base64

    table = mice.simulate_recordings(1, 50, seed=0)[0]
    xy = np.array(table.xy)
    xy[3, 0, :, 2] = np.nan
    packed, box = player.packed(replace(table, xy=xy), 1)
    levels = np.frombuffer(base64.b64decode(packed), "<i2").reshape(xy.shape)
    assert (levels[3, 0, :, 2] == player.MISSING).all()
    scale = table.image_size[0] / box[2]
    seen = np.isfinite(xy)
    np.testing.assert_allclose(levels[seen] * scale, xy[seen], atol=0.6 * scale)
    assert scale < 0.05


def test_skeletons_come_from_the_file_else_from_the_parts():
    table = mice.simulate_recordings(1, 50, seed=0)[0]
    assert player.edges_of(table) == table.edges
    assert player.edges_of(replace(table, edges=())) == table.edges
    other = keypoints.KeypointTable(np.zeros((5, 1, 2, 3)), ("a",), ("p", "q", "r"))
    assert player.edges_of(other) == ((0, 1), (1, 2))
