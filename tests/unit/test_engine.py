"""Jobs on a Dask cluster: results, errors, progress, cache, priorities and data."""

import pickle
import threading
import time
from pathlib import Path

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster

from gdm_core.engine import Engine, Job, JobStatus, Priority, ResultCache
from gdm_core.engine.cluster import Link
from gdm_core.errors import ConfigError, DataError, FitError
from gdm_core.trials import Trial, Trials
from tests.support.engine_requests import PATIENCE_S, TRIALS, fake_fit, long_fit, until
from tests.support.fake_model import FakeModel
from tests.support.work import count_to, total, write_name


def occupy(engine: Engine) -> list[Job]:
    """Run a long fit on each of the two workers."""
    jobs = [engine.submit(long_fit(seed=i), session="busy") for i in range(2)]
    until(lambda: all(job.poll().step for job in jobs))
    return jobs


def find_data(scheduler: str) -> set[str]:
    """Return the keys of trials that a cluster stores."""
    with Client(scheduler, set_as_default=False) as client:
        return {key for key in client.who_has() if key.startswith("trials-")}


def test_dask_info_updates_hide_no_worker(scheduler: str) -> None:
    """A worker that seems to be gone would count as a death of its job."""
    how = {"distributed.client.scheduler-info-interval": "1ms"}
    with dask.config.set(how), Client(scheduler, set_as_default=False) as client:
        link = Link(client)
        assert all(len(link.workers()) == 2 for _ in range(1000))


# ---- results ----------------------------------------------------------------------------------------------------
def test_cluster_fit_equals_local_fit(engine: Engine) -> None:
    job = engine.submit(fake_fit(n_states=3, n_steps=7), session="a")
    result = job.result(PATIENCE_S)
    view = job.poll()
    here = FakeModel(n_states=3, n_steps=7).fit(TRIALS)
    assert view.status is JobStatus.DONE
    assert (view.step, view.steps, len(view.elbos)) == (7, tuple(range(1, 8)), 7)
    assert result.model().elbo_ == pytest.approx(here.elbo_)
    np.testing.assert_allclose(result.model().predict_proba(TRIALS[0]), here.predict_proba(TRIALS[0]), atol=1e-6)
    np.testing.assert_allclose(view.snapshot.states(), here.predict_proba(TRIALS[0]), atol=0.01)


def test_calls_return_values_and_errors(engine: Engine) -> None:
    assert engine.submit(divmod, 7, 2).result(PATIENCE_S) == (3, 1)
    assert engine.submit(total, TRIALS, 2.0).result(PATIENCE_S) == pytest.approx(2 * TRIALS[0].y.sum(), rel=1e-4)
    assert engine.submit(divmod, 7, 2, cached_as="seven").result(PATIENCE_S) == (3, 1)
    again = engine.submit(divmod, 7, 2, cached_as="seven")
    assert again.poll().status is JobStatus.DONE
    assert again.result() == [3, 1]
    with pytest.raises(FitError, match="cannot be sent to a worker"):
        engine.submit(divmod, threading.Lock()).result(PATIENCE_S)


def test_errors_keep_their_type(engine: Engine) -> None:
    with pytest.raises(DataError, match=r"^Channel 'x' of trial 'lap 3' is unusable\. Drop it\.$"):
        engine.submit(fake_fit(misbehave="data_error")).result(PATIENCE_S)
    with pytest.raises(ConfigError, match="n_states is 0"):
        engine.submit(fake_fit(n_states=0)).result(PATIENCE_S)
    with pytest.raises(FitError, match="diverged at step 5"):
        engine.submit(fake_fit(misbehave="diverge")).result(PATIENCE_S)
    assert engine.cache.get(fake_fit(misbehave="diverge").key) == (None, "")


