"""The NASCAR lab as a script: first visit, links, controls, tabs, failures and predictions."""

import shutil
from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from datasets.nascar import PRESETS, train_test
from gdm_core.analysis import inference
from gdm_core.engine import FitSpec, Priority
from gdm_core.errors import DataError, FitError
from gdm_core.models.gdm.model import GDM
from gdm_core.models.loading import model_from_bytes
from gdm_core.trials import as_trials
from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import untyped
from pages.lab import explain
from pages.lab.naming import StateNames
from pages.lab.view import PAST_ONLY
from pages.nascar import pictures, simulator
from pages.ui import shipped
from tests.support.drawn import record, verdicts
from tests.support.nascar_page import live_of, opened, settled, text
from tests.support.offered import file_makers, offered
from tests.support.scripts import same_from_script
from tests.support.sliders import slider, sliders

WHY = "It was given up after 600 s."


@pytest.fixture
def recorded(monkeypatch):
    return record(monkeypatch)


# ---- the first visit ----------------------------------------------------------------------------------------------
def test_first_visit_shows_precomputed_result_without_jobs(engine):
    engine.auto = False
    app = opened(T="1000")
    found, shown = shipped.load("nascar"), live_of(app).poll()
    assert shown.status == "fresh"
    assert found.result.model_bytes == shown.result.model_bytes
    assert f"{found.result.scores['scores']['matched_accuracy']:.3f}" in text(app)
    assert engine.waiting() == []


def test_first_visit_has_fits_of_other_numbers_of_states(engine):
    app = opened(T="1000")
    slider(app, "K").set_value(3).run()
    shown = live_of(app).poll()
    assert (shown.status, shown.n_states) == ("fresh", 3)
    assert shown.result.from_cache
    assert shown.result.model().score(shown.spec.trials) == pytest.approx(shown.result.elbo, abs=0.01)


def test_shipped_temperature_is_found_at_its_value_alone(monkeypatch, tmp_path):
    shutil.copytree(shipped.FOLDER, tmp_path / "demo")
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "demo")
    found, track = shipped.load("nascar"), simulator.BUNDLED["nascar"]
    train, test = map(as_trials, train_test(track.setting, track.seed, track.length))
    shipped.write_variant("nascar", train, test, "tau0.5", replace(found.result, seconds=12.5))
    specs = [FitSpec("gdm", {**found.config, "temperature": value}, train) for value in (0.5, 0.51)]
    near, other = map(shipped.find_result, specs)
    assert (near.seconds, other) == (12.5, None)


def test_result_of_data_without_a_recipe_is_not_written():
    lap, another = map(as_trials, train_test("soft", T=50))
    changed = replace(another, trials=(another[0].slice(0, 50),))
    found = shipped.load("nascar-soft")
    with pytest.raises(DataError, match="another processor could not match it with 'mine'"):
        shipped.write("mine", FitSpec(found.family, found.config, lap, test=changed), found.result, {})


@pytest.mark.parametrize(
    "name", [each if each == "nascar" else pytest.param(each, marks=pytest.mark.bulk) for each in simulator.BUNDLED]
)
def test_precomputed_results_equal_a_refit(engine, name):
    found, track = shipped.load(name), simulator.BUNDLED[name]
    wanted = live_of(opened(T="1000", scenario=simulator.SETTINGS[track.setting])).poll().spec
    assert found.find(wanted) is found.result
    assert dict(wanted.config) == simulator.FIRST_CONFIG
    assert wanted.dataset.source == track
    again = GDM(**simulator.FIRST_CONFIG).fit(wanted.trials)
    # On another kind of processor a thousand steps end 0.4 nats away, in states that differ by 0.002.
    assert again.elbo_ == pytest.approx(found.result.elbo, abs=1.0)
    assert found.result.model().score(wanted.trials) == pytest.approx(found.result.elbo, abs=0.01)
    for number, trials in enumerate((wanted.trials, wanted.dataset.test)):
        kept = found.result.states.soft(number)
        assert np.abs(again.predict_proba(trials)[0] - kept).mean() < 0.05
        np.testing.assert_allclose(found.result.model().predict_proba(trials)[0], kept, atol=0.02)


def test_idle_time_fills_curves_and_other_seeds(engine):
    app = opened()
    for _ in range(3):
        app.run()
    shown = text(app)
    assert shown.count("State accuracy 0") == 2
    mine = [job for job in engine.jobs if job.name.startswith(("ask-curve", "ask-rival"))]
    assert {job.priority for job in mine} == {Priority.LOW}


