"""Every example runs from an empty folder."""

from __future__ import annotations

import runpy
from pathlib import Path

import plotly.graph_objects as go
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
QUICK = ("own_model", "own_reader")
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))
FILES = {"first_fit": ("lap.gdm",), "own_reader": ("driver-VER-states.csv", "driver-PIA-states.csv")}


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.bulk) for name in NAMES]
)
def test_example_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(go.Figure, "show", lambda figure: None)
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed.strip()
    assert "nan" not in printed.replace("nanosecond", ""), printed
    assert all((tmp_path / file).stat().st_size for file in FILES.get(name, ()))
