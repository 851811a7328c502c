"""Workers that die or are stopped: what they had is sent to another one, and its owner is told.

`python -m benchmarks.recovery` measures how soon, with each process of a cluster killed or stopped.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from distributed import Client

from gdm_core.engine import Engine, JobStatus, ResultCache, dispatch, sent_jobs
from gdm_core.engine import cluster as clusters
from gdm_core.engine.cluster import CHILD_SETTINGS, LOOK_EVERY_S, SILENT_S, Link
from gdm_core.engine.control import ENDED, Orders, end_if_stopped, kill_worker, set_control
from gdm_core.engine.host import LONGEST_START_S, Start
from gdm_core.engine.jobs import Job
from gdm_core.errors import FitError
from tests.support import stops_once
from tests.support.engine_requests import PATIENCE_S, until
from tests.support.fake_cluster import Cluster
from tests.support.local_cluster import ROOT, children, command


def begin(engine: Engine, job: Job, worker: str) -> None:
    """What a worker says when it takes a job up."""
    until(lambda: job.id in engine.info().out)
    engine._dispatcher._on_event({"run": job.run, "kind": "started", "worker": worker, "version": job.orders.version})
    until(lambda: engine._dispatcher._sent[job.id].worker_known)


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
    cluster.answer(1, (3, 1))
    assert job.result(60) == (3, 1)
    assert job.poll().notes == ("The worker that was to take it stopped. The job was sent to another one.",)


def test_a_job_under_way_that_dask_moves_is_left_to_it(engine: Engine, cluster: Cluster) -> None:
    job = engine.call(divmod, 7, 2, session="a")
    begin(engine, job, "one")
    cluster.workers = ["other"]
    until(lambda: engine.info().workers == {"other": 1})
    engine._dispatcher._on_event({"run": job.run, "kind": "started", "worker": "other", "version": 0})
    until(lambda: job.poll().notes)
    cluster.answer(0, (3, 1))
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
    cluster.answer(len(cluster.sent) - 1, (3, 1))
    assert job.result(60) == (3, 1)


def test_a_worker_that_gives_no_sign_of_life_gets_no_jobs_and_its_nanny_looks_after_it(
    engine: Engine, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "SILENT_S", 1.5)
    engine.wait_ready(60)
    cluster.stopped = ["one"]
    until(lambda: (end_if_stopped, "one", True) in cluster.orders)
    jobs = [engine.call(divmod, i, 2, session="a") for i in range(2)]
    until(lambda: cluster.sent)
    assert cluster.sent[0].workers == ["other"]
    cluster.answer(0, 0)
    until(lambda: len(cluster.sent) == 2)
    assert cluster.sent[1].workers == ["other"]
    cluster.answer(1, 1)
    assert [job.result(60) for job in jobs] == [0, 1]


def test_a_job_for_a_worker_that_was_stopped_before_it_began_goes_to_another(
    engine: Engine, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "SILENT_S", 1.5)
    jobs = [engine.call(divmod, i, 2, session=f"{i}") for i in range(2)]
    until(lambda: len(cluster.sent) == 2)
    cluster.stopped = ["one"]
    until(lambda: jobs[0].poll().notes)
    cluster.answer(1, "fine")
    until(lambda: len(cluster.sent) == 3)
    assert [sent.workers for sent in cluster.sent] == [["one"], ["other"], ["other"]]
    cluster.answer(2, "fine")
    assert [job.result(60) for job in jobs] == ["fine", "fine"]
    assert jobs[0].poll().notes == ("The worker that was to take it stopped. The job was sent to another one.",)


def test_a_try_that_was_given_up_and_begins_after_all_is_ended_and_its_words_are_not_the_jobs(
    engine: Engine, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole machine may have stood still. Where orders went to the earlier try, the later one stood for good."""
    monkeypatch.setattr(clusters, "SILENT_S", 1.5)
    job = engine.call(divmod, 7, 2, session="a", bulk=True)
    until(lambda: cluster.sent)
    given_up = job.run
    cluster.stopped = ["one"]
    until(lambda: len(cluster.sent) == 2)
    job.give_way(True)
    tell = engine._dispatcher._on_event
    tell({"run": job.run, "kind": "started", "worker": "other", "version": job.orders.version})
    tell({"run": job.run, "kind": "held", "worker": "other", "step": 1})
    tell({"run": given_up, "kind": "started", "worker": "one", "version": 0})
    until(lambda: not job.orders.give_way)

    def told(worker: str) -> list[tuple[str, Orders]]:
        return [
            order.args
            for order, to, _ in cluster.orders
            if to == worker and getattr(order, "func", None) is set_control
        ]

    until(lambda: told("other") and told("one"))
    assert told("one") == [(given_up, ENDED)]
    assert told("other")[-1] == (job.run, job.orders)
    cluster.answer(1, (3, 1))
    assert job.result(60) == (3, 1)


