"""The parts of the engine that need no cluster: turns, requests, snapshots, the start."""

from __future__ import annotations

import inspect
import os
import pickle
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import gdm_core
from gdm_core.analysis.metrics import state_accuracy
from gdm_core.engine import (
    Engine,
    FitRequest,
    Job,
    QueueFull,
    ResultCache,
    Snapshot,
    call_key,
    checkpoint,
    dispatch,
)  # fmt: skip
from gdm_core.engine.cluster import Link, worker_count, worker_memory
from gdm_core.engine.jobs import Call, FairQueue
from gdm_core.engine.messages import SNAPSHOT_BYTES, code_version, resolve_family, source_folders
from gdm_core.engine.sent_jobs import DataCache
from gdm_core.engine.sweep import Sweep
from gdm_core.errors import ConfigError, FitError
from gdm_core.trials import Trial, Trials
from tests.support.fake_model import FAMILY, FakeModel
from tests.support.live_engine import QuickEngine

TRIALS = Trials((Trial(np.random.default_rng(0).standard_normal((400, 3))),))


def job(session: str, bulk: bool = False) -> Job:
    return Job(FitRequest(FAMILY, {}, TRIALS), session, None, bulk, lambda _: None)


# ---- turns ------------------------------------------------------------------------------------------------------
def test_sessions_take_turns_however_many_jobs_one_has() -> None:
    turns = FairQueue(100, 50)
    many = [job("many") for _ in range(5)]
    few = [job("few") for _ in range(2)]
    for one in [*many, *few]:
        turns.add(one)
    order = [turns.take([], bulk=False) for _ in range(7)]
    assert order == [many[0], few[0], many[1], few[1], *many[2:]]
    assert turns.take([], bulk=False) is None


def test_a_job_that_somebody_begins_to_wait_for_leaves_the_row_of_those_that_nobody_watches() -> None:
    turns = FairQueue(100, 50)
    later, wanted = job("a", bulk=True), job("a", bulk=True)
    turns.add(later)
    turns.add(wanted)
    assert turns.take([], bulk=False) is None
    wanted.watch()
    assert turns.watched_waiting() == 1
    assert turns.take([], bulk=False) is wanted
    assert turns.take([], bulk=True) is later


def test_a_session_with_running_jobs_waits_for_one_without() -> None:
    turns = FairQueue(100, 50)
    busy, idle = job("busy"), job("idle")
    turns.add(busy)
    turns.add(idle)
    assert turns.take([job("busy")], bulk=False) is idle


def test_cancelled_jobs_neither_run_nor_count() -> None:
    turns = FairQueue(3, 2)
    first, second = job("a"), job("a")
    turns.add(first)
    turns.add(second)
    with pytest.raises(QueueFull, match="2 of your jobs"):
        turns.add(job("a"))
    first.cancel()
    third = job("a")
    turns.add(third)
    turns.add(job("b", bulk=True))
    with pytest.raises(QueueFull, match="3 jobs of all sessions"):
        turns.add(job("c"))
    assert turns.watched_waiting() == 2
    assert [turns.take([], bulk=False) for _ in range(3)] == [second, third, None]


def test_a_job_that_comes_back_is_first_and_never_refused() -> None:
    turns = FairQueue(1, 1)
    waiting, back = job("a"), job("a")
    turns.add(waiting)
    turns.add(back, again=True)
    assert turns.take([], bulk=False) is back


