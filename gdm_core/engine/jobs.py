"""A job as its owner sees it, the queue that says who is next, and many calls under one name. Every method returns at once, but
for those that say they wait."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from gdm_core import errors
from gdm_core.engine.control import Orders
from gdm_core.engine.estimate import Estimate
from gdm_core.engine.messages import FitRequest, FitResult, JobStatus, JobView, QueueFull, Snapshot, require_for_workers
from gdm_core.errors import FitError

logger = logging.getLogger(__name__)

MAX_HISTORY = 500
# Several servers may share a cluster, so a number alone names no job.
_process = uuid4().hex[:8]
_numbers = itertools.count(1)


@dataclass(frozen=True, eq=False)
class Call:
    """A function to run on a worker. `cache_key` names its result on disk, for results that JSON can hold."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    deadline_s: float
    hold_limit_s: float = 600.0
    cache_key: str | None = None

    def __post_init__(self) -> None:
        name = getattr(self.function, "__qualname__", repr(self.function))
        require_for_workers(getattr(self.function, "__module__", ""), name)


class Job:
    """A handle on one fit or call. Made by the engine; safe to keep, and to ask from any thread."""

    def __init__(
        self,
        work: FitRequest | Call,
        session: str,
        slot: str | None,
        bulk: bool,
        notify: Callable[[Job], None],
        on_end: Callable[[Job], None] | None = None,
        idle: bool = False,
    ) -> None:
        self.id = f"job-{_process}-{next(_numbers)}"
        self.work, self.session, self.slot, self.bulk, self.idle = work, session, slot, bulk, idle
        self.orders = Orders()
        self.dispatches = 0  # times it was sent out
        self.lost = 0  # times it was lost after it had begun
        self._notify, self._on_end = notify, on_end
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._view = JobView(JobStatus.QUEUED)
        self._error: Exception | None = None
        self._began = time.monotonic()

    # ---- for its owner ------------------------------------------------------------------------------------------
    def poll(self) -> JobView:
        """How it stands now."""
        with self._lock:
            view = self._view
        return view if view.status.final else replace(view, seconds=time.monotonic() - self._began)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has ended; whether it has."""
        return self._ended.wait(timeout)

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result. Raises what the work raised, or FitError when it was cancelled or is not done in time."""
        if not self._ended.wait(timeout):
            raise FitError(f"The job is not done after {timeout:g} s; it goes on. Ask again, or cancel it.")
        if self._error is not None:
            raise self._error
        if self._view.status is JobStatus.CANCELLED:
            raise FitError("The job was cancelled, so it has no result. Start it again.")
        return self._view.result

    def cancel(self) -> None:
        """End it. The view says CANCELLED at once; the worker stops at its next step."""
        self._order(cancelled=True)
        self.finish(JobStatus.CANCELLED, message="Cancelled.")

    def pause(self) -> None:
        """Hold it between two steps."""
        self._order(hold=True, until_step=0, play_s=0.0)

    def resume(self) -> None:
        """Let a held job run on."""
        self._order(hold=False, play_s=0.0)

    def play(self, seconds: float) -> None:
        """Let it run on at such a pace that all its steps take `seconds` by the clock; slower where it cannot keep up."""
        if not seconds > 0:
            raise errors.ConfigError(f"seconds is {seconds}; a job is played over a positive number of seconds.")
        self.watch()
        self._order(hold=False, play_s=seconds)

    def step(self, n: int = 1) -> None:
        """Let a held job do `n` steps, then hold it again."""
        if n < 1:
            raise errors.ConfigError(f"n is {n}; a job can be moved on by one step or more.")
        with self._lock:
            reached = self._view.step
        self._order(hold=True, until_step=reached + n, play_s=0.0)

    def watch(self) -> None:
        """Somebody waits for it now: a bulk job makes way for others no longer, and is next where it waits itself."""
        self.bulk = False
        self.give_way(False)

    def _order(self, **changes: Any) -> None:
        with self._lock:
            if self._view.status.final:
                return
            self.orders = replace(self.orders, version=self.orders.version + 1, **changes)
        self._notify(self)

    # ---- for the engine -----------------------------------------------------------------------------------------
    @property
    def run(self) -> str:
        """The name of its latest try: what an earlier one says is not of this job any more."""
        return f"{self.id}-{self.dispatches}"

    def give_way(self, wanted: bool) -> None:
        """Make it hold for, or take the worker back from, a job that somebody watches."""
        if self.orders.give_way != wanted:
            self._order(give_way=wanted)

    def apply(self, event: Mapping[str, Any]) -> None:
        """Take in what the worker said."""
        with self._lock:
            if self._view.status.final:
                return
            kind = event["kind"]
            if kind == "started":
                # A retry begins anew, and so does the history.
                self._view = replace(self._view, status=JobStatus.RUNNING, step=0, steps=(), elbos=(), held=False)
            elif kind == "progress":
                self._progress(event)
            elif kind == "found":
                self._view = replace(self._view, found=event["found"])
            elif kind in ("held", "resumed", "aside"):
                self._view = replace(self._view, held=kind == "held", step=int(event["step"]))

    def _progress(self, event: Mapping[str, Any]) -> None:
        steps = (*self._view.steps, *event["steps"])
        elbos = (*self._view.elbos, *event["elbos"])
        while len(steps) > MAX_HISTORY:
            steps, elbos = steps[::2], elbos[::2]
        snapshot = event["snapshot"]
        self._view = replace(
            self._view,
            step=int(event["step"]),
            total=int(event["total"]),
            steps=steps,
            elbos=elbos,
            snapshot=self._view.snapshot if snapshot is None else Snapshot.decode(snapshot),
        )

    def note(self, text: str) -> None:
        """Something the owner should read beside the result."""
        with self._lock:
            self._view = replace(self._view, notes=(*self._view.notes, text))

    def requeue(self, why: str) -> None:
        with self._lock:
            if not self._view.status.final:
                self._view = replace(self._view, status=JobStatus.QUEUED, held=False, notes=(*self._view.notes, why))

    def succeed(self, result: Any) -> None:
        shown: dict[str, Any] = {}
        if isinstance(result, FitResult):  # a kept one has reported nothing on the way
            last = result.steps[-1] if result.steps else 0
            shown = {
                "step": last,
                "total": last,
                "steps": result.steps,
                "elbos": result.elbos,
                "snapshot": result.snapshot,
            }
        self.finish(JobStatus.DONE, result=result, **shown)

    def fail(self, error: Exception) -> None:
        self.finish(JobStatus.FAILED, error=error, message=str(error))

    def finish(self, status: JobStatus, error: Exception | None = None, **shown: Any) -> None:
        """Set the final view, once; whoever comes second is too late."""
        with self._lock:
            if self._view.status.final:
                return
            self._error = error
            self._view = replace(self._view, status=status, held=False, seconds=time.monotonic() - self._began, **shown)
        try:
            if self._on_end is not None:
                self._on_end(self)
        finally:
            self._ended.set()  # last: who has waited, and asks for the same again, finds its name free


