"""The nannies that keep workers alive, and the scheduler of these, unless there is one: `python -m gdm_core.engine.host OPTIONS`.

It prints the scheduler's address and ends with its standard input. keeper.py starts it, and lends it the process that its
workers are copies of; on systems without such copies each worker loads everything.
"""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from gdm_core.engine import template

PRELOAD = "gdm_core.engine.preload"
# A nanny that cannot start its worker ends; the next one tries again after so long.
RETRY_S = 2.0
LOOK_EVERY_S = 0.2  # for a scheduler that is away
# A worker that has not come by then and does nothing was stopped while it started, or hangs: its nanny would wait for it
# for good. One that has little of a busy machine is slow, and started anew it would be slower still.
START_LIMIT_S = 60.0
LEAST_PROGRESS_S = 0.05  # of processor time
LONGEST_START_S = 600.0

logger = logging.getLogger(__name__)


def main() -> None:
    """Run until the keeper that started this process has ended."""
    if template.borrow():
        _make_copies()
    options = json.loads(sys.argv[1])
    asyncio.run(_serve(**options))


def _make_copies() -> None:
    """Have Dask's nannies make workers that way."""
    import dask
    from distributed.utils import get_mp_context

    dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
    get_mp_context()  # names modules of its own choice, once
    multiprocessing.set_forkserver_preload([template.WARM])  # for a template of our own, should the lent one die


async def _serve(
    n_workers: int,
    memory: int,
    allowed_failures: int = 0,
    scheduler: str = "",
    preload: str = PRELOAD,
    start_limit_s: float = START_LIMIT_S,
) -> None:
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    async with _scheduler(scheduler, allowed_failures) as address:
        print(address, flush=True)
        keep = partial(_keep_worker, address, memory, preload, start_limit_s)
        keepers = [asyncio.create_task(keep()) for _ in range(n_workers)]
        await ended
        for keeper in keepers:
            keeper.cancel()
        await asyncio.wait(keepers, timeout=5)


@asynccontextmanager
async def _scheduler(address: str, allowed_failures: int) -> AsyncIterator[str]:
    """Where the scheduler is: one that somebody else runs, or one of our own, for this machine alone."""
    if address:
        yield address
        return
    from distributed import Scheduler

    options: dict[str, Any] = {"host": "127.0.0.1", "port": 0, "dashboard": False, "dashboard_address": "127.0.0.1:0"}
    async with Scheduler(**options, allowed_failures=allowed_failures) as scheduler:
        yield scheduler.address


async def _keep_worker(scheduler: str, memory: int, preload: str, start_limit_s: float) -> None:
    """A worker, started anew by its nanny as often as it dies, and the nanny by us: also when the scheduler had gone."""
    from distributed import Nanny

    options: dict[str, Any] = {"nthreads": 1, "memory_limit": memory, "preload": [preload]}
    while True:
        try:
            await _until_there(scheduler)
            nanny = Nanny(scheduler, host=_own_address(scheduler), **options)
            watch = asyncio.create_task(_end_slow_starts(nanny, start_limit_s))
            try:
                async with nanny:
                    await nanny.finished()
            finally:
                watch.cancel()
        except Exception:  # whatever kept it from starting may have passed by the next time
            logger.exception("A worker could not be started; the next try follows in %g s.", RETRY_S)
        await asyncio.sleep(RETRY_S)


async def _until_there(scheduler: str) -> None:
    """Until a scheduler listens. Dask would wait longer and longer between two tries, and call it an error in between."""
    said = ""
    while True:
        try:
            _, writer = await asyncio.open_connection(*_place(scheduler))
            writer.close()
            return
        except OSError as error:
            if str(error) != said:
                said = str(error)
                logger.warning("A worker waits for a scheduler at %s (%s).", scheduler, said)
        await asyncio.sleep(LOOK_EVERY_S)


def _own_address(scheduler: str) -> str:
    """This machine's, in the network of the scheduler: a worker listens in no other."""
    from distributed.utils import get_ip

    return str(get_ip(*_place(scheduler)))


def _place(scheduler: str) -> tuple[str, int]:
    from distributed.comm.addressing import parse_address, parse_host_port

    host, port = parse_host_port(parse_address(scheduler)[1])
    return str(host), int(port)


async def _end_slow_starts(nanny: Any, limit_s: float) -> None:
    """Nannies have a limit of their own, at which they wait for good for the worker that they mean to end."""
    from distributed.core import Status

    start: Start | None = None
    while True:
        await asyncio.sleep(0.5)
        worker = nanny.process
        pid = worker.process.pid if worker is not None and worker.status == Status.starting and worker.process else None
        now = time.monotonic()
        if pid is None:
            start = None
        elif start is None or pid != start.pid:
            start = Start(pid, now, now)
        elif start.stuck(_processor_seconds(pid), now, limit_s):
            logger.warning(
                "Worker %d is ended: it began to start %.0f s ago and last did something %.0f s ago.",
                pid, now - start.began, now - start.moved,
            )  # fmt: skip
            with suppress(ProcessLookupError):  # it has ended by itself meanwhile
                os.kill(pid, signal.SIGKILL)


@dataclass
class Start:
    """A worker on its way: when it began, and when it was last seen to have done something."""

    pid: int
    began: float
    moved: float
    _spent: float = 0.0

    def stuck(self, spent: float, now: float, limit_s: float) -> bool:
        """Whether it has stood still for `limit_s`, or taken longer than any machine needs. `spent`: its processor time."""
        if spent - self._spent >= LEAST_PROGRESS_S:
            self._spent, self.moved = spent, now
        return now - self.moved > limit_s or now - self.began > LONGEST_START_S


def _processor_seconds(pid: int) -> float:
    import psutil

    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


if __name__ == "__main__":
    main()
