"""The Dask cluster that runs jobs: embedded worker processes, or an existing cluster."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import pickle
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError
from concurrent.futures import Future as Received
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import dask
from dask.system import CPU_COUNT
from dask.utils import parse_bytes
from distributed import Client, Event, Future, WorkerPlugin
from distributed.deploy.spec import SpecCluster
from distributed.deploy.subprocess import SubprocessCluster
from distributed.system import MEMORY_LIMIT
from tornado.platform.asyncio import BaseAsyncIOLoop

import gdm_core
from gdm_core.engine.job import Job, is_below
from gdm_core.engine.preload import SERVER_VARIABLE
from gdm_core.engine.spec import FitSpec, code_version
from gdm_core.engine.worker import fit, run, warm_up
from gdm_core.errors import ConfigError, FitError
from gdm_core.trials import Trials

SCHEDULER_VARIABLE = "GDM_SCHEDULER"
WORKERS_VARIABLE = "GDM_WORKERS"
MEMORY_VARIABLE = "GDM_WORKER_MEMORY"
PRELOAD = "gdm_core.engine.preload"

logger = logging.getLogger(__name__)

GIBIBYTE = 2**30
JOIN_TIMEOUT_S = 30.0
START_TIMEOUT_S = 60.0  # for the first worker
MIN_MEMORY = GIBIBYTE  # per worker: twice the size of torch and the models
MAX_MEMORY = 4 * GIBIBYTE
ALLOWED_FAILURES = 1  # worker deaths that data survive while a worker unpacks them
DATA_BYTES = 512 * 2**20
DATA_SHARE = 8  # data takes at most an eighth of a worker's memory

CHILD_SETTINGS = {
    # Connections log recent messages, which hold uploaded data: log one, not 1,000.
    "DASK_DISTRIBUTED__ADMIN__LOW_LEVEL_LOG_LENGTH": "1",
    "DASK_LOGGING__DISTRIBUTED": "warning",
    # Uploads must stay in memory, also when a worker is nearly full.
    "DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "False",
    "DASK_DISTRIBUTED__WORKER__MEMORY__SPILL": "False",
    # A paused worker would never free memory. At its limit, the nanny restarts it.
    "DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE": "False",
    # Suspending a laptop or adjusting its clock must not end all workers.
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "None",
}


class WarmUp(WorkerPlugin):
    """Loads torch and the models on each new or restarted worker."""

    name = "gdm-warm-up"

    def setup(self, worker: Any) -> None:
        warm_up()


@dataclass
class Link:
    """A connection to a running cluster.

    memory  memory limit of the smallest worker; 0 without a limit
    seen    last time with a worker, or without jobs
    """

    client: Client
    cluster: SpecCluster | None = None
    memory: int = 0
    seen: float = field(default_factory=time.monotonic)
    topic: str = field(default_factory=lambda: f"gdm-{uuid4().hex[:12]}")
    _data: OrderedDict[str, tuple[Future[Any], int]] = field(default_factory=OrderedDict)
    _users: dict[str, set[str]] = field(default_factory=dict)

    @property
    def alive(self) -> bool:
        return bool(self.client.status == "running")

    def send(self, job: Job, name: str, worker: str) -> tuple[Future[Any], Received[Any]]:
        """Submit a job to a worker under a name; return its task and its result. Each dataset is sent once."""
        work = job.work
        function: Callable[..., Any]
        if isinstance(work, FitSpec):
            function, args = (
                fit,
                (work.trials, work.test, work.key, work.family, dict(work.config), work.preview, job.known),
            )
        else:
            function, args = work.function, work.args
        pickle.dumps((function, [arg for arg in args if not isinstance(arg, Trials)]))
        there = [self._place(arg, job.session) if isinstance(arg, Trials) else arg for arg in args]
        how = {"key": f"{job.name}-{name}", "retries": 0, "workers": [worker]}
        task = self.client.submit(run, name, self.topic, function, *there, **how)

        async def receive() -> Any:
            return await self.client.gather(task, asynchronous=True)

        loop = cast(BaseAsyncIOLoop, self.client.loop).asyncio_loop
        return task, asyncio.run_coroutine_threadsafe(receive(), loop)

    def workers(self) -> dict[str, Any]:
        """Return what the scheduler knows of each worker."""
        # Not `client.scheduler_info`: its answer may be overwritten by the periodic one, which names no workers.
        return dict(self.client.sync(self.client.scheduler.identity, n_workers=-1)["workers"])

    def cancel(self, name: str) -> None:
        """Tell the worker to stop a job at its next step."""
        Event(name, self.client).set()

    def _place(self, trials: Trials, session: str) -> Future[Any]:
        """Return the trials on the cluster; drop the least recently used ones if they exceed the limit."""
        # Error messages contain the names of trials, so the names are part of the key.
        names = repr((trials.name, [trial.name for trial in trials]))
        name = f"{trials.fingerprint}-{hashlib.sha256(names.encode()).hexdigest()[:8]}"
        self._users.setdefault(name, set()).add(session)
        future, _ = self._data.get(name, (None, 0))
        if future is not None and future.status in ("pending", "finished"):
            self._data.move_to_end(name)
            return future
        payload = pickle.dumps(trials, protocol=5)
        limit = min(DATA_BYTES, self.memory // DATA_SHARE) if self.memory else DATA_BYTES
        # While they are unpacked, they need twice the memory.
        while self._data and sum(size for _, size in self._data.values()) + 2 * len(payload) > limit:
            self._drop(next(iter(self._data)))
        # The scheduler keeps the argument of a task, so the data survive the death of a worker.
        future = self.client.submit(pickle.loads, payload, key=f"trials-{uuid4().hex}")
        self._data[name] = (future, len(payload))
        return future

    def forget(self, session: str) -> None:
        """Drop trials that only this session and those below it used; running jobs keep theirs until they end."""
        for name, users in list(self._users.items()):
            users -= {user for user in users if is_below(user, session)}
            if not users:
                self._drop(name)

    def _drop(self, name: str) -> None:
        self._users.pop(name, None)
        self._data.pop(name, None)  # the last reference to its future: Dask deletes the data

    def close(self, running: Iterable[str] = ()) -> None:
        """Cancel jobs that still run on an external cluster, and disconnect."""
        try:
            if self.alive:
                for name in running:
                    self.cancel(name)
            self.client.close(timeout=2)
            if self.cluster is not None:
                self.cluster.close(timeout=2)
        except (OSError, TimeoutError, CancelledError) as error:
            logger.info("The connection to the cluster did not close in time: %s", error)


def connect(on_event: Callable[[Mapping[str, Any]], None]) -> Link:
    """Join the cluster at GDM_SCHEDULER, or start one. `on_event` receives events of jobs."""
    # Data are sent as arguments of tasks (Link._place).
    dask.config.set({"distributed.admin.large-graph-warning-threshold": "4GB"})
    dask.config.set({"distributed.admin.low-level-log-length": 1})
    address = os.environ.get(SCHEDULER_VARIABLE, "").strip()
    link, message = _join(address) if address else _start()
    try:
        link.client.wait_for_workers(1, timeout=START_TIMEOUT_S)
        _check_versions(link)
    except TimeoutError as error:
        link.close()
        raise FitError(message) from error
    except FitError:
        link.close()
        raise
    link.memory = min((int(worker["memory_limit"] or 0) for worker in link.workers().values()), default=0)
    link.client.subscribe_topic(link.topic, lambda event: on_event(event[1]))
    return link


def worker_count() -> int:
    """Return the number of embedded workers: GDM_WORKERS, or one per core with enough memory."""
    text = os.environ.get(WORKERS_VARIABLE, "").strip()
    if not text:
        return int(max(1, min(CPU_COUNT, MEMORY_LIMIT // MIN_MEMORY)))
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"{WORKERS_VARIABLE} is {text!r}; it must be a whole number of worker processes, 1 or more.")
    return int(text)


def worker_memory(n_workers: int) -> int:
    """Return the memory limit of a worker in bytes: GDM_WORKER_MEMORY, or a share of the machine."""
    text = os.environ.get(MEMORY_VARIABLE, "").strip()
    if text:
        return parse_size(text, MEMORY_VARIABLE)
    return int(min(MAX_MEMORY, 0.7 * MEMORY_LIMIT / n_workers))


def parse_size(text: str, name: str) -> int:
    """Return the size that the variable or option `name` is set to, in bytes."""
    try:
        return int(parse_bytes(text))
    except ValueError as error:
        raise ConfigError(f"{name} is {text!r}; write a size such as '2 GiB'.") from error


def child_environment() -> dict[str, str]:
    """Return the environment of cluster processes, with this gdm_core on PYTHONPATH."""
    root = str(Path(gdm_core.__file__).parent.parent)
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path not in ("", root)]
    own = {"PYTHONPATH": os.pathsep.join([root, *paths]), SERVER_VARIABLE: str(os.getpid())}
    return {name: os.environ.get(name, value) for name, value in CHILD_SETTINGS.items()} | own


def _join(address: str) -> tuple[Link, str]:
    """Return a connection, and the message for a cluster without workers."""
    try:
        client = Client(address, timeout=JOIN_TIMEOUT_S, set_as_default=False, name="gdm-studio")
    except (OSError, TimeoutError, ValueError) as error:
        raise FitError(
            f"No scheduler answers at {SCHEDULER_VARIABLE}={address} ({error}). Start one with `dask scheduler`, correct the "
            "address, or remove the variable to use this machine's own processors."
        ) from error
    return Link(client), f"The scheduler at {address} has no workers. Start some with `gdm workers {address}`."


def _start() -> tuple[Link, str]:
    n_workers = worker_count()
    os.environ.update(child_environment())  # SubprocessCluster passes it on
    message = (
        f"The worker processes could not be started. The server's log has the reason. Free some memory, set "
        f"{WORKERS_VARIABLE}=1, or point {SCHEDULER_VARIABLE} at a running Dask scheduler."
    )
    try:
        cluster = SubprocessCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            dashboard_address=None,  # type: ignore[arg-type]  # documented: None disables it
            scheduler_kwargs={"allowed_failures": ALLOWED_FAILURES, "preload": [PRELOAD]},
            worker_kwargs={"memory_limit": worker_memory(n_workers), "preload_nanny": [PRELOAD]},
        )
        return Link(Client(cluster, timeout=JOIN_TIMEOUT_S, set_as_default=False, name="gdm-studio"), cluster), message
    except (OSError, TimeoutError, RuntimeError) as error:
        raise FitError(f"{message} ({error})") from error


def _check_versions(link: Link) -> None:
    """Load the models on all workers; raise FitError if their code differs from this server's."""
    try:
        found: dict[str, str] = link.client.run(code_version)
        link.client.register_plugin(WarmUp())
    except (ImportError, OSError) as error:
        raise FitError(
            f"The workers cannot load gdm_core ({error}). Install this version of it where they run, or put it on their "
            "PYTHONPATH."
        ) from error
    other = {worker: version for worker, version in found.items() if version != code_version()}
    if not other:
        return
    worker, version = next(iter(other.items()))
    if link.cluster is None:
        raise FitError(
            f"The worker {worker} has gdm_core {version}, this server has {code_version()}. Install the same version on both."
        )
    logger.warning("The code on disk has changed from %s to %s. Restart the server.", code_version(), version)
