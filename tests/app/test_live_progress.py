"""The progress of a fit on its way: how far it is, its bound, what happened to it, and how to give it up."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from gdm_core.errors import FitError
from gdm_core.trials import Trials
from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import untyped
from pages.lab.live import Live, Wanted, session
from pages.lab.live.session import STILL_S, FitDeadline
from tests.support.drawn import words
from tests.support.live_engine import QuickEngine, ended
from tests.support.live_fit import CONFIG, TRAIN, wanted


# ---- how far it is ------------------------------------------------------------------------------------------------
def test_after_the_warm_start_progress_is_that_of_the_fit_itself(engine, live, monkeypatch):
    monkeypatch.setattr(session, "WARM_WORTH_S", 0.0)
    live.want(wanted(n_states=5))
    jobs = {job.slot: job for job in engine.waiting()}
    engine.run(jobs["warm"])
    engine.report(jobs["main"], step=1)
    shown = live.poll()
    assert shown.state == "preview"
    assert (shown.step, shown.total) == (1, 3), "the warm start, which is done, stood at 3 of 3"


def test_a_fit_that_is_played_is_not_called_paused(engine, live):
    live.reset()
    (job,) = engine.waiting("main")
    job.apply({"kind": "started"})
    job.apply({"kind": "held", "step": 10})
    assert live.poll().held
    live.play()
    assert not live.poll().held, "it may not have heard so yet"
    live.pause()
    assert live.poll().held


def test_a_failed_fit_is_not_under_way_while_questions_are_answered(engine, live):
    engine.failing = "The fit diverged."
    live.want(wanted(seed=5))
    assert live.poll().fitting
    engine.run_all()
    live.ask("n", "1", max, 1, 2)
    shown = live.poll()
    assert live.answers.pending
    assert not shown.fitting


# ---- the bound ----------------------------------------------------------------------------------------------------
def test_the_curve_is_in_the_units_of_the_scores():
    engine = QuickEngine(real=True)
    scaled = Trials((replace(TRAIN[0], y=TRAIN[0].y * 50),))
    live = Live(engine, "s")
    live.want(Wanted("arhmm", {"n_states": 2, "seed": 0}, scaled))
    shown = live.poll()
    model = shown.result.model()
    # An AR-HMM's bound is its exact likelihood, so that the climb ends where the score is.
    assert shown.curve.elbos[-1] == pytest.approx(model.score(scaled), abs=0.05)
    assert abs(shown.result.elbos[-1] - model.score(scaled)) > 3, "in standardised units it is elsewhere"


def test_values_that_were_not_observed_do_not_change_units():
    y = TRAIN[0].y.copy()
    y[:120, 1] = np.nan
    gaps = Trials((replace(TRAIN[0], y=y),))
    scale = np.nanstd(y, axis=0)
    share = np.isfinite(y).mean(axis=0)
    assert Wanted("gdm", CONFIG, gaps).log_scale == pytest.approx(float((share * np.log(scale)).sum()), rel=1e-4)


def test_the_earlier_curve_stays_until_there_is_another_to_draw(engine, live):
    before = live.poll().curve
    assert not before.earlier
    live.want(wanted(seed=3))
    assert live.poll().curve == replace(before, earlier=True)
    (job,) = engine.waiting("main")
    engine.report(job)
    assert live.poll().curve == replace(before, earlier=True), "one point is no curve"
    job.apply({"kind": "progress", "step": 2, "total": 3, "steps": [2], "elbos": [-0.5], "snapshot": None})
    now = live.poll().curve
    assert not now.earlier
    assert len(now.elbos) == 2
    engine.run(job)
    assert not live.poll().curve.earlier


# ---- giving up ----------------------------------------------------------------------------------------------------
def test_a_fit_can_be_given_up_and_the_earlier_result_stays(engine, live):
    good = live.poll()
    live.want(wanted(seed=5))
    jobs = engine.waiting()
    live.stop()
    shown = live.poll()
    assert jobs
    assert all(ended(job) for job in jobs)
    assert shown.message == "", "a wish is no failure"
    assert shown.stopped
    assert shown.state == "stale"
    assert not shown.fitting
    np.testing.assert_array_equal(shown.train[0], good.train[0])
    live.retry()
    engine.run_all()
    assert live.poll().state == "fresh"


def test_giving_up_a_fit_that_was_begun_anew_brings_its_result_back(engine, live):
    good = live.poll()
    live.reset()
    engine.report(*engine.waiting("main"))
    assert live.poll().state == "running"
    live.stop()
    shown = live.poll()
    assert (shown.state, shown.message) == ("fresh", "")
    assert shown.result is good.result
    np.testing.assert_array_equal(shown.train[0], good.train[0])


# ---- standing still -------------------------------------------------------------------------------------------------
def test_a_setting_changed_while_paused_stays_paused(engine, live):
    live.reset()
    engine.report(*engine.waiting("main"))
    assert live.poll().state == "running"
    engine.waiting("main")[0].apply({"kind": "held", "step": 1})
    assert live.poll().held
    assert live.poll().state == "paused", "a picture that stands still says so"
    live.want(wanted(temperature=0.5))
    (job,) = engine.waiting("main")
    assert job.orders.hold, "the fit of the new setting stands still, too"
    live.play()
    live.want(wanted(temperature=0.4))
    assert not engine.waiting("main")[0].orders.hold, "a fit that is played is not paused"


def test_a_dip_of_the_curve_is_explained(engine, live):
    smooth = live.poll()
    assert "A dip" not in told(smooth)[0]
    dipped = replace(smooth.curve, steps=tuple(range(30)), elbos=(*range(14), -90.0, *range(15, 30)))
    assert "A dip is a step that went too far" in told(replace(smooth, curve=dipped))[0]


# ---- running out of time ------------------------------------------------------------------------------------------
def _trouble() -> None:
    import streamlit as st

    from pages.lab import live

    live.problem(st.session_state["live"], st.session_state["live"].poll(), "x")


def test_a_fit_that_used_its_time_stands_where_it_is_and_can_go_on(engine, live):
    live.want(replace(wanted(seed=5), deadline_s=3600.0))
    (job,) = engine.waiting("main")
    assert job.work.deadline_s > 3600, "the engine ends nothing that somebody may want to go on"
    engine.report(job)
    live.poll()
    assert not live.out_of_time
    live._deadline._spent_s = 4000.0
    app = AppTest.from_function(_trouble)
    app.session_state["live"] = live
    live.poll()
    app.run()
    shown = live.poll()
    assert shown.out_of_time
    assert job.orders.hold
    assert not ended(job), "what was fitted by then is not lost"
    assert "step 1 of 3" in words(app)
    app.button(key="x-go-on").click().run()
    assert not job.orders.hold, "the same fit goes on"
    live.poll()
    assert not live.out_of_time, "two hours are more than what it has run"
    engine.run(job)
    shown = live.poll()
    assert (shown.state, shown.message, shown.out_of_time) == ("fresh", "", False)


def test_another_setting_does_not_stand_because_the_one_before_ran_out_of_time(engine, live):
    live.want(wanted(seed=5))
    engine.report(engine.waiting("main")[0])
    live._deadline._spent_s = 1e6
    live.poll()
    assert live.out_of_time
    live._changed_at = -1e9
    live.want(wanted(seed=6))
    assert not engine.waiting("main")[0].orders.hold
    assert not live.poll().out_of_time


def test_trying_a_question_again_gives_it_more_time(engine, live):
    live.ask("n", "1", max, 1, 2, deadline_s=10)
    (job,) = engine.waiting("ask-n")
    job.fail(FitError("Stopped because it ran longer than its deadline of 10 s."))
    assert "deadline" in live.ask("n", "1", max, 1, 2, deadline_s=10).message
    live.answers.again("n")
    live.ask("n", "1", max, 1, 2, deadline_s=10)
    assert engine.waiting("ask-n")[0].work.deadline_s == 20


# ---- standing still ------------------------------------------------------------------------------------------------
class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(session, "FitDeadline", partial(FitDeadline, clock=made))
    return made


def test_a_fit_of_which_nothing_is_heard_is_ended_and_can_be_tried_again(engine, live, clock):
    live.reset()
    live.play()
    (job,) = engine.waiting("main")
    for step in (0, 1):
        clock.now += 1.0
        engine.report(job, step)
        assert live.poll().message == ""
    clock.now += STILL_S
    assert live.poll().message == ""
    clock.now += 1.0
    shown = live.poll()
    assert shown.message == (
        "Nothing has been heard of the fit for 121 s: it stood at step 1 of 3, and was ended. Try again starts it anew."
    )
    assert ended(job)
    assert not live.playing
    app = AppTest.from_function(_trouble)
    app.session_state["live"] = live
    app.run().button(key="x-retry").click().run()
    engine.run_all()
    assert (live.poll().state, live.poll().message) == ("fresh", "")


@pytest.mark.parametrize("why", ["slow", "on hold", "waits for a worker", "begins", "is scored"])
def test_a_fit_that_has_a_reason_to_be_quiet_is_left_alone(engine, live, clock, why):
    live.want(wanted(seed=5))
    (job,) = engine.waiting("main")
    job.apply({"kind": "started"})
    live.poll()
    if why == "slow":  # a step takes it so long that ten of them are more
        for step in (1, 2):
            clock.now += 60.0
            engine.report(job, step)
            live.poll()
    elif why == "on hold":
        engine.report(job)
        live.pause()
    elif why == "waits for a worker":
        engine.report(job)
        job.requeue("lost")
    elif why == "is scored":
        engine.report(job, step=3)
    live.poll()
    clock.now += 500.0
    assert live.poll().message == ""
    assert not ended(job)


# ---- on the screen ------------------------------------------------------------------------------------------------
def _controls() -> None:
    import streamlit as st

    from pages.lab import live

    st.session_state["live"].do_what_was_pressed()  # as `fit` does, on a page
    live.transport(st.session_state["live"], "x")


def test_stop_waits_for_a_fit(engine, live):
    app = AppTest.from_function(_controls)
    app.session_state["live"] = live
    assert app.run().button(key="x-stop").disabled
    live.want(wanted(seed=5))
    assert not app.run().button(key="x-stop").disabled
    app.button(key="x-stop").click().run()
    assert not live.running
    assert app.button(key="x-stop").disabled


def _progress() -> None:
    import streamlit as st

    from pages.lab.live import screen
    from pages.ui import parts

    parts.draw_parts(screen.progress(st.session_state["shown"]))


def told(shown) -> tuple[str, int]:
    """(what the progress says, how many charts it draws)."""
    app = AppTest.from_function(_progress)
    app.session_state["shown"] = shown
    app.run()
    return words(app), len(app.get("bidi_component")) - 1


def test_what_happened_to_a_fit_is_said(engine, live):
    live.want(wanted(seed=5))
    (job,) = engine.waiting("main")
    job.requeue("The worker was lost; the fit was started again.")
    shown = live.poll()
    said, charts = told(shown)
    assert "The worker was lost; the fit was started again." in said
    assert "about to begin" in said
    assert charts == 1, "the earlier curve"
    engine.run(job)
    said, _ = told(live.poll())
    assert "The worker was lost" in said
    assert "Fitted in 3 steps" in said


def test_progress_says_where_the_fit_is(engine, live):
    live.want(wanted(seed=5))
    engine.report(*engine.waiting("main"), step=2)
    said, _ = told(live.poll())
    assert "fitting, step 2 of 3" in said
    live.stop()
    assert "Stopped. The earlier result stays" in told(live.poll())[0]


def test_the_curve_stops_at_its_edge_and_says_where():
    values = np.concatenate([np.full(5, -900.0), np.linspace(0, 10, 95)])
    values[[50, 60]] = -40, -2
    line, cut = figures.bound(range(100), values)["data"]
    shown = untyped(line["y"])
    assert shown.min() == shown[0] == shown[50], "both lie below the edge"
    assert shown[60] == -2, "what is not far below is drawn as it is"
    assert untyped(line["customdata"])[50] == -40, "the pointer tells what it is"
    assert len(untyped(cut["x"])) == 6
    few, _ = figures.bound(range(5), values[:5])["data"]
    assert untyped(few["y"]).min() == -900, "too few to say what matters"
