"""Faults of the embedded cluster between jobs, while a job is sent, while it runs, and while its result travels."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from gdm_core.engine import Engine, Job, ResultCache
from gdm_core.engine.spec import code_version
from gdm_core.errors import FitError
from gdm_core.trials import Trial, Trials
from tests.support.engine_requests import connect
from tests.support.patience import patience_s, until
from tests.support.work import (
    DeadlyResult,
    LightWarmUp,
    kill_this_process,
    total,
    write_pid_and_return,
    write_pid_and_sleep,
)

ROOT = Path(__file__).parents[2]


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a child process that can import the project, with one torch thread."""
    version = code_version().partition("+")[2]  # children report the same version even if the code changes meanwhile
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GDM_CODE_VERSION": version, **more}


WAIT_S = 400.0
MOMENTS = ("between jobs", "while it is sent", "while it runs", "while its result travels")
REPEATS = 10  # of each fault in bulk, at a random moment
LARGE = 60 * 2**20  # bytes that travel for tens of milliseconds


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Return an engine with two worker processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GDM_SCHEDULER", raising=False)
        patch.setenv("GDM_WORKERS", "2")
        patch.setattr("gdm_core.engine.cluster.WarmUp", LightWarmUp)
        with Engine(ResultCache(tmp_path_factory.mktemp("pair"))) as engine:
            engine.start().result(WAIT_S)
            yield engine


def worker_pids(engine: Engine) -> list[int]:
    with connect(engine) as client:
        client.wait_for_workers(2)
        return list(client.run(os.getpid).values())


def scheduler_pid(engine: Engine) -> list[int]:
    with connect(engine) as client:
        return [int(client.run_on_scheduler(os.getpid))]


