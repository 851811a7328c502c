"""Playing a fit: all its steps within a given time, with pauses."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gdm_core.engine import FitRequest, Job, control, worker
from gdm_core.engine.control import Control, JobCancelled, Orders
from gdm_core.engine.messages import Snapshot
from gdm_core.errors import ConfigError
from gdm_core.trials import Trial, Trials
from tests.support.fake_model import FAMILY

TRIALS = Trials((Trial(np.random.default_rng(0).standard_normal((120, 3))),))
PLAYED = Orders(version=1, play_s=5.0)


class Clock:
    """A fake clock that advances when a job waits or works; `due` holds callbacks and their times."""

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
    """A condition variable that waits on the fake clock."""

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
    """Messages of the job."""
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
    """Return the seconds at which each step was reached."""
    began, reached = clock.now, []
    for step in steps:
        clock.now += work_s
        job.keep_pace(step, total)
        reached.append(clock.now - began)
        job.checkpoint(step)
    return reached


def test_played_fit_takes_its_seconds(clock: Clock, said: Any) -> None:
    reached = run(steered(clock), clock, range(0, 241, 10), 240, 0.02)
    np.testing.assert_allclose(reached, 0.02 + 5 * np.arange(25) / 24, atol=1e-6)


def test_pause_while_waiting_holds_at_once(clock: Clock, said: Any) -> None:
    job = steered(clock)
    run(job, clock, range(0, 121, 10), 240, 0.0)
    at = clock.now
    clock.due.append((at + 0.05, lambda: job.order(Orders(version=2, hold=True))))
    job.keep_pace(130, 240)
    assert clock.now == pytest.approx(at + 0.05)
    clock.due.append((at + 60, lambda: job.order(Orders(version=3, play_s=5.0))))
    job.checkpoint(130)
    assert clock.now == pytest.approx(at + 60)
    run(job, clock, range(140, 241, 10), 240, 0.0)
    assert clock.now - at - 60 == pytest.approx(5 * 110 / 240)


def test_cancel_while_waiting_ends_the_fit(clock: Clock, said: Any) -> None:
    job = steered(clock)
    run(job, clock, range(0, 51, 10), 240, 0.0)
    at = clock.now
    clock.due.append((at + 0.01, job.cancel))
    job.keep_pace(60, 240)
    assert clock.now == pytest.approx(at + 0.01)
    with pytest.raises(JobCancelled):
        job.checkpoint(60)


def test_later_orders_replace_earlier_ones() -> None:
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
    assert not job.bulk
    with pytest.raises(ConfigError, match=r"seconds is 0; .* positive"):
        job.play(0)


def test_first_snapshot_precedes_first_step(said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "current", lambda: Control("job", "topic", Orders(), 600.0, 600.0))
    found = worker.fit(TRIALS, "key", "gdm", {"n_states": 3, "seed": 0, "n_steps": 20}, (0,), 0.0, None)
    first, second, *_ = [content for kind, content in said if kind == "progress"]
    assert (first["step"], first["total"], first["steps"]) == (0, 20, [])
    assert second["steps"][0] == 10
    pictures = [Snapshot.decode(one["snapshot"]).states() for one in (first, second)]
    assert np.abs(pictures[0] - pictures[1]).max() > 0.01
    assert found.steps == (10, 20)
    assert np.isfinite(found.elbos).all()
