"""The process that workers are copies of: started by keeper.py, used by host.py.

It is the `forkserver` of Python's multiprocessing, which serves whoever has its address and holds it open. Systems other
than Linux, whose own libraries do not survive such a copy, load everything in each worker.
"""

from __future__ import annotations

import logging
import os
import sys
from multiprocessing import forkserver, set_forkserver_preload
from typing import Any

import psutil

WARM = "gdm_core.engine.warm"
VARIABLE = "GDM_TEMPLATE"
POSSIBLE = sys.platform == "linux"

logger = logging.getLogger(__name__)

_server: Any = forkserver._forkserver


def lend() -> tuple[dict[str, str], tuple[int, ...]]:
    """What a child needs to use this process's template, begun where none runs: a variable, and a file to inherit."""
    if not POSSIBLE:
        return {}, ()
    set_forkserver_preload([WARM])
    forkserver.ensure_running()
    file = _server._forkserver_alive_fd
    return {VARIABLE: f"{_server._forkserver_pid} {file} {_server._forkserver_address}"}, (file,)


def copies() -> list[psutil.Process]:
    """Those that have been made of this process's template and run."""
    try:
        return psutil.Process(_server._forkserver_pid).children() if POSSIBLE and _server._forkserver_pid else []
    except psutil.NoSuchProcess:
        return []


def borrow() -> bool:
    """Make this process's workers from the template that was lent to it; from one of its own once that has died.

    Whether workers can be copies here.
    """
    text = os.environ.get(VARIABLE, "")
    if not text:
        return False
    pid, file, address = text.split(" ", 2)
    _server._forkserver_alive_fd, _server._forkserver_address = int(file), address
    start = _server.ensure_running

    def ensure_running() -> None:
        if _server._forkserver_address == address:
            if _runs(int(pid)):
                return
            logger.warning("The process that workers are copies of has ended. Another one is started.")
            os.close(_server._forkserver_alive_fd)
        start()

    _server.ensure_running = ensure_running
    return True


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
