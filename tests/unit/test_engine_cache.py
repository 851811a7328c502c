"""Kept results of the engine: back as they were, bounded, and never a page's undoing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gdm_core.engine import FitResult, ResultCache, Snapshot, call_key


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
