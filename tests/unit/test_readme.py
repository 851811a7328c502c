"""Run the commands of the README."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gdm_studio.cli import build_parser

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
