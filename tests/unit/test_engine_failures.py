"""Failures around one job: lost results, callbacks that raise, a closed engine."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker

from gdm_core.engine import Engine, ResultCache, dispatch
from gdm_core.engine.control import Control, DeadlinePassed, Orders
from gdm_core.errors import FitError
from tests.support.engine_requests import until
from tests.support.fake_cluster import Cluster


@pytest.mark.parametrize("error", [TimeoutError("30 s"), CommClosedError("gone")])
def test_lost_result_is_computed_again(engine: Engine, cluster: Cluster, error: Exception) -> None:
    job = engine.call(divmod, 7, 2, session="a")
    cluster.job(0).end(error)
    until(lambda: len(cluster.sent) == 2)
    assert not job.poll().status.final
    cluster.answer(1, (3, 1))
    assert job.result(60) == (3, 1)
    assert "was lost with its worker" in job.poll().notes[0]
    assert engine.running
    until(lambda: not engine.info().out)


def test_result_lost_three_times_fails_its_job(engine: Engine, cluster: Cluster) -> None:
    job, other = (engine.call(divmod, 7, 2, session=name) for name in "ab")
    until(lambda: len(cluster.sent) == 2)
    for sent in (0, 2, 3):
        cluster.job(sent).end(TimeoutError())
    with pytest.raises(FitError, match="was started 3 times and never finished"):
        job.result(60)
    cluster.answer(1, "fine")
    assert other.result(60) == "fine"


def test_job_that_kills_workers_is_not_rerun(engine: Engine, cluster: Cluster) -> None:
    job = engine.call(divmod, 7, 2, session="a")
    cluster.job(0).end(KilledWorker(cluster.sent[0].key, SimpleNamespace(address="tcp://one"), 2), status="error")
    with pytest.raises(FitError, match="needs more memory than a worker has"):
        job.result(60)
    assert len(cluster.sent) == 1


def test_raising_callback_harms_no_other_job(
    engine: Engine, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    def progress(done: int, total: int) -> None:
        raise ZeroDivisionError(f"{done} of {total}")

    bulk = engine.map(divmod, {"x": (7, 2)}, session="a", key="k", cached=False, progress=progress)
    cluster.answer(0, (3, 1))
    assert bulk.wait(60)
    assert bulk.poll().results == {"x": (3, 1)}
    other = engine.call(divmod, 7, 2, session="b")
    cluster.answer(1, "fine")
    assert other.result(60) == "fine"
    assert "1 of 1" in caplog.text


def test_closing_engine_fails_open_jobs(engine: Engine, cluster: Cluster) -> None:
    bulk = engine.map(divmod, {str(i): (i, 2) for i in range(40)}, session="a", key="k", cached=False)
    until(lambda: len(cluster.sent) == 2)
    single = engine.call(divmod, 7, 2, session="a")
    engine.close()
    assert bulk.wait(60)
    assert len(bulk.poll().failures) == 40
    assert all("engine" in message and "closed" in message for message in bulk.poll().failures.values())
    with pytest.raises(FitError, match="engine was closed before"):
        single.result(60)


def test_closed_engine_fails_new_jobs(engine: Engine) -> None:
    engine.close()
    bulk = engine.map(divmod, {str(i): (i, 2) for i in range(5000)}, session="a", key="k", cached=False)
    assert bulk.ended
    assert set(bulk.poll().failures.values()) == {"The engine is closed. Restart the server."}
    with pytest.raises(FitError, match="engine is closed"):
        engine.call(divmod, 7, 2, session="a").result(60)


def test_bulk_job_without_cluster_fails_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tries = []

    def connect(on_event: object) -> None:
        tries.append(1)
        raise FitError("no cluster here")

    monkeypatch.setattr(dispatch, "connect", connect)
    with Engine(ResultCache(tmp_path)) as engine:
        bulk = engine.map(divmod, {str(i): (i, 2) for i in range(2000)}, session="a", key="k", cached=False)
        assert bulk.wait(60)
        assert set(bulk.poll().failures.values()) == {"no cluster here"}
        assert len(bulk.poll().failures) == 2000
    assert len(tries) < 10


# ---- one bulk job for each name --------------------------------------------------------------------------------------
def test_concurrent_equal_requests_share_one_job(
    engine: Engine, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2)

    def look_up(key: str) -> tuple[bool, None]:
        time.sleep(0.2)  # until the other thread asks
        return False, None

    monkeypatch.setattr(engine.cache, "get_value", look_up)
    found = []

    def ask() -> None:
        both.wait(60)
        found.append(engine.map(divmod, {"x": (7, 2)}, session="a", key="k"))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found[0] is found[1]
    assert engine.bulk("k") is found[0]
    cluster.answer(0, (3, 1))
    assert found[0].wait(60)
    assert len(cluster.sent) == 1


# ---- holds -----------------------------------------------------------------------------------------------------------


def test_deadline_names_the_step() -> None:
    late = Control("job", "topic", Orders(), deadline_s=1e-9, hold_limit_s=0.2)
    with pytest.raises(DeadlinePassed, match=r"^Stopped at step 8 because it ran longer than its deadline of 1e-09 s"):
        late.checkpoint(8)
