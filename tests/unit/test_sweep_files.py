"""`gdm sweep --out`: a row for each fit, as a file that other programs read."""

from __future__ import annotations

import pandas as pd
import pytest

from datasets import nascar
from gdm_studio.cli import main


@pytest.fixture
def arguments(tmp_path, monkeypatch):
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path / "data"))
    lap, _ = nascar.train_test("standard", 0, 120)
    path = tmp_path / "lap.csv"
    pd.DataFrame(lap.y).add_prefix("y").to_csv(path, index=False)
    return ["sweep", str(path), "--model", "arhmm", "--states", "2-3", "--seeds", "2"]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_every_fit_is_a_row(arguments, tmp_path, ending, capsys):
    path = tmp_path / f"fits{ending}"
    assert main([*arguments, "--out", str(path)]) == 0
    found = pd.read_csv(path) if ending == ".csv" else pd.read_parquet(path)
    assert sorted(zip(found["n_states"], found["seed"], strict=True)) == [(2, 0), (2, 1), (3, 0), (3, 1)]
    assert found["elbo_test"].notna().all()
    assert "*" in capsys.readouterr().out, "the table is printed as before"


def test_another_kind_of_file_is_refused_before_anything_is_fitted(arguments, tmp_path, capsys):
    assert main([*arguments, "--out", str(tmp_path / "fits.xlsx")]) == 2
    assert ".csv or .parquet" in capsys.readouterr().err
