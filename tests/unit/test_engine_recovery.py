"""Workers that die or are stopped: what they had is sent to another one, and its owner is told.

`python -m benchmarks.recovery` measures how soon, with each process of a cluster killed or stopped.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from distributed import Client

from benchmarks.local_cluster import ROOT
from gdm_core.engine import Engine, JobStatus, ResultCache, dispatch
from gdm_core.engine import cluster as clusters
from gdm_core.engine.cluster import Link
from gdm_core.engine.control import end_if_stopped
from gdm_core.engine.host import LONGEST_START_S, Start
from gdm_core.engine.jobs import Job
from gdm_core.errors import FitError
from tests.support import stops_once
from tests.support.engine_requests import until
from tests.support.fake_cluster import Cluster, done


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(dispatch, "connect", lambda on_event: Link(made))
    monkeypatch.setattr(clusters, "LOOK_EVERY_S", 0.0)
    return made


@pytest.fixture
def engine(cluster: Cluster, tmp_path: Path) -> Iterator[Engine]:
    with Engine(ResultCache(tmp_path)) as engine:
        yield engine


def begin(engine: Engine, job: Job, worker: str) -> None:
    """What a worker says when it takes a job up."""
    until(lambda: job.id in engine.info().out)
    engine._dispatcher._on_event({"job": job.id, "kind": "started", "worker": worker, "version": job.orders.version})
    until(lambda: engine._dispatcher._flights[job.id].worker_known)


def test_a_job_for_a_worker_that_died_goes_to_the_next_one(engine: Engine, cluster: Cluster) -> None:
    """Where no other runs when it dies, Dask keeps the job for the one that is gone."""
    cluster.workers = ["one"]
    job = engine.call(divmod, 7, 2, session="a")
    until(lambda: cluster.sent)
    cluster.sent[0].state = "no-worker"
    cluster.workers = []
    until(lambda: not engine.info().workers)
    assert len(cluster.sent) == 1
    cluster.workers = ["its successor"]
    until(lambda: len(cluster.sent) == 2)
    assert cluster.sent[1].workers == ["its successor"]
    cluster.sent[1].end(done((3, 1)))
    assert job.result(60) == (3, 1)
    assert job.poll().notes == ("The worker that was to take it stopped. The job was sent to another one.",)


def test_a_job_under_way_that_dask_moves_is_left_to_it(engine: Engine, cluster: Cluster) -> None:
    job = engine.call(divmod, 7, 2, session="a")
    begin(engine, job, "one")
    cluster.workers = ["other"]
    until(lambda: engine.info().workers == {"other": 1})
    engine._dispatcher._on_event({"job": job.id, "kind": "started", "worker": "other", "version": 0})
    until(lambda: job.poll().notes)
    cluster.sent[0].end(done((3, 1)))
    assert job.result(60) == (3, 1)
    assert len(cluster.sent) == 1
    assert job.poll().notes == ("The worker that ran it stopped. The job was started again.",)


def test_a_job_whose_workers_die_each_time_fails_and_says_why(engine: Engine, cluster: Cluster) -> None:
    job = engine.call(divmod, 7, 2, session="a")
    for i in range(3):
        cluster.workers = [f"worker {i}"]
        until(lambda i=i: len(cluster.sent) == i + 1)
        begin(engine, job, f"worker {i}")
        cluster.sent[i].state = "no-worker"
    cluster.workers = ["worker 3"]
    with pytest.raises(FitError, match=r"died each time the job ran.*more memory"):
        job.result(60)
    assert job.poll().notes == ("The worker that ran it stopped. The job was started again.",) * 2


def test_a_job_that_never_began_is_not_held_against_it(engine: Engine, cluster: Cluster) -> None:
    job = engine.call(divmod, 7, 2, session="a")
    for i in range(5):
        cluster.workers = [f"worker {i}"]
        until(lambda i=i: cluster.sent and cluster.sent[-1].workers == [f"worker {i}"])
        cluster.sent[-1].state = "no-worker"
    cluster.sent[-1].end(done((3, 1)))
    assert job.result(60) == (3, 1)


def test_a_worker_that_gives_no_sign_of_life_gets_no_jobs_and_its_nanny_looks_after_it(
    engine: Engine, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "SILENT_S", 0.5)
    engine.wait_ready(60)
    cluster.stopped = ["one"]
    until(lambda: (end_if_stopped, "one", True) in cluster.orders)
    jobs = [engine.call(divmod, i, 2, session="a") for i in range(2)]
    until(lambda: cluster.sent)
    assert cluster.sent[0].workers == ["other"]
    cluster.sent[0].end(done(0))
    until(lambda: len(cluster.sent) == 2)
    assert cluster.sent[1].workers == ["other"]
    cluster.sent[1].end(done(1))
    assert [job.result(60) for job in jobs] == [0, 1]


def test_a_job_for_a_worker_that_was_stopped_before_it_began_goes_to_another(
    engine: Engine, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "SILENT_S", 0.5)
    jobs = [engine.call(divmod, i, 2, session=f"{i}") for i in range(2)]
    until(lambda: len(cluster.sent) == 2)
    cluster.stopped = ["one"]
    until(lambda: jobs[0].poll().notes)
    cluster.sent[1].end(done("fine"))
    until(lambda: len(cluster.sent) == 3)
    assert [sent.workers for sent in cluster.sent] == [["one"], ["other"], ["other"]]
    cluster.sent[2].end(done("fine"))
    assert [job.result(60) for job in jobs] == ["fine", "fine"]
    assert jobs[0].poll().notes == ("The worker that was to take it stopped. The job was sent to another one.",)


def test_a_job_that_dask_sends_elsewhere_before_it_began_is_left_to_it(engine: Engine, cluster: Cluster) -> None:
    job = engine.call(divmod, 7, 2, session="a")
    until(lambda: cluster.sent)
    cluster.workers = ["other"]
    until(lambda: engine.info().workers == {"other": 1})
    begin(engine, job, "other")
    cluster.sent[0].end(done((3, 1)))
    assert job.result(60) == (3, 1)
    assert (len(cluster.sent), job.poll().notes) == (1, ())


def test_a_busy_worker_that_is_silent_keeps_its_job(
    engine: Engine, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be deep in a computation that lets nothing else of its process run."""
    monkeypatch.setattr(clusters, "SILENT_S", 0.5)
    job = engine.call(divmod, 7, 2, session="a")
    begin(engine, job, "one")
    cluster.stopped = ["one"]
    until(lambda: engine.info().workers == {"other": 1})
    cluster.stopped = []
    until(lambda: len(engine.info().workers) == 2)
    cluster.sent[0].end(done((3, 1)))
    assert job.result(60) == (3, 1)
    assert (len(cluster.sent), job.poll().notes) == (1, ())


