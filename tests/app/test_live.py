"""The live fit behind a page: what is started, what is shown on the way, and answers, of which none is lost."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest

from gdm_core.analysis import envelopes, looks
from pages.lab.live import Live, Wanted, in_order, screen, session
from pages.lab.live.answers import Answers
from tests.support.live_engine import QuickEngine, ended
from tests.support.live_fit import CONFIG, OTHER, TEST, TRAIN, wanted


@pytest.fixture
def slow(monkeypatch) -> None:
    """Fits take long enough for a warm start beside them to be of use."""
    monkeypatch.setattr(session, "WARM_WORTH_S", 0.0)


# ---- what is started ----------------------------------------------------------------------------------------------
def test_the_first_fit_is_one_fit_from_the_start(engine):
    engine.auto = False
    live = Live(engine, "s")
    live.want(wanted())
    assert [job.slot for job in engine.waiting()] == ["main"]
    assert live.poll().state == "running"
    assert live.poll().train == ()
    engine.run_all()
    shown = live.poll()
    assert shown.state == "fresh"
    assert shown.train[0].shape == (240, 3)
    assert not live.busy


def test_the_same_wish_again_changes_nothing(engine, live):
    before = len(engine.jobs)
    shown = live.poll()
    live.want(wanted())
    assert len(engine.jobs) == before
    assert live.poll() is shown


def test_a_newer_wish_cancels_the_jobs_of_the_older(engine, live):
    live.want(wanted(n_states=4))
    first = engine.waiting()
    live._changed_at = -1e9
    live.want(wanted(n_states=5))
    assert first
    assert all(ended(job) for job in first)
    engine.run_all()
    assert live.poll().train[0].shape[1] == 5


@pytest.mark.parametrize("here", [True, False])
def test_softness_shows_a_forward_pass_then_a_warm_start_then_the_fit_itself(engine, live, here, monkeypatch, slow):
    monkeypatch.setattr(session, "PREVIEW_HERE", 10_000 if here else 0)
    monkeypatch.setattr(session, "PREVIEW_WAIT_S", 0.0)
    old = live.poll().train[0]
    live.want(wanted(temperature=0.2))
    jobs = {job.slot: job for job in engine.waiting()}
    assert set(jobs) == {"warm", "main"} | (set() if here else {"preview"})
    assert jobs["main"].bulk
    assert not jobs["warm"].bulk
    if not here:
        assert live.poll().state == "stale"
        np.testing.assert_array_equal(live.poll().train[0], old)
        engine.run(jobs["preview"])
    first = live.poll()
    assert first.state == "preview"
    assert np.abs(first.train[0] - old).max() > 0.02
    engine.report(jobs["warm"])
    assert live.poll().state == "preview"
    assert live.poll().step == 1
    engine.run(jobs["warm"])
    assert live.poll().state == "preview"
    assert live.poll().result is not None
    engine.run(jobs["main"])
    assert live.poll().state == "fresh"
    assert live.poll().result.key == wanted(temperature=0.2).key


def test_a_quick_fit_has_no_warm_start_beside_it_and_the_picture_waits_for_a_ripe_look(engine, live):
    before = live.poll().train[0]
    live.want(wanted(n_states=5))
    (main,) = engine.waiting()
    assert main.slot == "main"
    assert not main.bulk
    engine.report(main, step=0)
    assert live.poll().state == "stale"
    np.testing.assert_array_equal(live.poll().train[0], before)
    engine.report(main, step=1)
    assert live.poll().train[0].shape[1] == 5
    live._changed_at = -1e9
    live.want(wanted(n_states=6))
    live.step()
    engine.report(*engine.waiting(), step=0)
    assert live.poll().train[0].shape[1] == 6, "one that is watched is seen from its first step"


def test_states_are_split_from_the_nearest_fit_seen(engine, live, slow):
    live.want(wanted(n_states=6))
    engine.run_all()
    near = live.poll().result
    live._changed_at = -1e9
    live.want(wanted(n_states=5))
    (warm,) = engine.waiting("warm")
    assert warm.work.config == {"n_states": 5}
    assert warm.work.warm_start == near.model_bytes
    assert not engine.waiting("preview")


@pytest.mark.parametrize("change", [{"seed": 1}, {"n_latent": 1}])
def test_what_a_warm_start_cannot_change_is_fitted_anew(engine, live, change):
    live.want(wanted(**change))
    assert [job.slot for job in engine.waiting()] == ["main"]
    assert live.poll().state == "stale"


def test_a_fit_seen_before_is_there_at_once(engine, live):
    live.want(wanted(n_states=4))
    engine.run_all()
    live.poll()
    live.want(wanted())
    assert live.poll().state == "fresh"
    assert live.poll().n_states == 3


def test_the_result_does_not_depend_on_the_way_there(engine, live):
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


def test_a_key_held_down_is_fitted_where_it_comes_to_rest(engine, live, monkeypatch):
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


def test_another_test_trial_is_looked_at_without_another_fit(engine, live):
    before, jobs = live.poll(), len(engine.jobs)
    live.want(Wanted("gdm", CONFIG, TRAIN, OTHER, where="elsewhere"))
    now = live.poll()
    assert (now.wanted.test, now.wanted.where) == (OTHER, "elsewhere")
    assert now.train is before.train
    assert len(engine.jobs) == jobs
    live.want(wanted(n_states=4))
    live.want(wanted())
    assert live.poll().wanted.test is TEST


# ---- other data -----------------------------------------------------------------------------------------------------
def test_other_data_keep_the_earlier_picture_with_its_own_trial(engine, live):
    live.want(wanted(train=OTHER))
    shown = live.poll()
    assert shown.state == "stale"
    assert shown.wanted.train is TRAIN
    engine.run_all()
    assert live.poll().wanted.train is OTHER


def test_data_of_one_kind_are_read_at_once_by_the_fit_that_stands_until_their_own_is_there(engine):
    engine.auto = False
    live = Live(engine, "s")
    live.want(replace(wanted(), alike="laps of one race"))
    engine.run_all()
    live.poll()
    live._changed_at = -1e9  # the visitor has been looking at it for a while
    live.want(replace(wanted(train=OTHER), alike="laps of one race"))
    shown = live.poll()
    assert shown.wanted.train is OTHER
    assert len(shown.train[0]) == OTHER.n_samples
    assert shown.result is None or shown.state != "fresh"
    engine.run_all()
    assert live.poll().state == "fresh"


def test_a_live_fit_that_is_closed_takes_its_jobs_along_and_its_collection_ends_nothing(engine):
    engine.auto = False
    live = Live(engine, "s")
    live.want(wanted())
    (first,) = engine.waiting()
    live.close()
    assert ended(first)
    assert engine.forgotten == ["s"]
    again = Live(engine, "s")
    again.want(wanted(train=OTHER))
    del live  # late, as with any object that waits for the garbage collector
    gc.collect()
    assert engine.forgotten == ["s"]
    (second,) = engine.waiting()
    assert not ended(second)
    engine.run(second)
    assert again.poll().state == "fresh"


# ---- watching a fit learn -----------------------------------------------------------------------------------------
def test_reset_starts_from_the_same_seed_and_stands_still(engine, live):
    before = live.poll().result
    live.reset()
    (job,) = engine.waiting()
    assert job.orders.hold
    assert not job.work.use_cache
    assert job.work.key == before.key
    live.step()
    assert job.orders.until_step == session.STEPS_A_CLICK
    live.play()
    assert (job.orders.hold, job.orders.play_s) == (False, session.PLAY_S)
    job.apply({"kind": "started"})
    told = job.orders.version
    for _ in range(3):
        live.poll()
    assert job.orders.version == told, "its pace is the worker's to keep, however often the page looks"
    live.pause()
    assert (job.orders.hold, job.orders.until_step, job.orders.play_s) == (True, 0, 0.0)
    engine.run(job)
    shown = live.poll()
    assert shown.state == "fresh"
    np.testing.assert_array_equal(shown.result.snapshot.levels[0], before.snapshot.levels[0])


def test_step_without_a_fit_under_way_starts_one(engine, live):
    live.step()
    (job,) = engine.waiting("main")
    assert job.orders.hold
    assert job.orders.until_step == session.STEPS_A_CLICK


# ---- questions ----------------------------------------------------------------------------------------------------
def test_answers_are_worked_out_once_and_kept(engine, live):
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


def test_a_newer_question_replaces_the_older_and_shows_its_answer_meanwhile(engine, live):
    live.ask("n", "1", max, 1, 2)
    engine.run_all()
    assert live.ask("n", "1", max, 1, 2).value == 2
    later = live.ask("n", "2", max, 3, 4)
    assert (later.value, later.fresh, later.pending) == (2, False, True)
    live.ask("n", "3", max, 5, 6)
    engine.run_all()
    assert live.ask("n", "3", max, 5, 6).value == 6


def test_a_question_that_fails_says_why(engine, live):
    flat = TRAIN[0].slice(0, 2)
    model = live.poll().result.model_bytes
    live.ask("envelope", "short", envelopes.envelope, model, flat, 0, 5)
    engine.run_all()
    answer = live.ask("envelope", "short", envelopes.envelope, model, flat, 0, 5)
    assert "too short" in answer.message
    assert not answer.pending


# ---- how often a page looks -----------------------------------------------------------------------------------------
def test_the_more_fits_run_the_less_often_a_page_looks():
    assert screen.pace(0) == screen.pace(2) == screen.LOOK_EVERY_S
    assert screen.LOOK_EVERY_S < screen.pace(6) < screen.pace(10) <= screen.LOOK_SELDOM_S
    assert screen.pace(10_000) == screen.LOOK_SELDOM_S


def test_jobs_of_others_count_too(engine, live):
    assert live.jobs_about == 0
    live.want(wanted(n_states=4))
    Live(engine, "another").want(wanted(seed=5))
    assert live.jobs_about == len(engine.waiting()) >= 2


def test_streamlit_is_set_up_for_pages_that_run_often():
    from streamlit import config

    assert config.get_option("runner.postScriptGC") is False, "no walk over all objects after every run"
    # Two runs at once share a session and no lock: a moved slider met "dictionary changed size during iteration".
    assert config.get_option("runner.fastReruns") is False
    # What a browser holds is said once for all runs of a chain: two, as Streamlit has it, are fewer than a chain has.
    assert config.get_option("global.maxCachedMessageAge") >= 24


# ---- answers of one run ---------------------------------------------------------------------------------------------
def test_an_answer_that_comes_between_two_questions_of_a_run_is_told():
    engine = QuickEngine(auto=False)
    answers = Answers(engine, "one")
    assert answers.ask("look", "a look", lambda: 1).pending
    engine.run_all()
    assert answers.ask("scores", "some scores", lambda: 2).pending, "which takes in the look, too"
    assert answers.take_owed()
    assert not answers.take_owed(), "once is enough: the page runs again"
    assert answers.ask("look", "a look", lambda: 1).value == 1
    engine.run_all()
    assert answers.ask("scores", "some scores", lambda: 2).fresh
    assert not answers.take_owed(), "both know"


def test_a_question_that_was_given_up_owes_nothing():
    engine = QuickEngine(auto=False)
    answers = Answers(engine, "one")
    assert answers.ask("look", "a look", lambda: 1).pending
    answers.give_up("look")
    assert not answers.take_owed()
