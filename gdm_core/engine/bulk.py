"""Many calls under one name: fed into the queue a few at a time, so that it goes on when nobody looks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gdm_core.engine.estimate import Estimate
from gdm_core.engine.jobs import Call, Job
from gdm_core.engine.messages import JobStatus, QueueFull
from gdm_core.errors import FitError

logger = logging.getLogger(__name__)

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
