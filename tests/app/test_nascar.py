"""The NASCAR lab as a script: links, every control, what it shows while there is nothing, or something went wrong; and maps and
predictions."""

from __future__ import annotations

import numpy as np
import pytest

from datasets.nascar import PRESETS
from gdm_core.analysis import looks
from gdm_core.analysis.bouts import transition_shares
from gdm_core.engine import JobStatus
from gdm_core.engine.jobs import Job
from gdm_core.errors import FitError
from gdm_core.models.gdm.model import GDM
from gdm_core.models.loading import model_from_bytes
from gdm_studio.plot import figures
from pages.lab import sentences, shipped
from pages.lab.fit import NOT_THEN
from pages.lab.view import KNOWN_THEN, Looked
from pages.nascar import pictures, simulator
from pages.nascar.pictures import driven
from pages.ui.card import WORDS
from tests.support.drawn import record
from tests.support.nascar_page import live_of, opened, settled, text
from tests.support.page import opened as opened_at
from tests.support.sliders import slider, sliders


# ---- the first visit ----------------------------------------------------------------------------------------------
def test_a_first_visit_ends_with_a_result_and_its_scores(engine):
    app = opened()
    shown = live_of(app).poll()
    assert shown.state == "fresh"
    assert shown.train[0].shape == (200, 4)
    page = text(app)
    for words in (
        "Matches the true states",
        "Ten steps ahead",
        "90 % band holds",
        "Log-likelihood a step",
        "k-means of moves",
    ):
        assert words in page
    assert "standard track, 200 steps" in page


def test_before_the_first_result_the_page_says_what_it_waits_for(engine):
    engine.auto = False
    app = opened(seed="1")
    assert "The first fit is on its way" in text(app)
    assert "Nothing fitted yet" in text(app)
    assert "Scores appear when the fit is done" in text(app)


def test_it_opens_with_the_finished_result_before_any_worker_has_done_anything(engine):
    engine.auto = False
    app = opened(T="1000")
    found = shipped.load("nascar")
    shown = live_of(app).poll()
    assert shown.state == "fresh"
    assert found.stands(shown.result)
    assert f"{found.more['scores']['matched_accuracy']:.3f}" in text(app)
    assert engine.waiting() == []
    app.query_params["view"] = "Export & reproduce"
    app.run()
    assert [job.slot for job in engine.waiting()] == ["ask-look"], "exports are not rounded to eight bits"
    slider(app, "K").set_value(5).run()
    assert f"{found.more['scores']['matched_accuracy']:.3f}" in text(app), "its scores stay until there are others"


@pytest.mark.parametrize("name", list(simulator.BUNDLED))
def test_the_bundled_results_are_the_fits_that_their_visits_ask_for(engine, name):
    found, track = shipped.load(name), simulator.BUNDLED[name]
    wanted = live_of(opened(T="1000", setting=simulator.SETTINGS[track.setting])).poll().wanted
    assert found.fits(wanted)
    assert dict(wanted.config) == simulator.FIRST_CONFIG
    assert wanted.where.data.source == track
    anew = GDM(**simulator.FIRST_CONFIG).fit(wanted.train)
    # A thousand steps on another kind of processor end 0.4 nats away, in states that differ by 0.002.
    assert anew.elbo_ == pytest.approx(found.result.elbo, abs=1.0)
    assert found.result.model().score(wanted.train) == pytest.approx(found.result.elbo, abs=0.01)
    for trials, kept in ((wanted.train, found.look.train), (wanted.test, found.look.test)):
        assert np.abs(anew.predict_proba(trials)[0] - kept[0]).mean() < 0.05
        np.testing.assert_allclose(found.result.model().predict_proba(trials)[0], kept[0], atol=0.02)


@pytest.mark.bulk
def test_several_seeds_are_measured_when_nobody_waits_and_the_verdict_says_how_many(engine):
    app = opened()
    for _ in range(4):
        app.run()
    asked = [job for job in engine.jobs if job.slot.startswith("ask-seed")]
    fits, scores = asked[::2], asked[1::2]
    assert [job.work.config["seed"] for job in fits] == [1, 2, 3, 4]
    assert [job.slot for job in scores] == [job.slot.removesuffix("-fit") for job in fits], (
        "each is scored once it is fitted"
    )
    assert "over 5 seeds" in text(app)
    engine.auto = False
    slider(app, "K").set_value(5).run()
    engine.run(*engine.waiting("main"))
    app.run()
    assert not [job for job in engine.waiting() if job.slot.startswith("ask-seed")], "scores come first"
    engine.run_all()
    app.run()
    (one,) = [job for job in engine.waiting() if job.slot.startswith("ask-seed")]
    slider(app, "K").set_value(6).run()
    assert one.poll().status is JobStatus.CANCELLED, "a fit that somebody waits for needs the worker"