def test_five_seeds_are_fitted_and_scored(engine):
    app = opened()
    for _ in range(4):
        app.run()
    asked = [job for job in engine.jobs if job.name.startswith("ask-seed")]
    fits, scores = asked[::2], asked[1::2]
    assert [job.work.config["seed"] for job in fits] == [1, 2, 3, 4]
    assert [job.name for job in scores] == [job.name.removesuffix("-fit") for job in fits]


# ---- links --------------------------------------------------------------------------------------------------------
def test_link_sets_model_track_and_colours(engine):
    address = {"scenario": "Soft-sticky", "stay": "Set by hand", "sees": "Position", "soft.noise": "0.05"}
    app = opened(K="4", tau="0.4", gamma="0.5", seed="7", D="1", track="3", colours="4-3-2-1", **address)
    shown = live_of(app).poll()
    assert shown.order == (3, 2, 1, 0)
    assert dict(shown.spec.config) == {
        "n_states": 4, "temperature": 0.4, "stickiness": 0.5, "posterior": "linear", "n_latent": 1, "seed": 7,
    }  # fmt: skip
    assert shown.spec.dataset.source == simulator.Track("soft", (("noise", 0.05),), 200, 3)
    assert shown.spec.trials[0].name == "nascar soft, seed 3"
    assert shown.spec.dataset.test[0].name == "nascar soft, seed 103"


# ---- controls -----------------------------------------------------------------------------------------------------
def _controls() -> None:
    import streamlit as st

    from pages.nascar import simulator

    st.session_state["chosen"] = simulator.choose(st.container())


def controls(**address: str) -> AppTest:
    """Return the controls of the simulator, without a fit."""
    app = AppTest.from_function(_controls)
    app.query_params.update(address)
    return app.run()


def test_every_preset_is_simulated_unchanged():
    for setting in PRESETS:
        track = controls(scenario=simulator.SETTINGS[setting], T="200").session_state["chosen"]
        assert track.call == f"train_test({setting!r}, seed=0, T=200)"


def test_every_simulator_parameter_has_a_control():
    app = controls(scenario="Standard")
    keys = {widget.key for kind in ("number_input", "selectbox", "button_group") for widget in app.get(kind)}
    keys |= {each.key for each in sliders(app)}
    shown = {key.removeprefix("standard.") for key in keys if key and key.startswith("standard.")}
    split = {"straight_steps": {"upper", "lower"}, "start": {"x", "y"}}
    for field in fields(PRESETS["standard"]):
        if field.name == "step":  # of the square track alone
            continue
        assert split.get(field.name, {field.name}) <= shown, field.name
    app = controls(**{"scenario": "Standard", "standard.track": "Square"})
    assert any(widget.key == "standard.step" for widget in app.number_input)


def test_previous_result_is_marked_until_the_new_one(engine, recorded):
    app = opened()
    engine.auto = False
    slider(app, "K").set_value(6)
    app.run()
    assert live_of(app).poll().status == "stale"
    assert recorded["inferred-track"][1] == "stale"
    assert recorded["true-track"][1] == "fresh", "known states are never marked"
    assert recorded["strips"][1] == "stale"
    assert all("opacity" not in trace for trace in recorded["strips"][0]["data"]), "pale colours mean mixed states"
    panels = app.session_state["_channel"].scene.make()
    badges = {key: badge for key, panel in panels.items() if (badge := getattr(panel, "badge", ""))}
    assert badges == {"inferred-track": "before: K 4"}
    engine.run_all()
    settled(app.run())
    assert recorded["inferred-track"][1] == "fresh"


def test_scores_of_other_data_are_hidden(engine):
    app = opened()
    assert verdicts(app)
    engine.auto = False
    app.number_input(key="track").set_value(7)
    app.run()
    assert not verdicts(app)


def test_regimes_show_true_and_inferred_states(engine, recorded):
    app = opened(scenario="Levels")
    wanted = live_of(app).poll().spec
    assert (wanted.config["n_states"], wanted.config["n_latent"]) == (3, simulator.REGIMES["levels"])
    true, inferred = recorded["true-track"][0], recorded["inferred-track"][0]
    assert true["layout"]["shapes"] != inferred["layout"]["shapes"]
    assert "ticktext" in true["layout"]["yaxis"], "channels, since there is no track"
    assert untyped(recorded["strips"][0]["data"][0]["z"]).shape == (2, 200)


