"""Recovery: jobs move on when workers, schedulers or the embedded cluster die."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from gdm_core.engine import Engine, ResultCache, dispatch
from gdm_core.engine.cluster import Link
from gdm_core.engine.jobs import Job
from gdm_core.errors import FitError
from tests.support.engine_requests import PATIENCE_S, until
from tests.support.fake_cluster import Cluster
from tests.support.local_cluster import ROOT


def begin(engine: Engine, job: Job, worker: str) -> None:
    """Report that `worker` started the job."""
    until(lambda: job.id in engine.info().out)
    engine._dispatcher._on_event({"run": job.run, "kind": "started", "worker": worker, "version": job.orders.version})
    until(lambda: engine._dispatcher._sent[job.id].worker_known)


def test_job_of_dead_worker_moves_to_the_next(engine: Engine, cluster: Cluster) -> None:
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


def test_job_continues_on_new_cluster(engine: Engine, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_lost_cluster_raises_fit_error(engine: Engine, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    job = engine.call(divmod, 7, 2, session="a")
    begin(engine, job, "one")
    monkeypatch.setattr(dispatch, "RETURN_LIMIT_S", 0.5)

    def connect(on_event: object) -> Link:
        raise FitError("No scheduler answers.")

    monkeypatch.setattr(dispatch, "connect", connect)
    cluster.status = "connecting"
    with pytest.raises(FitError, match="No scheduler answers"):
        job.result(60)


@pytest.mark.bulk
def test_embedded_cluster_recovers_from_killed_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GDM_SCHEDULER", raising=False)
    monkeypatch.setenv("GDM_WORKERS", "1")
    others = psutil.Process().children(recursive=True)
    with Engine(ResultCache(tmp_path)) as engine:

        def worker() -> psutil.Process:
            return psutil.Process(engine.call(os.getpid, session="a", deadline_s=240).result(240))

        known = worker()
        known.kill()
        known.wait(PATIENCE_S)
        known = worker()
        left = [known, known.parent(), known.parent().parent()]
        left[2].kill()  # with the scheduler and the nannies
        assert worker() not in left
        until(lambda: not any(process.is_running() for process in left))
        family = [process for process in psutil.Process().children(recursive=True) if process not in others]
        assert family
    until(lambda: not any(process.is_running() for process in family))


@pytest.mark.bulk
def test_failed_worker_start_names_the_reason() -> None:
    options = {"n_workers": 1, "memory": 1 << 30, "warm": "distributed", "preload": "tests.support.cannot_load"}
    command = [sys.executable, "-m", "gdm_core.engine.host", json.dumps(options)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout.readline().strip().endswith("no such library")
        assert process.wait(PATIENCE_S) == 1
