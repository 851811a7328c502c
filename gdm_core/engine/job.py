"""Jobs as their owners see them: a fit or call, and many calls under one name."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Any
from uuid import uuid4

from gdm_core.engine.estimate import Estimate
from gdm_core.engine.results import MAX_SNAPSHOTS, FitResult, Snapshot, thin
from gdm_core.engine.spec import FitSpec, require_for_workers
from gdm_core.errors import FitError

logger = logging.getLogger(__name__)

MAX_HISTORY = 500
RESTARTED = "The worker that ran it stopped. The job was started again."
# Several servers may share a cluster, so a number alone names no job.
_process = uuid4().hex[:8]
_numbers = itertools.count(1)


class Priority(IntEnum):
    """Order in which waiting jobs get a worker; a job that runs is never interrupted."""

    LOW = -1
    NORMAL = 0
    HIGH = 1


class JobStatus(StrEnum):
    """State of a job. The last three are final."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        return self in (JobStatus.DONE, JobStatus.FAILED, JobStatus.CANCELLED)


@dataclass(frozen=True)
class JobView:
    """A job at one moment.

    found   last partial value of a function that yields
    result  a FitResult, or what the function returned
    """

    status: JobStatus
    step: int = 0
    total: int = 0
    steps: tuple[int, ...] = ()
    elbos: tuple[float, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    seconds: float = 0.0
    message: str = ""
    notes: tuple[str, ...] = ()
    found: Any = None
    result: Any = None

    @property
    def snapshot(self) -> Snapshot | None:
        """The latest one."""
        return self.snapshots[-1] if self.snapshots else None


@dataclass(frozen=True, eq=False)
class Call:
    """A function to run on a worker. `cache_key` names its result on disk, if JSON can hold that."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    deadline_s: float
    cache_key: str | None = None

    def __post_init__(self) -> None:
        name = getattr(self.function, "__qualname__", repr(self.function))
        require_for_workers(getattr(self.function, "__module__", ""), name)
        if not self.deadline_s > 0:
            raise FitError(f"deadline_s is {self.deadline_s}; it must be a positive number of seconds.")


class Job:
    """A fit or call on the engine. Every method but `wait` and `result` returns at once, on any thread."""

    def __init__(
        self, work: FitSpec | Call, session: str, name: str, priority: Priority, on_end: Callable[[Job], None]
    ) -> None:
        self.number = next(_numbers)
        self.id = f"job-{_process}-{self.number}"
        self.work, self.session, self.name, self.priority = work, session, name, priority
        self._on_end = on_end
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._view = JobView(JobStatus.QUEUED)
        self._error: Exception | None = None
        self._began = time.monotonic()

    # ---- for its owner ------------------------------------------------------------------------------------------
    def poll(self) -> JobView:
        """Return the job as it is now."""
        with self._lock:
            view = self._view
        return view if view.status.final else replace(view, seconds=time.monotonic() - self._began)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the job has ended; return whether it has."""
        return self._ended.wait(timeout)

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result; raise what the job raised, or FitError if it was cancelled or is not done in time."""
        if not self._ended.wait(timeout):
            raise FitError(f"The job is not done after {timeout:g} s; it goes on. Ask again, or cancel it.")
        if self._error is not None:
            raise self._error
        if self._view.status is JobStatus.CANCELLED:
            raise FitError("The job was cancelled, so it has no result. Start it again.")
        return self._view.result

    def cancel(self) -> None:
        """End the job. Its worker is free at the next step."""
        self.finish(JobStatus.CANCELLED, message="Cancelled.")

    # ---- for the engine -----------------------------------------------------------------------------------------
    def apply(self, event: Mapping[str, Any]) -> None:
        """Take in an event of the worker."""
        with self._lock:
            view, kind = self._view, event["kind"]
            if view.status.final:
                return
            if kind == "started":
                notes = view.notes if view.status is JobStatus.QUEUED else (*view.notes, RESTARTED)
                self._view = JobView(JobStatus.RUNNING, notes=notes)
            elif kind == "progress":
                self._view = _with_progress(view, event)
            elif kind == "partial":
                self._view = replace(view, found=event["value"])

    def note(self, text: str) -> None:
        """Add something that the owner should read next to the result."""
        with self._lock:
            self._view = replace(self._view, notes=(*self._view.notes, text))

    def succeed(self, result: Any) -> None:
        shown: dict[str, Any] = {}
        if isinstance(result, FitResult):
            last = result.steps[-1] if result.steps else 0
            shown = {"step": last, "total": last} | {
                name: getattr(result, name) for name in ("steps", "elbos", "snapshots")
            }
        self.finish(JobStatus.DONE, result=result, **shown)

    def fail(self, error: Exception) -> None:
        self.finish(JobStatus.FAILED, error=error, message=str(error))

    def finish(self, status: JobStatus, error: Exception | None = None, **shown: Any) -> None:
        """Set the final view; later calls are ignored."""
        with self._lock:
            if self._view.status.final:
                return
            self._error = error
            self._view = replace(self._view, status=status, seconds=time.monotonic() - self._began, **shown)
        try:
            self._on_end(self)
        finally:
            self._ended.set()


def _with_progress(view: JobView, event: Mapping[str, Any]) -> JobView:
    curve = event.get("curve", ())
    steps = (*view.steps, *(step for step, _ in curve))
    elbos = (*view.elbos, *(elbo for _, elbo in curve))
    snapshots, new = view.snapshots, event.get("snapshot")
    if new is not None:
        snapshots = thin((*snapshots, Snapshot.decode(new)), MAX_SNAPSHOTS)
    return replace(
        view,
        step=event["step"],
        total=event["total"],
        steps=thin(steps, MAX_HISTORY),
        elbos=thin(elbos, MAX_HISTORY),
        snapshots=snapshots,
    )


Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class BulkView:
    """Many calls at one moment. `results` and `failures` (messages) are by item; each of `notes` appears once."""

    total: int
    done: int
    finished: bool
    cancelled: bool
    seconds: float
    results: dict[str, Any] = field(repr=False)
    failures: dict[str, str] = field(repr=False)
    notes: tuple[str, ...] = ()


class Bulk:
    """Many calls of one function. `progress(done, total)` is called on a thread of the engine."""

    def __init__(self, calls: Mapping[str, Call], progress: Progress | None) -> None:
        self._left, self._total, self._progress = set(calls), len(calls), progress
        self._jobs: list[Job] = []
        self._lock = threading.Lock()
        self._results: dict[str, Any] = {}
        self._failures: dict[str, str] = {}
        self._notes: dict[str, None] = {}
        self.estimate = Estimate()
        self._began, self._seconds = time.monotonic(), 0.0
        self._cancelled = False
        self._ended = threading.Event()

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    @property
    def reusable(self) -> bool:
        """Whether an equal request can share it: it runs, or every call succeeded."""
        return not (self._cancelled or (self.ended and self._failures))

    def poll(self) -> BulkView:
        """Return results and failures so far."""
        with self._lock:
            return BulkView(
                self._total,
                len(self._results) + len(self._failures),
                self.ended,
                self._cancelled,
                self._seconds if self.ended else time.monotonic() - self._began,
                dict(self._results),
                dict(self._failures),
                tuple(self._notes),
            )

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until every call has ended; return whether it has."""
        return self._ended.wait(timeout)

    def cancel(self) -> None:
        """End all calls that have not ended; results so far stay."""
        self._cancelled = True
        for job in list(self._jobs):
            job.cancel()

    # ---- for the engine -----------------------------------------------------------------------------------------
    def add(self, job: Job) -> None:
        self._jobs.append(job)

    def take(self, item: str, job: Job) -> None:
        """Take in a call that has ended."""
        view = job.poll()
        with self._lock:
            self._left.discard(item)
            self._notes |= dict.fromkeys(view.notes)
            if view.status is JobStatus.DONE:
                self._results[item] = view.result
            elif view.status is JobStatus.FAILED:
                self._failures[item] = view.message
            done = len(self._results) + len(self._failures)
            if not self._left:
                self._seconds = time.monotonic() - self._began
                self._ended.set()
        if self._progress is None:
            return
        try:
            self._progress(done, self._total)
        except Exception:
            # The caller's own function may raise anything; the thread that runs it serves everybody.
            logger.exception("The progress of a bulk job could not be reported.")
