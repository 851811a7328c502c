"""The result cache: exact round trips, bounds, damage and read-only disks."""

import errno
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gdm_core.engine import Engine, FitResult, ResultCache, Snapshot, call_key
from gdm_core.trials import Trial, Trials
from tests.support.engine_requests import PATIENCE_S, TRIALS, fake_fit


def result(key: str, n_bytes: int = 100) -> FitResult:
    snapshot = Snapshot(3, (0,), (2,), (np.array([[255, 0], [51, 204]], dtype=np.uint8),))
    return FitResult(
        key, os.urandom(n_bytes), "converged", -1.5, 0.25, (1, 2, 3), (-3.0, -2.0, float("nan")), (snapshot,)
    )


def test_result_survives_disk_round_trip(tmp_path: Path) -> None:
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


def test_held_out_states_are_computed_without_another_fit(engine: Engine, tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    other = Trials((Trial(TRIALS[0].y + 1), Trial(TRIALS[0].y[:100])))
    for test in (TRIALS, other, other):
        spec = replace(fake_fit(diary=str(diary)), test=test)
        result = engine.submit(spec).result(PATIENCE_S)
        soft = [*result.model().predict_proba(TRIALS), *result.model().predict_proba(test)]
        for number, states in enumerate(soft):
            np.testing.assert_allclose(result.states.soft(number), states, atol=0.005)
        np.testing.assert_array_equal(result.snapshot.levels[0], result.states.train[0])
    assert engine.submit(spec).poll().result is not None, "both entries are cached"
    assert len(diary.read_text().splitlines()) == 1


def test_precomputed_result_is_found_under_any_key(engine: Engine, tmp_path: Path) -> None:
    diary, other = tmp_path / "diary", Trials((Trial(TRIALS[0].y + 1),))
    made = engine.submit(replace(fake_fit(), test=TRIALS)).result(PATIENCE_S)
    engine.cache = ResultCache(tmp_path / "empty")
    engine.cache.precomputed = lambda spec: replace(made, key="", is_precomputed=True)
    spec = replace(fake_fit(seed=5, diary=str(diary)), test=TRIALS)
    found = engine.submit(spec).poll().result
    assert (found.key, found.model_bytes, found.is_precomputed) == (spec.key, made.model_bytes, True)
    assert found.states is made.states
    for _ in range(2):
        found = engine.submit(replace(spec, test=other)).result(PATIENCE_S)
        assert found.has_states(other)
        assert found.is_precomputed
    assert engine.submit(replace(spec, test=other)).poll().result is not None, "its states are cached"
    assert not diary.exists(), "nothing was fitted"


def test_states_that_cannot_be_computed_leave_the_fit(engine: Engine) -> None:
    narrow = Trials((Trial(TRIALS[0].y[:, :1]),))
    result = engine.submit(replace(fake_fit(), test=narrow)).result(PATIENCE_S)
    assert result.fit_status == "converged"
    assert "channel" in result.states.error
    assert engine.cache.get(result.key, narrow.fingerprint)[0].states is None


DAMAGE: dict[str, Callable[[bytes, bytes], bytes]] = {
    "a bit": lambda own, other: own[:-9] + bytes([own[-9] ^ 1]) + own[-8:],
    "truncated": lambda own, other: own[:50],
    "of another": lambda own, other: other,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_file_costs_a_note(tmp_path: Path, damage: str) -> None:
    cache, path = ResultCache(tmp_path), tmp_path / "k"
    cache.put(result("k"))
    cache.put(result("other"))
    path.write_bytes(DAMAGE[damage](path.read_bytes(), (tmp_path / "other").read_bytes()))
    found, note = ResultCache(tmp_path).get("k")
    assert found is None
    assert "damaged" in note
    ResultCache(tmp_path).put(result("k"))
    assert ResultCache(tmp_path).get("k")[0] is not None


def test_disk_cache_evicts_least_recently_used(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path, disk_bytes=45_000)
    for i, key in enumerate(["a", "b", "c"]):
        cache.put(result(key, 10_000))
        os.utime(tmp_path / key, (1000 + i, 1000 + i))
    assert cache.get("a")[0] is not None  # now the most recently used
    cache.put(result("d", 10_000))
    fresh = ResultCache(tmp_path)
    assert [key for key in "abcd" if fresh.get(key)[0] is not None] == ["a", "c", "d"]
    assert sum(path.stat().st_size for path in tmp_path.rglob("*")) <= 45_000


def test_memory_drops_oldest_and_forgotten_results(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path, memory_bytes=2_500)
    specs = [fake_fit(seed=seed) for seed in range(3)]
    for spec in specs:
        cache.remember(result(spec.key, 1_000), "me/upload")
    assert [cache.find(spec)[0] is not None for spec in specs] == [False, True, True]
    cache.forget("somebody")
    assert cache.find(specs[1])[0].from_cache
    cache.forget("me")
    assert [cache.find(spec)[0] for spec in specs] == [None] * 3


def test_call_values_are_kept_unless_damaged(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path)
    assert cache.read("v") == (False, None, "")
    assert cache.write("v", {"a": [1, None]}) == ""
    assert cache.read("v") == (True, {"a": [1, None]}, "")
    assert "could not be cached" in cache.write("w", object())
    (tmp_path / "v").write_text("{")
    known, _, note = cache.read("v")
    assert not known
    assert "damaged" in note
    assert call_key(divmod, "a") != call_key(divmod, "b") != call_key(pow, "b")


def test_data_folder_follows_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path))
    ResultCache().put(result("k"))
    assert (tmp_path / "fits" / "k").exists()


def lock_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every write, since root ignores file permissions."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    for module, name in [(tempfile, "mkstemp"), (os, "replace"), (os, "utime"), (Path, "replace"), (Path, "mkdir")]:
        monkeypatch.setattr(module, name, refuse)


def test_damaged_result_is_computed_again(engine: Engine) -> None:
    wanted = fake_fit(seed=1)
    fitted = engine.submit(wanted).result(PATIENCE_S)
    again = engine.submit(wanted)
    assert again.result(0).from_cache
    assert not fitted.from_cache
    assert again.result(0).model_bytes == fitted.model_bytes
    assert len(again.poll().snapshots) == len(fitted.snapshots)
    (engine.cache.folder / wanted.key).write_text("{")
    engine.cache = ResultCache(engine.cache.folder)  # without results in memory
    third = engine.submit(wanted)
    assert not third.result(PATIENCE_S).from_cache
    assert "damaged" in third.poll().notes[0]


def test_read_only_disk_costs_a_note_and_no_result(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.cache.put(result("earlier"))
    lock_disk(monkeypatch)
    job = engine.submit(fake_fit())
    assert job.result(PATIENCE_S).fit_status == "converged"
    (note,) = job.poll().notes
    assert "Read-only file system" in note
    bulk = engine.map(divmod, {"x": (7, 2), "y": (7, 3)}, session="a")
    assert bulk.wait(PATIENCE_S)
    assert bulk.poll().results == {"x": (3, 1), "y": (2, 1)}
    assert len(bulk.poll().notes) == 1
    assert ResultCache(engine.cache.folder).get("earlier")[0] is not None
    assert not list(engine.cache.folder.glob(".writing*"))
