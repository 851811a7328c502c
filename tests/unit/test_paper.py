"""The paper's experiments of `gdm reproduce all`, and the shipped results."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datasets import nascar
from gdm_core.analysis.comparisons import Cell
from gdm_core.analysis.envelopes import next_ranges
from gdm_core.errors import FitError
from gdm_core.trials import Trials
from gdm_studio import paper
from gdm_studio.cli import main


def made_up(family: str, setting: dict[str, Any], train: Any, test: Any) -> dict[str, Any]:
    if family == "pdlds":
        raise FitError("The fit diverged.")
    states = np.eye(setting["n_states"], dtype=np.float32)[:2]
    score = 0.5 + setting["seed"] / 10
    return Cell({"ten": (score,) * 4}, {"paper_accuracy": score}, states, 1, 10, 0.1).to_dict()


@pytest.fixture
def quick(monkeypatch, tmp_path):
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(paper, "fit_cell", made_up)
    monkeypatch.setattr(
        paper, "measure_baselines", lambda *_: {"majority class": Cell({}, {"paper_accuracy": 0.3}).to_dict()}
    )
    monkeypatch.setattr(
        paper, "next_ranges", lambda *_: {"from": 1, "mean": [], "spread": [], "observed": [], "held": 1.0}
    )


def test_fair_protocol_simulates_once_per_seed():
    one, fair = (paper.experiment(f"table/soft/{protocol}", 3, 100) for protocol in paper.PROTOCOLS)
    assert len(one.comparisons) == 1
    assert len(fair.comparisons) == 3
    assert one.n_fits == fair.n_fits == 3 * len(paper.TABLE_1)
    assert len({comparison.train.fingerprint for comparison in fair.comparisons}) == 3
    lap, _ = nascar.paper_train_test("soft", T=100)
    assert one.comparisons[0].train.fingerprint == Trials((lap,), lap.name).fingerprint


def test_results_round_trip_through_a_file(quick, tmp_path):
    steps = []
    names = paper.find_names()
    found = paper.reproduce_all(names, 2, samples=100, progress=lambda done, total: steps.append((done, total)))
    total = paper.count_tasks(names, 2)
    assert steps == [(i + 1, total) for i in range(total)]
    assert found["failed"]
    paper.save(found, tmp_path / "paper.json", "code")
    stored = paper.load(tmp_path / "paper.json")
    assert set(stored.cells) == set(paper.names())
    assert stored.made["formula1"] == paper.experiment("formula1", 2).keys != paper.experiment("formula1", 1).keys
    assert stored.made["table/soft/fair"] == paper.experiment("table/soft/fair", 2, 100).keys
    table = stored.cells["table/soft/fair"]
    assert [sorted(one["GDM"]) for one in table] == [[0], [1]]
    assert table[1]["GDM"][1].scores["paper_accuracy"] == pytest.approx(0.6)
    assert len(table[0]["GDM"][0].states)
    assert not len(table[1]["GDM"][1].states)
    assert "  GDM                      0.550 ± 0.071 (2)" in paper.summary(found)


def test_reproduce_all_writes_what_the_page_reads(quick, tmp_path, capsys):
    assert main(["reproduce", "all", "--seeds", "1", "--samples", "100", "--json", str(tmp_path / "all.json")]) == 1
    said = capsys.readouterr()
    assert "inferred state accuracy" in said.out
    assert "fits failed and are left out" in said.err
    assert set(paper.load(tmp_path / "all.json").lines) == set(paper.names())


def test_one_part_updates_a_file_of_results(quick, tmp_path, capsys):
    file = tmp_path / "parts.json"
    assert main(["reproduce", "mice", "--seeds", "2", "--json", str(file)]) == 0
    assert main(["reproduce", "table/soft/fair", "--seeds", "1", "--samples", "100", "--json", str(file)]) == 1
    stored = paper.load(file)
    assert set(stored.cells) == set(stored.code) == {"mice", "table/soft/fair"}
    assert sorted(stored.cells["mice"][0]["GDM with a GRU"]) == [0, 1]
    assert list(json.loads(file.read_text())["failed"]) == ["table/soft/fair"]
    assert main(["reproduce", "figures", "--json", str(file)]) == 2
    assert "There is no experiment 'figures'; choose one of table/" in capsys.readouterr().err


def test_real_recording_is_split_and_its_states_stay_out(quick, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    write_recording(folder / "calms21_task1_test.json", n_frames=400)
    assert paper.find_names("mice") == ("mice", "mice/real")
    (comparison,) = paper.experiment("mice/real", 1).comparisons
    assert (comparison.train.n_samples, comparison.test.n_samples) == (240, 160)
    found = paper.reproduce_all(["mice/real"], 1)
    assert found["experiments"]["mice/real"]["0"]["GDM"]["0"]["states"]["shape"] == [0, 0]


def write_recording(path: Path, n_frames: int) -> None:
    """Write one trial in the layout of the CalMS21 files."""
    rng = np.random.default_rng(0)
    trial = {
        "keypoints": (300 + rng.normal(size=(n_frames, 2, 2, 7)).cumsum(axis=0)).tolist(),
        "scores": np.ones((n_frames, 2, 7)).tolist(),
        "annotations": (np.arange(n_frames) // 50 % 4).tolist(),
        "metadata": {"fps": 30},
    }
    path.write_text(json.dumps({"annotator-id_0": {"task1/test/mouse071_task1_annotator1": trial}}))


def test_ranges_report_their_coverage():
    lap, another = nascar.train_test("standard", 0, 300)
    found = next_ranges(
        "arhmm", {"n_states": 4, "n_latent": 2, "seed": 0}, Trials((lap,)), Trials((another,)), moments=100
    )
    mean, spread, seen = (np.array(found[name]) for name in ("mean", "spread", "observed"))
    assert found["held"] == pytest.approx(np.mean(np.abs(seen - mean) <= 3 * spread), abs=0.011)
    assert np.allclose(seen, another.y[found["from"] : found["from"] + len(seen), 0], atol=1e-4)
    assert found["held"] > 0.8


# ---- shipped results ------------------------------------------------------------------------------------------------
def test_shipped_results_are_complete():
    stored = paper.load()
    plain = json.loads(paper.FILE.read_text())
    assert plain["failed"] == {}
    for name in paper.names():
        asked = paper.experiment(name)
        assert stored.made[name] == asked.keys
        for comparison, found in zip(asked.comparisons, stored.cells[name], strict=True):
            assert set(found) == set(comparison.settings)
            assert all(tuple(sorted(by_seed)) == comparison.seeds for by_seed in found.values())
        assert all(
            np.isfinite(list(cell.scores.values())).all()
            for one in stored.cells[name] for by_seed in one.values() for cell in by_seed.values()
        )  # fmt: skip
        assert "majority class" in stored.lines[name]
    assert set(stored.ranges) == set(paper.SETTINGS)
    for setting, found in stored.ranges.items():
        (*_, test) = paper.range_arguments(setting)
        seen = test[0].y[found["from"] : found["from"] + len(found["observed"]), 0]
        np.testing.assert_allclose(found["observed"], seen, atol=1e-4, err_msg=setting)


@pytest.mark.bulk
def test_shipped_result_equals_a_fit():
    """Refit the first fit of the table on the soft track."""
    asked = paper.experiment("table/soft/paper", 1).comparisons[0]
    family, config = asked.settings["AR-HMM (RO)"]
    again = Cell.from_dict(paper.fit_cell(family, {**config, "seed": 0}, asked.train, asked.test))
    shipped = paper.load().cells["table/soft/paper"][0]["AR-HMM (RO)"][0]
    assert again.scores["matched_accuracy"] == pytest.approx(shipped.scores["matched_accuracy"], abs=0.02)
