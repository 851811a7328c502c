"""The engine that pages and grids use: one per server process. One thread sends jobs to free workers of a Dask cluster.

Waiting jobs stay here, because Dask blames every job on a worker that dies, and prefers the worker that has the data to a free one.
"""

from __future__ import annotations

import atexit
import logging
import pickle
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from typing import Any

from distributed import Future, KilledWorker

from gdm_core.engine.cache import ResultCache, call_key
from gdm_core.engine.cluster import Link, connect
from gdm_core.engine.job import Bulk, Call, Job, JobStatus, Priority, Progress
from gdm_core.engine.spec import FitSpec
from gdm_core.errors import ConfigError, FitError

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 0.2  # for free workers, while jobs wait
MAX_BULKS_KEPT = 32
LOST = "The workers were lost while the job ran. Try again."
CLOSED = "The engine was closed before the job was done. Start it again."
TOO_BIG = (
    "The worker died each time the job ran, most likely because it needs more memory than a worker has. Use less data or "
    "a smaller model, or give workers more memory (docs/performance.md)."
)
LINK_ERRORS = (OSError, TimeoutError, CancelledError)


@dataclass(frozen=True)
class EngineInfo:
    """The engine at one moment.

    n_workers  threads of all workers, 0 until they are there
    trouble    why there are no workers, if they could not be started
    """

    n_workers: int
    waiting: int
    running: int
    trouble: str


