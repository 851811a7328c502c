"""The engine of a server process: one thread sends jobs to free workers of a Dask cluster.

Waiting jobs stay here: Dask would blame all jobs assigned to a worker for its death, and prefer a busy worker that has the data.
Each job is sent to one free worker. Dask never runs it elsewhere, so the engine sends the jobs of a dead worker again.
"""

from __future__ import annotations

import atexit
import logging
import os
import pickle
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from concurrent.futures import Future as Received
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any

from distributed import Future, KilledWorker
from distributed.comm import CommClosedError

from gdm_core.engine.cache import ResultCache
from gdm_core.engine.cluster import START_TIMEOUT_S, Link, connect
from gdm_core.engine.job import Job, JobStatus, Priority, is_below
from gdm_core.engine.runner import Runner
from gdm_core.engine.spec import code_version
from gdm_core.errors import ConfigError, FitError
from gdm_core.text import plural

logger = logging.getLogger(__name__)

POLL_S = 0.2  # interval between checks for workers while there are jobs
ALLOWED_DEATHS = 1  # of workers that had begun a job
MAX_ATTEMPTS = 5  # of a job whose workers die before they report that they have begun
RECENT_S = 300.0  # age of times that estimates use
RESERVED_S = 60.0  # after a visitor's fit, while grids of others leave them a worker
LOST = "The workers were lost while the job ran. Try again."
CLOSED = "The engine was closed before the job was done. Start it again."
TOO_BIG = (
    "The worker died each time the job ran, most likely because it needs more memory than a worker has. Use less data or "
    "a smaller model, or give workers more memory (docs/performance.md)."
)
LINK_ERRORS = (OSError, TimeoutError, CancelledError)


@dataclass
class Attempt:
    """A job on one worker. `received` ends with its result once that has arrived here."""

    id: str
    worker: str
    task: Future[Any] | None = None
    received: Received[Any] | None = None
    has_begun: bool = False
    sent_at: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class EngineInfo:
    """Threads of all workers (0 before they start), waiting jobs, running jobs, and how slow work was lately.

    slowdown   recent time of jobs by their expected time on a quiet machine
    """

    n_workers: int
    waiting: int
    running: int
    slowdown: float = 1.0


