"""Kept results of the engine: back as they were, bounded, and never a page's undoing."""

from __future__ import annotations

import errno
import os
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gdm_core.engine import Engine, FitResult, JobStatus, ResultCache, Snapshot, call_key
from tests.support.engine_requests import request, until
from tests.support.fake_cluster import Cluster


def result(key: str, n_bytes: int = 100) -> FitResult:
    snapshot = Snapshot(3, (0,), (2,), (np.array([[255, 0], [51, 204]], dtype=np.uint8),))
    return FitResult(key, os.urandom(n_bytes), "converged", -1.5, 0.25, (1, 2, 3), (-3.0, -2.0, float("nan")), snapshot)


def test_a_kept_result_comes_back_from_disk_as_it_was(tmp_path: Path) -> None:
    kept = result("k")
    assert ResultCache(tmp_path).put(kept) == ""
    found, note = ResultCache(tmp_path).get("k")
    assert note == ""
    assert found.from_cache
    assert (found.model_bytes, found.elbo, found.seconds, found.steps) == (kept.model_bytes, -1.5, 0.25, (1, 2, 3))
    assert found.elbos[:2] == (-3.0, -2.0)
    assert np.isnan(found.elbos[2])
    np.testing.assert_allclose(found.snapshot.states(), [[1.0, 0.0], [0.2, 0.8]], atol=1e-6)
    assert ResultCache(tmp_path).get("other") == (None, "")


DAMAGE: dict[str, Callable[[bytes, bytes], bytes]] = {
    "a bit": lambda own, other: own[:-9] + bytes([own[-9] ^ 1]) + own[-8:],
    "truncated": lambda own, other: own[:50],
    "empty": lambda own, other: b"",
    "no text": lambda own, other: b"\xff\xfe not text",
    "of another": lambda own, other: other,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files_are_moved_aside_with_a_note(tmp_path: Path, damage: str) -> None:
    cache, path = ResultCache(tmp_path), tmp_path / "k"
    cache.put(result("k"))
    cache.put(result("other"))
    path.write_bytes(DAMAGE[damage](path.read_bytes(), (tmp_path / "other").read_bytes()))
    found, note = ResultCache(tmp_path).get("k")
    assert found is None
    assert "damaged" in note
    assert str(tmp_path / "damaged") in note
    assert (tmp_path / "damaged" / "k").exists()
    assert not path.exists()
    assert ResultCache(tmp_path).get("k") == (None, "")


def test_the_disk_is_bounded_and_the_oldest_goes_first(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path, memory_bytes=1, disk_bytes=45_000)
    for i, key in enumerate(["a", "b", "c"]):
        cache.put(result(key, 10_000))
        os.utime(tmp_path / key, (1000 + i, 1000 + i))
    assert cache.get("a")[0] is not None  # from disk; used, so no longer the oldest
    cache.put(result("d", 10_000))
    fresh = ResultCache(tmp_path)
    assert [key for key in "abcd" if fresh.get(key)[0] is not None] == ["a", "c", "d"]
    assert sum(path.stat().st_size for path in tmp_path.rglob("*")) <= 45_000


def test_memory_is_bounded_and_forgets_what_was_used_longest_ago(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path, memory_bytes=25_000)
    for key in "ab":
        cache.put(result(key, 10_000))
    cache.get("a")
    cache.put(result("c", 10_000))
    for path in tmp_path.iterdir():
        path.unlink()
    assert [key for key in "abc" if cache.get(key)[0] is not None] == ["a", "c"]


def test_a_disk_that_cannot_be_written_costs_a_note_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = ResultCache(tmp_path / "file" / "fits")
    assert "could not be kept on disk" in cache.put(result("k"))
    assert cache.get("k")[0] is not None
    assert "could not be kept on disk" in cache.put_value("v", 1)


def test_values_of_calls_are_kept_unless_damaged(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path)
    assert cache.get_value("v") == (False, None)
    assert cache.put_value("v", {"a": [1, None]}) == ""
    assert cache.get_value("v") == (True, {"a": [1, None]})
    assert "could not be kept" in cache.put_value("w", object())
    (tmp_path / "v").write_text("{")
    assert cache.get_value("v") == (False, None)
    assert (tmp_path / "damaged" / "v").exists()
    assert call_key(divmod, "a") != call_key(divmod, "b") != call_key(pow, "b")


def test_the_data_folder_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path))
    ResultCache().put(result("k"))
    assert (tmp_path / "fits" / "k").exists()


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


@pytest.mark.parametrize("error", [PermissionError("read-only"), FileNotFoundError("another server was quicker")])
def test_a_kept_result_that_cannot_be_marked_as_used_is_a_result(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: OSError
) -> None:
    ResultCache(tmp_path).put(kept := result("k"))

    def refuse(path: Path) -> None:
        raise error

    monkeypatch.setattr(os, "utime", refuse)
    found, note = ResultCache(tmp_path).get("k")
    assert (found.model_bytes, note) == (kept.model_bytes, "")


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
