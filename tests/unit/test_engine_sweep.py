"""Sweeps on the engine and in this process."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gdm_core.engine import Engine, LocalEngine, ResultCache
from gdm_core.engine.sweep import Sweep
from gdm_core.errors import ConfigError
from gdm_core.trials import Trial, Trials
from tests.support.engine_requests import until
from tests.support.fake_model import FAMILY

TRAIN = Trials((Trial(np.random.default_rng(0).standard_normal((120, 2))),))
TEST = Trials((Trial(np.random.default_rng(1).standard_normal((80, 2))),))


def sweep(tmp_path: Path | None = None, **changes: Any) -> Sweep:
    base: dict[str, Any] = {"n_steps": 3}
    if tmp_path is not None:
        base["diary"] = str(tmp_path / "diary")
    given = {
        "family": FAMILY,
        "base": base,
        "grid": {"n_states": [2, 3]},
        "seeds": [0, 1, 2],
        "train": TRAIN,
        "test": TEST,
        "scorer": "tests.support.fake_model:score",
    }
    return Sweep(**given | changes)


def test_records_hold_configuration_and_numbers(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    records = sweep().run(LocalEngine(ResultCache(tmp_path)), progress=lambda done, total: seen.append((done, total)))
    assert [(r.config["n_states"], r.seed) for r in records] == [(k, s) for k in (2, 3) for s in (0, 1, 2)]
    assert seen == [(i, 6) for i in range(1, 7)]
    first = records[0]
    assert not first.failed
    assert set(first.scores) == {"elbo_train", "elbo_test", "n_train", "nested.half"}
    assert first.scores["elbo_train"] != first.scores["elbo_test"]
    assert first.seconds > 0
    assert first.row()["n_states"] == 2
    assert first.row()["nested.half"] == 0.5


def test_engine_sweep_equals_local_sweep(engine: Engine, tmp_path: Path) -> None:
    there = sweep().run(engine)
    here = sweep().run(LocalEngine(ResultCache(tmp_path)))
    assert [(r.config, r.seed, r.scores) for r in there] == [(r.config, r.seed, r.scores) for r in here]
    assert sweep().run(engine) == there


def test_failed_cells_do_not_stop_the_others(engine: Engine, tmp_path: Path) -> None:
    wanted = sweep(base={"n_steps": 10}, grid={"misbehave": ["", "diverge", "data_error"]}, seeds=[0, 1])
    there = wanted.run(engine)
    here = wanted.run(LocalEngine(ResultCache(tmp_path)))
    for records in (there, here):
        assert [r.failed for r in records] == [False, False, True, True, True, True]
        assert "failed" in records[2].message
        assert records[4].message == "Channel 'x' of trial 'lap 3' is unusable. Drop it."
        assert not records[2].scores


def test_cancelled_sweep_keeps_finished_cells(engine: Engine) -> None:
    slow = sweep(base={"n_steps": 20, "step_s": 0.05}, seeds=list(range(20)))
    bulk = slow.start(engine, "a")
    until(lambda: slow.collect(bulk.poll()))
    bulk.cancel()
    kept = slow.collect(bulk.poll())
    assert 0 < len(kept) < 40


def test_sweep_resumes_after_restart(engine: Engine, tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    wanted = sweep(base={"n_steps": 5, "step_s": 0.02, "diary": str(diary)}, seeds=range(6))
    bulk = wanted.start(engine, "a")
    until(lambda: len(wanted.collect(bulk.poll())) >= 3)
    engine.close()
    done_before = [(one.config["n_states"], one.seed) for one in wanted.collect(bulk.poll()) if not one.failed]
    with Engine(engine.cache) as second:
        records = wanted.run(second)
    assert len(records) == 12
    assert not any(record.failed for record in records)
    assert 3 <= len(done_before) < 12
    begun = Counter(re.findall(r"n_states=(\d+) seed=(\d+)", diary.read_text()))
    # Finished cells are not repeated; interrupted ones may be.
    assert all(begun[str(n_states), str(seed)] == 1 for n_states, seed in done_before)
    assert len(begun) == 12


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"grid": {"n_states": []}}, "no value for 'n_states'"),
        ({"grid": {"seed": [1]}}, "Put seeds in `seeds`"),
        ({"seeds": []}, "one seed or more"),
        ({"seeds": [1, 1]}, "each once"),
        ({"scorer": "evaluate"}, "module:function"),
        ({"seeds": range(10_000)}, "20000 fits; the limit is 5000"),
    ],
)
def test_invalid_sweep_raises_config_error(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        sweep(**wrong)


def test_grid_of_arrays_raises_config_error() -> None:
    with pytest.raises(ConfigError, match="numbers, strings, booleans"):
        sweep(grid={"n_states": [np.int64(2)]}).cells()


def test_missing_scorer_fails_before_the_fit(tmp_path: Path) -> None:
    records = sweep(tmp_path, scorer="nowhere:score", seeds=[0]).run(LocalEngine(ResultCache(tmp_path)))
    assert "nowhere:score cannot be loaded" in records[0].message
    assert not (tmp_path / "diary").exists()
