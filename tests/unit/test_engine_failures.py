"""What goes wrong around a job stays with that job: lost results, callbacks that raise, an engine that is closed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gdm_core.engine import Engine, Job, JobStatus, ResultCache, control, dispatch
from gdm_core.engine.cluster import Link
from gdm_core.engine.control import Control, DeadlinePassed, Orders
from gdm_core.engine.flights import GRACE_S, Flight
from gdm_core.engine.jobs import Call
from gdm_core.engine.messages import FitResult
from tests.support.engine_requests import until


class Sent:
    """Stands for a job on a cluster; `end` says what becomes of it."""

    status = "pending"

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Sent], None]] = []
        self._outcome: Any = None

    def add_done_callback(self, callback: Callable[[Sent], None]) -> None:
        self._callbacks.append(callback)
        if self.status != "pending":
            callback(self)

    def end(self, outcome: Any, status: str = "finished") -> None:
        self._outcome, self.status = outcome, status
        for callback in self._callbacks:
            callback(self)

    def result(self, timeout: float) -> Any:
        if callable(self._outcome):
            return self._outcome()
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    def exception(self, timeout: float) -> Any:
        return self._outcome


class Cluster:
    """A cluster of two workers that does nothing by itself."""

    status = "running"

    def __init__(self) -> None:
        self.sent: list[Sent] = []

    def nthreads(self) -> dict[str, int]:
        return {"one": 1, "other": 1}

    def submit(self, *_: object, **__: object) -> Sent:
        self.sent.append(Sent())
        return self.sent[-1]

    def run(self, *_: object, **__: object) -> None:
        """Orders find nobody."""

    def close(self, timeout: float) -> None:
        self.status = "closed"


def done(value: object) -> dict[str, object]:
    return {"status": "done", "value": value}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(dispatch, "connect", lambda on_event: Link(made))
    return made


@pytest.fixture
def engine(cluster: Cluster, tmp_path: Path) -> Iterator[Engine]:
    with Engine(ResultCache(tmp_path)) as engine:
        yield engine


# ---- holds -----------------------------------------------------------------------------------------------------------
def flown(work: Call) -> Flight:
    job = Job(work, "a", None, True, lambda _: None)
    flight = Flight(job, SimpleNamespace(), "one", 0.0)
    flight.hear({"kind": "started", "worker": "one"}, 0.0)
    return flight


def test_making_way_for_others_is_no_hold_to_the_engine() -> None:
    flight = flown(Call(divmod, (7, 2), deadline_s=1.0, hold_limit_s=3.0))
    flight.job.give_way(True)
    flight.hear({"kind": "held", "worker": "one"}, 0.5)
    assert flight.complaint(5000.0) == ""
    flight.job.pause()
    assert flight.complaint(5000.0 + 3.0 + GRACE_S - 0.1) == ""
    assert "on hold for longer than 3 s" in flight.complaint(5000.0 + 3.0 + GRACE_S + 0.1)


def test_making_way_for_others_is_no_hold_to_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("secede", "rejoin"):
        monkeypatch.setattr(control, name, lambda: None)
    monkeypatch.setattr(Control, "send", lambda self, kind, **content: None)
    steered = Control("job", "topic", Orders(give_way=True), deadline_s=60.0, hold_limit_s=0.2)
    ended = []

    def work() -> None:
        try:
            steered.checkpoint(7)
            ended.append("went on")
            steered.checkpoint(8)
        except DeadlinePassed as error:
            ended.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.6)
    assert thread.is_alive(), ended
    steered.order(Orders(version=1, hold=True, until_step=8))
    thread.join(60)
    assert ended == [
        "went on",
        "Stopped at step 8 because it was on hold for longer than 0.2 s. Start it again to go on.",
    ]


def test_bulk_work_that_its_owner_paused_is_not_counted_as_running(engine: Engine, cluster: Cluster) -> None:
    bulk = [engine.call(divmod, 7, 2, session="a", bulk=True) for _ in range(2)]
    until(lambda: len(cluster.sent) == 2)
    here = engine._dispatcher
    for job in bulk:
        job.give_way(True)
        job.pause()
        here._on_event({"job": job.id, "kind": "started", "worker": "one", "version": 0})
        here._on_event({"job": job.id, "kind": "held", "worker": "one", "step": 3})
    third, fourth = (engine.call(divmod, 7, 2, session="a", bulk=True) for _ in range(2))
    until(lambda: len(cluster.sent) == 4)  # both workers are free
    assert [job.poll().status for job in (third, fourth)] == [JobStatus.QUEUED] * 2
    until(lambda: not any(job.orders.give_way for job in bulk))


# ---- kept results ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("error", [PermissionError("read-only"), FileNotFoundError("another server was quicker")])
def test_a_kept_result_that_cannot_be_marked_as_used_is_a_result(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: OSError
) -> None:
    ResultCache(tmp_path).put(FitResult("k", b"model", "converged", -1.5, 0.25, (1,), (-3.0,)))

    def refuse(path: Path) -> None:
        raise error

    monkeypatch.setattr(os, "utime", refuse)
    found, note = ResultCache(tmp_path).get("k")
    assert found is not None
    assert (found.model_bytes, note) == (b"model", "")
