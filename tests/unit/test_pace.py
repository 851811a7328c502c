"""A fit that is played: all its steps in five seconds by the clock, from the picture before the first one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gdm_core.engine import FitRequest, Job, control, worker
from gdm_core.engine.control import Control, JobCancelled, Orders
from gdm_core.engine.messages import Snapshot
from gdm_core.engine.sent_jobs import REPEAT_S, SentJob
from gdm_core.errors import ConfigError
from gdm_core.trials import Trial, Trials
from tests.support.fake_cluster import Sent
from tests.support.fake_model import FAMILY

TRIALS = Trials((Trial(np.random.default_rng(0).standard_normal((120, 3))),))
PLAYED = Orders(version=1, play_s=5.0)


class Clock:
    """Time that passes when somebody waits, or works; what is to happen at some moment happens then."""

    def __init__(self) -> None:
        self.now = 100.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        end = self.now + seconds
        if self.due and self.due[0][0] <= end:
            self.now, happens = self.due.pop(0)
            happens()
            return True
        self.now = end
        return False


class Waits:
    """In place of a condition: waiting takes no time but that of the clock."""

    def __init__(self, clock: Clock) -> None:
        self.wait = clock.wait

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def notify_all(self) -> None: ...


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(control, "time", SimpleNamespace(monotonic=made.monotonic))
    return made


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """What the job says of itself, and what it does to the pool of threads."""
    heard: list[tuple[str, dict[str, Any]]] = []
    for name in ("secede", "rejoin"):
        monkeypatch.setattr(control, name, lambda name=name: heard.append((name, {})))
    monkeypatch.setattr(Control, "send", lambda self, kind, **content: heard.append((kind, content)))
    return heard


def steered(clock: Clock, orders: Orders = PLAYED) -> Control:
    made = Control("job", "topic", orders, deadline_s=600.0, hold_limit_s=600.0)
    made._changed = Waits(clock)  # type: ignore[assignment]
    return made


def run(job: Control, clock: Clock, steps: range, total: int, work_s: float) -> list[float]:
    """When each of these steps was reached, seconds after the first moment."""
    began, reached = clock.now, []
    for step in steps:
        clock.now += work_s
        job.keep_pace(step, total)
        reached.append(clock.now - began)
        job.checkpoint(step)
    return reached


def kinds(said: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [kind for kind, _ in said]


@pytest.mark.parametrize("work_s", [0.0, 0.02, 0.19])
def test_a_played_fit_takes_five_seconds_whatever_a_step_costs(clock: Clock, said: Any, work_s: float) -> None:
    reached = run(steered(clock), clock, range(0, 241, 10), 240, work_s)
    np.testing.assert_allclose(reached, work_s + 5 * np.arange(25) / 24, atol=1e-6)
    assert kinds(said) == ["secede", "aside"], "it leaves its thread to others, once, and waits for none in the end"


def test_a_fit_that_is_late_waits_for_nothing(clock: Clock, said: Any) -> None:
    reached = run(steered(clock), clock, range(0, 241, 10), 240, 2.0)
    np.testing.assert_allclose(reached, 2.0 * np.arange(1, 26))
    assert said == [], "and stays where it is: it needs its thread"


def test_what_was_lost_to_others_is_made_up(clock: Clock, said: Any) -> None:
    job = steered(clock)
    began = clock.now
    run(job, clock, range(0, 121, 10), 240, 0.01)
    clock.now += 1.5  # the machine had something else to do
    run(job, clock, range(130, 241, 10), 240, 0.01)
    assert clock.now - began == pytest.approx(5.0, abs=0.05)


def test_pause_in_the_middle_of_a_wait_holds_at_once_and_play_takes_the_rest_of_the_time(
    clock: Clock, said: Any
) -> None:
    job = steered(clock)
    began, shown = clock.now, []
    run(job, clock, range(0, 121, 10), 240, 0.0)
    at = clock.now
    clock.due.append((at + 0.05, lambda: job.order(Orders(version=2, hold=True))))
    job.keep_pace(130, 240)
    assert clock.now == pytest.approx(at + 0.05)
    clock.due.append((at + 60, lambda: job.order(Orders(version=3, play_s=5.0))))
    job.checkpoint(130, on_hold=lambda: shown.append(clock.now))
    assert shown == [pytest.approx(at + 0.05)], "where it stands is shown"
    assert clock.now == pytest.approx(at + 60)
    run(job, clock, range(140, 241, 10), 240, 0.0)
    assert clock.now - at - 60 == pytest.approx(5 * 110 / 240)
    assert at - began == pytest.approx(2.5)
    assert kinds(said) == ["secede", "aside", "held", "aside"], "it never queues for a thread that it hardly needs"


def test_a_fit_that_is_paused_and_resumed_takes_its_thread_back(clock: Clock, said: Any) -> None:
    job = steered(clock, Orders(version=1, hold=True))
    clock.due.append((clock.now + 1, lambda: job.order(Orders(version=2))))
    run(job, clock, range(0, 241, 10), 240, 0.01)
    assert kinds(said) == ["secede", "held", "resumed", "rejoin"]


def test_a_played_fit_is_given_up_while_it_waits(clock: Clock, said: Any) -> None:
    job = steered(clock)
    run(job, clock, range(0, 51, 10), 240, 0.0)
    at = clock.now
    clock.due.append((at + 0.01, job.cancel))
    job.keep_pace(60, 240)
    assert clock.now == pytest.approx(at + 0.01)
    with pytest.raises(JobCancelled):
        job.checkpoint(60)


def test_play_pause_and_step_replace_each_other() -> None:
    told: list[Orders] = []
    job = Job(FitRequest(FAMILY, {}, TRIALS), "s", None, True, lambda one: told.append(one.orders))
    job.play(5.0)
    job.pause()
    job.play(5.0)
    job.step(10)
    job.resume()
    assert [(orders.hold, orders.until_step, orders.play_s) for orders in told] == [
        (False, 0, 5.0), (True, 0, 0.0), (False, 0, 5.0), (True, 10, 0.0), (False, 10, 0.0),
    ]  # fmt: skip
    assert not job.bulk, "who plays a fit watches it"
    with pytest.raises(ConfigError, match=r"seconds is 0; .* positive"):
        job.play(0)


def test_a_fit_that_goes_on_beside_the_pool_leaves_room_for_another() -> None:
    job = Job(FitRequest(FAMILY, {}, TRIALS), "s", None, False, lambda _: None)
    sent = SentJob(job, Sent(), "one", 0.0)  # type: ignore[arg-type]
    for kind, takes, held in (
        ("started", True, False), ("aside", False, False), ("held", False, True), ("aside", False, False),
        ("resumed", True, False), ("aside", False, False), ("started", True, False),
    ):  # fmt: skip
        event = {"kind": kind, "worker": "one", "step": 3}
        sent.follow(event, 1.0)
        job.apply(event)
        assert (sent.takes_a_thread, job.poll().held) == (takes, held), kind


def test_the_first_picture_is_of_the_start_and_the_curve_begins_at_the_first_step(
    said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "current", lambda: Control("job", "topic", Orders(), 600.0, 600.0))
    found = worker.fit(TRIALS, "key", "gdm", {"n_states": 3, "seed": 0, "n_steps": 20}, (0,), 0.0, None)
    first, second, *_ = [content for kind, content in said if kind == "progress"]
    assert (first["step"], first["total"], first["steps"]) == (0, 20, [])
    assert second["steps"][0] == 10
    pictures = [Snapshot.decode(one["snapshot"]).states() for one in (first, second)]
    assert np.abs(pictures[0] - pictures[1]).max() > 0.01, "the first step has changed it"
    assert found.steps == (10, 20)
    assert np.isfinite(found.elbos).all()


def test_a_fit_on_hold_from_the_beginning_stands_before_its_first_step(
    clock: Clock, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Control("job", "topic", replace(PLAYED, play_s=0.0, hold=True), deadline_s=600.0, hold_limit_s=600.0)
    job._changed = Waits(clock)  # type: ignore[assignment]
    monkeypatch.setattr(worker, "current", lambda: job)
    clock.due.append((clock.now + 9, job.cancel))
    with pytest.raises(JobCancelled):
        worker.fit(TRIALS, "key", "gdm", {"n_states": 3, "seed": 0, "n_steps": 20}, (0,), 0.25, None)
    assert ("held", {"step": 0}) in said
    assert said[0][1]["snapshot"] is not None


def test_a_job_that_stands_although_it_may_go_on_is_told_so_again() -> None:
    job = Job(FitRequest(FAMILY, {}, TRIALS), "s", None, False, lambda _: None)
    sent = SentJob(job, Sent(), "one", 0.0)  # type: ignore[arg-type]
    job.pause()
    for kind in ("started", "held"):
        event = {"kind": kind, "worker": "one", "step": 3}
        sent.follow(event, 1.0)
        job.apply(event)
    assert not sent.missed_orders(1000.0), "it was told to stand"
    job.play(5.0)
    sent.orders_sent_at = 1000.0
    assert not sent.missed_orders(1000.0 + REPEAT_S)
    assert sent.missed_orders(1000.1 + REPEAT_S)
    job.apply({"kind": "aside", "step": 3})
    assert not sent.missed_orders(2000.0)
