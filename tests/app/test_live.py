"""The fit session of a page: jobs it starts, states it shows, and queries about a finished fit."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from gdm_core.analysis import envelopes, inference
from gdm_core.analysis.matching import in_order
from gdm_core.engine import EngineInfo, JobStatus, Priority
from gdm_core.trials import Trials
from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import untyped
from pages.channel import live
from pages.lab.live import FitSession, panels
from pages.lab.live import state as fit_state
from pages.lab.live.queries import Queries
from tests.support.live_engine import QuickEngine, ended
from tests.support.live_fit import OTHER, TEST, TRAIN, spec_of, spec_with


# ---- starting and cancelling fits ---------------------------------------------------------------------------------
def test_first_request_starts_one_fit(engine):
    engine.auto = False
    fit = FitSession(engine, "s")
    fit.request(spec_of())
    assert [job.name for job in engine.waiting()] == ["fit"]
    assert fit.poll().status == "running"
    assert fit.poll().states == ()
    engine.run_all()
    state = fit.poll()
    assert state.status == "fresh"
    assert state.states[0].shape == (240, 3)
    assert not fit.running


def test_repeated_request_starts_nothing(engine, live):
    before = len(engine.jobs)
    state = live.poll()
    live.request(state.spec)
    assert len(engine.jobs) == before
    assert live.poll() is state


def test_newer_request_cancels_older_jobs(engine, live):
    live.request(spec_of(n_states=4))
    first = engine.waiting()
    live.request(spec_of(n_states=5))
    assert first
    assert all(ended(job) for job in first)
    engine.run_all()
    assert live.poll().states[0].shape[1] == 5


def test_earlier_fit_is_shown_from_memory(engine, live):
    live.request(spec_of(n_states=4))
    engine.run_all()
    live.poll()
    live.request(spec_of())
    state = live.poll()
    assert (state.status, state.n_states, state.result.from_cache) == ("fresh", 3, True)
    assert not engine.waiting()


def test_result_is_independent_of_earlier_settings(engine, live):
    for k in (5, 2, 4):
        live.request(spec_of(n_states=k, temperature=0.5))
        engine.run_all()
        live.poll()
    straight = FitSession(QuickEngine(), "other")
    straight.request(spec_of(n_states=4, temperature=0.5))
    there, direct = live.poll(), straight.poll()
    assert there.result.key == direct.result.key
    inverse = list(np.argsort(there.order))
    np.testing.assert_array_equal(there.states[0][:, inverse], direct.states[0][:, list(np.argsort(direct.order))])


def test_other_test_trials_start_no_fit(engine, live):
    before, jobs = live.poll(), len(engine.jobs)
    live.request(spec_of(test=OTHER))
    now = live.poll()
    assert now.spec.dataset.test is OTHER
    assert now.states is before.states
    assert not live.running
    (job,) = engine.jobs[jobs:]
    engine.run(job)
    now = live.poll()
    assert (now.status, now.origin) == ("fresh", before.origin)
    soft = now.result.model().predict_proba(OTHER)[0]
    np.testing.assert_allclose(now.result.states.soft(1), soft, atol=0.01)
    live.request(spec_of(n_states=4))
    live.request(spec_of())
    assert live.poll().spec.dataset.test is TEST


def test_previous_picture_keeps_its_own_data(engine, live):
    live.request(spec_of(train=OTHER))
    state = live.poll()
    assert state.status == "stale"
    assert state.spec.trials is TRAIN
    engine.run_all()
    assert live.poll().spec.trials is OTHER


def test_cancelled_fit_restores_the_earlier_result(engine, live, monkeypatch):
    monkeypatch.setattr(fit_state, "MIN_SECONDS", 0.0)
    good = live.poll()
    live.request(spec_of(seed=5))
    jobs = engine.waiting()
    engine.report(jobs[0], step=2)
    assert live.poll().status == "running"
    live.cancel()
    state = live.poll()
    assert all(ended(job) for job in jobs)
    assert (state.message, state.cancelled, state.status, state.fitting) == ("", True, "stale", False)
    np.testing.assert_array_equal(state.states[0], good.states[0])
    live.retry()
    engine.run_all()
    assert live.poll().status == "fresh"


def test_closing_cancels_the_jobs_of_the_session(engine):
    engine.auto = False
    fit = FitSession(engine, "s")
    fit.request(spec_of())
    (job,) = engine.waiting()
    fit.close()
    assert ended(job)
    assert engine.forgotten == ["s"]


def _controls() -> None:
    import streamlit as st

    from pages.lab import live

    live.show_cancel(st.session_state["fit"], "x")


def test_cancel_button_is_shown_only_while_fitting(engine, live):
    app = AppTest.from_function(_controls)
    app.session_state["fit"] = live
    assert not app.run().button
    live.request(spec_of(seed=5))
    app.run().button(key="x-cancel").click().run()
    assert not live.running
    assert not app.run().button


# ---- neighbouring fits --------------------------------------------------------------------------------------------
def test_release_shows_a_neighbour_that_is_done(engine, live):
    assert live.fit_neighbours([spec_of(n_states=4), spec_of(n_states=2), spec_of(n_states=5)])
    jobs = engine.waiting()
    assert len(jobs) == 2
    engine.run_all()
    assert live.fit_neighbours([spec_of(n_states=4)]) is False
    live.request(spec_of(n_states=4))
    assert not engine.waiting()
    assert (live.poll().status, live.poll().n_states) == ("fresh", 4)


def test_release_takes_over_a_running_neighbour(engine, live):
    live.fit_neighbours([spec_of(n_states=4), spec_of(n_states=2)])
    four, two = engine.waiting()
    engine.report(four)
    live.request(spec_of(n_states=4))
    assert two.poll().status is JobStatus.CANCELLED
    assert engine.waiting() == [four]
    engine.run_all()
    assert live.poll().n_states == 4


def test_release_promotes_a_waiting_neighbour(engine, live):
    live.fit_neighbours([spec_of(n_states=4)])
    (job,) = engine.waiting()
    live.request(spec_of(n_states=4))
    assert engine.waiting() == [job]
    assert job.priority is Priority.HIGH


def test_failed_neighbour_is_tried_once(engine, live):
    engine.failing = "It diverged."
    live.fit_neighbours([spec_of(n_states=4)])
    engine.run_all()
    assert not live.fit_neighbours([spec_of(n_states=4)])
    assert not engine.waiting()


# ---- the end of a session -----------------------------------------------------------------------------------------
def test_fit_of_a_visitor_who_left_starts_again_on_return():
    engine = QuickEngine(auto=False)
    mine = FitSession(engine, "me/nascar")
    spec = spec_of()
    mine.request(spec)
    mine.leave()
    assert engine.forgotten == ["me/nascar"]
    assert not engine.waiting()
    mine.request(spec)
    assert len(engine.waiting()) == 1
    mine.request(spec)
    assert len(engine.waiting()) == 1


def test_visitor_who_leaves_loses_unfinished_work_only(monkeypatch):
    monkeypatch.setattr(panels, "engine", lambda: QuickEngine(auto=False))
    app = AppTest.from_function(_background_work).run()
    channel = app.session_state["_channel"]
    channel.disconnect()
    channel.leave_if_away()
    jobs = app.session_state["_jobs"]
    assert jobs.find(("running",)) is app.session_state["task"], "a minute has not passed"
    monkeypatch.setattr(live, "LEAVE_S", 0.0)
    channel.leave_if_away()
    assert jobs.find(("running",)) is None
    assert jobs.find(("done",)) is not None
    assert app.session_state["task"].cancelled.is_set()


def _background_work() -> None:
    import streamlit as st

    from pages.lab.live.background import Task, visitor_jobs

    visitor_jobs().get(("done",), lambda: Task(lambda _: 1)).wait(60)
    st.session_state["task"] = visitor_jobs().get(("running",), lambda: Task(lambda task: task.cancelled.wait(60)))


@pytest.mark.parametrize(
    ("jobs", "slowdown", "words"),
    [
        (0, 1.0, "about 7 s"),
        (1, 1.0, "about 7 s once 1 queued fit finishes"),
        (18, 4.0, "about 30 s once 18 queued fits finish"),
    ],
)
def test_estimate_counts_queued_jobs_and_recent_pace(monkeypatch, jobs, slowdown, words):
    engine = SimpleNamespace(info=lambda: EngineInfo(2, jobs, 0, slowdown))
    monkeypatch.setattr(panels, "engine", lambda: engine)
    assert panels.estimate_wait(14.0) == words


def test_fit_without_progress_says_what_it_waits_for(monkeypatch):
    engine = QuickEngine(auto=False)
    fit = FitSession(engine, "s")
    fit.request(spec_of())
    (job,) = engine.waiting()
    job.explain = lambda _: "waiting for 3 other jobs"
    assert "free processor" in panels.make_progress(fit.poll())["fit-progress"].html
    monkeypatch.setattr("gdm_core.engine.job.IDLE_S", 0.0)
    assert "Waiting for 3 other jobs" in panels.make_progress(fit.poll())["fit-progress"].html


# ---- ELBO curve ---------------------------------------------------------------------------------------------------
def test_curve_has_the_units_of_the_scores():
    engine = QuickEngine(real=True)
    scaled = Trials((replace(TRAIN[0], y=TRAIN[0].y * 50),))
    fit = FitSession(engine, "s")
    fit.request(spec_with({"n_states": 2, "seed": 0}, scaled, family="arhmm"))
    state = fit.poll()
    model = state.result.model()
    # The bound of an AR-HMM is its exact likelihood, so the curve ends at the score.
    assert state.curve.elbos[-1] == pytest.approx(model.score(scaled), abs=0.05)
    assert abs(state.result.elbos[-1] - model.score(scaled)) > 3, "in standardised units it is elsewhere"


def test_missing_values_do_not_change_the_units():
    y = TRAIN[0].y.copy()
    y[:120, 1] = np.nan
    gaps = Trials((replace(TRAIN[0], y=y),))
    scale = np.nanstd(y, axis=0)
    share = np.isfinite(y).mean(axis=0)
    assert spec_of(gaps).log_scale == pytest.approx(float((share * np.log(scale)).sum()), rel=1e-4)


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


# ---- queries ------------------------------------------------------------------------------------------------------
def test_query_is_computed_once_and_kept(engine, live):
    result = live.poll().result
    question = ("look", result.key, inference.infer, result.model_bytes, TRAIN, TEST)
    assert live.query(*question).pending
    assert live.query(*question).pending
    assert len(engine.waiting("ask-look")) == 1
    engine.run_all()
    query = live.query(*question)
    assert query.fresh
    assert query.value.test[0].shape == (240, 3)
    assert not live.queries.pending
    np.testing.assert_allclose(in_order(query.value.train, live.poll().order)[0], live.poll().states[0], atol=0.01)


def test_newer_query_replaces_older_and_keeps_its_result(engine, live):
    live.query("n", "1", max, 1, 2)
    engine.run_all()
    assert live.query("n", "1", max, 1, 2).value == 2
    later = live.query("n", "2", max, 3, 4)
    assert (later.value, later.fresh, later.pending) == (2, False, True)
    live.query("n", "3", max, 5, 6)
    engine.run_all()
    assert live.query("n", "3", max, 5, 6).value == 6


def test_failed_query_has_a_message(engine, live):
    flat = TRAIN[0].slice(0, 2)
    model = live.poll().result.model_bytes
    live.query("envelope", "short", envelopes.envelope, model, flat, 0, 5)
    engine.run_all()
    query = live.query("envelope", "short", envelopes.envelope, model, flat, 0, 5)
    assert "too short" in query.message
    assert not query.pending


def test_result_during_a_run_asks_for_another_run():
    engine = QuickEngine(auto=False)
    queries = Queries(engine, "one")
    assert queries.ask("look", "a look", lambda: 1).pending
    engine.run_all()
    assert queries.ask("scores", "some scores", lambda: 2).pending, "which also collects the look"
    assert queries.news == {"look"}
    assert queries.ask("look", "a look", lambda: 1).value == 1
    assert not queries.news, "one rerun is enough"
