"""What engines share: jobs with cached results, and grids of fits. `LocalEngine` runs them in this process."""

from __future__ import annotations

import hashlib
import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from gdm_core.engine.cache import ResultCache, call_key
from gdm_core.engine.job import Bulk, BulkView, Call, Job, Priority, Progress
from gdm_core.engine.spec import FitSpec, config_text
from gdm_core.errors import ConfigError, GdmError
from gdm_core.trials import Trials

logger = logging.getLogger(__name__)
T = TypeVar("T")


class Runner(ABC):
    """Creates jobs, answers them from the cache, and leaves the others to a subclass."""

    def __init__(self, cache: ResultCache | None = None) -> None:
        self.cache = cache or ResultCache()

    def submit(
        self,
        work: FitSpec | Callable[..., Any],
        *args: Any,
        session: str = "",
        name: str = "",
        priority: Priority | None = None,
        cached_as: str = "",
    ) -> Job:
        """Run a fit, or `work(*args)`, on a worker.

        session    whose data and jobs `forget` drops
        name       label of the job
        priority   HIGH for a fit and NORMAL for a function, unless given
        cached_as  key of everything that a function's result depends on; JSON must hold the result
        """
        if isinstance(work, FitSpec):
            job = Job(work, session, name or "fit", Priority.HIGH if priority is None else priority, self._on_end)
        else:
            call = Call(work, args, call_key(work, cached_as) if cached_as else None)
            chosen = Priority.NORMAL if priority is None else priority
            job = Job(call, session, name or work.__name__, chosen, self._on_end)
        self._begin(job)
        return job

    def map(
        self,
        function: Callable[..., Any],
        items: Mapping[str, tuple[Any, ...]],
        *,
        session: str,
        cached: bool = True,
        usual_s: float = 0.0,
        fits_each: int = 1,
        progress: Progress | None = None,
    ) -> Bulk[BulkView]:
        """Run `function(*args)` for each item at low priority; `progress(done, total)` may run on another thread.

        cached     each name contains everything that the result depends on, and JSON can hold the result
        usual_s    expected time of all items on one quiet core, 0 if unknown
        fits_each  number of fits that an item counts for
        """
        ended, lock = 0, threading.Lock()

        def on_end(job: Job) -> None:
            nonlocal ended
            self._on_end(job)
            if progress is None:
                return
            with lock:
                ended += fits_each
                done = ended
            try:
                progress(done, fits_each * len(items))
            except Exception:  # the caller's own function may raise anything; other jobs must go on
                logger.exception("The progress of many calls could not be reported.")

        jobs = {}
        for item, args in items.items():
            call = Call(function, args, call_key(function, item) if cached else None)
            jobs[item] = Job(call, session, function.__name__, Priority.LOW, on_end)
            jobs[item].usual_s, jobs[item].n_fits = usual_s / len(items), fits_each
        for job in jobs.values():
            self._begin(job)
        return Bulk(jobs, lambda view: view)

    def _begin(self, job: Job) -> None:
        """Finish a job from the cache, or enqueue it."""
        work, known, value, note = job.work, False, None, ""
        if isinstance(work, FitSpec):
            result, note = self.cache.find(work)
            if result is not None:
                fits = result.snapshot is not None and result.snapshot.preview == work.preview
                job.known = value = replace(result, snapshots=result.snapshots if fits else (), from_cache=True)
                known = result.has_states(work.test)
        elif work.cache_key is not None:
            known, value, note = self.cache.read(work.cache_key)
        if note:
            job.note(note)
        if known:
            job.succeed(value)
        else:
            self._enqueue(job)

    @abstractmethod
    def _enqueue(self, job: Job) -> None:
        """Run a job that is not cached, now or later."""

    @abstractmethod
    def _on_end(self, job: Job) -> None:
        """Take note that a job has ended."""

    def _keep(self, job: Job, value: Any) -> None:
        """Cache a result; a disk that is full or read-only costs a note."""
        note = ""
        if isinstance(job.work, FitSpec):
            self.cache.remember(value, "" if job.work.use_cache else job.session)
            note = self.cache.put(value) if job.work.use_cache else ""
        elif job.work.cache_key is not None:
            note = self.cache.write(job.work.cache_key, value)
        if note:
            job.note(note)


class LocalEngine(Runner):
    """Runs functions one after the other in this process; `submit` and `map` return when they are done."""

    def _on_end(self, job: Job) -> None: ...

    def _enqueue(self, job: Job) -> None:
        call = job.work
        assert isinstance(call, Call)
        try:
            value = call.function(*call.args)
            if isinstance(value, Iterator):
                value = last_value(value)
        except GdmError as error:
            job.fail(error)
        else:
            self._keep(job, value)
            job.succeed(value)


def last_value(values: Iterator[Any]) -> Any:
    """Return the last value of a generator, or None."""
    return next(iter(deque(values, maxlen=1)), None)


# ---- grids ------------------------------------------------------------------------------------------------------
class Grid(ABC, Generic[T]):
    """Fits whose results are read together. Finished fits are cached, so a stopped grid continues."""

    @abstractmethod
    def cells(self) -> Mapping[str, Any]:
        """Return the fits by cache name: everything that a result depends on except the code version."""

    @abstractmethod
    def start(self, engine: Runner, session: str, progress: Progress | None = None) -> Bulk[T]:
        """Start all fits at low priority."""

    @property
    def key(self) -> str:
        """Cache key of the whole grid."""
        return hashlib.sha256("\n".join(sorted(self.cells())).encode()).hexdigest()

    def run(self, engine: Runner | None = None, progress: Progress | None = None) -> T:
        """Run all fits on the engine, or in this process, and return their results."""
        bulk = self.start(engine or LocalEngine(), "grid", progress)
        bulk.wait()
        return bulk.read()


def cell_name(family: str, config: Mapping[str, Any], train: Trials, test: Trials, scorer: str = "") -> str:
    """Return the cache name of a fit."""
    return "/".join([family, config_text(config), scorer, train.fingerprint, test.fingerprint])


def check_seeds(seeds: Sequence[int], configs: Iterable[Mapping[str, Any]]) -> None:
    """Raise ConfigError for missing or repeated seeds, and for configurations that contain one."""
    if not seeds or len(set(seeds)) != len(seeds):
        raise ConfigError(f"seeds is {list(seeds)}; it must hold one seed or more, each once.")
    if any("seed" in config for config in configs):
        raise ConfigError("Put seeds in `seeds`, not in a setting: results are averaged over them.")
