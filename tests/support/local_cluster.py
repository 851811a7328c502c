"""The environment of processes that tests start."""

from __future__ import annotations

import os
from pathlib import Path

from gdm_core.engine.spec import code_version

ROOT = Path(__file__).parents[2]


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a child process that can import the project, with one torch thread."""
    version = code_version().partition("+")[2]  # children report the same version even if the code changes meanwhile
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GDM_CODE_VERSION": version, **more}
