"""Loaded by Dask in each process of the embedded cluster, before it takes work.

A worker loads torch and the models at once and steps back behind the web server. The scheduler and the nannies leave
when the process that started them is gone, so that a killed server leaves nothing behind.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

LOOK_EVERY_S = 1.0
NICE = 5


def dask_setup(server: Any) -> None:
    """Dask calls this with the scheduler, nanny or worker that has just started."""
    from distributed import Worker

    if isinstance(server, Worker):
        from gdm_core.engine.worker import warm_up

        if hasattr(os, "nice"):
            os.nice(NICE)
        warm_up()
    else:
        parent = os.getppid()
        threading.Thread(target=_leave_with, args=(parent,), name="gdm-parent-watch", daemon=True).start()


def _leave_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_EVERY_S)
    os._exit(0)
