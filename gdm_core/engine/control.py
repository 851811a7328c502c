"""Steering a job from outside while it runs on a worker: cancel, hold, single steps, deadlines.

The engine calls `set_control` in the worker process; the job looks at it between two steps, in its own memory and so
at no cost. A job on hold leaves the worker's thread pool, and another one runs in its place.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from distributed import get_worker, rejoin, secede

# A job makes way for as long as others need its worker. By then the server that would call it back is gone.
GIVE_WAY_LIMIT_S = 24 * 3600.0

_controls: dict[str, Control] = {}
_ended_topics: set[str] = set()
_controls_lock = threading.Lock()
_local = threading.local()


class JobStopped(BaseException):
    """Ends a job from inside a checkpoint. Not an Exception, so that no handler in a model swallows it."""


class JobCancelled(JobStopped):
    """Somebody no longer wants the job."""


class DeadlinePassed(JobStopped):
    """The job ran, or stood on hold, for longer than it may."""


@dataclass(frozen=True)
class Orders:
    """What the engine wants of a job. The whole of it travels each time, so that a lost or repeated message does no harm.

    hold     stand still once `until_step` is reached
    play_s   take so many seconds for all steps, by the clock: wait until the time of a step has come, and no longer. A job
             that is late waits for nothing, so that a slow one runs as fast as it can; 0 is no pace at all
    give_way stand still at once, because somebody who watches needs the worker
    """

    version: int = 0
    cancelled: bool = False
    hold: bool = False
    until_step: int = 0
    play_s: float = 0.0
    give_way: bool = False

    def holds(self, step: int) -> bool:
        return self.give_way or self.paused(step)

    def paused(self, step: int) -> bool:
        """Whether its owner wants it to stand at `step`; only that time counts against the limit on holds."""
        return self.hold and step >= self.until_step


ENDED = Orders(version=sys.maxsize, cancelled=True)  # whatever else is ordered


class Control:
    """The job's side: current orders, clocks, and the way to send word to the engine."""

    def __init__(self, run: str, topic: str, orders: Orders, deadline_s: float, hold_limit_s: float) -> None:
        self.run, self.topic = run, topic
        self.deadline_s, self.hold_limit_s = deadline_s, hold_limit_s
        self.step = 0
        self._orders = orders
        self._changed = threading.Condition()
        self._started = time.monotonic()
        self._held_s = self._paused_s = 0.0
        self._played_from: tuple[float, int] | None = None  # when, and at which step, the pace began
        self._outside_pool = False

    def order(self, orders: Orders) -> None:
        with self._changed:
            if orders.version > self._orders.version:
                self._orders = orders
                self._changed.notify_all()

    def cancel(self) -> None:
        """Stop, whatever else is ordered."""
        self.order(ENDED)

    def send(self, kind: str, **content: Any) -> None:
        """An event for the engine; only types that msgpack knows."""
        worker = get_worker()
        worker.log_event(self.topic, {"run": self.run, "kind": kind, "worker": worker.address, **content})

    def tell(self, found: Any) -> None:
        """What a call has found so far, for whoever waits."""
        self.send("found", found=found)

    @property
    def playing(self) -> bool:
        return self._orders.play_s > 0

    def keep_pace(self, step: int, total: int) -> None:
        """Wait until the time of `step` has come, if there is a pace; other orders end the wait.

        A job that waits needs no thread of the pool, and gets none back: it has little to do until it has ended.
        """
        if not self.playing or not total:
            self._played_from = None
            return
        if self._played_from is None:
            self._played_from = time.monotonic(), self.step
        began, first = self._played_from
        with self._changed:
            known = self._orders
            due = began + known.play_s * (step - first) / total
            if not (known.cancelled or known.give_way) and time.monotonic() < due:
                self._leave_thread_pool("aside", self.step)
                while self._orders is known and (left := due - time.monotonic()) > 0:
                    self._changed.wait(left)

    def _leave_thread_pool(self, kind: str, step: int) -> None:
        """Leave the worker's thread pool, where another job runs from now on, and say so: once, or where it stands."""
        if self._outside_pool and kind == "aside":
            return
        if not self._outside_pool:
            secede()
        self._outside_pool = True
        self.send(kind, step=step)

    def checkpoint(self, step: int, on_hold: Callable[[], None] | None = None) -> None:
        """Stop, hold or go on, as ordered. `on_hold` runs when the job comes to a stand, to show where."""
        self.step = step
        orders = self._orders
        if orders.cancelled:
            raise JobCancelled
        self._check_deadline()
        if orders.holds(step):
            if on_hold is not None:
                on_hold()
            self._hold(step)

    def _check_deadline(self) -> None:
        running = time.monotonic() - self._started - self._held_s
        if running > self.deadline_s:
            raise DeadlinePassed(
                f"Stopped at step {self.step} because it ran longer than its deadline of {self.deadline_s:g} s. "
                "Use fewer steps, less data or a smaller model, or allow more time."
            )

    def _hold(self, step: int) -> None:
        since = time.monotonic()
        self._leave_thread_pool("held", step)
        with self._changed:
            while self._orders.holds(step) and not self._orders.cancelled:
                known = self._orders.version
                self._wait(step)
                if self._orders.version > known and self._orders.holds(step):
                    self.send("held", step=step)  # told to go on and to hold again before it had gone on
            if self._orders.cancelled:
                raise JobCancelled
        self._played_from = None
        if self.playing:  # back in the pool it would wait for whoever runs there now, and leave it again at once
            self.send("aside", step=step)
        else:
            self.send("resumed", step=step)
            rejoin()
            self._outside_pool = False
        self._held_s += time.monotonic() - since

    def _wait(self, step: int) -> None:
        """Until the orders change, or for as long as they may stay the same."""
        if not self._orders.paused(step):
            if not self._changed.wait(GIVE_WAY_LIMIT_S):
                raise DeadlinePassed(f"Stopped at step {step} after a day of making way for others. Start it again.")
            return
        since = time.monotonic()
        self._changed.wait(self.hold_limit_s - self._paused_s)
        self._paused_s += time.monotonic() - since
        if self._paused_s >= self.hold_limit_s and self._orders.paused(step):
            raise DeadlinePassed(
                f"Stopped at step {step} because it was on hold for longer than {self.hold_limit_s:g} s. "
                "Start it again to go on."
            )


