"""The engine that pages and sweeps talk to. One for each server process; every method returns at once."""

from __future__ import annotations

import atexit
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gdm_core.engine.cache import ResultCache, call_key
from gdm_core.engine.dispatch import Dispatcher
from gdm_core.engine.jobs import Bulk, Call, FairQueue, Job, Progress, QueueClosed
from gdm_core.engine.messages import FitRequest, QueueFull
from gdm_core.errors import FitError

MAX_WAITING = 400
MAX_WAITING_PER_SESSION = 100
# Calls of one bulk job in the queue or out at a time.
BULK_WINDOW = 8
MAX_BULKS_REMEMBERED = 32


@dataclass(frozen=True)
class EngineInfo:
    """What the engine has at hand, for a status line.

    ready    whether there are workers; until then jobs wait
    workers  threads of each, as last heard
    waiting  jobs in the queue
    out      jobs on the cluster, those among them that are on their way to an end or on hold
    trouble  why there are no workers, if so
    """

    ready: bool
    workers: dict[str, int]
    waiting: int
    out: tuple[str, ...]
    trouble: str


class Engine:
    """Runs fits and calls on the cluster. Close it, or use it in a `with` block."""

    def __init__(
        self,
        cache: ResultCache | None = None,
        max_waiting: int = MAX_WAITING,
        max_waiting_per_session: int = MAX_WAITING_PER_SESSION,
    ) -> None:
        self.cache = cache or ResultCache()
        self._waiting = FairQueue(max_waiting, max_waiting_per_session)
        self._dispatcher = Dispatcher(self._waiting, self.cache)
        self._lock = threading.Lock()
        self._slots: dict[tuple[str, str], Job] = {}
        self._bulks: OrderedDict[str, Bulk] = OrderedDict()

    # ---- one job ------------------------------------------------------------------------------------------------
    def submit(
        self, request: FitRequest, *, session: str, slot: str = "main", bulk: bool = False, idle: bool = False
    ) -> Job:
        """Start a fit. The latest in a slot of a session wins: one that runs there already is cancelled."""
        job = Job(request, session, slot, bulk, self._dispatcher.orders_changed, self._forget_slot, idle)
        self._take_slot(job)
        if request.use_cache:
            result, note = self.cache.get(request.key)
            if note:
                job.note(note)
            if result is not None:
                if result.snapshot is not None and result.snapshot.preview != request.preview:
                    result = replace(result, snapshot=None)
                result = replace(result, from_cache=True)
                job.succeed(result)
                return job
        self._enqueue(job)
        return job

    def call(
        self,
        function: Callable[..., Any],
        *args: Any,
        session: str = "",
        slot: str | None = None,
        deadline_s: float = 60.0,
        bulk: bool = False,
        idle: bool = False,
        kept_as: str = "",
    ) -> Job:
        """Run `function(*args)` on a worker and end it at the deadline, whatever it does.

        Trials among the arguments travel once. With `kept_as`, which must name everything that the result depends on, a
        result that JSON can hold is kept on disk, and the next call finds it there. An `idle` bulk call goes behind all
        others: nobody waits for it. A function that yields tells what it has found by and by (`JobView.found`); the last of
        it is the result.
        """
        if not deadline_s > 0:
            raise FitError(f"deadline_s is {deadline_s}; it must be a positive number of seconds.")
        call = Call(function, args, deadline_s, cache_key=call_key(function, kept_as) if kept_as else None)
        job = Job(call, session, slot, bulk, self._dispatcher.orders_changed, self._forget_slot, idle)
        self._take_slot(job)
        known, value = self.cache.get_value(call.cache_key) if call.cache_key else (False, None)
        if known:
            job.succeed(value)
        else:
            self._enqueue(job)
        return job

    def _enqueue(self, job: Job) -> None:
        try:
            self._waiting.add(job)
        except QueueClosed as error:
            job.fail(error)
        except QueueFull as error:
            job.fail(error)
            raise
        self._dispatcher.wake()

    def _take_slot(self, job: Job) -> None:
        if job.slot is None:
            return
        with self._lock:
            earlier = self._slots.get((job.session, job.slot))
            self._slots[job.session, job.slot] = job
        if earlier is not None:
            earlier.cancel()

    def _forget_slot(self, job: Job) -> None:
        if job.slot is None:
            return
        with self._lock:
            if self._slots.get((job.session, job.slot)) is job:
                del self._slots[job.session, job.slot]

    # ---- many jobs ----------------------------------------------------------------------------------------------
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
        """Run `function(*args)` for each item, behind the jobs that people watch. Returns the one of that `key` if it is there.

        With `cached`, item keys must name everything that a result depends on, and JSON must be able to hold results:
        they are kept on disk, and a bulk job started again does only what is missing. `progress(done, total)` is called
        on a thread of the engine.
        """
        calls = {
            name: Call(function, args, deadline_s, cache_key=call_key(function, name) if cached else None)
            for name, args in items.items()
        }

        def submit(call: Call, on_end: Callable[[Job], None]) -> Job:
            job = Job(call, session, None, True, self._dispatcher.orders_changed, on_end, idle=True)
            self._waiting.add(job)
            self._dispatcher.wake()
            return job

        window = max(BULK_WINDOW, 2 * len(self._dispatcher.workers()))
        with self._lock:
            known = self._bulks.get(key)
            if known is not None and known.to_be_kept:
                return known
            bulk = self._bulks[key] = Bulk(calls, submit, self.cache.get_value, window, progress)
            self._bulks.move_to_end(key)
            over = [name for name, one in self._bulks.items() if one.ended][:-MAX_BULKS_REMEMBERED]
            for name in over:
                del self._bulks[name]
        bulk.feed()
        return bulk

    def bulk(self, key: str) -> Bulk | None:
        """The bulk job of that key, for a page that comes back to it."""
        with self._lock:
            return self._bulks.get(key)

    # ---- the engine itself --------------------------------------------------------------------------------------
    def start(self) -> None:
        """Start the workers now; without it, the first job does, or a little time."""
        self._dispatcher.wake()

    def wait_ready(self, timeout: float = 90.0) -> None:
        """Wait until the workers are warm; FitError or ConfigError when they cannot be had."""
        self.start()
        if not self._dispatcher.ready.wait(timeout):
            raise FitError(f"The workers are not ready after {timeout:g} s. The server's log may say why.")
        if self._dispatcher.trouble is not None:
            raise self._dispatcher.trouble

    def info(self) -> EngineInfo:
        trouble = self._dispatcher.trouble
        here = self._dispatcher
        ready = here.ready.is_set() and trouble is None
        return EngineInfo(
            ready, here.workers(), len(self._waiting), here.sent_jobs(), "" if trouble is None else str(trouble)
        )

    def forget(self, session: str) -> None:
        """Cancel the slots of a session that has left, and let data go that nobody else used. Its bulk jobs go on."""
        with self._lock:
            jobs = [job for (owner, _), job in self._slots.items() if owner == session]
        for job in jobs:
            job.cancel()
        self._dispatcher.forget(session)

    @property
    def running(self) -> bool:
        return self._dispatcher.running

    def close(self) -> None:
        """Stop the workers. What is not done fails."""
        self._dispatcher.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_engine: Engine | None = None
_engine_lock = threading.Lock()


def get_engine() -> Engine:
    """The engine of this process. The first caller starts it; its workers get ready while the caller goes on."""
    global _engine
    with _engine_lock:
        if _engine is None or not _engine.running:
            _engine = Engine()
            atexit.register(_engine.close)
        return _engine
