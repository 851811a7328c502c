"""Run the Python blocks of docs/guide.md in order."""

from __future__ import annotations

import re
from pathlib import Path

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide.md"


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