class QueueClosed(FitError):
    """The engine has ended."""


class FairQueue:
    """Jobs that wait, by session: people who watch go before bulk work, sessions take turns, and it is bounded.

    Threads may add while the dispatcher takes.
    """

    def __init__(self, limit: int, session_limit: int) -> None:
        self.limit, self.session_limit = limit, session_limit
        self._lock = threading.Lock()
        self._closed = False
        # watched jobs, bulk jobs, and those that nobody waits for; session -> its jobs, the session served longest ago first
        self._lanes: tuple[OrderedDict[str, deque[Job]], ...] = (OrderedDict(), OrderedDict(), OrderedDict())

    def __len__(self) -> int:
        with self._lock:
            return sum(self._sizes().values())

    def _sizes(self) -> Counter[str]:
        sizes: Counter[str] = Counter()
        for lane in self._lanes:
            for session, jobs in lane.items():
                sizes[session] += sum(not job.poll().status.final for job in jobs)
        return sizes

    def add(self, job: Job, again: bool = False) -> None:
        """At the end of its session's row; a job that comes back (`again`) goes to the front and is never refused."""
        with self._lock:
            if self._closed:
                raise QueueClosed("The engine is closed. Restart the server.")
            if not again:
                self._refuse_beyond_limits(job.session)
            lane = self._lanes[job.bulk and 1 + job.idle]
            row = lane[job.session] = deque(j for j in lane.get(job.session, ()) if not j.poll().status.final)
            if again:
                row.appendleft(job)
            else:
                row.append(job)

    def _refuse_beyond_limits(self, session: str) -> None:
        sizes = self._sizes()
        if sizes[session] >= self.session_limit:
            raise QueueFull(
                f"{sizes[session]} of your jobs wait already, and {self.session_limit} may. "
                "Let some finish, or cancel them."
            )
        if sum(sizes.values()) >= self.limit:
            raise QueueFull(f"{sum(sizes.values())} jobs of all sessions wait already. Try again in a minute.")

    def _let_watched_pass(self) -> None:
        """Bulk jobs that somebody has begun to wait for (`Job.watch`) stand among the watched ones from now on."""
        for lane in self._lanes[1:]:
            for session, row in list(lane.items()):
                for job in [job for job in row if not job.bulk]:
                    row.remove(job)
                    self._lanes[0].setdefault(session, deque()).append(job)
                if not row:
                    del lane[session]

    def watched_waiting(self) -> int:
        """How many jobs wait that somebody watches."""
        with self._lock:
            self._let_watched_pass()
            return sum(sum(not job.poll().status.final for job in jobs) for jobs in self._lanes[0].values())

    def take(self, running: Iterable[Job], bulk: bool) -> Job | None:
        """The next job of the session that has fewest running, and among those was served longest ago."""
        busy = Counter(job.session for job in running)
        with self._lock:
            self._let_watched_pass()
            while lane := next((lane for lane in self._lanes[bulk : 1 + 2 * bulk] if lane), None):
                session = min(lane, key=lambda name: busy[name])  # min keeps the first of equals
                job = lane[session].popleft()
                if lane[session]:
                    lane.move_to_end(session)
                else:
                    del lane[session]
                if not job.poll().status.final:
                    return job
        return None

    def drain(self) -> list[Job]:
        """Everything that waits, leaving nothing."""
        with self._lock:
            jobs = [job for lane in self._lanes for row in lane.values() for job in row]
            for lane in self._lanes:
                lane.clear()
        return jobs

    def close(self) -> list[Job]:
        """Everything that waits; from now on nothing is taken in, so that no job waits for an engine that has gone."""
        with self._lock:
            self._closed = True
        return self.drain()


