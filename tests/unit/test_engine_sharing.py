"""Engines that share a cluster: what they keep, send and let go of, and what they say when there is none."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from gdm_core.engine import Engine, Job, JobStatus, QueueFull, ResultCache
from gdm_core.errors import FitError
from gdm_core.trials import Trial, Trials
from tests.support.engine_requests import PATIENCE_S, long_request, request, until
from tests.support.local_cluster import running_cluster, wait_for_workers
from tests.support.wire import counted
from tests.support.work import total


def test_results_survive_a_restart_and_a_damaged_one_is_fitted_again(
    scheduler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GDM_SCHEDULER", scheduler)
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path))
    wanted = request(seed=1, diary=str(tmp_path / "diary"))
    with Engine() as first:
        first.wait_ready(PATIENCE_S)
        fitted = first.submit(wanted, session="a").result(PATIENCE_S)
    with Engine() as second:
        job = second.submit(wanted, session="a")
        assert job.result(0).from_cache
        assert job.result(0).model_bytes == fitted.model_bytes
    file = tmp_path / "fits" / wanted.key
    damaged = bytearray(file.read_bytes())
    damaged[-9] ^= 1
    file.write_bytes(bytes(damaged))
    with Engine() as third:
        third.wait_ready(PATIENCE_S)
        job = third.submit(wanted, session="a")
        again = job.result(PATIENCE_S)
    assert not again.from_cache
    assert "damaged" in job.poll().notes[0]
    assert (tmp_path / "fits" / "damaged" / file.name).read_bytes() == bytes(damaged)
    assert len((tmp_path / "diary").read_text().splitlines()) == 2


def test_the_queue_is_bounded(scheduler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GDM_SCHEDULER", scheduler)
    with Engine(ResultCache(tmp_path), max_waiting=6, max_waiting_per_session=4) as engine:
        engine.wait_ready(PATIENCE_S)

        def add(session: str) -> Job:
            return engine.submit(long_request(), session=session, slot=f"{time.monotonic_ns()}")

        jobs = [add("a"), add("a")]
        until(lambda: len(engine.info().out) == 2)
        jobs += [add("b") for _ in range(4)]
        with pytest.raises(QueueFull, match="4 of your jobs wait already"):
            add("b")
        jobs += [add("c") for _ in range(2)]
        with pytest.raises(QueueFull, match="6 jobs of all sessions"):
            add("d")
        jobs[-1].cancel()
        jobs.append(add("d"))
        engine.forget("b")
        assert sum(job.poll().status is JobStatus.CANCELLED for job in jobs) == 5


def test_data_travels_once(scheduler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    big = Trials((Trial(np.random.default_rng(1).standard_normal((200_000, 4))),))
    with counted(scheduler) as relay:
        monkeypatch.setenv("GDM_SCHEDULER", relay.address)
        with Engine(ResultCache(tmp_path)) as engine:
            engine.wait_ready(PATIENCE_S)
            sent = []
            for seed in range(3):
                before = relay.to_server
                engine.submit(request(big, seed=seed, n_steps=1, preview=()), session="a").result(PATIENCE_S)
                sent.append(relay.to_server - before)
    size = big[0].y.nbytes
    assert size < sent[0] < 1.05 * size
    assert max(sent[1:]) < 0.05 * size  # signs of life are among them, more of them on a slow machine


def test_the_data_of_a_session_that_left_is_nowhere_on_the_cluster(
    scheduler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Scheduler and workers hold an upload as long as its owner is there; what others use as well stays."""
    own = Trials((Trial(np.random.default_rng(2).standard_normal((300, 2))),))
    monkeypatch.setenv("GDM_SCHEDULER", scheduler)
    with Engine(ResultCache(tmp_path)) as engine:
        engine.wait_ready(PATIENCE_S)
        client = engine._dispatcher._link.client
        topic = engine._dispatcher._link.topic

        def held() -> int:
            """How many sets of our trials lie on the scheduler or on a worker."""
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


def test_no_scheduler_and_no_workers_say_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
    with running_cluster(tmp_path, n_workers=0) as address:
        monkeypatch.setattr(f"{cluster}.JOIN_TIMEOUT_S", 90.0)
        monkeypatch.setenv("GDM_SCHEDULER", address)
        with Engine(ResultCache(tmp_path)) as engine, pytest.raises(FitError, match=r"has no workers.*gdm workers"):
            engine.wait_ready(PATIENCE_S)


@pytest.mark.bulk
def test_a_lost_scheduler_is_told_and_the_next_one_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for limit in ("JOIN_TIMEOUT_S", "FIRST_WORKER_TIMEOUT_S"):
        monkeypatch.setattr(f"gdm_core.engine.cluster.{limit}", 90.0)
    hurry = tmp_path / "hurry"
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    with running_cluster(tmp_path / "second", n_workers=1) as next_address:
        with running_cluster(tmp_path / "first", n_workers=1) as address:
            wait_for_workers(address, 1)
            wait_for_workers(next_address, 1)
            monkeypatch.setenv("GDM_SCHEDULER", address)
            engine = Engine(ResultCache(tmp_path / "fits"))
            engine.wait_ready(PATIENCE_S)
            job = engine.submit(long_request(hurry=str(hurry)), session="a")
            until(lambda: job.poll().step > 3)
            monkeypatch.setenv("GDM_SCHEDULER", next_address)
        hurry.touch()
        with engine:
            assert job.result(300).fit_status == "converged"
            assert "started again" in job.poll().notes[0]