def test_a_cluster_that_stays_without_workers_is_asked_for_anew(
    engine: Engine, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.wait_ready(60)
    cluster.workers = []
    monkeypatch.setattr(dispatch, "NO_WORKER_LIMIT_S", 0.3)
    job = engine.call(divmod, 7, 2, session="a")
    until(lambda: cluster.status == "closed")
    second = Cluster()
    monkeypatch.setattr(dispatch, "connect", lambda on_event: Link(second))
    until(lambda: second.sent)
    second.sent[0].end(done((3, 1)))
    assert job.result(60) == (3, 1)


def test_a_scheduler_that_does_not_answer_is_taken_for_lost(engine: Engine, cluster: Cluster) -> None:
    job = engine.call(divmod, 7, 2, session="a")
    begin(engine, job, "one")

    def hangs(*_: object, **__: object) -> None:
        raise TimeoutError("no answer")

    cluster.sync = hangs
    until(lambda: job.poll().status is JobStatus.QUEUED)
    assert "connection to the cluster broke (no answer). The job was started again." in job.poll().notes[0]


def test_a_lost_cluster_is_waited_for_and_its_jobs_go_on(
    engine: Engine, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = engine.call(divmod, 7, 2, session="a")
    begin(engine, job, "one")
    tries, second = [], Cluster()

    def connect(on_event: object) -> Link:
        tries.append(1)
        if len(tries) < 3:
            raise FitError("No scheduler answers.")
        return Link(second)

    monkeypatch.setattr(dispatch, "connect", connect)
    cluster.status = "connecting"
    until(lambda: second.sent)
    second.sent[0].end(done((3, 1)))
    assert job.result(60) == (3, 1)
    assert job.poll().notes == ("The scheduler went away. The job was started again.",)


def test_a_lost_cluster_that_does_not_come_back_is_told(
    engine: Engine, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = engine.call(divmod, 7, 2, session="a")
    begin(engine, job, "one")
    monkeypatch.setattr(dispatch, "RETURN_LIMIT_S", 0.5)

    def connect(on_event: object) -> Link:
        raise FitError("No scheduler answers.")

    monkeypatch.setattr(dispatch, "connect", connect)
    cluster.status = "connecting"
    with pytest.raises(FitError, match="No scheduler answers"):
        job.result(60)


def test_the_embedded_cluster_survives_the_loss_of_each_of_its_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With one worker, so that none stands in: killed, stopped, the process that it is a copy of, and the one above."""
    monkeypatch.delenv("GDM_SCHEDULER", raising=False)
    monkeypatch.setenv("GDM_WORKERS", "1")
    others = psutil.Process().children(recursive=True)  # of the cluster that other tests share
    with Engine(ResultCache(tmp_path)) as engine:

        def worker() -> psutil.Process:
            return psutil.Process(engine.call(os.getpid, session="a", deadline_s=240).result(240))

        known = worker()
        template = known.parent()
        keeper = template.parent()
        for process, how in [(known, signal.SIGKILL), (None, signal.SIGSTOP), (template, signal.SIGKILL)]:
            (process or worker()).send_signal(how)
            seen = worker()
            assert seen != known or process is template, how  # a worker outlives the process that it is a copy of
            known = seen
        known.kill()
        assert worker() != known  # of a new template
        keeper.kill()
        until(lambda: not keeper.is_running())
        known = worker()
        template, keeper = known.parent(), known.parent().parent()
        assert engine.call(os.write, 1, b"no address\n", session="a", deadline_s=240).result(240) == 11
        known.suspend()
        for how in (signal.SIGKILL, signal.SIGSTOP):  # the scheduler and the nannies
            host_of(keeper).send_signal(how)
            assert worker().parent() == template, how
        assert not known.is_running(), "it was stopped, and did not hear that its nanny had gone"
        family = [process for process in psutil.Process().children(recursive=True) if process not in others]
        assert family
    until(lambda: not any(process.is_running() for process in family))


def host_of(keeper: psutil.Process) -> psutil.Process:
    """The process with the scheduler and the nannies."""
    (host,) = [process for process in keeper.children() if "gdm_core.engine.host" in process.cmdline()]
    return host


def test_a_worker_that_is_stopped_while_it_starts_is_replaced_and_leaves_with_the_cluster(tmp_path: Path) -> None:
    """The scheduler never heard of it, so that nobody but its nanny can miss it."""
    marker = tmp_path / "stopped"
    options = {
        "n_workers": 1,
        "memory": 1 << 30,
        "allowed_failures": 2,
        "preload": stops_once.__name__,
        "start_limit_s": 6,
    }
    keeper = subprocess.Popen(
        [sys.executable, "-m", "gdm_core.engine.keeper", json.dumps(options)],
        cwd=ROOT,
        env={**os.environ, stops_once.MARKER: str(marker)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    with Client(keeper.stdout.readline().strip(), timeout=240, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=240)
        (number,) = client.run(os.getpid).values()
    stopped = int(marker.read_text())
    assert number != stopped
    assert not psutil.pid_exists(stopped)
    worker = psutil.Process(number)
    family = psutil.Process(keeper.pid).children(recursive=True)
    worker.suspend()
    keeper.stdin.close()  # as the end of the server does
    keeper.wait(240)
    until(lambda: not any(process.is_running() for process in family))


def test_a_worker_that_starts_slowly_is_left_to_it_and_one_that_stands_still_is_not() -> None:
    slow = Start(pid=1, began=0.0, moved=0.0)
    assert not any(slow.stuck(spent=0.002 * now, now=float(now), limit_s=60.0) for now in range(1, 500))
    assert not slow.stuck(spent=1.0, now=540.0, limit_s=60.0)
    assert slow.stuck(spent=1.0, now=601.0, limit_s=60.0), "it stands still since 540"
    busy = Start(pid=2, began=0.0, moved=0.0)
    assert not busy.stuck(spent=590.0, now=590.0, limit_s=60.0)
    assert busy.stuck(spent=LONGEST_START_S + 1, now=LONGEST_START_S + 1, limit_s=60.0), (
        "it does something, but not that"
    )
