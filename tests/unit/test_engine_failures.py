"""What goes wrong around a job stays with that job: lost results, callbacks that raise, an engine that is closed."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker

from gdm_core.engine import Engine, Job, JobStatus, ResultCache, control, dispatch
from gdm_core.engine import engine as engines
from gdm_core.engine.control import Control, DeadlinePassed, Orders
from gdm_core.engine.jobs import Call
from gdm_core.engine.sent_jobs import GRACE_S, START_LIMIT_S, SentJob
from gdm_core.errors import FitError
from gdm_core.trials import Trial, Trials
from tests.support.engine_requests import until
from tests.support.fake_cluster import Cluster

SHORT = Trials((Trial(np.zeros((30, 2), np.float32)),))


# ---- results that are lost ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "error", [TimeoutError("30 s"), OSError("reset"), CommClosedError("gone"), FutureCancelledError("key", "left")]
)
def test_a_result_that_is_lost_with_its_worker_is_computed_again(
    engine: Engine, cluster: Cluster, error: Exception
) -> None:
    job = engine.call(divmod, 7, 2, session="a")
    cluster.job(0).end(error)
    until(lambda: len(cluster.sent) == 2)
    assert not job.poll().status.final
    cluster.answer(1, (3, 1))
    assert job.result(60) == (3, 1)
    assert "was lost with its worker" in job.poll().notes[0]
    assert engine.running
    until(lambda: not engine.info().out)


def test_a_result_that_is_lost_every_time_fails_its_job_alone(engine: Engine, cluster: Cluster) -> None:
    job, other = (engine.call(divmod, 7, 2, session=name) for name in "ab")
    until(lambda: len(cluster.sent) == 2)
    for sent in (0, 2, 3):
        cluster.job(sent).end(TimeoutError())
    with pytest.raises(FitError, match="was started 3 times and never finished"):
        job.result(60)
    cluster.answer(1, "fine")
    assert other.result(60) == "fine"


def give_up_data(cluster: Cluster, data: int) -> None:
    """What Dask does once more workers than it allows have died beside a task, and to the job that waits for it."""
    given_up = KilledWorker(cluster.sent[data].key, SimpleNamespace(address="tcp://one"), 2)
    cluster.sent[data].end(given_up, status="error")
    cluster.sent[data + 1].end(given_up, status="error")


def test_data_that_the_cluster_gave_up_are_sent_again(engine: Engine, cluster: Cluster) -> None:
    """Workers die for many reasons over the life of a server; Dask counts for good how many did beside a set of data."""
    job = engine.call(len, SHORT, session="a")
    until(lambda: len(cluster.sent) == 2)
    give_up_data(cluster, 0)
    until(lambda: len(cluster.sent) == 4)
    assert "-trials-" in cluster.sent[2].key, "the data"
    assert cluster.sent[2].key != cluster.sent[0].key, "as a task that has not been counted against"
    cluster.answer(3, 1)
    assert job.result(60) == 1
    assert "workers that had its data stopped" in job.poll().notes[0]
    other = engine.call(len, SHORT, session="b")
    cluster.answer(4, 1)
    assert other.result(60) == 1


def test_data_that_no_worker_survives_fail_their_job(engine: Engine, cluster: Cluster) -> None:
    job = engine.call(len, SHORT, session="a")
    for data in (0, 2, 4):
        until(lambda data=data: len(cluster.sent) == data + 2)
        give_up_data(cluster, data)
    with pytest.raises(FitError, match="needs more memory than a worker has"):
        job.result(60)
    assert len({sent.key for sent in cluster.sent}) == 6


def test_a_job_that_no_worker_survives_is_not_sent_again(engine: Engine, cluster: Cluster) -> None:
    job = engine.call(divmod, 7, 2, session="a")
    cluster.job(0).end(KilledWorker(cluster.sent[0].key, SimpleNamespace(address="tcp://one"), 2), status="error")
    with pytest.raises(FitError, match="needs more memory than a worker has"):
        job.result(60)
    assert len(cluster.sent) == 1


def test_what_a_job_raises_is_its_own_also_where_it_is_a_timeout(engine: Engine, cluster: Cluster) -> None:
    job = engine.call(divmod, 7, 2, session="a")
    cluster.job(0).end(TimeoutError("of its own"), status="error")
    with pytest.raises(FitError, match="unexpected TimeoutError: of its own"):
        job.result(60)
    assert len(cluster.sent) == 1


def test_a_result_that_is_long_in_coming_keeps_nobody_waiting(engine: Engine, cluster: Cluster) -> None:
    arrived = threading.Event()
    job = engine.call(divmod, 7, 2, session="a")
    cluster.job(0).end(lambda: arrived.wait(60) and (JobStatus.DONE, "late"))
    try:
        other = engine.call(divmod, 7, 2, session="b")
        cluster.answer(1, "fine")
        assert other.result(60) == "fine"
        assert not job.poll().status.final
    finally:
        arrived.set()
    assert job.result(60) == "late"


def test_a_job_whose_result_is_on_its_way_has_met_its_deadline(cluster: Cluster) -> None:
    sent = sent_job(Call(divmod, (7, 2), deadline_s=1.0))
    assert "deadline of 1 s" in sent.why_stuck(2.0)
    sent.ended = True
    assert sent.why_stuck(2.0) == ""


def test_the_time_in_which_a_dead_worker_is_replaced_is_not_the_jobs() -> None:
    sent = sent_job(Call(divmod, (7, 2), deadline_s=60.0))
    assert sent.why_stuck(50.0) == ""
    assert sent.why_stuck(51.0, worker_there=False) == ""
    assert sent.why_stuck(100.0, worker_there=False) == ""
    sent.follow({"kind": "started", "worker": "another"}, 102.0)
    assert sent.why_stuck(150.0) == ""
    assert "deadline of 60 s" in sent.why_stuck(163.0)
    assert sent.why_stuck(200.0, worker_there=False) == ""
    assert "No worker took the job up" in sent.why_stuck(200.0 + START_LIMIT_S + 1, worker_there=False)


def test_a_job_waits_for_a_slow_worker_longer_than_for_one_that_is_gone() -> None:
    sent = sent_job(Call(divmod, (7, 2), deadline_s=60.0))
    sent.worker_known, late = False, sent.sent_at + START_LIMIT_S + 1
    assert "No worker took the job up" in sent.why_stuck(late, worker_there=False)
    assert sent.why_stuck(late) == ""
    assert "has not begun it" in sent.why_stuck(late + 60.0)


# ---- callbacks -----------------------------------------------------------------------------------------------------
def test_a_callback_that_raises_harms_nobody_else(
    engine: Engine, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    def progress(done: int, total: int) -> None:
        raise ZeroDivisionError(f"{done} of {total}")

    bulk = engine.map(divmod, {"x": (7, 2)}, session="a", key="k", cached=False, progress=progress)
    cluster.answer(0, (3, 1))
    assert bulk.wait(60)
    assert bulk.poll().results == {"x": (3, 1)}
    other = engine.call(divmod, 7, 2, session="b")
    cluster.answer(1, "fine")
    assert other.result(60) == "fine"
    assert "1 of 1" in caplog.text


# ---- the end -------------------------------------------------------------------------------------------------------
def test_bulk_work_ends_with_the_engine(engine: Engine, cluster: Cluster) -> None:
    bulk = engine.map(divmod, {str(i): (i, 2) for i in range(40)}, session="a", key="k", cached=False)
    until(lambda: len(cluster.sent) == 2)
    single = engine.call(divmod, 7, 2, session="a")
    engine.close()
    assert bulk.wait(60)
    assert len(bulk.poll().failures) == 40
    assert all("engine" in message and "closed" in message for message in bulk.poll().failures.values())
    with pytest.raises(FitError, match="engine was closed before"):
        single.result(60)


def test_a_closed_engine_says_so_for_as_many_calls_as_one_likes(engine: Engine) -> None:
    engine.close()
    bulk = engine.map(divmod, {str(i): (i, 2) for i in range(5000)}, session="a", key="k", cached=False)
    assert bulk.ended
    assert set(bulk.poll().failures.values()) == {"The engine is closed. Restart the server."}
    with pytest.raises(FitError, match="engine is closed"):
        engine.call(divmod, 7, 2, session="a").result(60)


def test_bulk_work_without_a_cluster_fails_at_the_first_try(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tries = []

    def connect(on_event: object) -> None:
        tries.append(1)
        raise FitError("no cluster here")

    monkeypatch.setattr(dispatch, "connect", connect)
    with Engine(ResultCache(tmp_path)) as engine:
        bulk = engine.map(divmod, {str(i): (i, 2) for i in range(2000)}, session="a", key="k", cached=False)
        assert bulk.wait(60)
        assert set(bulk.poll().failures.values()) == {"no cluster here"}
        assert len(bulk.poll().failures) == 2000
    assert len(tries) < 10  # it would be 250 in eights


# ---- one bulk job for each name --------------------------------------------------------------------------------------
def test_two_who_ask_for_the_same_at_once_get_the_same(
    engine: Engine, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2)

    def look_up(key: str) -> tuple[bool, None]:
        time.sleep(0.2)  # long enough for the other to come by
        return False, None

    monkeypatch.setattr(engine.cache, "get_value", look_up)
    found = []

    def ask() -> None:
        both.wait(60)
        found.append(engine.map(divmod, {"x": (7, 2)}, session="a", key="k"))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found[0] is found[1]
    assert engine.bulk("k") is found[0]
    cluster.answer(0, (3, 1))
    assert found[0].wait(60)
    assert len(cluster.sent) == 1


def test_bulk_work_that_runs_is_never_forgotten(
    engine: Engine, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "MAX_BULKS_REMEMBERED", 2)
    long = engine.map(divmod, {"x": (7, 2)}, session="a", key="long", cached=False)
    for name in "abcd":
        assert engine.map(divmod, {}, session="a", key=name).wait(60)
    assert engine.map(divmod, {"x": (7, 2)}, session="a", key="long", cached=False) is long
    assert [engine.bulk(name) is not None for name in "abcd"] == [False, True, True, True]


def test_a_failed_one_is_started_again_only_when_it_has_ended(engine: Engine, cluster: Cluster) -> None:
    items = {"x": (7, 2), "y": (7, 2)}
    first = engine.map(divmod, items, session="a", key="k", cached=False)
    until(lambda: len(cluster.sent) == 2)
    cluster.sent[0].end(ValueError("a bug"), status="error")
    until(lambda: first.poll().failures)
    assert engine.map(divmod, items, session="a", key="k", cached=False) is first
    cluster.answer(1, (3, 1))
    assert first.wait(60)
    assert engine.map(divmod, items, session="a", key="k", cached=False) is not first


# ---- holds -----------------------------------------------------------------------------------------------------------
def sent_job(work: Call) -> SentJob:
    job = Job(work, "a", None, True, lambda _: None)
    sent = SentJob(job, SimpleNamespace(), "one", 0.0)
    sent.follow({"kind": "started", "worker": "one"}, 0.0)
    return sent


def test_making_way_for_others_is_no_hold_to_the_engine() -> None:
    sent = sent_job(Call(divmod, (7, 2), deadline_s=1.0, hold_limit_s=3.0))
    sent.job.give_way(True)
    sent.follow({"kind": "held", "worker": "one"}, 0.5)
    assert sent.why_stuck(5000.0) == ""
    sent.job.pause()
    assert sent.why_stuck(5000.0 + 3.0 + GRACE_S - 0.1) == ""
    assert "on hold for longer than 3 s" in sent.why_stuck(5000.0 + 3.0 + GRACE_S + 0.1)


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


def test_a_deadline_names_the_step() -> None:
    late = Control("job", "topic", Orders(), deadline_s=1e-9, hold_limit_s=0.2)
    with pytest.raises(DeadlinePassed, match=r"^Stopped at step 8 because it ran longer than its deadline of 1e-09 s"):
        late.checkpoint(8)


def test_bulk_work_that_its_owner_paused_is_not_counted_as_running(engine: Engine, cluster: Cluster) -> None:
    bulk = [engine.call(divmod, 7, 2, session="a", bulk=True) for _ in range(2)]
    until(lambda: len(cluster.sent) == 2)
    here = engine._dispatcher
    for job in bulk:
        job.give_way(True)
        job.pause()
        here._on_event({"run": job.run, "kind": "started", "worker": "one", "version": 0})
        here._on_event({"run": job.run, "kind": "held", "worker": "one", "step": 3})
    third, fourth = (engine.call(divmod, 7, 2, session="a", bulk=True) for _ in range(2))
    until(lambda: len(cluster.sent) == 4)  # both workers are free
    assert [job.poll().status for job in (third, fourth)] == [JobStatus.QUEUED] * 2
    until(lambda: not any(job.orders.give_way for job in bulk))


# ---- jobs that do not begin --------------------------------------------------------------------------------------
def test_a_watched_job_behind_a_bulk_job_on_its_worker_gets_there(engine: Engine, cluster: Cluster) -> None:
    """Dask may have queued a bulk job there whose own worker had died; it begins when the one before it stands aside."""
    engine.map(divmod, {"a": (7, 2), "b": (7, 3)}, session="sweeper", key="sweep", cached=False)
    until(lambda: len(cluster.sent) == 2)
    tell = engine._dispatcher._on_event
    first, second = (sent.job for sent in list(engine._dispatcher._sent.values()))
    tell({"run": first.run, "kind": "started", "worker": "one", "version": first.orders.version})
    watched = engine.call(divmod, 9, 2, session="watcher")
    until(lambda: first.orders.give_way)
    tell({"run": first.run, "kind": "held", "worker": "one", "step": 1})
    until(lambda: len(cluster.sent) == 3)
    tell({"run": second.run, "kind": "started", "worker": "one", "version": second.orders.version})
    until(lambda: second.orders.give_way)
    assert first.orders.give_way
    tell({"run": second.run, "kind": "held", "worker": "one", "step": 1})
    cluster.answer(2, (4, 1))
    assert watched.result(60) == (4, 1)
    until(lambda: not first.orders.give_way and not second.orders.give_way)


def test_a_job_told_to_go_on_and_to_hold_again_at_once_says_that_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(control, "secede", lambda: None)
    monkeypatch.setattr(control, "rejoin", lambda: None)
    monkeypatch.setattr(Control, "send", lambda self, kind, **_: said.append(kind))
    job = Control("job", "topic", Orders(version=1, give_way=True), deadline_s=60, hold_limit_s=60)
    standing = threading.Thread(target=job.checkpoint, args=(1,))
    standing.start()
    until(lambda: said == ["held"])
    with job._changed:  # both orders come before the job wakes
        job.order(Orders(version=2))
        job.order(Orders(version=3, give_way=True))
    until(lambda: said == ["held", "held"])
    job.order(Orders(version=4))
    standing.join(60)
    assert said == ["held", "held", "resumed"]
