"""The engine on a real cluster: a scheduler and two workers in processes of their own."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gdm_core.engine import Engine, JobStatus, ResultCache
from gdm_core.errors import ConfigError, DataError, FitError
from tests.support.engine_requests import PATIENCE_S, TRIALS, long_request, request, until
from tests.support.fake_model import FakeModel
from tests.support.work import total, until_told


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
    """Idle at the start of each test, so that none pays for the one before it."""
    yield shared
    until(lambda: not shared.info().out, lambda: _what_stands(shared))


def _what_stands(engine: Engine) -> str:
    out = [f"{sent} {sent.job.run} {sent.job.orders} {sent.job.poll()}" for sent in engine._dispatcher._sent.values()]
    return "\n".join([str(engine.info()), *out])


def test_a_fit_on_the_cluster_gives_the_model_it_would_give_here(engine: Engine) -> None:
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


def test_progress_and_pictures_arrive_while_the_fit_runs(engine: Engine) -> None:
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


def test_the_latest_in_a_slot_wins_and_the_other_leaves_its_worker(engine: Engine) -> None:
    """Either would go on for minutes."""
    other = engine.submit(long_request(), session="a", slot="compare")
    old = engine.submit(long_request(), session="a", slot="main")
    until(lambda: old.poll().step > 0 and other.poll().step > 0)
    began = time.monotonic()
    new = engine.submit(request(seed=1, use_cache=False), session="a", slot="main")
    assert old.poll().status is JobStatus.CANCELLED
    until(lambda: old.id not in engine.info().out)
    freed = time.monotonic() - began
    assert new.result(PATIENCE_S)
    assert other.poll().status is JobStatus.RUNNING, f"the worker was free after {freed:.2f} s"
    with pytest.raises(FitError, match="cancelled"):
        old.result(0)
    other.cancel()


def test_pause_step_and_resume(engine: Engine, tmp_path: Path) -> None:
    hurry = tmp_path / "hurry"
    job = engine.submit(long_request(hurry=str(hurry)), session="a")
    until(lambda: job.poll().step > 5)
    job.pause()
    until(lambda: job.poll().held)
    at = job.poll().step
    assert job.poll().snapshot.step == at  # the picture is of the step where it stands
    job.step(3)
    until(lambda: job.poll().held and job.poll().step == at + 3)
    job.step()
    until(lambda: job.poll().held and job.poll().step == at + 4)
    hurry.touch()
    job.resume()
    assert job.result(PATIENCE_S).steps == tuple(range(1, 5001))


def test_a_held_fit_leaves_its_worker_to_others(engine: Engine, tmp_path: Path) -> None:
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


def test_a_killed_worker_costs_a_retry(engine: Engine, tmp_path: Path) -> None:
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
    until(lambda: pid not in _pids(engine) and len(engine.info().workers) == 2)


def _pids(engine: Engine) -> set[int]:
    return {engine.call(os.getpid, session=str(i)).result(PATIENCE_S) for i in range(2)}


def test_a_deadline_ends_a_fit(engine: Engine) -> None:
    job = engine.submit(long_request(deadline_s=0.3), session="a")
    with pytest.raises(FitError, match=r"ran longer than its deadline of 0\.3 s"):
        job.result(PATIENCE_S)
    assert job.poll().status is JobStatus.FAILED


def test_a_call_that_never_looks_up_ends_at_its_deadline_and_the_worker_comes_back(engine: Engine) -> None:
    job = engine.call(time.sleep, 300, session="a", deadline_s=0.5)
    with pytest.raises(FitError, match=r"deadline of 0\.5 s"):
        job.result(PATIENCE_S)
    assert engine.call(os.getpid, session="a", deadline_s=240).result(240)


def test_calls_return_values_and_errors(engine: Engine) -> None:
    assert engine.call(divmod, 7, 2, session="a").result(PATIENCE_S) == (3, 1)
    assert engine.call(total, TRIALS, 2.0, session="a").result(PATIENCE_S) == pytest.approx(
        2 * float(TRIALS[0].y.sum()), rel=1e-4
    )
    assert engine.call(divmod, 7, 2, session="a", kept_as="seven").result(PATIENCE_S) == (3, 1)
    again = engine.call(divmod, 7, 2, session="b", kept_as="seven")
    assert again.poll().status is JobStatus.DONE, "what was kept is there at once"
    assert again.result() == [3, 1], "as JSON holds it"
    with pytest.raises(FitError, match="cannot be sent to a worker"):
        engine.call(divmod, threading.Lock(), session="a").result(PATIENCE_S)


def test_bulk_work_stands_aside_and_goes_on(engine: Engine, tmp_path: Path) -> None:
    told = tmp_path / "told"
    items = {f"aside-{i}": (str(told), i) for i in range(2)}
    bulk = engine.map(until_told, items, session="sweeper", key="aside", cached=False)
    until(lambda: len(engine.info().out) == 2)
    assert engine.submit(request(n_steps=20, step_s=0.01, use_cache=False), session="watcher").result(PATIENCE_S)
    assert bulk.poll().done == 0
    told.touch()
    assert bulk.wait(PATIENCE_S)
    view = bulk.poll()
    assert (view.results, view.failures) == ({"aside-0": 0, "aside-1": 1}, {})


def test_map_comes_back_to_what_runs_and_keeps_what_is_done(engine: Engine) -> None:
    seen: list[tuple[int, int]] = []
    items = {f"kept-{i}": (i, 3) for i in range(12)}
    bulk = engine.map(divmod, items, session="a", key="kept", progress=lambda done, total: seen.append((done, total)))
    assert engine.map(divmod, items, session="a", key="kept") is bulk
    assert engine.bulk("kept") is bulk
    assert bulk.wait(PATIENCE_S)
    assert bulk.poll().results["kept-7"] == (2, 1)
    until(lambda: seen[-1] == (12, 12))
    again = engine.map(divmod, items, session="b", key="another name")
    assert again.poll().finished  # at once: every item was kept
    assert again.poll().results["kept-7"] == [2, 1]  # as JSON holds it


def test_a_fit_already_seen_is_not_done_again(engine: Engine, tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    wanted = request(seed=5, diary=str(diary))
    first = engine.submit(wanted, session="a").result(PATIENCE_S)
    job = engine.submit(request(seed=5, diary=str(diary)), session="b")
    assert job.poll().status is JobStatus.DONE  # without waiting
    assert job.result(0).from_cache
    assert not first.from_cache
    assert job.result(0).model_bytes == first.model_bytes
    assert job.poll().snapshot.states().shape == (500, 2)
    engine.submit(request(seed=6, diary=str(diary)), session="a").result(PATIENCE_S)
    assert len(diary.read_text().splitlines()) == 2


def test_a_warm_start_travels(engine: Engine) -> None:
    start = engine.submit(request(n_steps=10), session="a").result(PATIENCE_S)
    job = engine.submit(request(n_steps=5, n_states=3, warm_start=start.model_bytes), session="a")
    assert job.result(PATIENCE_S).model().params_["level"][0] == 15
    assert job.result(0).key != request(n_steps=5, n_states=3).key


def test_a_diverged_fit_is_no_result(engine: Engine) -> None:
    job = engine.submit(request(misbehave="diverge"), session="a")
    with pytest.raises(FitError, match="diverged at step 5"):
        job.result(PATIENCE_S)
    assert job.poll().status is JobStatus.FAILED
    assert job.poll().result is None
    assert engine.cache.get(request(misbehave="diverge").key) == (None, "")


def test_errors_arrive_as_they_were_raised(engine: Engine) -> None:
    with pytest.raises(DataError, match=r"^Channel 'x' of trial 'lap 3' is unusable\. Drop it\.$"):
        engine.submit(request(misbehave="data_error"), session="a").result(PATIENCE_S)
    with pytest.raises(ConfigError, match="n_states is 0"):
        engine.submit(request(n_states=0), session="a").result(PATIENCE_S)
    with pytest.raises(FitError, match="unexpected KeyError: 'an oversight'"):
        engine.submit(request(misbehave="bug"), session="a").result(PATIENCE_S)


def test_the_server_keeps_no_messages_that_carried_data(engine: Engine) -> None:
    """Dask keeps the last 1,000, and with them what visitors brought who have left."""
    for session in ("a", "b", "c"):
        assert engine.call(total, TRIALS, 1.0, session=session).result(PATIENCE_S) == pytest.approx(TRIALS[0].y.sum())
    link = engine._dispatcher._link
    assert len(link.client.scheduler_comm.recent_message_log) <= 1
