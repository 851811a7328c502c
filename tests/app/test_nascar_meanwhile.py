"""The NASCAR lab while a fit or an answer is under way, or a thumb is held: what stands meanwhile, and what is said about it."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from gdm_core.analysis import looks
from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import untyped
from pages.lab import card as lab_card
from pages.lab import held
from pages.lab.live import session
from pages.lab.view import Looked, View
from pages.ui.card import WORDS
from tests.support.drawn import pieces, record
from tests.support.held import offers, shares, tables
from tests.support.nascar_page import live_of, opened, settled, text
from tests.support.sliders import slider


@pytest.fixture
def drawn(monkeypatch):
    return record(monkeypatch)


@pytest.fixture
def app(engine) -> AppTest:
    """A page with its first result; from here on workers do what they are told to alone."""
    found = opened()
    engine.auto = False
    return found


def card(app: AppTest) -> str:
    """The card's scores and the line below them."""
    return next(body for body in pieces(app) if '<div class="gdm-scores">' in body)


# ---- scores -------------------------------------------------------------------------------------------------------
def test_scores_of_the_model_before_are_dim_and_named_until_there_are_new_ones(engine):
    app = opened()
    assert "seed 0" in card(app)
    engine.auto = False
    app.selectbox(key="model").set_value("slds-sticky")
    app.run()
    engine.run(*engine.waiting("main"))
    app.run()
    assert live_of(app).poll().state == "fresh", "the new fit is there, its scores are not"
    assert 'data-of=""' in card(app)
    assert "Scores of the earlier result: Gumbel Dynamical Model, K\u00a04" in card(app)
    assert "seed 0" not in card(app)
    engine.run_all()
    app.run()
    engine.run_all()
    app.run()
    assert 'data-of=""' not in card(app)
    assert "seed 0" in card(app)


def test_no_number_of_other_data_is_shown(engine):
    app = opened()
    assert "k-means" in card(app)
    engine.auto = False
    app.number_input(key="track").set_value(7)
    app.run()
    assert "Matches the true states" in card(app), "the card keeps its room"
    assert "k-means" not in card(app)
    assert "Scores appear when the fit is done" in card(app)


def test_scores_of_a_link_that_was_open_before_are_there_at_once(engine):
    def row(app: AppTest) -> str:
        return re.search(r'Matches the true states.*?class="lines">', card(app)).group()

    before = row(opened(seed="3"))
    engine.auto = False
    again = opened(seed="3")  # somebody else, another day
    assert row(again) == before
    assert "stale" not in card(again)
    assert "Scores appear" not in text(again)
    assert not engine.waiting("ask-scores")


def test_scores_of_a_fit_that_has_just_ended_are_on_their_way(engine, app):
    for change in (lambda: app.number_input(key="track").set_value(7), lambda: slider(app, "T").set_value(300)):
        change()
        app.run()
        engine.run(engine.waiting("main")[0])
        app.run()
        assert "Fitted in" in text(app)
        assert "The scores wait for a worker" in card(app)
        assert "Scores appear" not in text(app)


def test_scores_come_by_and_by_without_a_verdict_before_there_is_something_to_beat(engine):
    engine.auto = False
    app = opened()
    engine.run(engine.waiting("main")[0])
    app.run()
    (job,) = engine.waiting("ask-scores")
    job.apply({"kind": "started", "version": 0})
    told = list(job.work.function(*job.work.args))
    seen = []
    for found in told[:-1]:
        job.apply({"kind": "found", "found": found})
        app.run()
        seen.append((card(app), text(app)))
    first, *_ = seen
    assert "Matches the true states" in first[0]
    assert not any(words in first[0] for words in ("k-means", "Log-likelihood a step", *WORDS.values()))
    assert "scores, 1 of 5 parts: now log-likelihood" in first[1]
    for number, words in enumerate(("Log-likelihood a step", "k-means", "Ten steps ahead"), start=1):
        assert [words in shown for shown, _ in seen] == [at >= number for at in range(4)], words
    engine.run_all()
    app.run()
    assert not re.search(r"scores, \d", text(app))
    assert "Ten steps ahead" in card(app)


