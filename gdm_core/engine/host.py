"""The embedded cluster's own process: `python -m gdm_core.engine.host '{"n_workers": 2, "memory": 2147483648}'`.

It holds Dask's scheduler and the nannies that keep workers alive. Loading torch and the models is what takes long when a
worker starts: seconds on a quiet machine, a minute on a busy one. So on Linux one process loads them, once, and workers are
copies of it (Python's `forkserver`), ready in a moment. Systems whose libraries do not survive such a copy load everything in
each worker. With "scheduler" among the options, the workers are of one that somebody else runs.

It prints one line: the scheduler's address as soon as a first worker has come, or FAILED and why none can. It ends with its
standard input, and all that it has started with it, so that a killed server leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any
from urllib.parse import urlsplit

from gdm_core.engine.dask_internals import pid_of_starting_worker

PRELOAD = "gdm_core.engine.preload"
COPIES = sys.platform == "linux"
FAILED = "failed: "
# What keeps every worker from starting is told after so many tries of each; later it may have passed by the next try.
MOST_TRIES = 3
# A nanny that cannot start its worker ends; the next one tries again after so long.
RETRY_S = 2.0
LOOK_EVERY_S = 0.2  # for a scheduler that is away
# A worker that has not come by then and does nothing was stopped while it started, or hangs: its nanny would wait for it
# for good. One that has little of a busy machine is slow, and started anew it would be slower still.
START_LIMIT_S = 60.0
LEAST_PROGRESS_S = 0.05  # of processor time
LONGEST_START_S = 600.0
# Workers have so long to leave, and this process so long to end with them.
FAREWELL_S = 5.0
LONGEST_FAREWELL_S = 7.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class HostOptions:
    """What stands on the command line. `scheduler` is the address of one that somebody else runs."""

    n_workers: int
    memory: int
    allowed_failures: int = 0
    scheduler: str = ""
    preload: str = PRELOAD
    warm: str = PRELOAD
    start_limit_s: float = START_LIMIT_S


def main() -> None:
    """Run until the server that started this process has ended, or until no worker can be started."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the server's to hear, here and in all that follow
    words = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what jobs print is no address
    options = HostOptions(**json.loads(sys.argv[1]))
    why = asyncio.run(_serve(options, lambda line: print(line, file=words, flush=True)))
    sys.exit(1 if why else 0)


async def _serve(options: HostOptions, tell: Callable[[str], None]) -> str:
    """Why no worker could be started; nothing where it ends because it was told to."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    threading.Thread(target=_end_with_input, args=(loop, ended), daemon=True).start()
    loading = loop.run_in_executor(None, _load_what_is_copied, options.warm) if COPIES else None
    async with _scheduler(options) as address:
        keepers: list[asyncio.Task[None]] = []
        first = FirstWorker(MOST_TRIES * options.n_workers)
        try:
            if loading is not None:
                await loading
            keepers += [asyncio.create_task(_keep_worker(address, options, first)) for _ in range(options.n_workers)]
        except OSError as error:
            first.failed(error, last=True)
        end = asyncio.ensure_future(ended.wait())
        await asyncio.wait((first.known, end), return_when=asyncio.FIRST_COMPLETED)
        why = first.known.result() if first.known.done() else ""
        if first.known.done():
            tell(f"{FAILED}{why}" if why else address)
        if not why:
            await end
        for keeper in keepers:
            keeper.cancel()
        if keepers:
            await asyncio.wait(keepers, timeout=FAREWELL_S)
        _end_group()
    return why


class FirstWorker:
    """Whether any has come yet: `known` is done once one has, or once it has failed so often that none will."""

    def __init__(self, most_tries: int) -> None:
        self.known: asyncio.Future[str] = asyncio.get_running_loop().create_future()  # why none will, if so
        self._left = most_tries

    def came(self) -> None:
        """A worker has started."""
        if not self.known.done():
            self.known.set_result("")

    def failed(self, error: Exception, last: bool = False) -> None:
        """One could not be started."""
        self._left -= 1
        while isinstance(error.__cause__, Exception):  # Dask says that it did not start, and then why
            error = error.__cause__
        if not self.known.done() and (last or self._left <= 0):
            self.known.set_result(" ".join(str(error).split()) or type(error).__name__)


def _load_what_is_copied(module: str) -> None:
    """Start the process that workers are copies of, with all loaded that a worker needs, and have Dask's nannies use it."""
    import dask

    dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([module])
    heard, said = context.Pipe(duplex=False)
    first = context.Process(target=_say_whether_loaded, args=(module, said))
    try:
        first.start()  # which waits for that process
    except (EOFError, OSError):
        raise ChildProcessError(f"the process that workers are copies of ended while it loaded {module}") from None
    said.close()
    first.join()
    if first.exitcode:
        why = heard.recv() if heard.poll() else f"its copy ended with status {first.exitcode}"
        raise ChildProcessError(f"{module} cannot be loaded ({why})")


