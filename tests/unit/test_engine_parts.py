"""Parts of the engine that need no cluster: specs, snapshots, jobs and memory."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gdm_core
from gdm_core.analysis.state_scores import state_accuracy
from gdm_core.engine import FitSpec, Job, Priority, ResultCache, Snapshot, call_key, checkpoint, results
from gdm_core.engine.cluster import worker_count, worker_memory
from gdm_core.engine.job import RESTARTED, Call
from gdm_core.engine.results import MAX_SNAPSHOTS, SNAPSHOT_BYTES, Recorder
from gdm_core.engine.spec import code_version, resolve_family, source_folders
from gdm_core.engine.sweep import Sweep
from gdm_core.errors import ConfigError, FitError
from gdm_core.trials import Trial, Trials
from tests.support.fake_model import FAMILY, FakeModel

TRIALS = Trials((Trial(np.random.default_rng(0).standard_normal((400, 3))),))


def job() -> Job:
    return Job(FitSpec(FAMILY, {}, TRIALS), "a", "fit", Priority.HIGH, lambda _: None)


# ---- specs -----------------------------------------------------------------------------------------------------
def test_key_covers_every_input(monkeypatch: pytest.MonkeyPatch) -> None:
    other_data = Trials((Trial(TRIALS[0].y + 1),))
    base: dict[str, Any] = {"family": FAMILY, "config": {"n_states": 2, "seed": 0}, "trials": TRIALS}
    keys = {
        FitSpec(**base).key,
        FitSpec(**base | {"family": "gdm"}).key,
        FitSpec(**base | {"config": {"n_states": 3, "seed": 0}}).key,
        FitSpec(**base | {"config": {"n_states": 2, "seed": 1}}).key,
        FitSpec(**base | {"trials": other_data}).key,
    }
    assert len(keys) == 5
    assert FitSpec(**base | {"config": {"seed": 0, "n_states": 2}}, preview=()).key in keys
    monkeypatch.setattr("gdm_core.engine.spec.code_version", lambda: "another")
    assert FitSpec(**base).key not in keys


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"family": "gmd"}, "family is 'gmd'; choose one of gdm"),
        ({"preview": (1,)}, "preview names trial 1, but there are trials 0 to 0"),
        ({"config": {"n_states": np.ones(2)}}, "config must hold numbers"),
    ],
)
def test_invalid_spec_raises_config_error(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FitSpec(**{"family": FAMILY, "config": {}, "trials": TRIALS} | wrong)


def test_unknown_class_raises_config_error() -> None:
    with pytest.raises(ConfigError, match=r"nowhere:Model cannot be loaded.*importable on every worker"):
        resolve_family("nowhere:Model")
    assert resolve_family(FAMILY) is FakeModel


def test_edited_code_invalidates_kept_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GDM_CODE_VERSION", raising=False)
    for folder in source_folders():
        shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(gdm_core, "__file__", str(tmp_path / "gdm_core/__init__.py"))
    cache, calls = ResultCache(tmp_path / "kept"), []

    def scored() -> int:
        code_version.cache_clear()
        key = call_key(state_accuracy, "this fit")
        known, value, _ = cache.read(key)
        if not known:
            calls.append(key)
            cache.write(key, value := len(calls))
        return int(value)

    try:
        assert [scored(), scored()] == [1, 1]
        with (tmp_path / "datasets/nascar.py").open("a") as source:
            source.write("\n# edited\n")
        assert [scored(), scored()] == [2, 2]
    finally:
        code_version.cache_clear()


def test_functions_of_pages_raise_config_error() -> None:
    def draw_depth() -> None: ...

    draw_depth.__module__ = "pages.nascar.depth"
    with pytest.raises(ConfigError, match=r"pages\.nascar\.depth:.*draw_depth belongs to a page.*gdm_core/analysis"):
        Call(draw_depth, ())
    with pytest.raises(ConfigError, match="belongs to a page"):
        Sweep("gdm", {}, {"n_states": [2]}, [0], TRIALS, TRIALS, scorer="pages.nascar.depth:scores")


# ---- snapshots --------------------------------------------------------------------------------------------------
def test_snapshot_is_small_and_close_to_states() -> None:
    trials = Trials(tuple(Trial(np.random.default_rng(i).standard_normal((n, 2))) for i, n in enumerate((30_000, 500))))
    model = FakeModel(n_states=4, n_steps=1)
    for _ in model.fit_iter(trials):
        snapshot = Snapshot.from_model(model, trials, (0, 1), 1, -1.0)
    assert snapshot.n_bytes <= SNAPSHOT_BYTES + 8
    for position in (0, 1):
        states = snapshot.states(position)
        truth = model.predict_proba(trials[position])[:: snapshot.strides[position]]
        np.testing.assert_allclose(states, truth, atol=0.005)
        np.testing.assert_allclose(states.sum(axis=1), 1.0, atol=1e-6)


def test_recorder_keeps_evenly_spaced_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "SNAPSHOT_SHARE", 1e9)
    model = FakeModel(n_steps=1).fit(TRIALS)
    recorder = Recorder(model, TRIALS, (0,))
    for step in range(501):
        recorder.record(step, -1.0)
    steps = [snapshot.step for snapshot in recorder.snapshots]
    assert MAX_SNAPSHOTS / 2 <= len(steps) <= MAX_SNAPSHOTS
    assert set(np.diff(steps)) == {8}


def test_recorder_takes_a_tenth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(results, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(
        results, "infer_quickly", lambda model, trial: now.__setitem__(0, now[0] + 1.0) or np.ones((400, 1))
    )
    recorder = Recorder(FakeModel(), TRIALS, (0,))
    for step in range(200):
        now[0] += 1.0
        recorder.record(step, -1.0)
    assert 0.08 < len(recorder.snapshots) / now[0] < 0.11


# ---- jobs ---------------------------------------------------------------------------------------------------------
def progress(step: int, total: int) -> dict[str, Any]:
    return {"kind": "progress", "step": step, "total": total, "curve": [[step, -step]], "snapshot": None}


def test_restarted_job_begins_again_with_a_note() -> None:
    one = job()
    for _ in range(2):
        one.apply({"kind": "started"})
        one.apply(progress(1, 9))
    assert one.poll().steps == (1,)
    assert one.poll().notes == (RESTARTED,)


def test_final_view_never_changes() -> None:
    one = job()
    one.cancel()
    one.succeed("late")
    one.apply({"kind": "started"})
    assert (one.poll().message, one.poll().result, one.poll().steps) == ("Cancelled.", None, ())
    with pytest.raises(FitError, match="still running after 0 s"):
        job().result(0)


def test_checkpoint_outside_engine_does_nothing() -> None:
    assert checkpoint() is None
    assert checkpoint(3, 10) is None


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_invalid_worker_count_raises_config_error(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("GDM_WORKERS", text)
    with pytest.raises(ConfigError, match=f"GDM_WORKERS is '{text}'"):
        worker_count()


def test_worker_count_and_memory_follow_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GDM_WORKERS", raising=False)
    assert worker_count() >= 1
    monkeypatch.setenv("GDM_WORKERS", "3")
    assert worker_count() == 3
    monkeypatch.setenv("GDM_WORKER_MEMORY", "1.5 GiB")
    assert worker_memory(3) == 1.5 * 2**30
    monkeypatch.setenv("GDM_WORKER_MEMORY", "plenty")
    with pytest.raises(ConfigError, match="GDM_WORKER_MEMORY is 'plenty'"):
        worker_memory(3)
    monkeypatch.delenv("GDM_WORKER_MEMORY")
    assert 0 < worker_memory(1000) < worker_memory(1) <= 4 * 2**30


# ---- memory ---------------------------------------------------------------------------------------------------------
PAGES_TAKEN = """
import resource
import numpy as np
from gdm_core.engine.worker import keep_memory

def taken():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        np.ones(125_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(taken(), keep_memory(), taken())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library, with other habits")
def test_worker_reuses_freed_memory() -> None:
    """Dask's environment for workers would return every freed array to the system."""
    env = os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536", "PYTHONPATH": str(Path(__file__).parents[2])}
    said = subprocess.run([sys.executable, "-c", PAGES_TAKEN], env=env, capture_output=True, text=True, check=True)
    before, arranged, after = said.stdout.split()
    assert arranged == "True"
    assert int(before) > 50 * 200  # a megabyte is 245 pages
    assert int(after) < 1_000