# ---- links --------------------------------------------------------------------------------------------------------
def test_a_link_brings_every_setting(engine):
    address = {"setting": "Soft and sticky", "stay": "Set it", "sees": "Places"}
    app = opened(K="6", tau="0.4", gamma="0.5", seed="7", D="1", track="3", **address)
    wanted = live_of(app).poll().wanted
    assert dict(wanted.config) == {
        "n_states": 6, "temperature": 0.4, "stickiness": 0.5, "posterior": "linear", "n_latent": 1, "seed": 7,
    }  # fmt: skip
    assert wanted.where.data.source == simulator.Track("soft", (), 200, 3)
    assert wanted.train[0].name == "nascar soft, seed 3"
    assert wanted.test[0].name == "nascar soft, seed 103"


def test_a_link_brings_simulator_parameters_and_colours(engine):
    address = {"soft.tau": "0.5", "soft.n_channels": "6", "soft.noise": "0.05", "soft.track": "Rounded"}
    app = opened(setting="Soft and sticky", colours="4-3-2-1", **address)
    shown = live_of(app).poll()
    assert shown.order == (3, 2, 1, 0)
    changes = dict(shown.wanted.where.data.source.changes)
    assert changes == {"tau": 0.5, "n_channels": 6, "noise": 0.05, "track": "rounded"}
    assert shown.wanted.train.n_channels == 6


@pytest.mark.parametrize(
    ("address", "key", "value", "words"),
    [
        ({"K": "99"}, "K", 12, "States (K) in the link is 99, but 2 to 12 is offered: 12 is used."),
        ({"tau": "-1"}, "tau", 0.01, "Softness (τ) in the link is -1, but 0.01 to 3 is offered: 0.01 is used."),
        ({"T": "1e9"}, "T", 5000, "Steps (T) in the link is 1e9, but 200 to 5000 is offered: 5000 is used."),
        ({"D": "77"}, "D", 6, "Dimensions (D) in the link is 77"),
        ({"soft.x": "9"}, "soft.x", 5.0, "Start x in the link is 9, but -5 to 5 is offered: 5 is used."),
        ({"K": "many"}, "K", 4, "States (K) in the link is “many”, which is no number: the usual value is used."),
        ({"setting": "moon"}, "K", 4, "Setting in the link is “moon”, which is not offered: the usual choice is used."),
        ({"model": "none"}, "K", 4, "Model in the link is “none”, which is not offered"),
        ({"stay": "leave"}, "K", 4, "How long to stay (γ) in the link is “leave”, which is not offered"),
        ({"trial": "both"}, "K", 4, "Trial in the link is “both”, which is not offered"),
    ],
)
def test_a_value_out_of_range_takes_the_nearest_and_says_so(engine, address, key, value, words):
    engine.auto = False
    app = opened_at("nascar", **address)
    widgets = [widget for widget in (*sliders(app), *app.number_input) if widget.key == key]
    assert widgets[0].value == value
    assert words in text(app)
    assert words in text(app.run()), "the end of a fit runs the page, too"
    if key == "K" and "K" in address:
        slider(app, "K").set_value(7).run()
        assert words not in text(app), "what was said is over"


# ---- controls -----------------------------------------------------------------------------------------------------
def test_moving_the_states_slider_refits_and_stays_in_the_colours(engine):
    app = opened()
    before = live_of(app).poll()
    slider(app, "K").set_value(5)
    settled(app.run())
    after = live_of(app).poll()
    assert after.n_states == 5
    assert after.result.key != before.result.key
    assert [job.work.config["n_states"] for job in engine.jobs if job.slot == "main"] == [4, 5]


@pytest.mark.parametrize("setting", list(PRESETS))
def test_every_preset_is_simulated_as_it_is(engine, setting):
    app = opened(setting=simulator.SETTINGS[setting])
    track = live_of(app).poll().wanted.where.data.source
    assert track.changes == ()
    assert track.call == f"train_test({setting!r}, seed=0, T=200)"


