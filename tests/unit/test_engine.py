"""The engine on a real cluster of a scheduler and two workers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gdm_core.engine import Engine, JobStatus, ResultCache
from gdm_core.errors import FitError
from gdm_core.trials import Trial, Trials
from tests.support.engine_requests import PATIENCE_S, TRIALS, long_request, request, until
from tests.support.fake_model import FakeModel
from tests.support.local_cluster import dask_cluster
from tests.support.work import total


@pytest.fixture(scope="module")
def shared(scheduler: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GDM_SCHEDULER", scheduler)
        with Engine(ResultCache(tmp_path_factory.mktemp("fits"))) as engine:
            engine.wait_ready(PATIENCE_S)
            until(
                lambda: (
                    engine.submit(request(use_cache=False), session="w").result(PATIENCE_S)
                    and len(engine.info().workers) == 2
                )
            )
            yield engine


@pytest.fixture
def engine(shared: Engine) -> Iterator[Engine]:
    """Return the shared engine, and wait until it is idle after the test."""
    yield shared
    until(lambda: not shared.info().out, lambda: _what_stands(shared))


def _what_stands(engine: Engine) -> str:
    out = [f"{sent} {sent.job.run} {sent.job.orders} {sent.job.poll()}" for sent in engine._dispatcher._sent.values()]
    return "\n".join([str(engine.info()), *out])


def test_cluster_fit_equals_local_fit(engine: Engine) -> None:
    job = engine.submit(request(n_states=3, n_steps=7), session="a")
    result = job.result(PATIENCE_S)
    view = job.poll()
    model = result.model()
    here = FakeModel(n_states=3, n_steps=7).fit(TRIALS)
    assert view.status is JobStatus.DONE
    assert (view.step, view.steps, len(view.elbos)) == (7, tuple(range(1, 8)), 7)
    assert model.elbo_ == pytest.approx(here.elbo_)
    np.testing.assert_allclose(model.predict_proba(TRIALS[0]), here.predict_proba(TRIALS[0]), atol=1e-6)
    np.testing.assert_allclose(view.snapshot.states(), here.predict_proba(TRIALS[0]), atol=0.01)


def test_running_fit_reports_progress_and_snapshots(engine: Engine) -> None:
    job = engine.submit(long_request(), session="a")
    until(lambda: job.poll().step > 20)
    view = job.poll()
    assert view.status is JobStatus.RUNNING
    assert view.total == 5000
    assert list(view.steps) == list(range(1, view.step + 1))
    assert view.snapshot.states().shape == (500, 2)
    first = view.snapshot.step
    until(lambda: job.poll().snapshot.step > first)
    job.cancel()


def test_held_fits_free_their_workers(engine: Engine, tmp_path: Path) -> None:
    hurry = tmp_path / "hurry"
    held = [engine.submit(long_request(seed=i, hurry=str(hurry)), session=f"h{i}") for i in range(3)]
    for job in held:
        job.pause()
    until(lambda: all(job.poll().held for job in held))  # three on two workers
    assert engine.submit(request(seed=50, use_cache=False), session="b").result(PATIENCE_S)
    hurry.touch()
    for job in held:
        job.resume()
        assert job.result(PATIENCE_S)


def worker_pids(engine: Engine) -> set[int]:
    """Return the process ids of all workers that answer."""
    try:
        return set(engine._dispatcher._link.client.run(os.getpid).values())
    except OSError:  # a worker has just died
        return set()


def test_killed_worker_reruns_job(engine: Engine, tmp_path: Path) -> None:
    diary, hurry = tmp_path / "diary", tmp_path / "hurry"
    job = engine.submit(long_request(diary=str(diary), hurry=str(hurry)), session="a")
    until(lambda: job.poll().step > 5)
    pid = int(diary.read_text().split()[0])
    os.kill(pid, signal.SIGKILL)
    hurry.touch()
    result = job.result(180)
    assert len(diary.read_text().splitlines()) == 2
    assert job.poll().steps == tuple(range(1, 5001))
    assert result.fit_status == "converged"
    until(lambda: len(worker_pids(engine) - {pid}) == 2)


def test_stuck_call_ends_at_its_deadline(engine: Engine) -> None:
    before = worker_pids(engine)
    job = engine.call(time.sleep, 300, session="a", deadline_s=0.5)
    with pytest.raises(FitError, match=r"deadline of 0\.5 s"):
        job.result(PATIENCE_S)
    until(lambda: len(now := worker_pids(engine)) == 2 and now != before)
    assert engine.call(os.getpid, session="a", deadline_s=240).result(240)


# ---- engines of their own ----------------------------------------------------------------------------------------------
def test_cluster_drops_data_of_ended_session(scheduler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Data that another session uses stays."""
    own = Trials((Trial(np.random.default_rng(2).standard_normal((300, 2))),))
    monkeypatch.setenv("GDM_SCHEDULER", scheduler)
    with Engine(ResultCache(tmp_path)) as engine:
        engine.wait_ready(PATIENCE_S)
        client = engine._dispatcher._link.client
        topic = engine._dispatcher._link.topic

        def held() -> int:
            """Count the trial sets on scheduler and workers."""
            keys = set(client.run_on_scheduler(lambda dask_scheduler: [str(key) for key in dask_scheduler.tasks]))
            keys.update(*client.run(lambda dask_worker: [str(key) for key in dask_worker.data]).values())
            return sum(key.startswith(f"{topic}-trials") for key in keys)

        engine.submit(request(own, n_steps=1, use_cache=False), session="owner").result(PATIENCE_S)
        engine.call(total, own, 2.0, session="owner").result(PATIENCE_S)
        engine.submit(request(n_steps=1, use_cache=False), session="owner").result(PATIENCE_S)
        engine.submit(request(n_steps=1, use_cache=False), session="other").result(PATIENCE_S)
        assert held() == 2
        engine.forget("owner")
        until(lambda: held() == 1)
        engine.forget("other")
        until(lambda: held() == 0)
        assert engine.submit(request(own, n_steps=1, use_cache=False), session="owner").result(PATIENCE_S)


