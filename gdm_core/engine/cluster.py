"""The cluster that fits run on: an embedded one of our own processes, or one that exists already."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import dask
from dask.system import CPU_COUNT
from dask.utils import parse_bytes
from distributed import Client
from distributed.system import MEMORY_LIMIT

import gdm_core
from gdm_core.engine.host import FAILED, HostOptions
from gdm_core.engine.messages import code_version
from gdm_core.engine.worker import NICE_VARIABLE, warm_up
from gdm_core.errors import ConfigError, FitError

SCHEDULER_VARIABLE = "GDM_SCHEDULER"
WORKERS_VARIABLE = "GDM_WORKERS"
MEMORY_VARIABLE = "GDM_WORKER_MEMORY"

logger = logging.getLogger(__name__)

GIBIBYTE = 2**30
START_TIMEOUT_S = 400.0  # nearly all of it is for machines that have much else to do
JOIN_TIMEOUT_S = 15.0
# Of a scheduler that somebody else started: its workers may start with us, and load torch for a minute on a busy machine.
FIRST_WORKER_TIMEOUT_S = 60.0
# A worker with torch and the models loaded, without any data, takes about half of this.
LEAST_MEMORY = GIBIBYTE
MOST_MEMORY = 4 * GIBIBYTE
# Deaths of workers that a job survives.
ALLOWED_DEATHS = 2
LOOK_EVERY_S = 1.0
# A scheduler that does not answer by then is taken for lost.
ANSWER_LIMIT_S = 15.0
# Workers send a sign of life every half second; one that has sent none for this long may have been stopped.
SILENT_S = 4.0

# Each end of a Dask connection keeps this many of the messages it has sent, up to a megabyte each, and the scheduler as many
# events of each topic. Ours hold data and pictures: with Dask's 1,000, those of visitors who left long ago.
MESSAGES_KEPT = 1

CHILD_SETTINGS = {
    "DASK_DISTRIBUTED__ADMIN__LOW_LEVEL_LOG_LENGTH": str(MESSAGES_KEPT),
    "DASK_LOGGING__DISTRIBUTED": "warning",
    # Pages promise that uploads stay in memory: a worker that fills up must not move what it holds to disk.
    "DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "False",
    "DASK_DISTRIBUTED__WORKER__MEMORY__SPILL": "False",
    # A worker that Dask pauses has no way left to free memory and would stand for good; one that goes on is replaced at
    # its limit, and its jobs start again.
    "DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE": "False",
    # By the machine's clock: one that is set forward would end every worker. Those that stand still are found by ours.
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "None",
    # What Dask sets for workers that it starts, too late for those that are copied from one that stands ready.
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "6640",
    # Jobs step back behind the web server.
    NICE_VARIABLE: "5",
}


@dataclass
class Link:
    """A connection to a running cluster. `memory` is what its smallest worker may use, 0 where nothing bounds it.

    `threads` are those of each worker that gives signs of life; `silent` the workers that the scheduler knows and that
    give none.
    """

    client: Client
    cluster: Host | None = None
    memory: int = 0
    topic: str = field(default_factory=lambda: f"gdm-{uuid4().hex[:12]}")
    threads: dict[str, int] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()
    _looked: float = -1e9
    _signs: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def alive(self) -> bool:
        return bool(self.client.status == "running")

    def look(self) -> bool:
        """Ask the scheduler who is there, once a second, since workers come and go; whether it was time to."""
        now = time.monotonic()
        if now - self._looked < LOOK_EVERY_S:
            return False
        found = self._ask(self.client.scheduler.identity, n_workers=-1)["workers"]
        asked, now = self._looked, time.monotonic()
        self._looked = now
        # Where nobody looked for so long, the machine itself may have stood still, and the workers with it.
        unheard = now - asked if now - asked > SILENT_S / 2 else 0.0
        # By our own clock, for another machine's may jump: when each sign of life was first seen.
        earlier = self._signs
        self._signs = {
            name: (worker["last_seen"], min(now, earlier[name][1] + unheard))
            if name in earlier and earlier[name][0] == worker["last_seen"]
            else (worker["last_seen"], now)
            for name, worker in found.items()
        }
        self.silent = frozenset(name for name, (_, since) in self._signs.items() if now - since > SILENT_S)
        self.threads = {name: worker["nthreads"] for name, worker in found.items() if name not in self.silent}
        limits = [int(worker["memory_limit"]) for worker in found.values() if worker["memory_limit"]]
        self.memory = min(limits, default=0)
        return True

    def taken_up(self) -> set[str]:
        """Keys of the tasks that some worker runs, or is to run next, as the scheduler has it."""
        found: Mapping[str, Sequence[str]] = self._ask(self.client.processing)
        return {key for keys in found.values() for key in keys}

    def _ask(self, question: Callable[..., Any], **content: Any) -> Any:
        """What the scheduler answers; TimeoutError when it does not."""
        return self.client.sync(question, callback_timeout=ANSWER_LIMIT_S, **content)

    def capacity(self) -> int:
        """Jobs that the cluster can run at once."""
        return sum(self.threads.values())

    def free_worker(self, busy: Sequence[str]) -> str | None:
        """The worker with most room. Dask's own choice overlooks jobs that have come back from a hold."""
        if not self.threads:
            return None
        return max(self.threads, key=lambda worker: self.threads[worker] - busy.count(worker))

    def end_processes(self) -> None:
        """End those of a cluster that is lost, where they are ours: the next one needs their room."""
        host, self.cluster = self.cluster, None
        if host is not None:
            host.close(timeout=0)

    def close(self) -> None:
        try:
            self.client.close(timeout=2)
        except (OSError, TimeoutError) as error:  # a busy machine: what it held goes with the processes below
            logger.info("The connection to the cluster did not close in time: %s", error)
        if self.cluster is not None:
            self.cluster.close()