@pytest.mark.parametrize("kind", list(simulator.REGIMES))
def test_script_simulates_the_regimes_of_the_page(kind):
    data = simulator.data_of(simulator.Track(kind, (), 300, 7))
    train, test = same_from_script(data)
    assert (train[0].start_seconds, test[0].start_seconds) == (0, 300)


def test_one_script_run_follows_a_fit(engine):
    app = opened(trial="Held-out")
    assert live_of(app).poll().result.states.soft(1).shape == (200, 4)
    engine.auto = False
    slider(app, "K").set_value(5).run()
    scene = app.session_state["_channel"].scene
    assert scene.make()["inferred-track"].state == "stale"
    engine.run_all()
    assert scene.make()["inferred-track"].state == "fresh"
    assert scene.settled() == "fit"
    app.run()
    scene = app.session_state["_channel"].scene
    assert engine.waiting("ask-scores")
    engine.run_all()
    assert "State accuracy" in scene.make()["scorecard"].html
    assert scene.settled() == "", "the channel draws the scores"


def test_filtered_view_uses_past_data_only(engine, recorded):
    app = opened(trial="Held-out")
    inferred = recorded["inferred-track"][0]
    app.toggle(key="then").set_value(True)
    settled(app.run())
    shown, test = live_of(app).poll(), live_of(app).poll().spec.dataset.test[0]
    found = model_from_bytes(shown.result.model_bytes).filter(test)[:, list(shown.order)]
    then = recorded["inferred-track"][0]
    known = figures.track(test.position, found, title="Inferred", height=then["height"], caption=PAST_ONLY)
    assert then["layout"]["shapes"] == known["layout"]["shapes"] != inferred["layout"]["shapes"]
    smoothed = shown.result.states.soft(1)[:, list(shown.order)]
    changed = (found.argmax(axis=1) != smoothed.argmax(axis=1)).mean()
    assert f"differs from the smoothed one at {changed:.0%} of samples" in then["caption"]
    assert recorded["strips"][0]["data"][0]["y"] == ["true", "inferred", "differs"]


TABS = {
    "Shares": {"proportions", "entropy", "usage"},
    "Dwell times": {"dwell-true", "dwell-inferred"},
    "Transitions": {"plane", "matrix"},
    "Prediction": {"envelope"},
    "Export": {"nascar-export-preview"},
}


def test_every_tab_draws_its_figures(engine, recorded):
    app = opened()
    for name, keys in TABS.items():
        recorded.clear()
        app.session_state["view"] = name
        settled(app.run())
        assert keys <= set(recorded), name


def test_flickering_states_get_an_overview_of_averages(engine, recorded):
    opened(scenario="Soft-sticky", T="600", view="Shares")
    overview, strips = recorded["overview"][0], recorded["strips"][0]
    assert untyped(overview["data"][0]["z"]).shape == (2, 150)
    assert untyped(strips["data"][0]["z"]).shape == (2, 600)
    assert strips["layout"]["xaxis"]["range"] == [-0.5, 149.5]


# ---- failures -----------------------------------------------------------------------------------------------------
def test_diverged_fit_keeps_the_picture_and_can_be_retried(engine):
    app = opened()
    good = live_of(app).poll().states[0]
    engine.failing = "The fit diverged at step 40. Try another seed."
    app.number_input(key="seed").set_value(3)
    settled(app.run())
    assert engine.failing in text(app)
    shown = live_of(app).poll()
    assert shown.status == "stale"
    np.testing.assert_array_equal(shown.states[0], good)
    engine.failing = ""
    app.button(key="nascar-retry").click()
    settled(app.run())
    assert live_of(app).poll().status == "fresh"


def test_failed_scores_can_be_retried(engine, monkeypatch):
    def refuse(*_):
        raise FitError(WHY)

    with monkeypatch.context() as broken:
        broken.setattr(inference, "score_parts", refuse)
        app = opened()
    assert WHY in text(app)
    assert live_of(app).poll().status == "fresh"
    app.button(key="nascar-again-scores-page").click()
    settled(app.run())
    assert WHY not in text(app)
    assert verdicts(app)


