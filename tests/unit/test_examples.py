"""Every example runs as it stands, from an empty folder, and says what its reader came for."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# name -> what it must say, and the files it must leave
SAYS = {
    "choose_k": (("Take four states", "n_states      5", "halves agree on"), ()),
    "compare_models": (("GDM", "ARHMM", "SLDS", "matches the labels: ", "to beat"), ()),
    "fit_and_predict": (("the same model from its file: True", "states that match the truth"), ("lap.gdm",)),
    "forecast": (("a 90 % envelope held", "+10"), ()),
    "mouse_bouts": (("bouts in 30 s", "of its frames"), ()),
    "your_table": (("2 trials at 20 Hz", "driver is group"), ("driver-VER-states.csv", "driver-PIA-states.csv")),
}


def test_each_example_is_known_here():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path / "data"))
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    words, files = SAYS[name]
    said = capsys.readouterr().out
    assert all(word in said for word in words), said
    assert "nan" not in said.replace("nanosecond", ""), said
    assert all((tmp_path / file).stat().st_size for file in files)
