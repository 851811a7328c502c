"""The engine of a server process: one thread sends jobs to free workers of a Dask cluster.

Waiting jobs stay here: Dask would blame all jobs assigned to a worker for its death, and prefer a busy worker that has the data.
"""

from __future__ import annotations

import atexit
import logging
import pickle
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any

from distributed import Future, KilledWorker

from gdm_core.engine.cache import ResultCache
from gdm_core.engine.cluster import Link, connect
from gdm_core.engine.job import Job, JobStatus
from gdm_core.engine.runner import Runner
from gdm_core.engine.spec import code_version
from gdm_core.errors import ConfigError, FitError

logger = logging.getLogger(__name__)

NO_WORKER_S = 0.5  # a job that has killed its workers reports that first
LOOK_EVERY_S = 0.2  # for workers, while jobs wait or run
LOST = "The workers were lost while the job ran. Try again."
CLOSED = "The engine was closed before the job was done. Start it again."
TOO_BIG = (
    "The worker died each time the job ran, most likely because it needs more memory than a worker has. Use less data or "
    "a smaller model, or give workers more memory (docs/performance.md)."
)
LINK_ERRORS = (OSError, TimeoutError, CancelledError)


@dataclass(frozen=True)
class EngineInfo:
    """Threads of all workers (0 until they are there), and how many jobs wait and run."""

    n_workers: int
    waiting: int
    running: int


