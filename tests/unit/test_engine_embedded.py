"""The embedded cluster: recovery, cancellation, memory and shutdown."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from gdm_core.engine import Engine, FitSpec, JobStatus, ResultCache
from gdm_core.engine.job import RESTARTED
from gdm_core.errors import FitError
from gdm_core.trials import Trial, Trials
from tests.support.engine_requests import PATIENCE_S, connect, fake_fit, long_fit, until
from tests.support.fake_model import FAMILY
from tests.support.patience import patience_s
from tests.support.work import LightWarmUp, messages_kept, process_facts

WAIT_S = 400.0


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Return an engine with a worker process of 1 GiB."""
    folder = tmp_path_factory.mktemp("embedded")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GDM_SCHEDULER", raising=False)
        patch.setenv("GDM_WORKERS", "1")
        patch.setenv("GDM_WORKER_MEMORY", "1 GiB")
        patch.setenv("DASK_TEMPORARY_DIRECTORY", str(folder / "scratch"))
        patch.setattr("gdm_core.engine.cluster.WarmUp", LightWarmUp)
        with Engine(ResultCache(folder / "fits")) as engine:
            engine.start().result(WAIT_S)
            yield engine


def test_cancel_frees_the_worker_within_200_ms(embedded: Engine) -> None:
    busy = embedded.submit(long_fit())
    until(lambda: busy.poll().step)
    waiting = embedded.submit(divmod, 7, 2)
    began = time.monotonic()
    busy.cancel()
    assert busy.poll().status is JobStatus.CANCELLED
    assert waiting.result(PATIENCE_S) == (3, 1)
    assert time.monotonic() - began < patience_s(0.2)


def test_worker_keeps_data_in_memory_and_one_thread(embedded: Engine) -> None:
    facts = embedded.submit(process_facts).result(PATIENCE_S)
    assert facts["torch threads"] == 1
    assert facts["data lie in"] == "dict", "the default of Dask spills to disk"
    assert not facts["stops when full"]


def test_uploads_stay_off_disk_and_out_of_messages(embedded: Engine) -> None:
    scratch = Path(os.environ["DASK_TEMPORARY_DIRECTORY"])
    for i in range(3):  # 8 MB each
        upload = Trials((Trial(np.random.default_rng(i).standard_normal((125_000, 16), dtype=np.float32)),))
        fit = FitSpec(FAMILY, {"n_steps": 2}, upload, use_cache=False)
        assert embedded.submit(fit, session=f"visitor {i}").result(WAIT_S).fit_status == "converged"
    for i in range(3):
        embedded.submit(fake_fit(seed=i, use_cache=False)).result(WAIT_S)
    with connect(embedded) as client:
        assert client.run_on_scheduler(messages_kept) <= 1
    written = [path for path in scratch.rglob("*") if path.is_file()]
    assert scratch.is_dir()
    assert sum(path.stat().st_size for path in written) < 10**6, written


def test_killed_worker_runs_its_job_again(embedded: Engine, tmp_path: Path) -> None:
    diary, hurry = tmp_path / "diary", tmp_path / "hurry"
    job = embedded.submit(long_fit(diary=str(diary), hurry=str(hurry)))
    until(lambda: job.poll().step > 5)
    os.kill(int(diary.read_text().split()[0]), signal.SIGKILL)
    hurry.touch()
    assert job.result(WAIT_S).fit_status == "converged"
    assert len(diary.read_text().splitlines()) == 2
    assert job.poll().notes == (RESTARTED,)


def test_lost_scheduler_fails_jobs_and_is_restarted(embedded: Engine) -> None:
    with connect(embedded) as client:
        old, scheduler = set(client.run(os.getpid).values()), client.run_on_scheduler(os.getpid)
    job = embedded.submit(long_fit())
    until(lambda: job.poll().step > 3)
    os.kill(scheduler, signal.SIGKILL)
    with pytest.raises(FitError, match=r"Try again\."):
        job.result(WAIT_S)
    assert embedded.submit(os.getpid).result(WAIT_S) not in old
    until(lambda: not any(psutil.pid_exists(pid) for pid in old))


def test_fit_over_memory_limit_advises_on_memory(embedded: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first death counts here, because workers take seconds to start."""
    monkeypatch.setattr("gdm_core.engine.engine.ALLOWED_DEATHS", 0)
    with pytest.raises(FitError, match="needs more memory than a worker has"):
        embedded.submit(fake_fit(misbehave="memory", step_s=0.03, n_steps=200)).result(WAIT_S)