def set_control(run: str, orders: Orders) -> None:
    """Called by the engine in the worker process. A job that has ended, or not begun, needs no orders here."""
    with _controls_lock:
        control = _controls.get(run)
    if control is not None:
        control.order(orders)


def end_topic(topic: str) -> None:
    """Called by an engine that leaves: its jobs stop here, also those that have not begun."""
    with _controls_lock:
        _ended_topics.add(topic)
        leaving = [control for control in _controls.values() if control.topic == topic]
    for control in leaving:
        control.cancel()


def kill_worker(dask_worker: Any) -> None:
    """Called by the engine in the nanny (Dask passes it under this name), which starts the worker anew at once."""
    os.kill(dask_worker.pid, signal.SIGKILL)


def end_if_stopped(dask_worker: Any) -> None:
    """Called by the engine in the nanny of a worker that gives no sign of life.

    One that was stopped (SIGSTOP) may never go on; one that is merely busy is left alone.
    """
    import psutil

    if psutil.Process(dask_worker.pid).status() == psutil.STATUS_STOPPED:
        kill_worker(dask_worker)


@contextmanager
def controlled(control: Control) -> Iterator[Control]:
    """Make `control` reachable for the engine and for `checkpoint` while the job runs."""
    with _controls_lock:
        _controls[control.run] = control
        ended = control.topic in _ended_topics
    if ended:
        control.cancel()
    _local.control = control
    try:
        control.send("started", version=control._orders.version)
        yield control
    finally:
        _local.control = None
        with _controls_lock:
            _controls.pop(control.run, None)


def current() -> Control | None:
    """That of the job which runs in this thread; None outside the engine."""
    return getattr(_local, "control", None)


def checkpoint(step: int | None = None, total: int = 0) -> None:
    """For functions that run as jobs: call it between two pieces of work, so that the job can be stopped, held, and seen.

    Outside the engine it does nothing.
    """
    control = current()
    if control is None:
        return
    reached = control.step + 1 if step is None else step
    now = time.monotonic()
    if now - getattr(_local, "reported", 0.0) >= 0.1:
        _local.reported = now
        control.send("progress", step=reached, total=total, steps=[], elbos=[], snapshot=None)
    control.checkpoint(reached)
