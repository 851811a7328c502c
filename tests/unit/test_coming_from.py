"""Run the code of docs/coming-from.md: ours, and that of libraries that are installed."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from.md"
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