def test_the_header_names_the_model(engine):
    assert "<dt>model</dt><dd>AR-HMM</dd>" in text(opened(model="AR-HMM"))


# ---- what belongs to which settings -------------------------------------------------------------------------------
def faded(app: AppTest) -> list[str]:
    """What is said of settings other than those that the header wants."""
    (wanted,) = re.findall(r'gdm-of:not\(\[data-of="(\w+)"\]\)', text(app))
    return [body for body in text(app).split("\n") if 'class="gdm-of"' in body and f'data-of="{wanted}"' not in body]


def test_whatever_is_not_of_what_the_controls_say_fades_until_it_is(engine):
    app = opened(setting="Soft and sticky", T="1000")
    assert not faded(app)
    assert 'class="gdm-waiting"' not in text(app)
    assert lab_card.SHIPPED in text(app)
    engine.auto = False
    slider(app, "K").set_value(7)
    app.run()
    assert "<dt>states K</dt><dd>7</dd>" in text(app)
    assert "waiting for K\u00a07<" in text(app)
    assert lab_card.SHIPPED not in text(app), "what ships is the earlier result"
    gone = "\n".join(faded(app))
    assert 'class="gdm-key"' in gone
    assert 'class="gdm-scores"' in gone
    assert 'class="gdm-finding"' not in text(app)
    live_of(app).stop()
    app.run()
    assert "K\u00a07 is not there yet" in text(app), "nothing is on its way"
    engine.auto = True
    slider(app, "K").set_value(6)
    settled(app)
    settled(app)
    assert not faded(app)
    assert 'class="gdm-waiting"' not in text(app)


def test_a_run_that_is_overtaken_has_said_by_then_which_settings_are_wanted(engine, monkeypatch, app):
    monkeypatch.setattr("pages.lab.picture", lambda *given: st.stop())
    app.number_input(key="track").set_value(7)
    app.run()
    assert "waiting for a fit of these data" in text(app)


@pytest.mark.parametrize("moving", [True, False])
def test_a_picture_that_moves_is_the_result_of_no_settings(engine, moving):
    app = opened()
    view = View(None, None, live_of(app), live_of(app).poll(), moving=moving, number=live_of(app).poll().wanted.number)
    assert view.current is not moving


# ---- a hand comes near a slider -----------------------------------------------------------------------------------
def test_states_for_a_held_thumb_are_asked_for_once_a_hand_comes_near_and_never_before(engine, app):
    before = len(engine.jobs)
    app.run()
    offered = offers(app)
    assert set(offered) == {"tau", "gamma", "K"}
    assert not engine.waiting()
    picture = live_of(app).poll().train
    for _ in range(3):
        tables(app, "tau", None)
        assert [job.slot for job in engine.jobs[before:]] == ["ask-sweep-temperature-0"]
        assert not live_of(app).running
        assert live_of(app).poll().train is picture, "and nothing else changed"
    engine.run_all()
    assert tables(app, "tau", 0.5, times=1)["tables"]
    assert len(engine.jobs) == before + 1, "they were there before the thumb moved"
    slider(app, "tau").set_value(0.5).run()
    tables(app, "tau", None)
    assert not engine.waiting("ask-sweep-temperature-0"), "nothing beside a fit under way"
    engine.run_all()
    settled(app)
    assert offers(app)["tau"] != offered["tau"], "the browser may say it once of each fit"


@pytest.mark.parametrize("said", ["", "temperature", "T", "tau " * 1000])
def test_nothing_is_worked_out_for_a_slider_that_is_none(engine, said, app):
    assert tables(app, said, 0.5)["tables"] == []
    assert not engine.waiting()


def _near(app, key: str) -> None:
    tables(app, key, None, times=1)


def _ahead(engine) -> list[int]:
    """Numbers of states that are being fitted before anybody has asked for them."""
    jobs = [job for job in engine.waiting() if job.slot.startswith("prefetch-")]
    assert all(job.bulk for job in jobs), "whatever somebody watches goes before"
    return [job.work.config["n_states"] for job in jobs]


