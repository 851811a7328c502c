"""The live fit behind a page: jobs it starts, states it shows, and questions about a finished fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from gdm_core.analysis import envelopes, looks
from gdm_core.trials import Trials
from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import untyped
from pages.lab.live import Live, Wanted, in_order, session
from pages.lab.live.answers import Answers
from tests.support.live_engine import QuickEngine, ended
from tests.support.live_fit import CONFIG, OTHER, TEST, TRAIN, wanted


# ---- starting and cancelling fits ---------------------------------------------------------------------------------
def test_first_request_starts_one_fit(engine):
    engine.auto = False
    live = Live(engine, "s")
    live.want(wanted())
    assert [job.name for job in engine.waiting()] == ["fit"]
    assert live.poll().state == "running"
    assert live.poll().train == ()
    engine.run_all()
    shown = live.poll()
    assert shown.state == "fresh"
    assert shown.train[0].shape == (240, 3)
    assert not live.busy


def test_repeated_request_starts_nothing(engine, live):
    before = len(engine.jobs)
    shown = live.poll()
    live.want(wanted())
    assert len(engine.jobs) == before
    assert live.poll() is shown


def test_newer_request_cancels_older_jobs(engine, live):
    live.want(wanted(n_states=4))
    first = engine.waiting()
    live._changed_at = -1e9
    live.want(wanted(n_states=5))
    assert first
    assert all(ended(job) for job in first)
    engine.run_all()
    assert live.poll().train[0].shape[1] == 5


def test_earlier_fit_is_shown_from_cache(engine, live):
    live.want(wanted(n_states=4))
    engine.run_all()
    live.poll()
    live.want(wanted())
    assert live.poll().state == "fresh"
    assert live.poll().n_states == 3


def test_result_is_independent_of_earlier_settings(engine, live):
    for k in (5, 2, 4):
        live._changed_at = -1e9
        live.want(wanted(n_states=k, temperature=0.5))
        engine.run_all()
        live.poll()
    straight = Live(QuickEngine(), "other")
    straight.want(wanted(n_states=4, temperature=0.5))
    there, direct = live.poll(), straight.poll()
    assert there.result.key == direct.result.key
    inverse = list(np.argsort(there.order))
    np.testing.assert_array_equal(there.train[0][:, inverse], direct.train[0][:, list(np.argsort(direct.order))])


def test_repeating_key_fits_only_the_last_value(engine, live, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(session.time, "monotonic", lambda: now[0])
    for k in (4, 5, 6, 7):
        live.want(wanted(n_states=k))
        live.poll()
        now[0] += 0.05
    assert {job.work.config["n_states"] for job in engine.waiting()} <= {4}
    assert live.running
    now[0] += session.SETTLE_S
    live.poll()
    assert {job.work.config["n_states"] for job in engine.waiting()} == {7}


def test_other_test_trials_start_no_fit(engine, live):
    before, jobs = live.poll(), len(engine.jobs)
    live.want(Wanted("gdm", CONFIG, TRAIN, OTHER, where="elsewhere"))
    now = live.poll()
    assert (now.wanted.test, now.wanted.where) == (OTHER, "elsewhere")
    assert now.train is before.train
    assert len(engine.jobs) == jobs
    live.want(wanted(n_states=4))
    live.want(wanted())
    assert live.poll().wanted.test is TEST


def test_previous_picture_keeps_its_own_data(engine, live):
    live.want(wanted(train=OTHER))
    shown = live.poll()
    assert shown.state == "stale"
    assert shown.wanted.train is TRAIN
    engine.run_all()
    assert live.poll().wanted.train is OTHER


def test_cancelled_fit_restores_the_earlier_result(engine, live):
    good = live.poll()
    live.want(wanted(seed=5))
    jobs = engine.waiting()
    live.cancel()
    shown = live.poll()
    assert jobs
    assert all(ended(job) for job in jobs)
    assert (shown.message, shown.stopped, shown.state, shown.fitting) == ("", True, "stale", False)
    np.testing.assert_array_equal(shown.train[0], good.train[0])
    live.retry()
    engine.run_all()
    assert live.poll().state == "fresh"


def test_closing_cancels_the_jobs_of_the_session(engine):
    engine.auto = False
    live = Live(engine, "s")
    live.want(wanted())
    (job,) = engine.waiting()
    live.close()
    assert ended(job)
    assert engine.forgotten == ["s"]


def _controls() -> None:
    import streamlit as st

    from pages.lab import live

    live.cancel_button(st.session_state["live"], "x")


def test_cancel_button_is_shown_only_while_fitting(engine, live):
    app = AppTest.from_function(_controls)
    app.session_state["live"] = live
    assert not app.run().button
    live.want(wanted(seed=5))
    app.run().button(key="x-cancel").click().run()
    assert not live.running
    assert not app.run().button


# ---- ELBO curve ---------------------------------------------------------------------------------------------------
def test_curve_has_the_units_of_the_scores():
    engine = QuickEngine(real=True)
    scaled = Trials((replace(TRAIN[0], y=TRAIN[0].y * 50),))
    live = Live(engine, "s")
    live.want(Wanted("arhmm", {"n_states": 2, "seed": 0}, scaled))
    shown = live.poll()
    model = shown.result.model()
    # The bound of an AR-HMM is its exact likelihood, so the curve ends at the score.
    assert shown.curve.elbos[-1] == pytest.approx(model.score(scaled), abs=0.05)
    assert abs(shown.result.elbos[-1] - model.score(scaled)) > 3, "in standardised units it is elsewhere"


def test_missing_values_do_not_change_the_units():
    y = TRAIN[0].y.copy()
    y[:120, 1] = np.nan
    gaps = Trials((replace(TRAIN[0], y=y),))
    scale = np.nanstd(y, axis=0)
    share = np.isfinite(y).mean(axis=0)
    assert Wanted("gdm", CONFIG, gaps).log_scale == pytest.approx(float((share * np.log(scale)).sum()), rel=1e-4)


def test_outliers_below_the_axis_are_marked_at_its_edge():
    values = np.concatenate([np.full(5, -900.0), np.linspace(0, 10, 95)])
    values[[50, 60]] = -40, -2
    line, cut = figures.bound(range(100), values)["data"]
    shown = untyped(line["y"])
    assert shown.min() == shown[0] == shown[50], "both lie below the edge"
    assert shown[60] == -2, "a small dip is drawn as it is"
    assert untyped(line["customdata"])[50] == -40, "hovering shows the value"
    assert len(untyped(cut["x"])) == 6
    few, _ = figures.bound(range(5), values[:5])["data"]
    assert untyped(few["y"]).min() == -900, "too few values to choose a range"


# ---- questions ----------------------------------------------------------------------------------------------------
def test_answer_is_computed_once_and_kept(engine, live):
    result = live.poll().result
    question = ("look", result.key, looks.look, result.model_bytes, TRAIN, TEST)
    assert live.ask(*question).pending
    assert live.ask(*question).pending
    assert len(engine.waiting("ask-look")) == 1
    engine.run_all()
    answer = live.ask(*question)
    assert answer.fresh
    assert answer.value.test[0].shape == (240, 3)
    assert not live.busy
    np.testing.assert_allclose(in_order(answer.value.train, live.poll().order)[0], live.poll().train[0], atol=0.01)


def test_newer_question_replaces_older_and_keeps_its_answer(engine, live):
    live.ask("n", "1", max, 1, 2)
    engine.run_all()
    assert live.ask("n", "1", max, 1, 2).value == 2
    later = live.ask("n", "2", max, 3, 4)
    assert (later.value, later.fresh, later.pending) == (2, False, True)
    live.ask("n", "3", max, 5, 6)
    engine.run_all()
    assert live.ask("n", "3", max, 5, 6).value == 6


def test_failed_question_has_a_message(engine, live):
    flat = TRAIN[0].slice(0, 2)
    model = live.poll().result.model_bytes
    live.ask("envelope", "short", envelopes.envelope, model, flat, 0, 5)
    engine.run_all()
    answer = live.ask("envelope", "short", envelopes.envelope, model, flat, 0, 5)
    assert "too short" in answer.message
    assert not answer.pending


def test_answer_during_a_run_asks_for_another_run():
    engine = QuickEngine(auto=False)
    answers = Answers(engine, "one")
    assert answers.ask("look", "a look", lambda: 1).pending
    engine.run_all()
    assert answers.ask("scores", "some scores", lambda: 2).pending, "which also collects the look"
    assert answers.take_owed()
    assert not answers.take_owed(), "one rerun is enough"
    assert answers.ask("look", "a look", lambda: 1).value == 1