def test_every_parameter_of_the_simulator_is_on_the_page(engine):
    from dataclasses import fields

    app = opened()
    keys = {widget.key for kind in ("number_input", "selectbox") for widget in app.get(kind)}
    keys |= {each.key for each in sliders(app)}
    keys |= {group.key for group in app.get("button_group")}
    shown = {key.removeprefix("standard.") for key in keys if key and key.startswith("standard.")}
    split = {"straight_steps": {"upper", "lower"}, "start": {"x", "y"}}
    for field in fields(PRESETS["standard"]):
        if field.name == "step":  # of the square track alone
            continue
        assert split.get(field.name, {field.name}) <= shown, field.name
    app = opened(**{"standard.track": "Square"})
    assert any(widget.key == "standard.step" for widget in app.number_input)


def test_hard_models_explain_what_they_do_not_have(engine):
    app = opened(model="AR-HMM")
    shown = live_of(app).poll()
    assert shown.wanted.family == "arhmm"
    assert "temperature" not in shown.wanted.config
    tau = slider(app, "tau")
    assert tau.disabled
    assert "hard states" in tau.help


def test_the_new_trial_is_another_lap(engine):
    app = opened(trial="New trial")
    live = live_of(app)
    assert live.poll().wanted.test[0].name == "nascar standard, seed 100"
    assert live.records.last(Looked).states(1).shape == (200, 4)


def test_the_picture_shows_what_could_have_been_known_then(engine, monkeypatch):
    """Behind a switch, in the picture alone: tabs and files keep to the whole recording."""
    engine.real = True  # its sketch has no filter
    figures_of = record(monkeypatch)
    app = opened(trial="New trial")
    inferred = figures_of["inferred-track"][0]
    app.toggle(key="then").set_value(True)
    settled(app.run())
    live = live_of(app)
    shown, test = live.poll(), live.poll().wanted.test[0]
    found = model_from_bytes(shown.result.model_bytes).filter(test)[:, list(shown.order)]
    then = figures_of["inferred-track"][0]
    assert then["caption"] == KNOWN_THEN
    known = figures.track(driven(test)[0], found, title="inferred states", height=then["height"], caption=KNOWN_THEN)
    assert then["layout"]["shapes"] == known["layout"]["shapes"] != inferred["layout"]["shapes"]
    app.toggle(key="then").set_value(False)
    settled(app.run())
    assert figures_of["inferred-track"][0]["caption"] == inferred["caption"] != KNOWN_THEN


def test_a_model_that_reads_the_future_says_that_it_cannot_leave_it_out(engine):
    engine.unable = {f"ask-then-{i}": "it has no filter" for i in (0, 1)}
    page = text(opened(then="true"))
    assert NOT_THEN in page
    assert "it has no filter" in page
    assert "does not know" not in page


@pytest.mark.parametrize("view", ["Shares", "How long", "Transitions", "Prediction", "Export & reproduce"])
def test_every_tab_opens_by_its_link(engine, view):
    app = opened(view=view)
    page = text(app)
    words = {
        "Shares": "Use of each state", "How long": "Inferred stays", "Transitions": "What follows what",
        "Prediction": "the 90 % band", "Export & reproduce": "SVG and PNG",
    }  # fmt: skip
    assert words[view] in page
    others = set(words) - {view}
    assert not any(words[other] in page for other in others)


# ---- what a change did ----------------------------------------------------------------------------------------------
def test_a_settled_change_says_what_it_did(engine, monkeypatch):
    monkeypatch.setattr(sentences, "states_change", lambda before, after, names, n: f"makes {n} of {len(names)}")
    app = opened()
    assert 'class="gdm-change"' not in text(app), "nothing stood before"
    engine.auto = False
    slider(app, "K").set_value(6)
    app.run()
    assert 'class="gdm-change"' not in text(app), "nothing has settled yet"
    engine.auto = True
    engine.run_all()
    settled(app.run())
    assert '<p class="gdm-change">K\u00a06 makes 6 of 4' in text(app)
    last = live_of(app).records.last(sentences.LastChange)
    np.testing.assert_array_equal(last.now.labels, live_of(app).poll().train[0].argmax(axis=1))
    app.query_params["trial"] = "test"
    settled(app.run())
    assert "makes 6 of 4" in text(app)
    slider(app, "T").set_value(300)
    settled(app.run())
    assert 'class="gdm-change"' not in text(app), "two tracks have no moment in common"


