"""Jobs that run: slots, results, errors, cache and queue."""

from __future__ import annotations

import pickle
import threading
import time
from pathlib import Path

import pytest

from gdm_core.engine import Engine, Job, JobStatus, QueueFull, ResultCache
from gdm_core.errors import ConfigError, DataError, FitError
from tests.support.engine_requests import PATIENCE_S, TRIALS, long_request, request, until
from tests.support.fake_cluster import Cluster
from tests.support.work import count_to, total


def test_latest_job_in_a_slot_replaces_the_earlier(working: Engine) -> None:
    other = working.submit(long_request(), session="a", slot="compare")
    old = working.submit(long_request(), session="a", slot="main")
    until(lambda: old.poll().step > 0 and other.poll().step > 0)
    began = time.monotonic()
    new = working.submit(request(seed=1, use_cache=False), session="a", slot="main")
    assert old.poll().status is JobStatus.CANCELLED
    until(lambda: old.id not in working.info().out)
    freed = time.monotonic() - began
    assert new.result(PATIENCE_S)
    assert other.poll().status is JobStatus.RUNNING, f"the worker was free after {freed:.2f} s"
    with pytest.raises(FitError, match="cancelled"):
        old.result(0)
    other.cancel()


def test_deadline_ends_a_fit(working: Engine) -> None:
    job = working.submit(long_request(deadline_s=0.3), session="a")
    with pytest.raises(FitError, match=r"ran longer than its deadline of 0\.3 s"):
        job.result(PATIENCE_S)
    assert job.poll().status is JobStatus.FAILED


def test_calls_return_values_and_errors(working: Engine) -> None:
    assert working.call(divmod, 7, 2, session="a").result(PATIENCE_S) == (3, 1)
    assert working.call(total, TRIALS, 2.0, session="a").result(PATIENCE_S) == pytest.approx(
        2 * float(TRIALS[0].y.sum()), rel=1e-4
    )
    assert working.call(divmod, 7, 2, session="a", kept_as="seven").result(PATIENCE_S) == (3, 1)
    again = working.call(divmod, 7, 2, session="b", kept_as="seven")
    assert again.poll().status is JobStatus.DONE
    assert again.result() == [3, 1]
    with pytest.raises(FitError, match="cannot be sent to a worker"):
        working.call(divmod, threading.Lock(), session="a").result(PATIENCE_S)


def test_generator_call_reports_partial_values(working: Engine) -> None:
    job = working.call(count_to, 3, session="a")
    assert job.result(PATIENCE_S) == {"n": 3}
    assert job.poll().found == {"n": 3}


def test_equal_map_joins_running_job_and_keeps_results(working: Engine) -> None:
    seen: list[tuple[int, int]] = []
    items = {f"kept-{i}": (i, 3) for i in range(12)}
    bulk = working.map(divmod, items, session="a", key="kept", progress=lambda done, total: seen.append((done, total)))
    assert working.map(divmod, items, session="a", key="kept") is bulk
    assert working.bulk("kept") is bulk
    assert bulk.wait(PATIENCE_S)
    assert bulk.poll().results["kept-7"] == (2, 1)
    until(lambda: seen[-1] == (12, 12))
    again = working.map(divmod, items, session="b", key="another name")
    assert again.poll().finished  # at once: every item was kept
    assert again.poll().results["kept-7"] == [2, 1]  # as JSON holds it


def test_warm_start_reaches_the_worker(working: Engine) -> None:
    start = working.submit(request(n_steps=10), session="a").result(PATIENCE_S)
    job = working.submit(request(n_steps=5, n_states=3, warm_start=start.model_bytes), session="a")
    assert job.result(PATIENCE_S).model().params_["level"][0] == 15
    assert job.result(0).key != request(n_steps=5, n_states=3).key


def test_errors_keep_their_type(working: Engine) -> None:
    with pytest.raises(DataError, match=r"^Channel 'x' of trial 'lap 3' is unusable\. Drop it\.$"):
        working.submit(request(misbehave="data_error"), session="a").result(PATIENCE_S)
    with pytest.raises(ConfigError, match="n_states is 0"):
        working.submit(request(n_states=0), session="a").result(PATIENCE_S)
    with pytest.raises(FitError, match="unexpected KeyError: 'an oversight'"):
        working.submit(request(misbehave="bug"), session="a").result(PATIENCE_S)
    with pytest.raises(FitError, match="diverged at step 5"):
        working.submit(request(misbehave="diverge"), session="a").result(PATIENCE_S)
    assert working.cache.get(request(misbehave="diverge").key) == (None, "")


def test_results_survive_restart_and_damage(working: Engine, tmp_path: Path) -> None:
    wanted = request(seed=1, diary=str(tmp_path / "diary"))
    fitted = working.submit(wanted, session="a").result(PATIENCE_S)
    folder = working.cache.folder
    with Engine(ResultCache(folder)) as second:
        job = second.submit(wanted, session="a")
        assert job.poll().status is JobStatus.DONE
        assert job.result(0).from_cache
        assert not fitted.from_cache
        assert job.result(0).model_bytes == fitted.model_bytes
        assert job.poll().snapshot.states().shape == (500, 2)
    damaged = bytearray((folder / wanted.key).read_bytes())
    damaged[-9] ^= 1
    (folder / wanted.key).write_bytes(bytes(damaged))
    with Engine(ResultCache(folder)) as third:
        job = third.submit(wanted, session="a")
        assert not job.result(PATIENCE_S).from_cache
    assert "damaged" in job.poll().notes[0]
    assert (folder / "damaged" / wanted.key).read_bytes() == bytes(damaged)
    assert len((tmp_path / "diary").read_text().splitlines()) == 2


@pytest.mark.usefixtures("cluster")
def test_queue_is_bounded(tmp_path: Path) -> None:
    with Engine(ResultCache(tmp_path), max_waiting=6, max_waiting_per_session=4) as engine:

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


def test_data_are_sent_once(engine: Engine, cluster: Cluster) -> None:
    for seed in range(3):
        engine.submit(request(seed=seed, use_cache=False), session=f"{seed}")
        cluster.answer(seed + 1, "done")
    data, *fits = cluster.sent
    assert len(fits) == 3
    assert TRIALS[0].y.nbytes < len(data.args[0]) < 1.2 * TRIALS[0].y.nbytes
    for fit in fits:
        assert data in fit.args
        assert len(pickle.dumps([part for part in fit.args if part is not data])) < 1_500


def test_pause_step_and_resume(working: Engine, tmp_path: Path) -> None:
    hurry = tmp_path / "hurry"
    job = working.submit(long_request(hurry=str(hurry)), session="a")
    until(lambda: job.poll().step > 5)
    job.pause()
    until(lambda: job.poll().held)
    at = job.poll().step
    assert job.poll().snapshot.step == at
    job.step(3)
    until(lambda: job.poll().held and job.poll().step == at + 3)
    job.step()
    until(lambda: job.poll().held and job.poll().step == at + 4)
    hurry.touch()
    job.resume()
    assert job.result(PATIENCE_S).steps == tuple(range(1, 5001))
