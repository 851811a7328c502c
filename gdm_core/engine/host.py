"""The embedded cluster in a process of its own: a scheduler, and the nannies that keep its workers alive.

`python -m gdm_core.engine.host '{"n_workers": 2, "memory": 2147483648}'` prints the scheduler's address and ends with its
standard input, so that a killed server leaves nothing behind.

Loading torch and the models is what takes long when a worker starts: seconds on a quiet machine, a minute on a busy one.
So one process loads them, once, while this one loads Dask; workers are copies of it, ready in a moment, also when
one has died. Systems other than Linux, whose own libraries do not survive such a copy, load everything in each worker.
"""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import sys
from multiprocessing import forkserver
from typing import Any

PRELOAD = "gdm_core.engine.preload"
WARM = "gdm_core.engine.warm"
# A nanny that cannot start its worker ends; the next one tries again after so long.
RETRY_S = 2.0

logger = logging.getLogger(__name__)


def main() -> None:
    """Run until the server that started this process has ended."""
    if sys.platform == "linux":
        _start_template()
    options = json.loads(sys.argv[1])
    asyncio.run(_serve(**options))


def _start_template() -> None:
    """Have the process from which workers are copied load what they need, while this one goes on."""
    multiprocessing.set_forkserver_preload([WARM])
    forkserver.ensure_running()
    import dask
    from distributed.utils import get_mp_context

    dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
    get_mp_context()  # names modules of its own choice, once
    multiprocessing.set_forkserver_preload([WARM])  # for its successor, should it die


async def _serve(n_workers: int, memory: int, allowed_failures: int) -> None:
    from distributed import Scheduler

    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    options: dict[str, Any] = {"host": "127.0.0.1", "port": 0, "dashboard": False, "dashboard_address": "127.0.0.1:0"}
    async with Scheduler(**options, allowed_failures=allowed_failures) as scheduler:
        print(scheduler.address, flush=True)
        keepers = [asyncio.create_task(_keep_worker(scheduler.address, memory)) for _ in range(n_workers)]
        await ended
        for keeper in keepers:
            keeper.cancel()
        await asyncio.wait(keepers, timeout=5)


async def _keep_worker(scheduler: str, memory: int) -> None:
    """A worker, started anew by its nanny as often as it dies, and the nanny by us."""
    from distributed import Nanny

    while True:
        try:
            async with Nanny(scheduler, nthreads=1, memory_limit=memory, preload=[PRELOAD], host="127.0.0.1") as nanny:
                await nanny.finished()
        except Exception:  # whatever kept it from starting may have passed by the next time
            logger.exception("A worker could not be started; the next try follows in %g s.", RETRY_S)
        await asyncio.sleep(RETRY_S)


if __name__ == "__main__":
    main()