def test_unexpected_error_runs_once(engine: Engine, tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    with pytest.raises(FitError, match="unexpected KeyError: 'an oversight'"):
        engine.submit(fake_fit(misbehave="bug", diary=str(diary))).result(PATIENCE_S)
    assert len(diary.read_text().splitlines()) == 1


# ---- progress -----------------------------------------------------------------------------------------------------
def test_running_fit_reports_steps_and_snapshots(engine: Engine) -> None:
    job = engine.submit(long_fit())
    until(lambda: len(job.poll().snapshots) > 3)
    view = job.poll()
    job.cancel()
    assert view.status is JobStatus.RUNNING
    assert view.total == 5000
    assert list(view.steps) == list(range(1, len(view.steps) + 1))
    steps = [snapshot.step for snapshot in view.snapshots]
    assert steps == sorted(set(steps))
    assert view.snapshot.elbo == -1.0 / view.snapshot.step
    assert view.snapshot.states().shape == (500, 2)


def test_snapshots_lead_to_the_exact_final_states(engine: Engine) -> None:
    result = engine.submit(fake_fit(n_steps=300, step_s=0.002, use_cache=False)).result(PATIENCE_S)
    steps = [snapshot.step for snapshot in result.snapshots]
    assert 10 < len(steps) <= 101
    assert steps == sorted(set(steps))
    assert steps[-1] == 300
    np.testing.assert_allclose(result.snapshot.states(), result.model().predict_proba(TRIALS[0]), atol=0.005)


def test_generator_call_reports_partial_values(engine: Engine) -> None:
    job = engine.submit(count_to, 3)
    assert job.result(PATIENCE_S) == {"n": 3}
    assert job.poll().found == {"n": 3}


# ---- order --------------------------------------------------------------------------------------------------------
def test_waiting_jobs_run_by_priority_then_age(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gdm_core.engine.engine.RESERVED_S", 0.0)
    busy, diary = occupy(engine), tmp_path / "diary"
    given = {"low": Priority.LOW, "first": Priority.NORMAL, "second": Priority.NORMAL, "high": Priority.HIGH}
    jobs = [engine.submit(write_name, str(diary), name, priority=priority) for name, priority in given.items()]
    busy[0].cancel()
    for job in jobs:
        job.result(PATIENCE_S)
    busy[1].cancel()
    with pytest.raises(FitError, match="cancelled"):
        busy[0].result(0)
    assert diary.read_text().split() == ["high", "first", "second", "low"]


def test_forgotten_session_loses_jobs_and_data(engine: Engine, scheduler: str) -> None:
    """Data that another session uses stays."""
    own = Trials((Trial(np.random.default_rng(2).standard_normal((300, 2))),))
    engine.submit(total, own, 2.0, session="owner").result(PATIENCE_S)
    engine.submit(total, TRIALS, 2.0, session="owner").result(PATIENCE_S)
    engine.submit(total, TRIALS, 2.0, session="other").result(PATIENCE_S)
    running = engine.submit(long_fit(), session="owner/nascar")
    until(lambda: running.poll().status is JobStatus.RUNNING)
    assert len(find_data(scheduler)) == 2, "each was sent once"
    engine.forget("own")
    assert running.poll().status is JobStatus.RUNNING
    engine.forget("owner")
    assert running.poll().status is JobStatus.CANCELLED
    until(lambda: len(find_data(scheduler)) == 1, every_s=0.1)


def test_data_on_the_cluster_are_bounded(engine: Engine, scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials count twice while they are unpacked; the oldest are dropped first."""
    sets = [Trials((Trial(np.random.default_rng(i).standard_normal((2_000, 3))),)) for i in range(4)]
    monkeypatch.setattr("gdm_core.engine.cluster.DATA_BYTES", int(4.5 * len(pickle.dumps(sets[0], protocol=5))))

    def send(trials: Trials) -> set[str]:
        engine.submit(total, trials, 1.0).result(PATIENCE_S)
        return find_data(scheduler)

    for trials in sets:
        stored = send(trials)
    until(lambda: len(find_data(scheduler)) == 3, every_s=0.1)
    assert send(sets[-1]) == find_data(scheduler), "it is there"
    assert not send(sets[0]) <= stored, "it is sent again"


def test_grid_leaves_a_worker_to_a_visitor_who_fits(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.submit(fake_fit(use_cache=False), session="me/nascar").result(PATIENCE_S)
    how = {"priority": Priority.LOW}
    grid = [engine.submit(long_fit(seed=i), session="they/grid", **how) for i in range(2)]
    until(lambda: grid[0].poll().step)
    assert engine.submit(divmod, 7, 2, session="me/nascar").result(PATIENCE_S) == (3, 1)
    assert grid[1].poll().status is JobStatus.QUEUED
    monkeypatch.setattr("gdm_core.engine.engine.RESERVED_S", 0.0)
    until(lambda: grid[1].poll().step)
    engine.forget("they")
    assert all(job.poll().status is JobStatus.CANCELLED for job in grid)


def test_job_without_progress_says_what_it_waits_for(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    occupy(engine)
    bulk = engine.map(divmod, {str(i): (i, 2) for i in range(2)}, session="a", cached=False)
    urgent = engine.submit(divmod, 7, 2)
    assert (urgent.poll().waits, bulk.poll().waits) == ("", "")
    monkeypatch.setattr("gdm_core.engine.job.IDLE_S", 0.0)
    assert urgent.poll().waits == "waiting for 2 other jobs"
    assert bulk.poll().waits == "waiting for 3 other jobs"


def test_recent_jobs_tell_how_slow_the_machine_is(engine: Engine) -> None:
    assert engine.map(time.sleep, {str(i): (0.2,) for i in range(4)}, session="a", cached=False, usual_s=0.4).wait(
        PATIENCE_S
    )
    assert engine.info().slowdown > 1.9, "each was expected to take 0.1 s"


# ---- many jobs ----------------------------------------------------------------------------------------------------
def test_map_keeps_results_and_reports_progress(engine: Engine) -> None:
    seen: list[tuple[int, int]] = []
    items = {f"kept-{i}": (i, 3) for i in range(12)}
    bulk = engine.map(divmod, items, session="a", progress=lambda done, total: seen.append((done, total)))
    assert bulk.wait(PATIENCE_S)
    assert bulk.poll().results["kept-7"] == (2, 1)
    until(lambda: seen[-1] == (12, 12))
    again = engine.map(divmod, items, session="b")
    assert again.poll().finished, "every item was kept"
    assert again.poll().results["kept-7"] == [2, 1], "as JSON holds it"


def test_raising_progress_harms_no_other_job(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    def progress(done: int, total: int) -> None:
        raise ZeroDivisionError(f"{done} of {total}")

    bulk = engine.map(divmod, {"x": (7, 2)}, session="a", cached=False, progress=progress)
    assert bulk.wait(PATIENCE_S)
    assert bulk.poll().results == {"x": (3, 1)}
    assert engine.submit(divmod, 7, 2).result(PATIENCE_S) == (3, 1)
    assert "1 of 1" in caplog.text


# ---- start and end ------------------------------------------------------------------------------------------------
def test_missing_scheduler_raises_fit_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("gdm_core.engine.cluster.JOIN_TIMEOUT_S", 0.5)
    monkeypatch.setenv("GDM_SCHEDULER", "tcp://127.0.0.1:9")
    words = r"No scheduler answers at GDM_SCHEDULER=tcp://127\.0\.0\.1:9.*dask scheduler"
    with Engine(ResultCache(tmp_path)) as engine:
        with pytest.raises(FitError, match=words):
            engine.start().result(PATIENCE_S)
        bulk = engine.map(divmod, {str(i): (i, 2) for i in range(2000)}, session="a", cached=False)
        assert bulk.wait(PATIENCE_S)
        assert len(bulk.poll().failures) == 2000
        assert "No scheduler answers" in bulk.poll().failures["0"]


def test_jobs_leave_a_cluster_that_has_no_workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster:
        monkeypatch.setenv("GDM_SCHEDULER", cluster.scheduler_address)
        with Engine(ResultCache(tmp_path)) as engine:
            assert engine.submit(divmod, 7, 2).result(PATIENCE_S) == (3, 1)
            for module in ("cluster", "engine"):
                monkeypatch.setattr(f"gdm_core.engine.{module}.START_TIMEOUT_S", 0.5)
            cluster.scale(0)
            until(lambda: not cluster.workers)
            with pytest.raises(FitError, match="has no workers"):
                engine.submit(divmod, 7, 2).result(PATIENCE_S)


def test_closed_engine_fails_its_jobs(engine: Engine) -> None:
    busy = occupy(engine)
    bulk = engine.map(divmod, {str(i): (i, 2) for i in range(40)}, session="a", cached=False)
    engine.close()
    for job in busy:
        with pytest.raises(FitError, match="engine was closed before"):
            job.result(0)
    assert set(bulk.poll().failures.values()) == {"The engine was closed before the job was done. Start it again."}
    with pytest.raises(FitError, match="engine is closed"):
        engine.submit(divmod, 7, 2).result(0)


def test_engine_works_after_another_closed_with_jobs(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GDM_SCHEDULER", scheduler)
    for i in range(10):
        with Engine() as engine:
            for n in range(20):
                engine.submit(divmod, n, 2)
            assert engine.submit(divmod, 7, 2, priority=Priority.HIGH).result(PATIENCE_S) == (3, 1), i