def start_jobs_and_kill(engine: Engine, pids: list[int], moment: str, folder: Path) -> list[Job]:
    """Start four jobs and kill processes at a moment of their life."""

    def kill() -> None:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    if moment == "between jobs":
        kill()
        return [engine.submit(time.sleep, 0.2) for _ in range(4)]
    if moment == "while it is sent":
        data = Trials((Trial(np.full((LARGE // 32, 8), random.random(), dtype=np.float32)),))
        jobs = [engine.submit(total, data, 1.0, session="a") for _ in range(4)]
        time.sleep(random.uniform(0.0, 0.1))
        kill()
        return jobs
    function, size = (write_pid_and_sleep, 0.5) if moment == "while it runs" else (write_pid_and_return, LARGE)
    jobs = [engine.submit(function, str(folder / f"{i}"), size) for i in range(4)]
    until((folder / "0").exists)
    time.sleep(random.uniform(0.0, 0.1))
    kill()
    return jobs


@pytest.mark.parametrize(
    ("moment", "repeats"),
    [(MOMENTS[0], 1), *(pytest.param(moment, REPEATS, marks=pytest.mark.bulk) for moment in MOMENTS)],
)
def test_killed_workers_lose_no_job(pair: Engine, tmp_path: Path, moment: str, repeats: int) -> None:
    """One worker is killed, or both."""
    for i in range(repeats):
        folder = tmp_path / str(i)
        folder.mkdir()
        pids = worker_pids(pair)
        victims = pids if i % 2 == 0 else random.sample(pids, 1)
        began = time.monotonic()
        for job in start_jobs_and_kill(pair, victims, moment, folder):
            job.result(WAIT_S)
        took = time.monotonic() - began
        print(f"{moment}, {len(victims)} killed: {took:.1f} s")
        assert took < patience_s(15)
        until(lambda: not (pair.info().waiting or pair.info().running))


@pytest.mark.bulk
@pytest.mark.parametrize("moment", MOMENTS)
def test_lost_scheduler_ends_only_running_jobs(pair: Engine, tmp_path: Path, moment: str) -> None:
    """A running job fails with advice; the others run on a new cluster."""
    for i in range(REPEATS):
        folder = tmp_path / str(i)
        folder.mkdir()
        old = worker_pids(pair)
        jobs = start_jobs_and_kill(pair, scheduler_pid(pair), moment, folder)
        for job in jobs:
            assert job.wait(patience_s(60))
            assert job.poll().message in ("", "The workers were lost while the job ran. Try again.")
        if moment == "between jobs":
            assert not any(job.poll().message for job in jobs)
        assert pair.submit(divmod, 7, 2).result(WAIT_S) == (3, 1)
        until(lambda: not (pair.info().waiting or pair.info().running))
        until(lambda old=old: not any(psutil.pid_exists(pid) for pid in old))


@pytest.mark.bulk
@pytest.mark.parametrize("work", [kill_this_process, DeadlyResult])
def test_job_that_kills_its_workers_fails(pair: Engine, work: type) -> None:
    for _ in range(REPEATS):
        with pytest.raises(FitError, match="needs more memory than a worker has"):
            pair.submit(work).result(WAIT_S)
        assert pair.submit(divmod, 7, 2).result(WAIT_S) == (3, 1)


# The script has no `if __name__ == "__main__"`. Its workers load no models, which takes seconds.
SERVER = """
import json, os, sys, time
import psutil
from gdm_core.engine import cluster
from tests.support.work import LightWarmUp, write_pid_and_return

moment = sys.argv[1]
cluster.WarmUp = LightWarmUp
client = cluster.connect(print).client
family = psutil.Process().children(recursive=True)
open_to = {c.laddr.ip for p in family for c in p.net_connections("inet") if c.status == "LISTEN"}
facts = {"torch here": "torch" in sys.modules, "open to": sorted(open_to), "pids": [p.pid for p in family]}
if moment == "while it runs":
    future = client.submit(time.sleep, 600)
with open("facts.part", "w") as file:
    json.dump(facts, file)
os.rename("facts.part", "facts")
while moment == "while it is sent":
    client.submit(len, os.urandom(60 * 2**20)).result()
while moment == "while its result travels":
    client.submit(write_pid_and_return, os.path.abspath("pid"), 60 * 2**20, pure=False).result()
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("ending", "moment", "repeats"),
    [
        (signal.SIGTERM, MOMENTS[0], 1),
        (signal.SIGKILL, MOMENTS[0], 1),
        *(pytest.param(signal.SIGKILL, moment, REPEATS, marks=pytest.mark.bulk) for moment in MOMENTS),
    ],
)
def test_no_process_remains_10_s_after_the_server(
    tmp_path: Path, ending: signal.Signals, moment: str, repeats: int
) -> None:
    (tmp_path / "script.py").write_text(SERVER)
    env, facts_file = environment(GDM_WORKERS="1"), tmp_path / "facts"
    env.pop("GDM_SCHEDULER", None)
    for _ in range(repeats):
        facts_file.unlink(missing_ok=True)
        with (tmp_path / "log").open("wb") as log:
            command = [sys.executable, "script.py", moment]
            server = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=log, stderr=log)
        try:
            until(lambda s=server: facts_file.exists() or s.poll() is not None, (tmp_path / "log").read_text)
            facts = json.loads(facts_file.read_text())
            time.sleep(random.uniform(0.0, 0.5) if repeats > 1 else 0.0)
        finally:
            server.send_signal(ending)
            server.wait()
        ended = time.monotonic()
        until(lambda pids=facts["pids"]: not any(psutil.pid_exists(pid) for pid in pids))
        assert time.monotonic() - ended < patience_s(10)
        assert len(facts["pids"]) >= 3, "scheduler, nanny and worker"
        assert not facts["torch here"]
        assert facts["open to"] == ["127.0.0.1"]


EXIT = """
import sys, time
from gdm_core.engine import cluster, get_engine
from tests.support.work import LightWarmUp

cluster.WarmUp = LightWarmUp
engine = get_engine()
engine.start().result(60)
engine.submit(divmod, 7, 2).result(60)
jobs = [engine.submit(time.sleep, 1.0) for _ in range(4)]
time.sleep(0.2)
if sys.argv[1] == "close":
    engine.close()
"""


@pytest.mark.parametrize("ending", [pytest.param("close", marks=pytest.mark.bulk), "exit"])
def test_engine_with_jobs_ends_without_messages(ending: str) -> None:
    env = environment(GDM_WORKERS="2")
    env.pop("GDM_SCHEDULER", None)
    ended = subprocess.run([sys.executable, "-c", EXIT, ending], env=env, capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("", "")