def _say_whether_loaded(module: str, said: Connection) -> None:
    """Python's `forkserver` passes over what it cannot import; here it is told."""
    try:
        importlib.import_module(module)
    except Exception as error:
        said.send(f"{type(error).__name__}: {error}")
        raise


def _end_with_input(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    sys.stdin.read()
    loop.call_soon_threadsafe(ended.set)
    time.sleep(LONGEST_FAREWELL_S)
    _end_group()
    os.kill(os.getpid(), signal.SIGKILL)


def _end_group() -> None:
    """End what this process has started, also what was stopped; but for Python's own process that clears up after it.

    The server gave us a process group of our own. This process has a handler for the signal; those that it starts have none.
    """
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGTERM)
        os.killpg(0, signal.SIGCONT)


@asynccontextmanager
async def _scheduler(options: HostOptions) -> AsyncIterator[str]:
    """Where the scheduler is: one that somebody else runs, or one of our own, for this machine alone."""
    if options.scheduler:
        yield options.scheduler
        return
    from distributed import Scheduler

    here: dict[str, Any] = {"host": "127.0.0.1", "port": 0, "dashboard": False, "dashboard_address": "127.0.0.1:0"}
    async with Scheduler(**here, allowed_failures=options.allowed_failures) as scheduler:
        yield scheduler.address


async def _keep_worker(scheduler: str, options: HostOptions, first: FirstWorker) -> None:
    """A worker, started anew by its nanny as often as it dies, and the nanny by us: also when the scheduler had gone."""
    from distributed import Nanny

    settings: dict[str, Any] = {"nthreads": 1, "memory_limit": options.memory, "preload": [options.preload]}
    while True:
        try:
            nanny = Nanny(scheduler, host=await _own_address(scheduler), **settings)
            watch = asyncio.create_task(_end_slow_starts(nanny, options.start_limit_s))
            try:
                async with nanny:
                    first.came()
                    # Dask has named modules of its own for it, once. Should that process die, the next one loads ours.
                    multiprocessing.set_forkserver_preload([options.warm])
                    await nanny.finished()
            finally:
                watch.cancel()
        except Exception as error:  # whatever kept it from starting may have passed by the next time
            logger.exception("A worker could not be started; the next try follows in %g s.", RETRY_S)
            first.failed(error)
        await asyncio.sleep(RETRY_S)


async def _own_address(scheduler: str) -> str:
    """This machine's, in the network of the scheduler, once that listens: a worker listens in no other network.

    Dask would wait longer and longer between two tries for the scheduler, and call it an error in between.
    """
    place, said = urlsplit(scheduler), ""
    while True:
        try:
            _, writer = await asyncio.open_connection(place.hostname, place.port)
            address = str(writer.get_extra_info("sockname")[0])
            writer.close()
            return address
        except OSError as error:
            if str(error) != said:
                said = str(error)
                logger.warning("A worker waits for a scheduler at %s (%s).", scheduler, said)
        await asyncio.sleep(LOOK_EVERY_S)


async def _end_slow_starts(nanny: Any, limit_s: float) -> None:
    """Nannies have a limit of their own, at which they wait for good for the worker that they mean to end."""
    start: Start | None = None
    while True:
        await asyncio.sleep(0.5)
        pid = pid_of_starting_worker(nanny)
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