# ---- what goes wrong ----------------------------------------------------------------------------------------------
def test_a_diverged_fit_keeps_the_picture_and_offers_another_try(engine):
    app = opened()
    good = live_of(app).poll().train[0]
    engine.failing = "The fit diverged at step 40. Try another seed."
    app.number_input(key="seed").set_value(3)
    settled(app.run())
    assert "The fit did not work out" in text(app)
    assert "diverged at step 40" in text(app)
    shown = live_of(app).poll()
    assert shown.state == "stale"
    np.testing.assert_array_equal(shown.train[0], good)
    engine.failing = ""
    app.button(key="nascar-retry").click()
    settled(app.run())
    assert live_of(app).poll().state == "fresh"
    assert "did not work out" not in text(app)


def test_scores_that_fail_say_why_and_can_be_asked_again(engine, monkeypatch):
    def refuse(*_):
        raise FitError("The deadline of 300 s has passed.")

    with monkeypatch.context() as broken:
        broken.setattr(looks, "score_parts", refuse)
        app = opened()
    assert "The deadline of 300 s has passed" in text(app)
    assert live_of(app).poll().state == "fresh"
    app.button(key="nascar-rescore").click()
    settled(app.run())
    assert "Matches the true states" in text(app)
    assert "deadline" not in text(app)


def test_a_cancelled_fit_says_so(engine):
    app = opened()
    engine.auto = False
    app.number_input(key="seed").set_value(4)
    app.run()
    engine.waiting("main")[0].cancel()
    app.run()
    assert "The fit was stopped" in text(app)
    assert live_of(app).poll().state == "stale"


def test_reset_play_and_step_steer_the_fit(engine):
    app = opened()
    engine.auto = False
    app.button(key="nascar-reset").click()
    app.run()
    (job,) = engine.waiting("main")
    assert job.orders.hold
    assert "Scores follow at the end of the fit that you watch." in text(app)
    assert not any(words in text(app) for words in WORDS.values()), "a verdict beside a fit from its start misleads"
    app.button(key="nascar-step").click()
    app.run()
    assert job.orders.until_step > 0
    app.button(key="nascar-play").click()
    app.run()
    assert live_of(app).playing
    app.run()
    assert app.button(key="nascar-play").label == "Pause"


def test_reset_pressed_with_a_setting_just_changed_is_of_the_new_setting(engine):
    """One request brings both; a fit of the new setting that was seen before must not stand over it."""
    app = settled(opened())
    slider(app, "K").set_value(5)
    app = settled(app.run())
    engine.auto = False
    slider(app, "K").set_value(4)
    app.button(key="nascar-reset").click()
    app.run()
    live = live_of(app)
    assert (live.running, live.held) == (True, True)
    (job,) = engine.waiting("main")
    assert job.work.config["n_states"] == 4