def test_missing_scheduler_or_workers_raises_fit_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cluster = "gdm_core.engine.cluster"
    monkeypatch.setattr(f"{cluster}.JOIN_TIMEOUT_S", 0.5)
    monkeypatch.setattr(f"{cluster}.FIRST_WORKER_TIMEOUT_S", 0.5)
    monkeypatch.setenv("GDM_SCHEDULER", "tcp://127.0.0.1:9")
    with Engine(ResultCache(tmp_path)) as engine:
        with pytest.raises(
            FitError, match=r"No scheduler answers at GDM_SCHEDULER=tcp://127\.0\.0\.1:9.*dask scheduler"
        ):
            engine.wait_ready(PATIENCE_S)
        with pytest.raises(FitError, match="No scheduler answers"):
            engine.submit(request(), session="a").result(PATIENCE_S)
        assert "No scheduler answers" in engine.info().trouble
    with dask_cluster(tmp_path, n_workers=0) as alone:
        monkeypatch.setattr(f"{cluster}.JOIN_TIMEOUT_S", 90.0)
        monkeypatch.setenv("GDM_SCHEDULER", alone)
        with Engine(ResultCache(tmp_path)) as engine, pytest.raises(FitError, match=r"has no workers.*gdm workers"):
            engine.wait_ready(PATIENCE_S)


@pytest.mark.bulk
def test_lost_scheduler_restarts_job_on_next_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for limit in ("JOIN_TIMEOUT_S", "FIRST_WORKER_TIMEOUT_S"):
        monkeypatch.setattr(f"gdm_core.engine.cluster.{limit}", 90.0)
    hurry = tmp_path / "hurry"
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    with dask_cluster(tmp_path / "second", n_workers=1) as second:
        with dask_cluster(tmp_path / "first", n_workers=1) as first:
            monkeypatch.setenv("GDM_SCHEDULER", first)
            engine = Engine(ResultCache(tmp_path / "fits"))
            engine.wait_ready(PATIENCE_S)
            job = engine.submit(long_request(hurry=str(hurry)), session="a")
            until(lambda: job.poll().step > 3)
            monkeypatch.setenv("GDM_SCHEDULER", second)
        hurry.touch()
        with engine:
            assert job.result(300).fit_status == "converged"
            assert "started again" in job.poll().notes[0]