class Engine(Runner):
    """Runs fits and functions on a Dask cluster. Close it, or use it in a `with` block."""

    def __init__(self, cache: ResultCache | None = None) -> None:
        super().__init__(cache)
        self._lock = threading.Lock()
        self._waiting: dict[Job, None] = {}
        self._running: dict[Job, str] = {}  # with the worker of each
        self._orders: SimpleQueue[Callable[[Link], None]] = SimpleQueue()  # for the thread
        self._link: Link | None = None
        self._n_workers = 0
        self._news = threading.Event()
        self.closed = False
        self._thread = threading.Thread(target=self._run, name="gdm-engine", daemon=True)
        self._thread.start()

    def _enqueue(self, job: Job) -> None:
        with self._lock:
            if not self.closed:
                self._waiting[job] = None
        if self.closed:
            job.fail(FitError("The engine is closed. Restart the server."))
        self._news.set()

    def _on_end(self, job: Job) -> None:
        with self._lock:
            self._waiting.pop(job, None)
            running = job in self._running
        if running and job.poll().status is JobStatus.CANCELLED:
            self._orders.put(lambda link: link.cancel(job))
            self._news.set()

    # ---- the engine itself --------------------------------------------------------------------------------------
    def start(self) -> Job:
        """Start the workers now; without it, the first job does."""
        return self.submit(code_version, name="start")

    def wait_ready(self, timeout: float = 90.0) -> None:
        """Wait until there are workers; raise FitError or ConfigError if there are none."""
        self.start().result(timeout)

    def info(self) -> EngineInfo:
        with self._lock:
            return EngineInfo(self._n_workers, len(self._waiting), len(self._running))

    def forget(self, session: str) -> None:
        """Cancel the jobs of a session, and drop data that no other session uses."""
        with self._lock:
            jobs = [job for job in (*self._waiting, *self._running) if job.session == session]
        for job in jobs:
            job.cancel()
        self._orders.put(lambda link: link.forget(session))
        self._news.set()

    def close(self) -> None:
        """Stop the workers. Jobs that are not done fail."""
        with self._lock:
            self.closed = True
        self._news.set()
        self._thread.join(20.0)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- the thread ---------------------------------------------------------------------------------------------
    def _run(self) -> None:
        while not self.closed:
            self._safely(self._send_jobs)
            self._news.wait(LOOK_EVERY_S if self._waiting or self._running else None)
            self._news.clear()
        self._safely(self._stop_running)
        self._fail(FitError(CLOSED))
        self._drop_link()

    def _safely(self, work: Callable[[], None]) -> None:
        try:
            work()
        except LINK_ERRORS as error:
            logger.warning("The connection to the cluster broke: %s", error)
            self._drop_link()
        except Exception as error:  # the thread serves everybody, and must go on
            logger.exception("The engine failed.")
            self._fail(FitError(f"The workers were lost ({error}). Try again."))
            self._drop_link()

    def _send_jobs(self) -> None:
        if self._link is not None and not self._link.alive:
            self._drop_link()
        if self._link is None and self._waiting:
            try:
                self._link = connect(self._on_event)
            except (FitError, ConfigError) as error:
                self._fail(error)
        link = self._link
        while not self._orders.empty():
            order = self._orders.get()
            if link is not None:
                order(link)
        while link is not None and (worker := self._free_worker(link)) and (job := self._take(worker)):
            self._send(link, job, [worker] if self._n_workers > 1 else [])

    def _stop_running(self) -> None:
        """Cancel the running jobs, for workers that live on."""
        if self._link is not None:
            for job in list(self._running):
                self._link.cancel(job)

    def _take(self, worker: str) -> Job | None:
        """Return the waiting job that comes next, which is for `worker` now."""
        with self._lock:
            job = max(self._waiting, key=lambda job: (job.priority, -job.number), default=None)
            if job is not None:
                del self._waiting[job]
                self._running[job] = worker
        return job

    def _free_worker(self, link: Link) -> str | None:
        threads = link.client.nthreads()
        self._n_workers = sum(threads.values())
        now = time.monotonic()
        if threads or not self._running:
            link.seen = now
        elif link.pins and now - link.seen > NO_WORKER_S:
            raise OSError("all workers have died")
        with self._lock:
            busy = Counter(self._running.values())
        free = {worker: n - busy[worker] for worker, n in threads.items()}
        best = max(free, key=lambda worker: free[worker], default=None)
        return best if best is not None and free[best] > 0 else None

    def _send(self, link: Link, job: Job, workers: list[str]) -> None:
        try:
            future = link.send(job, workers)
        except (TypeError, ValueError, AttributeError, pickle.PicklingError) as error:
            job.fail(FitError(f"The job cannot be sent to a worker ({error}). Give it a function of a module."))
            self._free(job)
        else:
            future.add_done_callback(partial(self._on_done, job))

    def _free(self, job: Job) -> None:
        with self._lock:
            self._running.pop(job, None)
        self._news.set()

    def _drop_link(self) -> None:
        """Fail the running jobs, and let the cluster go; the next job starts or joins a new one."""
        link, self._link = self._link, None
        with self._lock:
            lost, self._running, self._n_workers = list(self._running), {}, 0
        for job in lost:
            job.fail(FitError(LOST))
        if link is not None:
            link.close()

    def _fail(self, error: Exception) -> None:
        """Fail all jobs."""
        with self._lock:
            jobs = [*self._waiting, *self._running]
        for job in jobs:
            job.fail(error)

    # ---- on threads of Dask -------------------------------------------------------------------------------------
    def _on_event(self, event: Mapping[str, Any]) -> None:
        with self._lock:
            job = next((job for job in self._running if job.id == event["job"]), None)
            if job is not None:
                self._running[job] = event["worker"]
        if job is not None:
            job.apply(event)

    def _on_done(self, job: Job, future: Future) -> None:
        try:
            done, value = future.result()
            if done:
                self._keep(job, value)
                job.succeed(value)
            elif value is None:
                job.cancel()
            else:
                job.fail(value)
        except KilledWorker:
            job.fail(FitError(TOO_BIG))
        except CancelledError:
            job.fail(FitError(LOST))
        except Exception as error:  # a bug on the worker travels as itself
            logger.exception("A job ended unexpectedly.")
            failure = FitError(f"The job ended with an unexpected {type(error).__name__}: {error}")
            failure.__cause__ = error
            job.fail(failure)
        finally:
            self._free(job)


_engine: Engine | None = None
_engine_lock = threading.Lock()


def get_engine() -> Engine:
    """Return the engine of this process. Its workers start with the first job."""
    global _engine
    with _engine_lock:
        if _engine is None or _engine.closed:
            _engine = Engine()
            atexit.register(_engine.close)
        return _engine
