"""Run the code, commands and examples of README and docs; numbers and site are current."""

import importlib.util
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from docs import render
from gdm_studio.cli import build_parser

# ---- README --------------------------------------------------------------------------------------------------------
ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_readme_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert code
    space: dict = {}
    exec(code[1], space)
    assert space["shares"].shape == (1000, 4)
    assert not (space["low"] >= space["high"]).any()
    assert (tmp_path / "lap.gdm").stat().st_size


def test_readme_make_targets_exist():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    typed = set(re.findall(r"(?:`|^ {4}|^)make ([\w-]+)", README, re.MULTILINE))
    assert {"app"} <= typed <= set(targets)


def test_readme_commands_exist():
    typed = re.findall(r"`gdm ([^`]+)`|^gdm (.+)$", README, re.MULTILINE)
    names = {name for pair in typed for name in shlex.split("".join(pair))[0].split("|")}
    assert {"fit", "studio"} <= names
    for name in names:
        with pytest.raises(SystemExit, match="0"):
            build_parser().parse_args([name, "--help"])


# ---- guide ---------------------------------------------------------------------------------------------------------
GUIDE = ROOT / "docs" / "guide.md"


def test_guide_blocks_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path / "data"))
    text = GUIDE.read_text(encoding="utf-8").replace("T=500", "T=250")  # shorter recordings are fitted sooner
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    space: dict = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"guide.md, block {number + 1}", "exec"), space)
    assert space["shares"].shape == (250, 4)
    assert not (space["low"] > space["high"]).any()
    assert len(space["bouts"]) == 250
    assert (tmp_path / "states.csv").stat().st_size
    assert (tmp_path / "drive.gdm").stat().st_size


# ---- coming from other libraries -----------------------------------------------------------------------------------
PAGE = ROOT / "docs" / "coming-from.md"
SECTIONS = {
    title: re.findall(r"```python\n(.*?)```", body, re.DOTALL)
    for title, body in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.M | re.DOTALL)
}
LIBRARIES = {"hmmlearn": "hmmlearn", "ssm": "ssm", "dynamax": "dynamax", "keypoint-moseq": "keypoint_moseq"}


def run(title: str, number: int, folder: Path) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    y = np.repeat(rng.normal(size=(10, 4)) * 3, 20, axis=0) + rng.normal(size=(200, 4)).cumsum(axis=0) / 10
    write_tracks(folder / "tracks.csv")
    space: dict[str, Any] = {"y": y}
    exec(compile(SECTIONS[title][number], f"coming-from.md, {title}, block {number + 1}", "exec"), space)
    return space


def write_tracks(path: Path) -> None:
    """Write tracks of four body parts of a turning animal, as DeepLabCut does."""
    rng, t = np.random.default_rng(1), np.arange(400)
    angle = np.cumsum(0.1 * np.sin(t / 25))
    columns, values = [], []
    for part, (along, across) in {"nose": (20, 0), "left": (8, 6), "right": (8, -6), "tail": (-15, 0)}.items():
        x = 200 + t / 4 + along * np.cos(angle) - across * np.sin(angle) + rng.normal(size=400) / 2
        y = 150 + along * np.sin(angle) + across * np.cos(angle) + rng.normal(size=400) / 2
        for name, value in (("x", x), ("y", y), ("likelihood", np.full(400, 0.99))):
            columns.append(("net", part, name))
            values.append(value)
    names = ["scorer", "bodyparts", "coords"]
    pd.DataFrame(np.array(values).T, columns=pd.MultiIndex.from_tuples(columns, names=names)).to_csv(path)


@pytest.mark.parametrize("title", LIBRARIES)
def test_our_lines_run(title, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = run(title, 1, tmp_path)
    if title == "keypoint-moseq":
        assert len(found["bouts"]) > 1
        return
    assert found["soft"].shape == (200, 3)
    assert found["path"].shape == (200,) if "path" in found else found["past"].shape == (200, 3)


@pytest.mark.parametrize("title", LIBRARIES)
def test_their_lines_run(title, tmp_path, monkeypatch):
    if title == "keypoint-moseq":
        pytest.skip("keypoint-moseq needs a project folder with videos")
    if importlib.util.find_spec(LIBRARIES[title]) is None:
        pytest.skip(f"{title} is not installed")
    monkeypatch.chdir(tmp_path)
    assert run(title, 0, tmp_path)["soft"].shape == (200, 3)


def test_every_section_has_both_sides():
    assert {title: len(blocks) for title, blocks in SECTIONS.items()} == dict.fromkeys(LIBRARIES, 2)


# ---- examples ------------------------------------------------------------------------------------------------------
# test_package.py runs all examples from the wheel.
@pytest.mark.parametrize(
    ("name", "files"), [("own_model", ()), ("own_reader", ("driver-VER-states.csv", "driver-PIA-states.csv"))]
)
def test_example_runs(name, files, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(go.Figure, "show", lambda figure: None)
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out.strip()
    assert all((tmp_path / file).stat().st_size for file in files)


# ---- site ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", render.PAGES)
def test_rendered_tables_are_current(name):
    """Run `make pages` to write the numbers of docs/results.json into the pages."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert render.render(text, render.load()) == text


@pytest.mark.bulk
def test_site_builds_and_needs_no_network():
    done = subprocess.run([sys.executable, "-m", "docs.site.make"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for page in (ROOT / "build" / "site").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert 'src="http' not in text, page
        assert not [part for part in text.split("<link")[1:] if 'href="http' in part.split(">")[0]], page