Submit = Callable[[Call, Callable[[Job], None]], Job]
LookUp = Callable[[str], tuple[bool, Any]]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class BulkView:
    """Where a bulk job is. `results` and `failures` (messages) are by the items' keys; `notes` each once."""

    total: int
    done: int
    running: int
    finished: bool
    cancelled: bool
    seconds: float
    results: dict[str, Any] = field(repr=False)
    failures: dict[str, str] = field(repr=False)
    notes: tuple[str, ...] = ()


class Bulk:
    """A handle on many calls of one function. Made by the engine; safe to keep, and to ask from any thread.

    It begins with the first `feed`: its calls go into the queue a few at a time, so that it goes on when nobody looks.
    """

    def __init__(
        self,
        calls: Mapping[str, Call],
        submit: Submit,
        look_up: LookUp,
        window: int,
        progress: Progress | None,
    ) -> None:
        self._waiting = list(calls.items())[::-1]
        self._total = len(calls)
        self._submit, self._look_up, self._window, self._progress = submit, look_up, window, progress
        self._lock = threading.RLock()
        self._running: dict[str, Job] = {}
        self._results: dict[str, Any] = {}
        self._failures: dict[str, str] = {}
        self._notes: dict[str, None] = {}
        self.estimate = Estimate()  # of how long it takes, for all who look
        self._began, self._seconds = time.monotonic(), 0.0
        self._cancelled = False
        self._ended = threading.Event()

    @property
    def ended(self) -> bool:
        """Whether every call has ended. Waits for nobody, as `poll` may."""
        return self._ended.is_set()

    @property
    def to_be_kept(self) -> bool:
        """Whether who asks for the same again should get this one: it goes on, or has done all that was asked."""
        return not (self._cancelled or (self.ended and self._failures))

    def poll(self) -> BulkView:
        """How it stands now."""
        with self._lock:
            ended = self._ended.is_set()
            return BulkView(
                self._total,
                len(self._results) + len(self._failures),
                len(self._running),
                ended,
                self._cancelled,
                self._seconds if ended else time.monotonic() - self._began,
                dict(self._results),
                dict(self._failures),
                tuple(self._notes),
            )

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until every call has ended; whether it has."""
        return self._ended.wait(timeout)

    def cancel(self) -> None:
        """Start no more and end what runs; results so far stay."""
        with self._lock:
            self._cancelled = True
            self._waiting.clear()
            running = list(self._running.values())
        for job in running:
            job.cancel()
        self._close_if_done()

    def feed(self) -> None:
        """Keep a few calls in the engine's queue; results that are known already cost no turn."""
        with self._lock:
            while self._waiting and len(self._running) < self._window:
                key, call = self._waiting.pop()
                known, value = self._look_up(call.cache_key) if call.cache_key else (False, None)
                if known:
                    self._results[key] = value
                    continue
                try:
                    self._running[key] = self._submit(call, lambda job, key=key: self._take(key, job))  # type: ignore[misc]
                except FitError as error:
                    if self._running and isinstance(error, QueueFull):
                        # The next of ours to end tries again.
                        self._waiting.append((key, call))
                        break
                    self._failures[key] = str(error)
        self._close_if_done()

    def _take(self, key: str, job: Job) -> None:
        view = job.poll()
        with self._lock:
            self._running.pop(key, None)
            self._notes |= dict.fromkeys(view.notes)
            if view.status is JobStatus.DONE:
                self._results[key] = view.result
            elif view.status is JobStatus.FAILED:
                self._failures[key] = view.message
        self.feed()

    def _close_if_done(self) -> None:
        with self._lock:
            done = len(self._results) + len(self._failures)
            if not self._waiting and not self._running and not self._ended.is_set():
                self._seconds = time.monotonic() - self._began
                self._ended.set()
        if self._progress is None:
            return
        try:
            self._progress(done, self._total)
        except Exception:
            # Not narrower: `progress` is the caller's own function, which may raise anything, and this is the one thread that
            # serves everybody. Whose function it is loses the telling, and the log has why; the work goes on.
            logger.exception("A bulk job's progress could not be told.")