# ---- requests ---------------------------------------------------------------------------------------------------
def test_the_key_names_all_that_a_result_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    other_data = Trials((Trial(TRIALS[0].y + 1),))
    base: dict[str, Any] = {"family": FAMILY, "config": {"n_states": 2, "seed": 0}, "trials": TRIALS}
    keys = {
        FitRequest(**base).key,
        FitRequest(**base | {"family": "gdm"}).key,
        FitRequest(**base | {"config": {"n_states": 3, "seed": 0}}).key,
        FitRequest(**base | {"config": {"n_states": 2, "seed": 1}}).key,
        FitRequest(**base | {"trials": other_data}).key,
        FitRequest(**base, warm_start=b"one").key,
        FitRequest(**base, warm_start=b"two").key,
    }
    assert len(keys) == 7
    assert FitRequest(**base | {"config": {"seed": 0, "n_states": 2}}, deadline_s=9, preview=()).key in keys
    monkeypatch.setattr("gdm_core.engine.messages.code_version", lambda: "another")
    assert FitRequest(**base).key not in keys


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"family": "gmd"}, "family is 'gmd'; choose one of gdm"),
        ({"preview": (1,)}, "preview names trial 1, but there are trials 0 to 0"),
        ({"deadline_s": 0}, "deadline_s is 0; it must be a positive"),
        ({"hold_limit_s": float("nan")}, "hold_limit_s is nan"),
        ({"config": {"n_states": np.ones(2)}}, "config must hold numbers"),
    ],
)
def test_a_wrong_request_says_what_is_wrong(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FitRequest(**{"family": FAMILY, "config": {}, "trials": TRIALS} | wrong)


def test_an_unknown_class_says_where_it_must_be() -> None:
    with pytest.raises(ConfigError, match=r"nowhere:Model cannot be loaded.*importable on every worker"):
        resolve_family("nowhere:Model")
    assert resolve_family(FAMILY) is FakeModel


@pytest.mark.parametrize("edited", ["gdm_core/analysis/metrics.py", "gdm_core/maths/hmm.py", "datasets/nascar.py"])
def test_an_edited_scorer_model_or_loader_never_returns_what_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edited: str
) -> None:
    monkeypatch.delenv("GDM_CODE_VERSION", raising=False)
    for folder in source_folders():
        shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(gdm_core, "__file__", str(tmp_path / "gdm_core/__init__.py"))
    cache, calls = ResultCache(tmp_path / "kept"), []

    def scored() -> int:
        code_version.cache_clear()
        key = call_key(state_accuracy, "this fit")
        known, value = cache.get_value(key)
        if not known:
            calls.append(key)
            cache.put_value(key, value := len(calls))
        return int(value)

    try:
        assert [scored(), scored()] == [1, 1], "kept"
        with (tmp_path / edited).open("a") as source:
            source.write("\n# edited\n")
        assert [scored(), scored()] == [2, 2], "worked out anew, and kept"
    finally:
        code_version.cache_clear()


def test_functions_of_pages_are_refused() -> None:
    """They would not be found on workers elsewhere, and kept results are named by the source of the library alone."""

    def drawn() -> None: ...

    drawn.__module__ = "pages.nascar.depth"
    with pytest.raises(ConfigError, match=r"pages\.nascar\.depth:.*drawn belongs to a page.*gdm_core/analysis"):
        Call(drawn, (), 1.0)
    with pytest.raises(ConfigError, match="belongs to a page"):
        Sweep("gdm", {}, {"n_states": [2]}, [0], TRIALS, TRIALS, scorer="pages.nascar.depth:scores")


def test_the_version_names_the_source() -> None:
    assert code_version().startswith("0.")
    assert len(code_version().split("+")[1]) == 12


# ---- snapshots --------------------------------------------------------------------------------------------------
def test_a_snapshot_is_small_and_true_to_the_states() -> None:
    trials = Trials(tuple(Trial(np.random.default_rng(i).standard_normal((n, 2))) for i, n in enumerate((30_000, 500))))
    model = FakeModel(n_states=4, n_steps=1)
    for _ in model.fit_iter(trials):
        snapshot = Snapshot.decode(Snapshot.take(model, trials, (0, 1), 1).encode())
    assert snapshot.n_bytes <= SNAPSHOT_BYTES + 8
    for position in (0, 1):
        states = snapshot.states(position)
        truth = model.predict_proba(trials[position])[:: snapshot.strides[position]]
        np.testing.assert_allclose(states, truth, atol=0.005)
        np.testing.assert_allclose(states.sum(axis=1), 1.0, atol=1e-6)


# ---- the rest ---------------------------------------------------------------------------------------------------
def test_history_is_thinned_but_spans_the_fit() -> None:
    one = job("a")
    one.apply({"kind": "started", "version": 0})
    for step in range(1, 3001):
        one.apply(
            {"kind": "progress", "step": step, "total": 3000, "steps": [step], "elbos": [-step], "snapshot": None}
        )
    view = one.poll()
    assert view.step == 3000
    assert 100 < len(view.steps) <= 500
    assert view.steps[0] == 1
    assert view.steps[-1] > 2900
    assert [-step for step in view.steps] == list(view.elbos)


def test_a_final_view_never_changes() -> None:
    one = job("a")
    one.cancel()
    one.succeed("late")
    one.apply({"kind": "held", "step": 3})
    one.pause()
    assert (one.poll().message, one.poll().result, one.poll().held) == ("Cancelled.", None, False)
    assert not one.orders.hold
    with pytest.raises(ConfigError, match="n is 0"):
        job("a").step(0)
    with pytest.raises(FitError, match="not done after 0 s"):
        job("a").result(0)


