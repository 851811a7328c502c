"""What runs on a worker: one fit or one function call, which reports progress and stops when it is cancelled."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from distributed import Event, get_worker

from gdm_core import errors
from gdm_core.engine.results import FitResult, Recorder, Snapshot
from gdm_core.engine.spec import code_version, resolve_family
from gdm_core.errors import FitError, GdmError
from gdm_core.trials import Trials

REPORT_EVERY_S = 0.1
CANCEL_EVERY_S = 0.05  # between two looks at the Event that cancels a job
NICE = 5
# glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD, in bytes: what it reaches by itself in a process without Dask's setting.
ARENA_OPTIONS = {-1: 64 * 2**20, -3: 32 * 2**20}

_local = threading.local()


class JobCancelled(BaseException):
    """Ends a job from inside a checkpoint. Not an Exception, so that no handler in a model swallows it."""


class Control:
    """A running job's connection to the engine."""

    def __init__(self, job: str, topic: str, deadline_s: float) -> None:
        self.job, self.step = job, 0
        self._topic, self._deadline_s = topic, deadline_s
        self._cancelled = Event(job)
        self._began = time.monotonic()
        self._next_look = self._next_report = 0.0

    def send(self, kind: str, **content: Any) -> None:
        """Send an event to the engine; values are of types that msgpack knows."""
        worker = get_worker()
        worker.log_event(self._topic, {"job": self.job, "kind": kind, "worker": worker.address, **content})

    @property
    def report_is_due(self) -> bool:
        return time.monotonic() >= self._next_report

    def report(self, step: int, total: int, **content: Any) -> None:
        """Send progress: steps done, of how many."""
        self._next_report = time.monotonic() + REPORT_EVERY_S
        self.send("progress", step=step, total=total, **content)

    def checkpoint(self, step: int) -> None:
        """Stop the job if it has been cancelled or has passed its deadline."""
        self.step, now = step, time.monotonic()
        if now >= self._next_look:
            self._next_look = now + CANCEL_EVERY_S
            if self._cancelled.is_set():
                self._cancelled.clear()
                raise JobCancelled
        if now - self._began > self._deadline_s:
            raise FitError(
                f"Stopped at step {step} because it ran longer than its deadline of {self._deadline_s:g} s. "
                "Use fewer steps, less data or a smaller model, or allow more time."
            )


def checkpoint(step: int | None = None, total: int = 0) -> None:
    """Let the job that this function runs in report progress and stop. Does nothing outside the engine."""
    control: Control | None = getattr(_local, "control", None)
    if control is None:
        return
    reached = control.step + 1 if step is None else step
    if control.report_is_due:
        control.report(reached, total)
    control.checkpoint(reached)


def run(job: str, topic: str, deadline_s: float, function: Callable[..., Any], *args: Any) -> tuple[bool, Any]:
    """Return (True, value of the call), (False, error of the library), or (False, None) after a cancellation."""
    prepare()
    _local.control = control = Control(job, topic, deadline_s)
    try:
        control.send("started")
        control.checkpoint(0)
        value = function(*args)
        return True, _last(value, control) if isinstance(value, Iterator) else value
    except JobCancelled:
        return False, None
    except GdmError as error:  # as a type that every server knows, with nothing but its message
        return False, getattr(errors, type(error).__name__, FitError)(str(error))
    finally:
        _local.control = None


def _last(values: Iterator[Any], control: Control) -> Any:
    """Return the last value of a generator, and send the others as partial results."""
    value = None
    for value in values:
        if value is not None:
            control.send("partial", value=value)
        control.checkpoint(control.step + 1)
    return value


def fit(trials: Trials, key: str, family: str, config: dict[str, Any], preview: tuple[int, ...]) -> FitResult:
    """Fit what a FitSpec describes; report steps and snapshots on the way."""
    model, control = resolve_family(family)(**config), _local.control
    recorder = Recorder(model, trials, preview)
    curve: list[tuple[int, float]] = []
    sent, finished = 0, False
    try:
        for progress in model.fit_iter(trials, start=True):
            step, elbo = int(progress.step), float(progress.elbo)
            if step:
                curve.append((step, elbo))
            snapshot = recorder.record(step, elbo)
            if snapshot is not None or control.report_is_due:
                picture = None if snapshot is None else snapshot.encode()
                control.report(step, int(progress.total), curve=curve[sent:], snapshot=picture)
                sent = len(curve)
            control.checkpoint(step)
        finished = True
    finally:
        if not finished:
            model.params_ = {}  # spares the closing iterator the scores of a model that is not wanted
    model.raise_if_failed()
    steps, elbos = zip(*curve, strict=True)
    snapshots = [one for one in recorder.snapshots if one.step < steps[-1]]
    if preview:
        snapshots.append(Snapshot.from_model(model, trials, preview, steps[-1], elbos[-1]))
    how = str(model.status_), float(model.elbo_), float(model.seconds_)
    return FitResult(key, model.to_bytes(), *how, steps, elbos, tuple(snapshots))


@lru_cache(maxsize=1)
def keep_memory() -> bool:
    """Keep freed memory in this process; return whether the C library can.

    Dask starts workers with MALLOC_TRIM_THRESHOLD_=65536, which makes a fit three times as slow.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none, and no need of it
    return mallopt is not None and all(mallopt(option, size) == 1 for option, size in ARENA_OPTIONS.items())


def prepare() -> None:
    """Set up this thread and process for a job: one torch thread, behind the web server, memory kept."""
    import torch

    keep_memory()
    if torch.get_num_threads() != 1:
        torch.set_num_threads(1)  # fits are many small operations
    if sys.platform == "linux":  # where that is of this thread alone: Dask's own stay responsive
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(NICE, os.getpriority(os.PRIO_PROCESS, thread)))


@lru_cache(maxsize=1)
def warm_up() -> str:
    """Load what the first fit would wait for; return the version of the code found here."""
    from gdm_core.models.registry import FAMILIES, import_family

    keep_memory()
    for family in FAMILIES:
        import_family(family)
    y = np.random.default_rng(0).standard_normal((64, 2))
    smallest: dict[str, Any] = {"n_states": 2, "n_latent": 2, "seed": 0}
    model = resolve_family("gdm")(**smallest)
    for _ in model.fit_iter(y, finish=False):  # libraries load some of their parts when first used
        model.predict_proba(y)
        break
    return code_version()