def test_fits_beside_the_one_that_stands_are_begun_once_a_hand_comes_near_the_slider(engine, app):
    app.run()
    assert _ahead(engine) == []
    _near(app, "K")
    assert _ahead(engine) == [3, 5], "two at a time, the nearest first"
    assert tables(app, "K", None)["more"]
    _near(app, "K")
    assert _ahead(engine) == [3, 5]
    engine.run_all()
    _near(app, "K")
    assert _ahead(engine) == [2, 6]
    engine.run_all()
    _near(app, "K")
    assert _ahead(engine) == [], "who only comes near may never move it"
    assert not tables(app, "K", None)["more"]
    assert live_of(app).poll().state == "fresh"
    found = tables(app, "K", 5)
    assert _ahead(engine) == [7, 8], "from where the thumb is"
    assert found["more"]
    assert sorted(table["values"] for table in found["tables"]) == [[2], [3], [4], [5], [6]]
    slider(app, "K").set_value(5).run()
    assert _ahead(engine) == [], "let go, nothing is fitted for nobody"
    assert live_of(app).poll().state == "fresh", "the fit was there"


def test_states_that_come_while_k_is_held_are_those_of_the_fit_that_is_shown_once_it_is_let_go(engine):
    app = opened()
    (table,) = (table for table in tables(app, "K", 7)["tables"] if table["values"] == [7])
    (sent,) = shares(table["parts"]["states"])
    slider(app, "K").set_value(7).run()
    shown = live_of(app).poll()
    assert (shown.state, shown.n_states) == ("fresh", 7)
    np.testing.assert_allclose(sent, shown.train[0], atol=0.503 / 255)


@pytest.mark.parametrize("begun", [True, False])
def test_a_fit_that_was_asked_for_ahead_goes_on_when_somebody_waits_for_it(engine, begun, app):
    _near(app, "K")
    three, five = [job for job in engine.waiting() if job.slot.startswith("prefetch-")]
    if begun:
        five.apply({"kind": "started"})
    slider(app, "K").set_value(5).run()
    assert three.poll().status.final
    assert engine.waiting() == [five]
    assert not five.bulk, "somebody waits for it now: in the row, too, it is next"
    assert live_of(app).running
    engine.run_all()
    assert live_of(app).poll().result.key == five.work.key


def test_what_is_fitted_ahead_is_given_up_when_another_setting_moves(engine, app):
    _near(app, "K")
    ahead = engine.waiting()
    slider(app, "tau").set_value(0.3).run()
    assert all(job.poll().status.final for job in ahead)
    _near(app, "K")
    assert _ahead(engine) == [], "not beside a fit that somebody waits for"


def test_nothing_is_fitted_ahead_where_fits_take_long(engine, monkeypatch, app):
    monkeypatch.setattr(session, "AHEAD_S", -1.0)
    monkeypatch.setattr(held, "SOON_S", -1.0)
    _near(app, "K")
    assert _ahead(engine) == []
    assert {job.slot for job in engine.waiting()} == {"ask-beside-3", "ask-beside-5", "ask-beside-2", "ask-beside-6"}


# ---- what cannot be told apart ------------------------------------------------------------------------------------
def test_states_that_flicker_have_an_overview_of_averages_and_a_stretch_step_by_step(engine, drawn):
    app = opened(setting="Soft and sticky", T="600", view="Shares")
    overview, strips = drawn["overview"][0], drawn["strips"][0]
    assert "average of 4 steps" in overview["caption"]
    assert untyped(overview["data"][0]["z"]).shape == (2, 150)
    assert untyped(strips["data"][0]["z"]).shape == (2, 600), "all of it is there to drag to"
    assert strips["layout"]["xaxis"]["range"] == [-0.5, 149.5]
    (trial,) = live_of(app).poll().wanted.train
    for make in (figures.proportions, figures.entropy_strip):
        assert "Averages over 4 steps." in make(trial.states)["caption"]
    app.query_params["view"] = "How long"
    app.run()
    assert "Most stays are a sample or two because" in text(app)
    drawn.clear()
    app = opened(setting="Standard", T="600", view="How long")
    assert "overview" not in drawn, "what lasts can be seen as it is"
    assert "range" not in drawn["strips"][0]["layout"]["xaxis"]
    assert "Most stays" not in text(app)