def test_a_worker_is_ended_once_the_scheduler_has_let_go_of_what_it_did(engine: Engine, cluster: Cluster) -> None:
    """Before that it would begin the same on another worker, which would stand as well."""
    job = engine.call(divmod, 7, 2, session="a", deadline_s=0.01)
    begin(engine, job, "one")
    until(lambda: job.poll().status is JobStatus.FAILED)
    ended = (kill_worker, "one", True)
    until(lambda: cluster.sent[0].status == "cancelled")
    time.sleep(0.1)  # in which it must not happen
    assert ended not in cluster.orders
    cluster.sent[0].state = "released"
    until(lambda: ended in cluster.orders)


def test_a_job_that_stands_however_often_it_is_told_to_go_on_is_started_again(
    engine: Engine, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sent_jobs, "REPEAT_S", 0.0)
    job = engine.call(divmod, 7, 2, session="a")
    begin(engine, job, "one")
    job.pause()
    deaf = job.run
    engine._dispatcher._on_event({"run": deaf, "kind": "held", "worker": "one", "step": 1})
    job.resume()
    until(lambda: len(cluster.sent) == 2)
    until(lambda: any(getattr(order, "args", ()) == (deaf, ENDED) for order, _, _ in cluster.orders))
    cluster.answer(1, (3, 1))
    assert job.result(60) == (3, 1)


def test_a_job_that_dask_sends_elsewhere_before_it_began_is_left_to_it(engine: Engine, cluster: Cluster) -> None:
    job = engine.call(divmod, 7, 2, session="a")
    until(lambda: cluster.sent)
    cluster.workers = ["other"]
    until(lambda: engine.info().workers == {"other": 1})
    begin(engine, job, "other")
    cluster.answer(0, (3, 1))
    assert job.result(60) == (3, 1)
    assert (len(cluster.sent), job.poll().notes) == (1, ())


