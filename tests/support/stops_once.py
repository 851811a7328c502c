"""A preload of workers: the first one stops itself while it starts, as a machine that swaps or a debugger may stop it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

MARKER = "GDM_TEST_STOPPED"  # names the file that the stopped worker leaves its number in


def dask_setup(_: Any) -> None:
    marker = Path(os.environ[MARKER])
    if not marker.exists():
        marker.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
