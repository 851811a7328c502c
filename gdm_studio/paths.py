"""Where the dashboard's code lies, and how a process of ours finds it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_INSTALLED = _PACKAGE / "_app"
# The folder that holds app.py, pages, datasets and assets: inside this package where it is installed, else the checkout.
APP = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent


def find_app_code() -> None:
    """Let this process, and the processes it starts, import `datasets` and `pages`.

    For processes that are ours alone: the command, the dashboard, their workers. A program that imports gdm_core or
    gdm_studio keeps its own path; it has the loaders as `gdm_studio.datasets`.
    """
    for folder in (str(_PACKAGE.parent), str(APP)):  # the last comes first
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    ours = list(dict.fromkeys([str(APP), str(_PACKAGE.parent)]))
    os.environ["PYTHONPATH"] = os.pathsep.join([*ours, *(p for p in inherited if p and p not in ours)])
