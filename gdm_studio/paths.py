"""The folder of the dashboard's code, and how to make it importable."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_INSTALLED = _PACKAGE / "_app"
# The folder of app.py, pages, datasets and assets: inside this package if installed, otherwise the checkout.
APP = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent


def find_app_code() -> None:
    """Let this process and its child processes import `datasets` and `pages`.

    Only the command, the dashboard and workers call this. Programs that import gdm_core or gdm_studio keep their own
    import path and use `gdm_studio.datasets`.
    """
    for folder in (str(_PACKAGE.parent), str(APP)):  # APP ends up first
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    ours = list(dict.fromkeys([str(APP), str(_PACKAGE.parent)]))
    os.environ["PYTHONPATH"] = os.pathsep.join([*ours, *(p for p in inherited if p and p not in ours)])