def connect(on_event: Callable[[Mapping[str, Any]], None]) -> Link:
    """Join the cluster that GDM_SCHEDULER names, or start our own. `on_event` hears what jobs say, on a Dask thread."""
    # Data travels as the argument of a task on purpose (see DataCache): no warning wanted.
    dask.config.set({"distributed.admin.large-graph-warning-threshold": "4GB"})
    dask.config.set({"distributed.admin.low-level-log-length": MESSAGES_KEPT})
    address = os.environ.get(SCHEDULER_VARIABLE, "").strip()
    link = _join(address) if address else _start()
    try:
        _check_versions(link)
    except FitError:
        link.close()
        raise
    link.look()
    link.client.subscribe_topic(link.topic, lambda event: on_event(event[1]))
    return link


def worker_count() -> int:
    """Processes of the embedded cluster: one for each core that has a share of memory to go with it."""
    text = os.environ.get(WORKERS_VARIABLE, "").strip()
    if not text:
        return int(max(1, min(CPU_COUNT, MEMORY_LIMIT // LEAST_MEMORY)))
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"{WORKERS_VARIABLE} is {text!r}; it must be a whole number of worker processes, 1 or more.")
    return int(text)


def worker_memory(n_workers: int) -> int:
    """Bytes that a worker may use before it is stopped: most of the machine between them, within reason."""
    text = os.environ.get(MEMORY_VARIABLE, "").strip()
    if text:
        return size(text, MEMORY_VARIABLE)
    share = int(0.7 * MEMORY_LIMIT / n_workers)
    return int(min(MOST_MEMORY, share))


def size(text: str, name: str) -> int:
    """Bytes, as somebody has written them for `name`."""
    try:
        return int(parse_bytes(text))
    except ValueError as error:
        raise ConfigError(f"{name} is {text!r}; write a size such as '2 GiB'.") from error


def _join(address: str) -> Link:
    try:
        client = Client(address, timeout=JOIN_TIMEOUT_S, set_as_default=False, name="gdm-studio")
    except (OSError, TimeoutError, ValueError) as error:
        raise FitError(
            f"No scheduler answers at {SCHEDULER_VARIABLE}={address} ({error}). Start one with `dask scheduler`, correct the "
            "address, or remove the variable to use this machine's own processors."
        ) from error
    link = Link(client)
    try:
        client.wait_for_workers(1, timeout=FIRST_WORKER_TIMEOUT_S)
    except TimeoutError as error:
        link.close()
        raise FitError(
            f"The scheduler at {address} has no workers. Start some with `gdm workers {address}`."
        ) from error
    return link


def _start() -> Link:
    n_workers = worker_count()
    host = None
    try:
        host = Host(n_workers, worker_memory(n_workers))
        client = Client(host.address(START_TIMEOUT_S), timeout=ANSWER_LIMIT_S, set_as_default=False, name="gdm-studio")
    except (OSError, TimeoutError) as error:
        if host is not None:
            host.close(timeout=0)
        raise FitError(
            f"The worker processes could not be started ({error}). The server's log has the reason. Free some memory, set "
            f"{WORKERS_VARIABLE}=1, or point {SCHEDULER_VARIABLE} at a running Dask scheduler."
        ) from error
    return Link(client, host)


class Host:
    """The processes of the embedded cluster, from outside (host.py).

    With `scheduler`, the address of one that somebody else runs: workers for that, whenever it is there.
    """

    def __init__(self, n_workers: int, memory: int, scheduler: str = "") -> None:
        options = asdict(HostOptions(n_workers, memory, ALLOWED_DEATHS, scheduler))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gdm_core.engine.host", json.dumps(options)],
            env=_child_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,  # a terminal's signals are for the server; and what the host has started can be ended without it
        )

    def address(self, timeout: float | None = None) -> str:
        """Where the scheduler listens, as soon as there is a worker; an OSError, which says why, where none can be had."""
        limit = threading.Timer(timeout or 0, self._process.kill)
        if timeout is not None:
            limit.start()
        assert self._process.stdout is not None
        answer = self._process.stdout.readline().strip()
        limit.cancel()
        if answer.startswith(FAILED):
            raise OSError(answer.removeprefix(FAILED))
        if not answer:
            within = "" if timeout is None else f", or had no worker within {timeout:g} s"
            raise OSError(f"their process ended with status {self._process.wait()}{within}")
        return answer

    def wait(self) -> int:
        """Until it has ended by itself; its status."""
        return self._process.wait()

    def close(self, timeout: float = 10.0) -> None:
        """End it, and its workers with it, those too that were stopped."""
        with suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=timeout)  # closes its standard input, and waits
        for how in (signal.SIGTERM, signal.SIGCONT):
            with suppress(ProcessLookupError):  # all have gone
                os.killpg(self._process.pid, how)
        self._process.kill()
        self._process.communicate()


def _child_environment() -> dict[str, str]:
    """For processes that find gdm_core where this one found it, whatever their working directory."""
    root = str(Path(gdm_core.__file__).parent.parent)
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path not in ("", root)]
    return CHILD_SETTINGS | os.environ | {"PYTHONPATH": os.pathsep.join([root, *paths])}


def _check_versions(link: Link) -> None:
    """Load the models on every worker, and refuse a cluster that runs other code than this."""
    try:
        found: dict[str, str] = link.client.run(warm_up)
    except (ImportError, OSError) as error:
        raise FitError(
            f"The workers cannot load gdm_core ({error}). Install this version of it where they run, or put it on their "
            "PYTHONPATH."
        ) from error
    other = {worker: version for worker, version in found.items() if version != code_version()}
    if other:
        worker, version = next(iter(other.items()))
        if link.cluster is not None:
            # Our own children read our own files: somebody has edited them since this server started.
            logger.warning("The code has changed from %s to %s. Restart the server.", code_version(), version)
            return
        raise FitError(
            f"The worker {worker} has gdm_core {version}, this server has {code_version()}. Install the same version on "
            "both, so that results mean the same."
        )
