"""A fit or function call on an engine, and a group of calls."""

from __future__ import annotations

import itertools
import pickle
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Any, Generic, TypeVar
from uuid import uuid4

from gdm_core.engine.estimate import Estimate
from gdm_core.engine.results import MAX_SNAPSHOTS, FitResult, Snapshot, thin
from gdm_core.engine.spec import FitSpec, require_for_workers
from gdm_core.errors import FitError

IDLE_S = 10.0  # without progress, after which a job tells what it waits for
RESTARTED = "A worker stopped. The job was started again."
# Job ids must be unique on a cluster that several servers share.
_process = uuid4().hex[:8]
_numbers = itertools.count(1)


class Priority(IntEnum):
    """Order of waiting jobs. Running jobs are never interrupted."""

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

    idle_s  time since the last event
    waits   what a job without progress waits for, in words
    found   last partial value of a generator function
    result  a FitResult, or the value of the function
    """

    status: JobStatus
    step: int = 0
    total: int = 0
    steps: tuple[int, ...] = ()
    elbos: tuple[float, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    seconds: float = 0.0
    idle_s: float = 0.0
    waits: str = ""
    message: str = ""
    notes: tuple[str, ...] = ()
    found: Any = None
    result: Any = None

    @property
    def snapshot(self) -> Snapshot | None:
        """Latest snapshot."""
        return self.snapshots[-1] if self.snapshots else None


@dataclass(frozen=True, eq=False)
class Call:
    """A function to run on a worker. Without a `cache_key`, its result is not cached."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    cache_key: str | None = None

    def __post_init__(self) -> None:
        name = getattr(self.function, "__qualname__", repr(self.function))
        require_for_workers(getattr(self.function, "__module__", ""), name)


class Job:
    """A fit or call on the engine. Every method but `wait` and `result` returns at once, on any thread.

    known      result of a fit, if only states of its trials are missing
    usual_s    expected time on a quiet machine, 0 if unknown
    n_fits     number of fits that it counts for
    news       as of a `Bulk`; its only result comes at the end
    explain    returns what the unfinished job waits for, in words
    attempts   how often it was sent to a worker, of which `deaths` ended with the worker's death
    """

    news = None

    def __init__(
        self, work: FitSpec | Call, session: str, name: str, priority: Priority, on_end: Callable[[Job], None]
    ) -> None:
        self.number = next(_numbers)
        self.id = f"job-{_process}-{self.number}"
        self.work, self.session, self.name, self.priority = work, session, name, priority
        self.usual_s, self.n_fits = 0.0, 1
        self.known: FitResult | None = None
        self.explain: Callable[[Job], str] = lambda _: ""
        self.attempts = self.deaths = 0
        self._on_end = on_end
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._view = JobView(JobStatus.QUEUED)
        self._error: Exception | None = None
        self._began = self._moved = time.monotonic()

    # ---- for its owner ------------------------------------------------------------------------------------------
    def poll(self) -> JobView:
        """Return the current view of the job."""
        with self._lock:
            view, now = self._view, time.monotonic()
            idle_s = now - self._moved
        if view.status.final:
            return replace(view, idle_s=idle_s)
        waits = self.explain(self) if idle_s >= IDLE_S else ""
        return replace(view, seconds=now - self._began, idle_s=idle_s, waits=waits)

    @property
    def ended(self) -> bool:
        return self._view.status.final

    @property
    def progress(self) -> tuple[str, float]:
        """Current activity in words, and the share that is done."""
        view = self.poll()
        return f"{self.name}{f', {view.waits}' * bool(view.waits)}", view.step / max(1, view.total)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the job; return False on timeout."""
        return self._ended.wait(timeout)

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result; raise the error of the job, or FitError after a cancellation or timeout."""
        if not self._ended.wait(timeout):
            raise FitError(f"The job is still running after {timeout:g} s. Wait longer, or cancel it.")
        if self._error is not None:
            raise self._error
        if self._view.status is JobStatus.CANCELLED:
            raise FitError("The job was cancelled. Start it again.")
        return self._view.result

    def cancel(self) -> None:
        """End the job. Its worker stops at the next checkpoint."""
        self.finish(JobStatus.CANCELLED, message="Cancelled.")

    # ---- for the engine -----------------------------------------------------------------------------------------
    def apply(self, event: Mapping[str, Any]) -> None:
        """Update the view with an event from the worker."""
        with self._lock:
            view, kind = self._view, event["kind"]
            if view.status.final:
                return
            self._moved = time.monotonic()
            if kind == "started":
                notes = view.notes if view.status is JobStatus.QUEUED else (*view.notes, RESTARTED)
                self._view = JobView(JobStatus.RUNNING, notes=notes)
            elif kind == "progress":
                self._view = _with_progress(view, event)
            elif kind == "partial":
                self._view = replace(view, found=event["value"])

    def note(self, text: str) -> None:
        """Add a note to show next to the result."""
        with self._lock:
            self._view = replace(self._view, notes=(*self._view.notes, text))

    def succeed(self, result: Any) -> None:
        shown: dict[str, Any] = {}
        if isinstance(result, FitResult):
            shown = {name: getattr(result, name) for name in ("steps", "elbos", "snapshots")}
            shown |= {"step": result.steps[-1], "total": result.steps[-1]}
        self.finish(JobStatus.DONE, result=result, **shown)

    def fail(self, error: Exception) -> None:
        self.finish(JobStatus.FAILED, error=error, message=str(error))

    def finish(self, status: JobStatus, error: Exception | None = None, **shown: Any) -> None:
        """Set the final view; later calls are ignored."""
        with self._lock:
            if self._view.status.final:
                return
            self._error, self._moved = error, time.monotonic()
            self._view = replace(self._view, status=status, seconds=time.monotonic() - self._began, **shown)
        try:
            self._on_end(self)
        finally:
            self._ended.set()


