"""What fails around the engine, its disk and clocks above all: finished work survives, and it is said what to do."""

from __future__ import annotations

import errno
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gdm_core.engine import Engine, JobStatus, ResultCache
from gdm_core.engine.cluster import CHILD_SETTINGS, LOOK_EVERY_S, SILENT_S, Link
from gdm_core.engine.messages import FitResult
from gdm_core.engine.sweep import Sweep
from gdm_core.trials import Trial, Trials
from tests.support.engine_requests import request, until
from tests.support.fake_cluster import Cluster
from tests.support.fake_model import FAMILY

TRAIN, TEST = (Trials((Trial(np.random.default_rng(seed).standard_normal((60, 2))),)) for seed in (0, 1))


def result(key: str, n_bytes: int = 100) -> FitResult:
    return FitResult(key, os.urandom(n_bytes), "converged", -1.5, 0.25, (1, 2), (-3.0, -2.0))


# ---- the disk --------------------------------------------------------------------------------------------------------
def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every new file lies on a device that is full."""

    def full(dir: Path, prefix: str) -> tuple[int, str]:
        path = Path(dir) / f"{prefix}full"
        path.touch()
        return os.open("/dev/full", os.O_WRONLY), str(path)

    monkeypatch.setattr(tempfile, "mkstemp", full)


def lock_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be written, renamed or marked, as on a disk mounted read-only (root would pass over permissions)."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    for module, name in [(tempfile, "mkstemp"), (os, "replace"), (os, "utime"), (Path, "replace"), (Path, "mkdir")]:
        monkeypatch.setattr(module, name, refuse)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        pytest.param(
            fill_disk,
            r"No space left on device.*fitted again after a restart\. Free some space where .*fits is\.$",
            marks=pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device"),
        ),
        (lock_disk, r"Read-only file system.*after a restart\. Make .*fits writable .*or set GDM_DATA_DIR"),
    ],
)
def test_a_disk_that_takes_nothing_costs_a_note_and_no_result(
    fault: Callable[[pytest.MonkeyPatch], None],
    said: str,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    cache = ResultCache(tmp_path / "fits")
    cache.put(result("earlier"))
    fault(monkeypatch)
    with Engine(cache) as engine:
        job = engine.submit(request(), session="a")
        until(lambda: len(cluster.sent) == 2)  # the data, and the fit
        cluster.answer(1, (found := result(request().key)))
        assert job.result(60) is found
        (note,) = job.poll().notes
        assert re.search(said, note), note
        assert engine.submit(request(), session="b").poll().status is JobStatus.DONE  # from memory
        bulk = engine.map(divmod, {"x": (7, 2), "y": (7, 3)}, session="a", key="k")
        for i in (2, 3):
            cluster.answer(i, i)
        assert bulk.wait(60)
        assert bulk.poll().results == {"x": 2, "y": 3}
        assert len(bulk.poll().notes) == 1
    assert ResultCache(tmp_path / "fits").get("earlier")[0] is not None
    assert not list((tmp_path / "fits").glob(".writing*"))


def test_a_damaged_result_on_a_disk_that_is_read_only_is_fitted_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ResultCache(tmp_path).put(result("k"))
    (tmp_path / "k").write_bytes(b"other")
    lock_disk(monkeypatch)
    found, note = ResultCache(tmp_path).get("k")
    assert found is None
    assert "is damaged" in note
    assert "could not be moved aside" in note


def test_results_of_another_version_of_the_code_are_neither_used_nor_harmed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("gdm_core.engine.messages.code_version", lambda: "0.0.9+old")
    old = request().key
    ResultCache(tmp_path).put(result(old))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.undo()
    assert ResultCache(tmp_path).get(request().key) == (None, "")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    found = ResultCache(tmp_path).get(old)[0]
    assert found is not None, "a server that is taken back to that version finds them"


# ---- the clock -------------------------------------------------------------------------------------------------------
def test_a_clock_that_was_set_back_does_not_cost_what_has_just_been_kept(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path, memory_bytes=1, disk_bytes=30_000)
    ahead = time.time() + 365 * 86_400
    for key in "ab":
        cache.put(result(key, 10_000))
        os.utime(tmp_path / key, (ahead, ahead))
    cache.put(result("new", 10_000))
    fresh = ResultCache(tmp_path)
    assert fresh.get("new")[0] is not None
    assert [key for key in "ab" if fresh.get(key)[0] is not None] != ["a", "b"]


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


# ---- the server ------------------------------------------------------------------------------------------------------
@pytest.mark.bulk
def test_a_sweep_goes_on_after_a_restart_with_what_is_missing(
    scheduler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GDM_SCHEDULER", scheduler)
    diary = tmp_path / "diary"
    base = {"n_steps": 5, "step_s": 0.02, "diary": str(diary)}
    wanted = Sweep(FAMILY, base, {"n_states": [2, 3]}, range(6), TRAIN, TEST, scorer="tests.support.fake_model:score")
    with Engine(ResultCache(tmp_path / "fits")) as first:
        bulk = wanted.fits().start(first, "a", wanted.key)
        until(lambda: len(wanted.records(bulk.poll())) >= 3)
    done_before = [(one.config["n_states"], one.seed) for one in wanted.records(bulk.poll()) if not one.failed]
    with Engine(ResultCache(tmp_path / "fits")) as second:
        records = wanted.records(wanted.fits().found(second, "b"))
    assert len(records) == 12
    assert not any(record.failed for record in records)
    assert 3 <= len(done_before) < 12
    begun = Counter(re.findall(r"n_states=(\d+) seed=(\d+)", diary.read_text()))
    # What was under way when the first engine closed may be begun twice, what was done is not.
    assert all(begun[str(n_states), str(seed)] == 1 for n_states, seed in done_before)
    assert len(begun) == 12