# ---- the parts ----------------------------------------------------------------------------------------------------
def test_moves_are_counted_between_stays():
    labels = np.array([0, 0, 1, 1, 2, 0, 1, 1])
    matrix = transition_shares(labels, 4)
    np.testing.assert_allclose(matrix[:3, :3], [[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    assert np.isnan(matrix[3]).all()


def test_the_card_names_the_best_line_to_beat():
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
    rows = {row.name: row for row in pictures.score_rows(scores)}
    first = rows["Matches the true states"]
    assert (first.line_name, first.line) == ("majority class", 0.75)
    assert ("untrained model", 0.95) in first.others
    assert ("k-means on steps", 0.7) in first.others
    assert rows["Ten steps ahead (R²)"].line_name == "linear AR(1)"
    held = rows["90 % band holds"]
    assert held.value == pytest.approx(90)
    assert "as the fit calibrated it holds 80.0 %; this one is 1.25 times as wide." in held.help
    bound = rows["Log-likelihood a step, new trial"]
    assert bound.line is None
    assert "forecast density on the Compare page" in bound.help


def test_a_line_on_top_says_what_was_found_and_what_that_is_worth(engine):
    said = text(opened())
    assert "Four states" in said
    assert "half of all stays last" in said
    assert any(words in said for words in ("does as well.", "does better.", "ahead of"))


# ---- maps and predictions -------------------------------------------------------------------------------------------
@pytest.fixture
def drawn(monkeypatch):
    return record(monkeypatch)


# ---- maps and predictions -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(("view", "key"), [("Transitions", "plane"), ("Prediction", "envelope")])
def test_the_last_answer_stays_until_the_next_is_there(engine, drawn, view, key):
    app = opened(view=view)
    before, state = drawn[key]
    assert state == "fresh"
    engine.auto = False
    drawn.clear()
    slider(app, "K").set_value(6)
    app.run()
    assert drawn[key] == (before, "stale")
    engine.run(*engine.waiting("main"))
    drawn.clear()
    app.run()
    assert drawn[key] == (before, "stale"), "also while the new answer is worked out"
    assert "being worked out" not in text(app)
    engine.run_all()
    settled(app.run())
    assert drawn[key][1] == "fresh"


def test_a_figure_to_export_keeps_its_place_while_it_is_worked_out(engine, drawn):
    app = opened()
    engine.auto = False
    app.session_state["view"] = "Export & reproduce"
    app.run().selectbox(key="nascar-export-figure").set_value("Prediction").run()
    assert drawn["nascar-export-preview"][0] is None, "what is drawn in the place of the last figure"
    assert "This figure is being worked out." in text(app)
    engine.run_all()
    settled(app.run())
    assert drawn["nascar-export-preview"][0] is not None


@pytest.mark.bulk
def test_a_prediction_of_longer_data_stands_beside_its_own_observations(engine, drawn):
    app = opened(T="1000", view="Prediction", moment="900")
    before, _ = drawn["envelope"]
    engine.auto = False
    slider(app, "T").set_value(200)
    app.run()
    engine.run(*engine.waiting("main"))
    app.run()
    assert drawn["envelope"] == (before, "stale")


# ---- the address of a prediction ----------------------------------------------------------------------------------
def test_the_moment_of_a_prediction_is_in_the_address(engine, drawn):
    app = opened(view="Prediction", moment="40")
    assert slider(app, "moment").value == 40
    assert drawn["envelope"][0]["layout"]["shapes"][0]["x0"] == 40


def test_bands_learn_on_the_way_unless_they_are_kept_as_calibrated(engine, drawn):
    app = opened(view="Prediction")
    learning = drawn["envelope"][0]
    assert "with bands that learn on the way" in text(app)
    assert "90 % bands as calibrated hold" in text(app)
    app.toggle(key="adaptive").set_value(False)
    settled(app.run())
    assert "with bands as calibrated" in text(app)
    assert "90 % bands that learn on the way hold" in text(app)
    fixed = drawn["envelope"][0]
    middle = next(i for i, trace in enumerate(fixed["data"]) if "predicted" in trace.get("hovertemplate", ""))
    assert fixed["data"][middle]["y"] == learning["data"][middle]["y"], "the prediction itself is the same"
    assert fixed["data"] != learning["data"]


def test_an_address_may_keep_the_bands_as_calibrated(engine):
    assert "with bands as calibrated" in text(opened(view="Prediction", adaptive="false"))


@pytest.mark.parametrize("moment", ["99999", "-4", "soon"])
def test_an_address_may_name_any_moment(engine, moment):
    app = opened(view="Prediction", moment=moment)
    assert 0 <= slider(app, "moment").value <= 198


def test_a_shorter_trial_brings_the_moment_inside(engine):
    app = opened(T="1000", view="Prediction", moment="900")
    slider(app, "T").set_value(300)
    settled(app.run())
    assert 0 <= slider(app, "moment").value <= 298


def test_a_held_moment_or_horizon_waits_for_its_answer_and_nothing_else_does(engine, drawn, monkeypatch):
    app = opened(view="Prediction")
    engine.auto = False
    monkeypatch.setattr(Job, "wait", lambda job, timeout=None: engine.run(job).poll().status.final)
    slider(app, "moment").hold(60).run()
    assert (drawn["envelope"][0]["layout"]["shapes"][0]["x0"], drawn["envelope"][1]) == (60, "fresh")
    slider(app, "moment").set_value(61)
    slider(app, "horizon").hold(5).run()
    assert drawn["envelope"][0]["layout"]["shapes"][0]["x0"] == 61
    assert "5 steps ahead" in text(app)
    assert "moment" in app.query_params
    assert "horizon" not in app.query_params
    slider(app, "horizon").set_value(7).run()
    assert [job.slot for job in engine.waiting()] == ["ask-envelope-0"], "nobody waits for what comes after a release"
    assert drawn["envelope"][1] == "stale"
    engine.run_all()
    settled(app.run())
    assert "7 steps ahead" in text(app)
    assert app.query_params["horizon"] == "7"