class Engine(Runner):
    """Runs fits and functions on a Dask cluster. Close it, or use it in a `with` block."""

    def __init__(self, cache: ResultCache | None = None) -> None:
        super().__init__(cache)
        self._lock = threading.Lock()
        self._waiting: dict[Job, None] = {}
        self._running: dict[Job, Attempt] = {}
        self._orders: SimpleQueue[Callable[[Link], None]] = SimpleQueue()
        self._link: Link | None = None
        self._n_workers = 0
        self._times: deque[tuple[float, float, float]] = deque(maxlen=100)  # end, seconds, expected seconds
        self._fitted: dict[str, float] = {}  # visitor -> last time at which they waited for a fit
        self._wake = threading.Event()
        self.closed = False
        self._thread = threading.Thread(target=self._run, name="gdm-engine", daemon=True)
        self._thread.start()

    def _enqueue(self, job: Job) -> None:
        with self._lock:
            if not self.closed:
                self._waiting[job] = None
                job.explain = self._explain
        if self.closed:
            job.fail(FitError("The engine is closed. Restart the server."))
        self._wake.set()

    def _on_end(self, job: Job) -> None:
        with self._lock:
            self._waiting.pop(job, None)
            attempt = self._running.get(job)
        if attempt is not None and job.poll().status is JobStatus.CANCELLED:
            self._orders.put(lambda link: link.cancel(attempt.id))
            self._wake.set()

    # ---- lifetime -----------------------------------------------------------------------------------------------
    def start(self) -> Job:
        """Start the workers before the first job; the job ends when they are ready."""
        return self.submit(code_version, name="start")

    def info(self) -> EngineInfo:
        with self._lock:
            recent = [times for end, *times in self._times if time.monotonic() - end < RECENT_S]
            waiting, running = len(self._waiting), len(self._running)
        load = os.getloadavg()[1] / (os.cpu_count() or 1)
        slowdown = sum(took for took, _ in recent) / sum(usual for _, usual in recent) if recent else max(1.0, load)
        return EngineInfo(self._n_workers, waiting, running, slowdown)

    def forget(self, session: str) -> None:
        """Cancel the jobs of a session and of those below it ("a" is above "a/b"), and drop data that no other uses."""
        with self._lock:
            jobs = [job for job in (*self._waiting, *self._running) if is_below(job.session, session)]
        for job in jobs:
            job.cancel()
        self.cache.forget(session)
        self._orders.put(lambda link: link.forget(session))
        self._wake.set()

    def close(self) -> None:
        """Stop the workers. Unfinished jobs fail."""
        with self._lock:
            self.closed = True
        self._wake.set()
        self._thread.join(20.0)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- the thread ---------------------------------------------------------------------------------------------
    def _run(self) -> None:
        while not self.closed:
            try:
                self._send_jobs()
            except LINK_ERRORS as error:
                logger.warning("The connection to the cluster broke: %s", error)
                self._drop_link(LOST)
            except Exception as error:  # a bug must not end the thread, which serves all visitors
                logger.exception("The engine failed.")
                self._drop_link(LOST)
                self._fail_waiting(FitError(f"The engine failed ({error}). Try again."))
            self._wake.wait(POLL_S if self._waiting or self._running else None)
            self._wake.clear()
        self._drop_link(CLOSED)
        self._fail_waiting(FitError(CLOSED))

    def _send_jobs(self) -> None:
        if self._link is not None and not self._link.alive:
            self._drop_link(LOST)
        if self._link is None and self._waiting:
            try:
                self._link = connect(self._on_event)
            except (FitError, ConfigError) as error:
                self._fail_waiting(error)
        link = self._link
        while not self._orders.empty():
            order = self._orders.get()
            if link is not None:
                order(link)
        if link is None:
            return
        workers = link.workers()
        # A new worker is registered before it has loaded the models.
        threads = {address: worker["nthreads"] for address, worker in workers.items() if worker["status"] == "running"}
        self._n_workers = sum(threads.values())
        if workers or not (self._waiting or self._running):
            link.seen = time.monotonic()
        elif time.monotonic() - link.seen > START_TIMEOUT_S:
            raise OSError("there are no workers")
        self._queue_lost_jobs(workers)
        while (worker := self._find_free_worker(threads)) and (sent := self._take_next(worker)):
            job, attempt = sent
            try:
                attempt.task, attempt.received = link.send(job, attempt.id, worker)
            except (TypeError, ValueError, AttributeError, pickle.PicklingError) as error:
                job.fail(FitError(f"The job cannot be sent to a worker ({error}). Give it a function of a module."))
                self._put_back(job)
            else:
                attempt.received.add_done_callback(partial(self._on_received, job, attempt))

    def _find_free_worker(self, threads: Mapping[str, int]) -> str | None:
        with self._lock:
            busy = Counter(attempt.worker for attempt in self._running.values())
        free = {worker: n - busy[worker] for worker, n in threads.items()}
        best = max(free, key=lambda worker: free[worker], default=None)
        return best if best is not None and free[best] > 0 else None

    def _take_next(self, worker: str) -> tuple[Job, Attempt] | None:
        """Assign the first job of the highest priority to `worker`."""
        with self._lock:
            job = max(self._waiting, key=_rank, default=None)
            if job is None or (job.priority < Priority.NORMAL and self._is_reserved(job)):
                return None
            if job.priority > Priority.NORMAL:
                self._fitted[_visitor(job)] = time.monotonic()
            del self._waiting[job]
            job.attempts += 1
            self._running[job] = attempt = Attempt(f"{job.id}-{job.attempts}", worker)
        return job, attempt

    def _is_reserved(self, job: Job) -> bool:
        """Return whether the only free thread is kept for another visitor, who has fitted in the last minute."""
        now = time.monotonic()
        self._fitted = {name: when for name, when in self._fitted.items() if now - when < RESERVED_S}
        others = self._fitted.keys() - {_visitor(job)}
        return bool(others) and 1 < self._n_workers == len(self._running) + 1

    def _explain(self, job: Job) -> str:
        """Return what an unfinished job waits for, in words."""
        with self._lock:
            if job in self._running:
                return "its worker is busy and has not reported for a while"
            if not self._n_workers:
                return "waiting for a free processor"
            ahead = len(self._running) + sum(_rank(other) > _rank(job) for other in self._waiting)
        return f"waiting for {plural(ahead, 'other job')}"

    def _queue_lost_jobs(self, workers: Mapping[str, Any]) -> None:
        """Queue the jobs of dead workers again, unless they seem to be the reason."""
        with self._lock:
            running = list(self._running.items())
        for job, attempt in running:
            if attempt.worker in workers or attempt.received is None or attempt.received.done():
                continue
            if attempt.task is not None:
                attempt.task.cancel()
            job.deaths += attempt.has_begun
            if job.deaths > ALLOWED_DEATHS or job.attempts >= MAX_ATTEMPTS:
                job.fail(FitError(TOO_BIG))
            self._put_back(job)

    def _put_back(self, job: Job) -> None:
        """Take a job from its worker, and queue it again unless it has ended."""
        with self._lock:
            self._running.pop(job, None)
            if not job.ended:
                self._waiting[job] = None
        self._wake.set()

    def _receive(self, job: Job, attempt: Attempt) -> None:
        """End a job with the result of its attempt."""
        with self._lock:
            current = self._running.get(job) is attempt
        if not current or attempt.received is None:
            return
        try:
            done, value = attempt.received.result(0)
            if done:
                if job.usual_s:
                    now = time.monotonic()
                    self._times.append((now, now - attempt.sent_at, job.usual_s))
                self._keep(job, value)
                job.succeed(value)
            elif value is None:
                job.cancel()
            else:
                job.fail(value)
        except KilledWorker:  # while its data were unpacked; Dask counts two workers that die at once twice
            job.deaths += 1
            if job.deaths > ALLOWED_DEATHS:
                job.fail(FitError(TOO_BIG))
        except (CancelledError, CommClosedError):  # the scheduler is lost
            if attempt.has_begun:
                job.fail(FitError(LOST))
        except Exception as error:  # a bug in the function
            logger.exception("A job ended unexpectedly.")
            failure = FitError(f"The job ended with an unexpected {type(error).__name__}: {error}")
            failure.__cause__ = error
            job.fail(failure)
        finally:
            self._put_back(job)

    def _drop_link(self, message: str) -> None:
        """Disconnect, and fail the jobs that had begun; the next job starts or joins a new cluster."""
        link, self._link = self._link, None
        with self._lock:
            lost, self._n_workers = list(self._running.items()), 0
        for job, attempt in lost:
            if self.closed or attempt.has_begun or job.attempts >= MAX_ATTEMPTS:
                job.fail(FitError(message))
            self._put_back(job)
        if link is not None:
            link.close([attempt.id for _, attempt in lost] if self.closed else [])

    def _fail_waiting(self, error: Exception) -> None:
        with self._lock:
            jobs = list(self._waiting)
        for job in jobs:
            job.fail(error)

    # ---- on threads of Dask -------------------------------------------------------------------------------------
    def _on_event(self, event: Mapping[str, Any]) -> None:
        with self._lock:
            found = [(job, attempt) for job, attempt in self._running.items() if attempt.id == event["job"]]
        for job, attempt in found:
            attempt.has_begun = True
            job.apply(event)

    def _on_received(self, job: Job, attempt: Attempt, _: Received[Any]) -> None:
        self._orders.put(lambda link: self._receive(job, attempt))
        self._wake.set()


def _rank(job: Job) -> tuple[int, int]:
    """Return a value that is higher for jobs that come first."""
    return job.priority, -job.number


def _visitor(job: Job) -> str:
    return job.session.partition("/")[0]


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
