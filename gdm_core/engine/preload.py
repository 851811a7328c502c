"""Ends the scheduler and the nannies of the embedded cluster when the server is gone, even after SIGKILL.

Dask imports this module in each of these processes (its `preload` setting). Workers end with their nanny.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

SERVER_VARIABLE = "GDM_SERVER_PID"
LOOK_EVERY_S = 0.5


def dask_setup(_: Any) -> None:
    """Exit once the process that started this one is no longer its parent."""
    server = int(os.environ[SERVER_VARIABLE])

    def watch() -> None:
        while os.getppid() == server:
            time.sleep(LOOK_EVERY_S)
        os._exit(0)

    threading.Thread(target=watch, name="gdm-preload", daemon=True).start()
