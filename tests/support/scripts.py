"""Run exported scripts in a separate folder and process."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from pages.lab import Dataset
from pages.ui.navigation import ROOT
from tests.support.engine_requests import PATIENCE_S


def run_script(code: str, folder: Path) -> str:
    """Run a script in `folder`, from another one, and return its output."""
    (folder / "script.py").write_text(code)
    done = subprocess.run(
        [sys.executable, str(folder / "script.py")], cwd=folder.parent,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def same_from_script(data: Dataset, files: Mapping[str, bytes] = MappingProxyType({})) -> tuple[Any, Any]:
    """Return the script's training and test trials, after checking that they equal `data`."""
    space: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, content in files.items():
            Path(name).write_bytes(content)
        exec("\n".join([*data.recipe.imports, *data.recipe.lines]), space)
    made = space["train"], space["test"]
    for ours, theirs in zip((data.train, data.test), made, strict=True):
        for one, other in zip(ours, theirs, strict=True):  # arrays where the script left out channels
            np.testing.assert_array_equal(one.y, getattr(other, "y", other))
    return made
