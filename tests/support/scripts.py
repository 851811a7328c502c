"""Exported scripts, run as their reader would: in a folder of their own, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pages.ui.navigation import ROOT
from tests.support.engine_requests import PATIENCE_S


def run_script(code: str, folder: Path) -> str:
    """What the script prints; what it writes lies in `folder`."""
    (folder / "script.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