def test_noise_is_seen_under_the_track(engine, drawn):
    opened()
    quiet = drawn["true-track"][0]
    assert "Grey dots" not in quiet["caption"]
    opened(**{"standard.noise": "0.5"})
    noisy = drawn["true-track"][0]
    assert "Grey dots" in noisy["caption"]
    assert noisy["layout"]["shapes"][0]["path"].count("Z") == 200
    assert len(noisy["layout"]["shapes"]) == len(quiet["layout"]["shapes"]) + 1


# ---- the new trial ------------------------------------------------------------------------------------------------
def test_a_new_trial_that_no_fit_has_read_says_when_it_will_be(engine, app):
    app.number_input(key="track").set_value(7)
    app.run()
    (main,) = engine.waiting("main")
    engine.report(main, step=1)
    app.button_group(key="trial").set_value("test").run()
    assert "The new trial comes last" in text(app)
    assert "It is read when the fit is done." in text(app)
    for wrong in ("The first fit is on its way", "Nothing fitted yet"):
        assert wrong not in text(app)
    engine.run(main)
    app.run()
    assert "The new trial is being read" in text(app)
    engine.run_all()
    app.run()
    assert "The new trial" not in text(app)
    wanted = live_of(app).poll().wanted
    assert wanted.test[0].name == "nascar standard, seed 107"
    assert live_of(app).records.last(Looked).content == (wanted.train.fingerprint, wanted.test.fingerprint)


def test_a_paused_fit_shows_the_new_trial_as_it_was_read_before(engine, drawn, app):
    app.button(key="nascar-reset").click()
    app.run()
    (main,) = engine.waiting("main")
    engine.report(main, step=1)
    main.apply({"kind": "held", "step": 1})
    app.button_group(key="trial").set_value("test").run()
    figure, state = drawn["inferred-track"]
    assert state == "stale"
    assert "As the earlier fit read it" in figure["caption"]
    assert "The fit is paused" in figure["caption"]


def test_what_is_true_is_never_marked_as_out_of_date(engine, drawn, app):
    slider(app, "K").set_value(6)
    app.run()
    assert live_of(app).poll().state == "stale"
    assert drawn["inferred-track"][1] == "stale"
    figure, state = drawn["strips"]
    assert (state, drawn["true-track"][1]) == ("fresh", "fresh")
    assert [trace.get("opacity") for trace in figure["data"]] == [None, 0.5]
    assert [(note["text"], note["y"]) for note in figure["layout"]["annotations"]] == [("earlier result", "inferred")]
    engine.run_all()
    settled(app.run())
    assert len(drawn["strips"][0]["data"]) == 1


# ---- a thumb is held ------------------------------------------------------------------------------------------------
def test_a_held_slider_of_the_track_shows_the_data_at_once(engine, monkeypatch):
    drawn = record(monkeypatch)
    app = opened()
    jobs, before = len(engine.jobs), drawn["channels"][0]["data"][0]["z"]["bdata"]
    address = dict(app.query_params)
    slider(app, "standard.noise").hold(0.5).run()
    assert drawn["channels"][0]["data"][0]["z"]["bdata"] != before
    assert drawn["inferred-track"][1] == "preview"
    assert len(engine.jobs) == jobs, "nothing is fitted before it is let go"
    assert app.query_params == address
    slider(app, "T").hold(400).run()
    assert live_of(app).poll().wanted.train.n_samples == 400
    assert drawn["true-track"][0]["alt"] != ""
    slider(app, "T").set_value(400)
    settled(slider(app, "standard.noise").set_value(0.5).run())
    assert len(engine.jobs) > jobs
    assert drawn["inferred-track"][1] == "fresh"
    assert app.query_params["standard.noise"] == "0.5"


