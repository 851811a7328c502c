"""What runs on a worker: one fit or one function call, always ending in an outcome that says how it went.

An outcome is how a job ended, with its value, or with the error that the library raised on purpose; any other exception is
a bug and travels as itself.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from gdm_core import errors
from gdm_core.engine.control import Control, DeadlinePassed, JobCancelled, controlled, current
from gdm_core.engine.messages import FitResult, JobStatus, Snapshot, code_version, resolve_family
from gdm_core.errors import FitError, GdmError
from gdm_core.trials import Trials

if TYPE_CHECKING:
    from gdm_core.models.base import Progress, StateModel

REPORT_EVERY_S = 0.1
# A snapshot may cost this share of the fit's time at most.
SNAPSHOT_SHARE = 0.2
PLAYED_EVERY_S = 0.15  # least time between two snapshots of a fit that is played, and has time to spare
# glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD, in bytes: what it reaches by itself in a process without Dask's setting.
ARENA_OPTIONS = {-1: 64 * 2**20, -3: 32 * 2**20}

NICE_VARIABLE = "GDM_NICE"

Outcome = tuple[JobStatus, Any]


def run(begin: Callable[[], Control], function: Callable[..., Any], *args: Any) -> Outcome:
    """Any function, `fit` among them.

    It may call `gdm_core.engine.checkpoint` to be steerable, or yield what it has found by and by.
    """
    prepare()
    step_back()
    with controlled(begin()) as control:
        try:
            return JobStatus.DONE, _whole(function(*args), control)
        except JobCancelled:
            return JobStatus.CANCELLED, None
        except DeadlinePassed as error:
            return JobStatus.FAILED, FitError(str(error))
        except GdmError as error:  # as one that every server knows, with nothing but its message
            return JobStatus.FAILED, getattr(errors, type(error).__name__, FitError)(str(error))


def _whole(found: Any, control: Control) -> Any:
    """The value of a call. Of one that yields it is the last; all are told but None, and each is a place to stop or stand."""
    if not isinstance(found, Iterator):
        return found
    value = None
    for value in found:
        if value is not None:
            control.tell(value)
        control.checkpoint(control.step + 1)
    return value


def fit(
    trials: Trials,
    key: str,
    family: str,
    config: dict[str, Any],
    preview: tuple[int, ...],
    snapshot_every_s: float,
    warm_start: bytes | None,
) -> FitResult:
    """What a `FitRequest` asks for, with steps and snapshots reported on the way. Its data waited on the cluster."""
    model, control = _build(family, config, warm_start), current()
    assert control is not None
    watch = _Watch(trials, preview, snapshot_every_s, model, control)
    steps = model.fit_iter(trials, start=True)
    finished = False
    try:
        for progress in steps:
            control.keep_pace(progress.step, progress.total)
            watch.see(progress)
            control.checkpoint(progress.step, on_hold=watch.report)
        finished = True
    finally:
        if not finished:
            # Nobody will read this model: closing the iterator need not score and calibrate it.
            model.params_ = {}
    model.raise_if_failed()
    return FitResult(
        key,
        model.to_bytes(),
        str(model.status_),
        float(model.elbo_),
        float(model.seconds_),
        tuple(watch.steps),
        tuple(watch.elbos),
        Snapshot.take(model, trials, preview, watch.step) if preview else None,
    )


def _build(name: str, config: dict[str, Any], warm_start: bytes | None) -> StateModel:
    family = resolve_family(name)
    if warm_start is None:
        return family(**config)
    from gdm_core.models.loading import model_from_bytes

    previous = model_from_bytes(warm_start)
    if type(previous) is not family:
        raise FitError(
            f"A {family.__name__} cannot start from a fitted {type(previous).__name__}. Start it without one."
        )
    return previous.warm_start(**config)


class _Watch:
    """Tells the engine about a fit: often enough to look live, seldom enough to cost little."""

    def __init__(
        self, trials: Trials, preview: tuple[int, ...], every_s: float, model: StateModel, control: Control
    ) -> None:
        self._trials, self._preview, self._every_s = trials, preview, every_s
        self._model, self._control = model, control
        self.steps: list[int] = []
        self.elbos: list[float] = []
        self.step = self._total = self._n_told = 0
        self._next_report = self._next_snapshot = 0.0

    def see(self, progress: Progress) -> None:
        self.step, self._total = int(progress.step), int(progress.total)
        elbo = float(progress.elbo)
        start = self.step == 0 and math.isnan(elbo)  # which has a picture, and no bound yet
        if not start:
            self.steps.append(self.step)
            self.elbos.append(elbo)
        now = time.monotonic()
        # After the last step the model is still scored and calibrated: the final picture need not wait for that.
        last = self.step == self._total
        if (now >= self._next_snapshot or last) and (start or math.isfinite(elbo)):
            self.report()
        elif now >= self._next_report:
            self.report(with_snapshot=False)

    def report(self, with_snapshot: bool = True) -> None:
        """Everything up to this step, with a picture of it."""
        snapshot = None
        if with_snapshot and self._preview:
            began = time.monotonic()
            snapshot = Snapshot.take(self._model, self._trials, self._preview, self.step, rough=True).encode()
            cost = time.monotonic() - began
            every = PLAYED_EVERY_S if self._control.playing else self._every_s
            self._next_snapshot = time.monotonic() + max(every, cost / SNAPSHOT_SHARE)
        self._control.send(
            "progress",
            step=self.step,
            total=self._total,
            steps=self.steps[self._n_told :],
            elbos=self.elbos[self._n_told :],
            snapshot=snapshot,
        )
        self._n_told = len(self.steps)
        self._next_report = time.monotonic() + REPORT_EVERY_S


@lru_cache(maxsize=1)
def keep_memory() -> bool:
    """Have freed memory stay with this process, to be used again by the next step; whether that could be arranged.

    Dask starts workers with MALLOC_TRIM_THRESHOLD_=65536: every array of a step would go back to the system and come
    anew, page by page, which makes a fit three times as slow.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none, and no need of it
    return mallopt is not None and all(mallopt(option, size) == 1 for option, size in ARENA_OPTIONS.items())