class Engine:
    """Runs fits and calls on a cluster. Close it, or use it in a `with` block."""

    def __init__(self, cache: ResultCache | None = None) -> None:
        self.cache = cache or ResultCache()
        self._lock = threading.Lock()
        self._waiting: dict[Job, None] = {}
        self._running: dict[Job, str] = {}  # with the worker of each
        self._orders: SimpleQueue[Callable[[Link], None]] = SimpleQueue()  # for the thread
        self._bulks: OrderedDict[str, Bulk] = OrderedDict()
        self._link: Link | None = None
        self._n_workers = 0
        self._trouble: FitError | ConfigError | None = None
        self._wanted = self._closed = False
        self._ready, self._news = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="gdm-engine", daemon=True)
        self._thread.start()

    # ---- jobs ---------------------------------------------------------------------------------------------------
    def submit(
        self,
        work: FitSpec | Callable[..., Any],
        *args: Any,
        session: str = "",
        name: str = "",
        priority: Priority | None = None,
        deadline_s: float = 60.0,
        cached_as: str = "",
    ) -> Job:
        """Run a fit, or `work(*args)`, on a worker.

        session     whose data and jobs `forget` drops
        name        label of the job
        priority    HIGH for a fit and NORMAL for a function, unless given
        deadline_s  of a function, checked where it yields or calls `checkpoint`; a fit has its own
        cached_as   names all that a function's result depends on: the result, which JSON must hold, is kept on disk
        """
        if isinstance(work, FitSpec):
            job = Job(work, session, name or "fit", _or(priority, Priority.HIGH), self._on_end)
            if work.use_cache and self._find_fit(work, job):
                return job
        else:
            call = Call(work, args, deadline_s, call_key(work, cached_as) if cached_as else None)
            job = Job(call, session, name or work.__name__, _or(priority, Priority.NORMAL), self._on_end)
            known, value = self.cache.get_value(call.cache_key) if call.cache_key else (False, None)
            if known:
                job.succeed(value)
                return job
        self._enqueue(job)
        return job

    def _find_fit(self, spec: FitSpec, job: Job) -> bool:
        """End the job with the cached result, if there is one."""
        result, note = self.cache.get(spec.key)
        if note:
            job.note(note)
        if result is None:
            return False
        fits = result.snapshot is not None and result.snapshot.preview == spec.preview
        job.succeed(replace(result, snapshots=result.snapshots if fits else (), from_cache=True))
        return True

    def map(
        self,
        function: Callable[..., Any],
        items: Mapping[str, tuple[Any, ...]],
        *,
        session: str,
        key: str,
        deadline_s: float = 600.0,
        cached: bool = True,
        progress: Progress | None = None,
    ) -> Bulk:
        """Run `function(*args)` for each item at low priority; return the running or finished Bulk of that key, if any.

        With `cached`, items must name all that a result depends on, and JSON must hold the results: they are kept on disk.
        """
        calls = {
            item: Call(function, args, deadline_s, call_key(function, item) if cached else None)
            for item, args in items.items()
        }
        with self._lock:
            known = self._bulks.get(key)
            if known is not None and known.reusable:
                return known
            bulk = self._bulks[key] = Bulk(calls, progress)
            self._bulks.move_to_end(key)
            for name in [name for name, one in self._bulks.items() if one.ended][:-MAX_BULKS_KEPT]:
                del self._bulks[name]
        for item, call in calls.items():
            self._add_to(bulk, item, call, session)
        return bulk

    def _add_to(self, bulk: Bulk, item: str, call: Call, session: str) -> None:
        def on_end(job: Job) -> None:
            self._on_end(job)
            bulk.take(item, job)

        job = Job(call, session, call.function.__name__, Priority.LOW, on_end)
        bulk.add(job)
        known, value = self.cache.get_value(call.cache_key) if call.cache_key else (False, None)
        if known:
            job.succeed(value)
        else:
            self._enqueue(job)

    def bulk(self, key: str) -> Bulk | None:
        """Return the Bulk of that key, for a page that comes back to it."""
        with self._lock:
            return self._bulks.get(key)

    def _enqueue(self, job: Job) -> None:
        with self._lock:
            closed = self._closed
            if not closed:
                self._waiting[job] = None
        if closed:
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
    def start(self) -> None:
        """Start the workers now; without it, the first job does."""
        self._wanted = True
        self._news.set()

    def wait_ready(self, timeout: float = 90.0) -> None:
        """Wait until there are workers; raise FitError or ConfigError if there are none."""
        self.start()
        if not self._ready.wait(timeout):
            raise FitError(f"The workers are not ready after {timeout:g} s. The server's log may say why.")
        if self._trouble is not None:
            raise self._trouble

    def info(self) -> EngineInfo:
        with self._lock:
            trouble = "" if self._trouble is None else str(self._trouble)
            return EngineInfo(self._n_workers, len(self._waiting), len(self._running), trouble)

    def forget(self, session: str) -> None:
        """Cancel the jobs of a session, and drop data that no other session uses."""
        with self._lock:
            jobs = [job for job in (*self._waiting, *self._running) if job.session == session]
        for job in jobs:
            job.cancel()
        self._orders.put(lambda link: link.forget(session))
        self._news.set()

    @property
    def running(self) -> bool:
        return not self._closed

    def close(self) -> None:
        """Stop the workers. Jobs that are not done fail."""
        with self._lock:
            self._closed = True
        self._news.set()
        self._thread.join(20.0)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- the thread ---------------------------------------------------------------------------------------------
    def _run(self) -> None:
        while not self._closed:
            try:
                self._send_jobs()
            except LINK_ERRORS as error:
                logger.warning("The connection to the cluster broke: %s", error)
                self._drop_link()
            self._news.wait(LOOK_EVERY_S if self._waiting else None)
            self._news.clear()
        self._shut_down()

    def _shut_down(self) -> None:
        with self._lock:
            running = list(self._running)
        self._fail_all(FitError(CLOSED))
        try:
            for job in running:
                if self._link is not None:  # workers of a cluster that lives on
                    self._link.cancel(job)
        except LINK_ERRORS as error:
            logger.info("Running jobs could not be stopped: %s", error)
        self._drop_link()

    def _send_jobs(self) -> None:
        if self._link is not None and not self._link.alive:
            self._drop_link()
        if self._link is None and (self._waiting or self._wanted):
            self._connect()
        link = self._link
        while not self._orders.empty():
            order = self._orders.get()
            if link is not None:
                order(link)
        while link is not None and (worker := self._free_worker(link)) and (job := self._take(worker)):
            self._send(link, job, worker)

    def _connect(self) -> None:
        try:
            self._link, self._trouble = connect(self._on_event), None
        except (FitError, ConfigError) as error:
            self._trouble = error
            self._fail_all(error)
        self._wanted = False
        self._ready.set()

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
        with self._lock:
            busy = Counter(self._running.values())
        free = {worker: n - busy[worker] for worker, n in threads.items()}
        best = max(free, key=lambda worker: free[worker], default=None)
        return best if best is not None and free[best] > 0 else None

    def _send(self, link: Link, job: Job, worker: str) -> None:
        try:
            future = link.send(job, worker)
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
        self._ready.clear()
        with self._lock:
            lost, self._running, self._n_workers = list(self._running), {}, 0
        for job in lost:
            job.fail(FitError(LOST))
        if link is not None:
            link.close()

    def _fail_all(self, error: Exception) -> None:
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

    def _keep(self, job: Job, value: Any) -> None:
        """Write a result to the cache; a disk that is full costs a note."""
        note = ""
        if isinstance(job.work, FitSpec):
            note = self.cache.put(value) if job.work.use_cache else ""
        elif job.work.cache_key is not None:
            note = self.cache.put_value(job.work.cache_key, value)
        if note:
            job.note(note)


def _or(priority: Priority | None, default: Priority) -> Priority:
    return default if priority is None else priority


_engine: Engine | None = None
_engine_lock = threading.Lock()


def get_engine() -> Engine:
    """Return the engine of this process. Its workers start with the first job."""
    global _engine
    with _engine_lock:
        if _engine is None or not _engine.running:
            _engine = Engine()
            atexit.register(_engine.close)
        return _engine