@pytest.mark.parametrize(
    ("query", "missing"), [("exact-states", "States (CSV)"), ("calibrated", "Model (safetensors)")]
)
def test_file_of_a_failed_query_waits_for_a_retry(engine, query, missing):
    engine.unable[f"ask-{query}"] = WHY
    app = opened(view="Export")
    assert WHY in text(app)
    assert missing not in offered(app)
    assert ("States (CSV)" in offered(app)) == (query == "calibrated"), "other files do not wait"
    asked = [job.name for job in engine.jobs].count(f"ask-{query}")
    app.run()
    assert [job.name for job in engine.jobs].count(f"ask-{query}") == asked, "no retry without a click"
    engine.unable.clear()
    next(one for one in app.button if f"-again-{query}-export" in str(one.key)).click().run()
    app.run()
    assert WHY not in text(app)
    assert missing in offered(app)


# ---- scores -------------------------------------------------------------------------------------------------------
def test_score_is_compared_with_the_best_baseline():
    scores = {
        "matched_accuracy": 0.8, "paper_accuracy": 0.9, "elbo_test": 2.0, "ar1_log_likelihood_test": None,
        "untrained_elbo_test": None, "forecast_r2": [0.5] * 10, "persistence_r2": [0.3] * 10, "ar1_r2": [0.4] * 10,
        "coverage_90": [0.8] * 10, "adaptive_90": [0.9] * 10, "adaptive_width": [1.25] * 10,
        "baselines": {
            "k-means on steps": {"matched_accuracy": 0.7, "paper_accuracy": 0.7},
            "majority class": {"matched_accuracy": 0.75, "paper_accuracy": None},
            "untrained model": {"matched_accuracy": 0.95, "paper_accuracy": 0.2},
        },
    }  # fmt: skip
    first, *rows = pictures.score_rows(scores)
    assert (first.line_name, first.line) == ("majority class", 0.75)
    assert ("untrained model", 0.95) in first.others
    assert ("k-means on steps", 0.7) in first.others
    assert any((row.line_name, row.line) == ("linear AR(1)", 0.4) for row in rows)
    assert any(row.value == pytest.approx(90) for row in rows), "coverage of the adaptive interval, in per cent"


# ---- predictions --------------------------------------------------------------------------------------------------
def test_previous_prediction_is_dimmed_until_the_new_one(engine, recorded):
    app = opened(view="Prediction")
    before, state = recorded["envelope"]
    assert state == "fresh"
    engine.auto = False
    slider(app, "K").set_value(6)
    app.run()
    assert recorded["envelope"] == (before, "stale")
    engine.run(*engine.waiting("fit"))
    app.run()
    assert recorded["envelope"] == (before, "stale")
    engine.run_all()  # also calibrates the model
    app.run()
    engine.run_all()
    settled(app.run())
    assert recorded["envelope"][1] == "fresh"


@pytest.mark.parametrize(("moment", "value"), [("40", 40), ("99999", 198)])
def test_link_sets_the_start_of_the_prediction(engine, recorded, moment, value):
    app = opened(view="Prediction", moment=moment)
    assert slider(app, "moment").value == value
    assert recorded["envelope"][0]["layout"]["shapes"][0]["x0"] == value


def test_shorter_trial_moves_the_start_of_the_prediction(engine):
    app = opened(T="1000", view="Prediction", moment="900")
    slider(app, "T").set_value(300)
    settled(app.run())
    assert 0 <= slider(app, "moment").value <= 298


# ---- the card of a state --------------------------------------------------------------------------------------------
def test_link_explains_a_state_and_close_ends_it(engine):
    app = opened(explain="2")
    shown = text(app)
    assert "Comes after" in shown
    assert shown.count("<figure>") == shown.count("A typical moment")
    page = file_makers(app)["nascar-s2.html"]().decode()
    assert page.count("data:image/svg+xml;base64") == shown.count("<figure>") > 0
    app.button(key="explain-close").click().run()
    assert "Comes after" not in text(app)
    assert "explain" not in app.query_params


def test_link_to_a_state_that_is_not_there_says_so(engine):
    assert "State 9 is not one of the current fit" in text(opened(explain="9"))
    assert "Comes after" not in text(opened(explain="two"))


@pytest.mark.parametrize(("point", "number"), [({"y": 1}, "2"), ({"y": 7}, None), ({"y": "x"}, None), (None, None)])
def test_clicked_bar_explains_its_state(engine, monkeypatch, point, number):
    chosen = []
    monkeypatch.setattr(explain.settings, "change", lambda name, value: chosen.append(value))
    reading = SimpleNamespace(used=[0, 1, 2], naming=StateNames.plain(3))
    explain.choose_bar(reading, point)
    assert chosen == ([] if number is None else [number])