def step_back() -> None:
    """Let others go first, where GDM_NICE says by how much.

    On Linux that holds for this thread alone: what keeps the worker in touch, and loads libraries, stays as quick as
    anything on the machine.
    """
    text = os.environ.get(NICE_VARIABLE, "")
    if not text or not hasattr(os, "setpriority"):
        return
    wanted = min(19, _nice_at_start() + int(text))
    own = threading.get_native_id() if sys.platform == "linux" else 0
    if os.getpriority(os.PRIO_PROCESS, own) < wanted:
        os.setpriority(os.PRIO_PROCESS, own, wanted)


@lru_cache(maxsize=1)
def _nice_at_start() -> int:
    return os.getpriority(os.PRIO_PROCESS, os.getpid())


def prepare() -> None:
    """What every job wants of its process. Fits are many small operations: a second thread only gets in the way of the others."""
    import torch

    keep_memory()
    if torch.get_num_threads() != 1:
        torch.set_num_threads(1)


@lru_cache(maxsize=1)
def warm_up() -> str:
    """Load what the first fit would otherwise wait for, once a process; returns the version of the code found here."""
    from gdm_core.models.registry import FAMILIES, import_family

    prepare()
    for family in FAMILIES:
        try:
            import_family(family)
        except ModuleNotFoundError as error:
            # A family that is not part of this installation is reported when somebody asks for it.
            if not (error.name or "").startswith("gdm_core"):
                raise
    _first_step()
    return code_version()


def _first_step() -> None:
    """Libraries load some of their parts when first used, which makes a first fit wait for a second or more."""
    y = np.random.default_rng(0).standard_normal((64, 2))
    smallest: dict[str, Any] = {"n_states": 2, "n_latent": 2, "seed": 0}
    model = resolve_family("gdm")(**smallest)
    for _ in model.fit_iter(y):
        model.predict_proba(y)
        model.params_ = {}  # spares the scoring of a model that nobody wants
        return