def test_a_busy_worker_that_is_silent_keeps_its_job(
    engine: Engine, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be deep in a computation that lets nothing else of its process run."""
    monkeypatch.setattr(clusters, "SILENT_S", 1.5)
    job = engine.call(divmod, 7, 2, session="a")
    begin(engine, job, "one")
    cluster.stopped = ["one"]
    until(lambda: engine.info().workers == {"other": 1})
    cluster.stopped = []
    until(lambda: len(engine.info().workers) == 2)
    cluster.answer(0, (3, 1))
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
    second.answer(0, (3, 1))
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
    second.answer(0, (3, 1))
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


def test_clocks_that_jump_make_no_worker_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs of life carry the time of another machine: that they differ counts, and by our own clock."""
    cluster, now = Cluster(), [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    link = Link(cluster)
    for jump in (0, 1_000_000, -1_000_000):
        cluster._looks += jump
        now[0] += SILENT_S - 0.5
        assert link.look()
        assert (len(link.threads), link.silent) == (2, frozenset())
    cluster.stopped = ["one"]
    now[0] += 100.0
    link.look()
    assert not link.silent, "this process stood still as well: nobody has listened"
    for _ in range(5):
        now[0] += LOOK_EVERY_S
        link.look()
    assert (list(link.threads), link.silent) == (["other"], frozenset({"one"}))
    assert CHILD_SETTINGS["DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL"] == "None"  # Dask would go by the machine's clock


@pytest.mark.bulk
def test_the_embedded_cluster_survives_the_loss_of_each_of_its_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With one worker, so that none stands in: killed, stopped, and the process above it, while it is stopped."""
    monkeypatch.delenv("GDM_SCHEDULER", raising=False)
    monkeypatch.setenv("GDM_WORKERS", "1")
    others = psutil.Process().children(recursive=True)  # of the cluster that other tests share
    with Engine(ResultCache(tmp_path)) as engine:

        def worker() -> psutil.Process:
            return psutil.Process(engine.call(os.getpid, session="a", deadline_s=240).result(240))

        known = worker()
        for how in (signal.SIGKILL, signal.SIGSTOP):
            known.send_signal(how)
            known.wait(PATIENCE_S)
            known = worker()
        assert engine.call(os.write, 1, b"no address\n", session="a", deadline_s=240).result(240) == 11
        left = [known, known.parent(), known.parent().parent()]
        known.suspend()
        left[2].kill()  # with the scheduler and the nannies
        assert worker() not in left
        until(lambda: not any(process.is_running() for process in left))
        family = [process for process in psutil.Process().children(recursive=True) if process not in others]
        assert family
    until(lambda: not any(process.is_running() for process in family))


@contextmanager
def host(**options: object) -> Iterator[subprocess.Popen[str]]:
    """The process of an embedded cluster with one worker, as the server starts it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gdm_core.engine.host", json.dumps({"n_workers": 1, "memory": 1 << 30} | options)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        process_group=0,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.mark.bulk
def test_a_worker_that_is_stopped_while_it_starts_is_replaced_and_leaves_with_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler never heard of it, so that nobody but its nanny can miss it."""
    marker = tmp_path / "stopped"
    monkeypatch.setenv(stops_once.MARKER, str(marker))
    light = {"warm": "distributed", "preload": stops_once.__name__}
    with host(**light, start_limit_s=2) as process:
        with Client(process.stdout.readline().strip(), timeout=240, set_as_default=False) as client:
            (number,) = client.run(os.getpid).values()
        stopped = int(marker.read_text())
        assert number != stopped
        assert not psutil.pid_exists(stopped)
        family = psutil.Process(process.pid).children(recursive=True)
        psutil.Process(number).suspend()
        process.communicate(timeout=240)  # closes its input, as the end of the server does
        until(lambda: not any(process.is_running() for process in family))


@pytest.mark.bulk
def test_what_workers_are_copies_of_is_made_anew_when_it_dies_with_the_same_loaded() -> None:
    with host(warm="distributed", preload="json") as process:
        assert process.stdout.readline()

        def copied() -> list[psutil.Process]:
            """That which has a copy, which is a worker, or is to be one."""
            below = [child for child in children(psutil.Process(process.pid)) if "forkserver" in command(child)]
            return [child for child in below if children(child)]

        (first,) = copied()
        first.kill()
        anew: list[str] = []

        def made_anew() -> bool:
            """A look: what it found may be gone at the next, where a worker is made once more."""
            anew[:] = [words for process in copied() if process != first and (words := command(process))]
            return bool(anew)

        until(made_anew)
        assert "['distributed']" in anew[0], "and not what Dask would have loaded"


@pytest.mark.bulk
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"warm": "tests.support.dies_while_loading"}, "ended while it loaded tests.support.dies_while_loading"),
        ({"warm": "distributed", "preload": "tests.support.cannot_load"}, "no such library"),
    ],
)
def test_workers_that_cannot_start_are_given_up_and_it_is_said_why(options: dict[str, str], words: str) -> None:
    began = time.monotonic()
    with host(**options) as process:
        assert process.stdout.readline().strip().endswith(words)
        assert process.wait(240) == 1
    assert time.monotonic() - began < 60  # 3 or 10 s where nothing else runs


def _stands(process: psutil.Process) -> bool:
    """Whether all its threads are stopped: Linux wakes an orphaned group only for a process that stands as a whole by then."""
    threads = Path(f"/proc/{process.pid}/task")
    if not threads.exists():
        return bool(process.status() == psutil.STATUS_STOPPED)
    return {stat.read_text().rpartition(")")[2].split()[0] for stat in threads.glob("*/stat")} == {"T"}


@pytest.mark.bulk
def test_a_stopped_host_does_not_outlive_its_server() -> None:
    """It cannot hear that its input has ended; the system itself wakes and ends a group that nobody above can reach."""
    server = (
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-m', 'gdm_core.engine.host', sys.argv[1]], stdin=subprocess.PIPE, process_group=0)\n"
        "time.sleep(600)"
    )
    options = json.dumps({"n_workers": 1, "memory": 1 << 30, "warm": "json", "preload": "json"})
    process = subprocess.Popen(
        [sys.executable, "-c", server, options], cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout.readline().startswith(b"tcp://")
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) >= 4
        family[0].suspend()
        until(lambda: _stands(family[0]))
    finally:
        process.kill()
        process.communicate()
    until(lambda: not any(child.is_running() for child in family))


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