def _with_progress(view: JobView, event: Mapping[str, Any]) -> JobView:
    curve = event.get("curve", ())
    snapshots, new = view.snapshots, event.get("snapshot")
    if new is not None:
        snapshots = thin((*snapshots, pickle.loads(new)), MAX_SNAPSHOTS)
    return replace(
        view,
        step=event["step"],
        total=event["total"],
        steps=(*view.steps, *(step for step, _ in curve)),
        elbos=(*view.elbos, *(elbo for _, elbo in curve)),
        snapshots=snapshots,
    )


def _explain(views: Collection[JobView]) -> str:
    """Return what a group of jobs waits for; "" if one of them has made progress."""
    if min((view.idle_s for view in views), default=0.0) < IDLE_S:
        return ""
    running = sorted((view for view in views if view.waits), key=lambda view: view.status is not JobStatus.RUNNING)
    return running[0].waits if running else ""


def is_below(session: str, other: str) -> bool:
    """Return whether a session is another one or below it: "a/b" is below "a"."""
    return f"{session}/".startswith(f"{other}/")


Progress = Callable[[int, int], None]
T = TypeVar("T")


@dataclass(frozen=True)
class BulkView:
    """State of a group of calls: fits in total and done, results and error messages by item, notes without repeats."""

    total: int
    done: int
    finished: bool
    seconds: float
    results: dict[str, Any] = field(repr=False)
    failures: dict[str, str] = field(repr=False)
    notes: tuple[str, ...] = ()
    waits: str = ""


class Bulk(Generic[T]):
    """A group of calls by item, each with its own job.

    collect  makes the result of the group, also of an unfinished one, from its view
    """

    def __init__(self, jobs: Mapping[str, Job], collect: Callable[[BulkView], T]) -> None:
        self.jobs, self._collect = dict(jobs), collect
        self._estimate = Estimate()

    def poll(self) -> BulkView:
        """Return results and failures so far."""
        views = {item: job.poll() for item, job in self.jobs.items()}
        results = {item: view.result for item, view in views.items() if view.status is JobStatus.DONE}
        failures = {item: view.message for item, view in views.items() if view.status is JobStatus.FAILED}
        finished = all(view.status.final for view in views.values())
        seconds = max((view.seconds for view in views.values()), default=0.0)
        notes = dict.fromkeys(note for view in views.values() for note in view.notes)
        total = sum(job.n_fits for job in self.jobs.values())
        done = sum(self.jobs[item].n_fits for item in (*results, *failures))
        return BulkView(total, done, finished, seconds, results, failures, tuple(notes), _explain(views.values()))

    def read(self) -> T:
        """Return the result so far."""
        return self._collect(self.poll())

    @property
    def ended(self) -> bool:
        return all(job.ended for job in self.jobs.values())

    @property
    def progress(self) -> tuple[str, float]:
        """Current activity in words, and the share that is done."""
        view = self.poll()
        words = f"{view.done} of {view.total} fits, {view.waits}"
        return words if view.waits else self._estimate.describe(view.done, view.total), view.done / max(1, view.total)

    @property
    def news(self) -> int:
        """Number of finished fits, which tells pages when to draw again."""
        return self.poll().done

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for all calls; return False on timeout."""
        end = None if timeout is None else time.monotonic() + timeout
        return all(job.wait(None if end is None else max(0.0, end - time.monotonic())) for job in self.jobs.values())

    def cancel(self) -> None:
        """Cancel the unfinished calls; results so far are kept."""
        for job in self.jobs.values():
            job.cancel()