def test_checkpoint_does_nothing_outside_the_engine() -> None:
    assert checkpoint() is None
    assert checkpoint(3, 10) is None


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_a_wrong_number_of_workers_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("GDM_WORKERS", text)
    with pytest.raises(ConfigError, match=f"GDM_WORKERS is '{text}'"):
        worker_count()


def test_size_of_the_embedded_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
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


# ---- the start ------------------------------------------------------------------------------------------------------
class Connections(list[float]):
    """Stands for the cluster: notes when somebody connects, and says that there is none."""

    def __call__(self, on_event: object) -> None:
        self.append(time.monotonic())
        raise FitError("no cluster here")


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Connections:
    made = Connections()
    monkeypatch.setattr(dispatch, "connect", made)
    return made


def test_an_engine_that_nobody_asks_anything_waits_before_it_starts_workers(
    connections: Connections, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(dispatch, "START_AFTER_S", 0.3)
    began = time.monotonic()
    with Engine(ResultCache(tmp_path)) as engine:
        assert engine._dispatcher.ready.wait(60)
        assert connections[0] - began >= 0.3
        with pytest.raises(FitError, match="no cluster here"):
            engine.wait_ready(1)


@pytest.mark.parametrize("start", ["start", "submit", "wait"])
def test_a_job_or_a_word_starts_them_at_once(
    start: str, connections: Connections, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(dispatch, "START_AFTER_S", 600.0)
    with Engine(ResultCache(tmp_path)) as engine:
        if start == "start":
            engine.start()
        elif start == "submit":
            assert engine.submit(FitRequest(FAMILY, {}, TRIALS), session="s").wait(60)
        else:
            with pytest.raises(FitError, match="no cluster here"):
                engine.wait_ready(60)
        assert engine._dispatcher.ready.wait(60)
    assert connections


def test_an_engine_can_be_closed_before_it_has_started(
    connections: Connections, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(dispatch, "START_AFTER_S", 600.0)
    engine = Engine(ResultCache(tmp_path))
    engine.close()
    assert not engine.running
    assert connections == []


# ---- memory ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("memory", "kept"), [(0, 4), (800_000, 3)])
def test_data_lie_ready_in_an_eighth_of_the_smallest_worker(memory: int, kept: int) -> None:
    """A set of trials takes its place, and as much again while it is unpacked: the oldest go before it is sent."""
    sent: list[str] = []
    client = SimpleNamespace(submit=lambda *_, key: sent.append(key) or SimpleNamespace(status="finished"))
    cache, link = DataCache(), cast(Link, SimpleNamespace(client=client, topic="t", memory=memory))
    sets = [Trials((Trial(np.random.default_rng(i).standard_normal((2_000, 3))),)) for i in range(4)]
    for trials in sets:
        cache.place(trials, link, "a")
    assert cache.n_bytes == kept * len(pickle.dumps(sets[0], protocol=5))  # of 24,328 bytes each
    cache.place(sets[-1], link, "b")
    assert len(sent) == 4  # the latest lies there still
    cache.place(sets[0], link, "b")
    assert len(sent) == (4 if kept == 4 else 5)


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
def test_a_worker_keeps_the_memory_of_one_step_for_the_next() -> None:
    """Dask starts its workers with this setting; every freed array would go back to the system, page by page."""
    env = os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536", "PYTHONPATH": str(Path(__file__).parents[2])}
    said = subprocess.run([sys.executable, "-c", PAGES_TAKEN], env=env, capture_output=True, text=True, check=True)
    before, arranged, after = said.stdout.split()
    assert arranged == "True"
    assert int(before) > 50 * 200, "without it: a megabyte is 245 pages, fifty times"
    assert int(after) < 1_000


# ---- the double that tests of pages use ---------------------------------------------------------------------------------
def test_what_the_double_has_of_its_own_is_for_tests_alone():
    """A page that called these would work in tests and fail in the browser."""
    assert {name for name in vars(QuickEngine) if not name.startswith("_")} == {
        "forget", "info", "report", "run", "run_all", "waiting",
    }  # fmt: skip
    for name in ("forget", "info"):
        assert inspect.signature(getattr(QuickEngine, name)) == inspect.signature(getattr(Engine, name))
