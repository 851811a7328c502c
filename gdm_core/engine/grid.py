"""A grid of cells: one function of many arguments, each cell under a name of all that its result depends on.

Sweeps, suggestions, comparisons and what is reproduced of the paper are such grids, each with a scorer of its own. A grid
is worked through on an engine, behind the fits that people watch, or in this process; either way what is in the store
already is taken from there. On an engine it is a bulk job: its calls are fed into the queue a few at a time, so that it goes on
when nobody looks.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from gdm_core.engine.cache import ResultCache, call_key
from gdm_core.engine.estimate import Estimate
from gdm_core.engine.jobs import Call, Job
from gdm_core.engine.messages import JobStatus, QueueFull
from gdm_core.errors import ConfigError, FitError, GdmError

if TYPE_CHECKING:
    from gdm_core.engine.engine import Engine

logger = logging.getLogger(__name__)

DEADLINE_S = 600.0  # of one cell
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

    It begins with the first `feed`.
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


def key_of(names: Iterable[str]) -> str:
    """One name for a set of names, whatever their order."""
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()


def require_seeds(seeds: Sequence[int], configs: Iterable[Mapping[str, Any]]) -> None:
    """Refuse seeds that are none or not each once, and settings that hold one of their own."""
    if not seeds or len(set(seeds)) != len(seeds):
        raise ConfigError(f"seeds is {list(seeds)}; it must hold one seed or more, each once.")
    if any("seed" in config for config in configs):
        raise ConfigError("Put seeds in `seeds`, not in a setting: they are what results are averaged over.")


@dataclass(frozen=True, eq=False)
class Grid:
    """`function(*arguments)` for the arguments of every cell.

    kept        whether results stay in the store: then cells are named by all that their result depends on but the version
                of the code, and JSON can hold what comes out
    deadline_s  after which an engine ends a cell
    """

    function: Callable[..., Any]
    cells: Mapping[str, tuple[Any, ...]]
    kept: bool = True
    deadline_s: float = DEADLINE_S

    def start(self, engine: Engine, session: str, key: str, progress: Progress | None = None) -> Bulk:
        """Begin on the engine, or come back to the grid of that key which is there already. Returns at once."""
        how: dict[str, Any] = {"session": session, "key": key, "deadline_s": self.deadline_s, "cached": self.kept}
        return engine.map(self.function, self.cells, progress=progress, **how)

    def found(
        self,
        engine: Engine | None = None,
        session: str = "",
        *,
        cache: ResultCache | None = None,
        progress: Progress | None = None,
        within: Progress | None = None,
    ) -> BulkView:
        """Every cell on the engine, or without one in this process, one after the other; ends when all have.

        cache     of cells that are done here, if not the usual one
        progress  is told how many cells are done, and of how many
        within    is told of a cell that is done here and stops now and then how many are done, and how often it stopped
        """
        if engine is None:
            return self._here(cache or ResultCache() if self.kept else None, progress, within)
        bulk = self.start(engine, session, f"{session}/{key_of(self.cells)}", progress)
        bulk.wait()
        return bulk.poll()

    def _here(self, cache: ResultCache | None, progress: Progress | None, within: Progress | None) -> BulkView:
        results: dict[str, Any] = {}
        failures: dict[str, str] = {}
        began, total = time.monotonic(), len(self.cells)
        for done, (name, arguments) in enumerate(self.cells.items()):
            try:
                results[name] = self._cell(name, arguments, cache, within and partial(within, done))
            except GdmError as error:
                failures[name] = str(error)
            if progress is not None:
                progress(done + 1, total)
        return BulkView(total, total, 0, True, False, time.monotonic() - began, results, failures)

    def _cell(
        self, name: str, arguments: tuple[Any, ...], cache: ResultCache | None, stopped: Callable[[int], None] | None
    ) -> Any:
        """The value of one cell; of a function that yields, what it yields last."""
        key = "" if cache is None else call_key(self.function, name)
        known, value = (False, None) if cache is None else cache.get_value(key)
        if known:
            return value
        value = self.function(*arguments)
        if isinstance(value, Iterator):
            for number, value in enumerate(value, start=1):  # noqa: B020 - the last one stands
                if value is None and stopped is not None:
                    stopped(number)
        if cache is not None:
            cache.put_value(key, value)
        return value