# ---- what the browser draws by itself -------------------------------------------------------------------------------
def test_a_held_softness_brings_the_states_of_the_standing_fit_at_all_values_once(engine):
    app = opened(seed="1")
    assert set(offers(app)) == {"K", "tau", "gamma"}
    fitted, jobs = live_of(app).poll().result, len(engine.jobs)
    sent = tables(app, "tau")
    assert len(engine.jobs) == jobs + 1, "nobody pays for a slider that is not moved"
    (table,) = sent["tables"]
    states = shares(table["parts"]["states"])
    assert states.shape == (len(table["values"]), 200, 4)
    assert set(sent["figures"]) == {"inferred-track", "overview", "strips"}
    shown = live_of(app).poll()
    trials = live_of(app)._wanted.train
    for i in (0, 20):
        (exact,) = looks.first_look(fitted.model_bytes, trials, {"temperature": table["values"][i]})
        np.testing.assert_allclose(states[i], exact[:, list(shown.order)], atol=0.003)
    assert tables(app, "tau") == sent
    assert len(engine.jobs) == jobs + 1, "asked once for a movement"
    assert tables(app, "no such slider") == {"of": "", "tables": [], "more": False}, "anybody may send anything"


def test_a_new_trial_follows_as_the_standing_fit_reads_it(engine):
    app = opened(seed="1", trial="New trial")
    fitted, trials = live_of(app).poll().result, live_of(app)._wanted.test
    (table,) = tables(app, "tau")["tables"]
    (exact,) = looks.first_look(fitted.model_bytes, trials, {"temperature": table["values"][20]})
    order = list(live_of(app).poll().order)
    np.testing.assert_allclose(shares(table["parts"]["states"])[20], exact[:, order], atol=0.003)


def test_only_the_server_draws_what_is_too_much_to_read_at_every_value(engine, monkeypatch):
    monkeypatch.setattr(held, "MOST_SAMPLES", 100)
    assert offers(opened(seed="1")) == {}


def test_a_long_trial_is_thinned_in_time_and_in_values(engine, monkeypatch):
    monkeypatch.setattr(held, "MOST", 300)
    monkeypatch.setattr(held, "FINE", 100)
    app = opened(seed="1")
    (table,) = tables(app, "tau")["tables"]
    part = table["parts"]["states"]
    assert (part["stride"], part["shape"]) == (3, [17, 67, 4])
    assert [table["values"][0], table["values"][-1]] == [0.01, 3.0]
    assert table["values"] == sorted(table["values"])


def test_of_a_long_trial_some_values_come_first(engine, monkeypatch):
    monkeypatch.setattr(held, "FINE", 100)
    app = opened(seed="1")
    engine.auto = False
    assert tables(app, "tau")["more"]
    some, rest = engine.waiting()
    engine.run(some)
    sent = tables(app, "tau")
    assert (len(sent["tables"][0]["values"]), sent["more"]) == (5, True)
    engine.run(rest)
    whole = tables(app, "tau")
    assert len(whole["tables"][0]["values"]) == 17
    assert not whole["more"]
    assert whole["of"] != sent["of"], "the browser throws the first ones away"


def test_a_held_k_brings_the_first_steps_of_fits_that_would_take_long(engine, monkeypatch):
    monkeypatch.setattr(session, "AHEAD_S", -1.0)
    monkeypatch.setattr(held, "SOON_S", -1.0)
    app = opened(seed="1")
    fitted, trials = live_of(app).poll().result, live_of(app)._wanted.train
    found = {table["values"][0]: table["parts"]["states"] for table in tables(app, "K")["tables"]}
    assert {k: part["shape"] for k, part in found.items()} == {k: [1, 200, k] for k in range(2, 13)}
    (begun,) = looks.first_look(fitted.model_bytes, trials, {"n_states": 6})
    (sent,) = shares(found[6])
    np.testing.assert_allclose(np.sort(sent.mean(axis=0)), np.sort(begun.mean(axis=0)), atol=0.003)
    np.testing.assert_allclose(sent.max(axis=1), begun.max(axis=1), atol=0.003)
    assert len(engine.waiting()) == 0
    assert live_of(app).prefetch.known(replace(live_of(app)._wanted, config=fitted_with(app, 6))) is None, (
        "nothing is fitted for it"
    )


def fitted_with(app, n_states):
    return {**live_of(app)._wanted.config, "n_states": n_states}
