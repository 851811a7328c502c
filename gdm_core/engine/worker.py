"""Code that runs on workers: fits and calls, with progress reports and cancellation."""

from __future__ import annotations

import ctypes
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from distributed import Event, get_worker

from gdm_core import errors
from gdm_core.engine.results import FitResult, Recorder, Snapshot, TrialStates
from gdm_core.engine.spec import code_version, resolve_family
from gdm_core.errors import FitError, GdmError
from gdm_core.trials import Trials

REPORT_EVERY_S = 0.1
CANCEL_EVERY_S = 0.05  # interval between checks for cancellation
NICE = 5
# glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD in bytes; Dask sets a lower one.
ARENA_OPTIONS = {-1: 64 * 2**20, -3: 32 * 2**20}

_local = threading.local()


class JobCancelled(BaseException):
    """Ends a job at a checkpoint. A BaseException, because models may catch Exception."""


class Control:
    """A running job's connection to the engine."""

    def __init__(self, job: str, topic: str) -> None:
        self.job, self.step, self._topic = job, 0, topic
        self._cancelled = Event(job)
        self._next_check = self._next_report = 0.0

    def send(self, kind: str, **content: Any) -> None:
        """Send an event to the engine; msgpack must hold its values."""
        get_worker().log_event(self._topic, {"job": self.job, "kind": kind, **content})

    @property
    def report_is_due(self) -> bool:
        return time.monotonic() >= self._next_report

    def report(self, step: int, total: int, **content: Any) -> None:
        """Send the number of steps done and in total."""
        self._next_report = time.monotonic() + REPORT_EVERY_S
        self.send("progress", step=step, total=total, **content)

    def checkpoint(self, step: int) -> None:
        """Stop the job if it has been cancelled."""
        self.step, now = step, time.monotonic()
        if now >= self._next_check:
            self._next_check = now + CANCEL_EVERY_S
            if self._cancelled.is_set():
                self._cancelled.clear()
                raise JobCancelled


def checkpoint(step: int | None = None, total: int = 0) -> None:
    """Report progress and stop if cancelled. Does nothing outside the engine."""
    control: Control | None = getattr(_local, "control", None)
    if control is None:
        return
    reached = control.step + 1 if step is None else step
    if control.report_is_due:
        control.report(reached, total)
    control.checkpoint(reached)


def run(job: str, topic: str, function: Callable[..., Any], *args: Any) -> tuple[bool, Any]:
    """Return (True, value), (False, GdmError), or (False, None) after a cancellation."""
    prepare()
    _local.control = control = Control(job, topic)
    try:
        control.send("started")
        control.checkpoint(0)
        value = function(*args)
        return True, _last(value, control) if isinstance(value, Iterator) else value
    except JobCancelled:
        return False, None
    except GdmError as error:  # subclasses may be unknown to the server, or hold unpicklable values
        return False, getattr(errors, type(error).__name__, FitError)(str(error))
    finally:
        _local.control = None


def _last(values: Iterator[Any], control: Control) -> Any:
    """Return the last value of a generator; send the others as partial results."""
    value = None
    for value in values:
        if value is not None:
            control.send("partial", value=value)
        control.checkpoint(control.step + 1)
    return value


def fit(
    trials: Trials,
    test: Trials | None,
    key: str,
    family: str,
    config: dict[str, Any],
    preview: tuple[int, ...],
    known: FitResult | None = None,
) -> FitResult:
    """Run a fit, unless its result is known; report its steps and snapshots, and add states of all trials."""
    if known is not None:
        return known if test is None else known.with_states(TrialStates.from_model(known.model(), trials, test))
    model, control = resolve_family(family)(**config), _local.control
    recorder = Recorder(model, trials, preview)
    curve: list[tuple[int, float]] = []
    sent, finished = 0, False
    # Kept in a variable: Python closes an iterator of the loop alone before `finally`. `inference.calibrate` follows.
    steps_of_fit = model.fit_iter(trials, start=True, calibrate=False)
    try:
        for progress in steps_of_fit:
            step, elbo = int(progress.step), float(progress.elbo)
            if step:
                curve.append((step, elbo))
            snapshot = recorder.record(step, elbo)
            if snapshot is not None or control.report_is_due:
                picture = None if snapshot is None else pickle.dumps(snapshot)
                control.report(step, int(progress.total), curve=curve[sent:], snapshot=picture)
                sent = len(curve)
            control.checkpoint(step)
        finished = True
    finally:
        if not finished:
            model.params_ = {}  # otherwise closing the iterator computes scores
    model.raise_if_failed()
    steps, elbos = zip(*curve, strict=True)
    snapshots = [one for one in recorder.snapshots if one.step < steps[-1]]
    states = None if test is None else TrialStates.from_model(model, trials, test)
    if preview and states is not None and states.train:
        final = [states.train[i] for i in preview]
        snapshots.append(Snapshot.from_levels(final, preview, steps[-1], elbos[-1]))
    elif preview:
        snapshots.append(Snapshot.from_model(model, trials, preview, steps[-1], elbos[-1]))
    how = str(model.status_), float(model.elbo_), float(model.seconds_)
    return FitResult(key, model.to_bytes(), *how, steps, elbos, tuple(snapshots), states=states)


@lru_cache(maxsize=1)
def keep_memory() -> bool:
    """Let malloc keep freed memory; return whether the C library supports it.

    Dask starts workers with MALLOC_TRIM_THRESHOLD_=65536, which makes fits three times slower.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    return mallopt is not None and all(mallopt(option, size) == 1 for option, size in ARENA_OPTIONS.items())


def prepare() -> None:
    """Prepare this thread for a job: one torch thread, a lower priority than the web server."""
    import torch

    keep_memory()
    if torch.get_num_threads() != 1:
        torch.set_num_threads(1)  # fits consist of small operations
    if sys.platform == "linux":  # elsewhere it would slow down Dask's threads as well
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(NICE, os.getpriority(os.PRIO_PROCESS, thread)))


@lru_cache(maxsize=1)
def warm_up() -> str:
    """Load torch and the models before the first fit; return the code version of this worker."""
    from gdm_core.models.registry import FAMILIES, import_family

    keep_memory()
    for family in FAMILIES:
        import_family(family)
    y = np.random.default_rng(0).standard_normal((64, 2))
    smallest: dict[str, Any] = {"n_states": 2, "n_latent": 2, "seed": 0}
    model = resolve_family("gdm")(**smallest)
    for _ in model.fit_iter(y, finish=False):  # some libraries load modules on first use
        model.predict_proba(y)
        break
    return code_version()
