"""An engine in this process whose jobs run on request.

A GDM is fitted in a single step. Results are cached for the process (`once`), since many tests open a page with the same
fit.
"""

import hashlib
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from gdm_core.engine import Engine, EngineInfo, FitResult, FitSpec, Job, JobStatus, ResultCache, Snapshot
from gdm_core.engine.job import Call
from gdm_core.engine.results import TrialStates
from gdm_core.engine.runner import last_value
from gdm_core.engine.spec import resolve_family
from gdm_core.errors import FitError, GdmError
from gdm_core.trials import Trials
from pages.ui import shipped

_given: dict[str, bytes] = {}


def once(work: Callable[..., Any], *args: Any) -> Any:
    """Return a copy of the cached result of `work(*args)`, keyed by content. Errors are not cached."""
    key = hashlib.sha256(pickle.dumps((work.__module__, work.__qualname__, args))).hexdigest()
    if key not in _given:
        found = work(*args)
        _given[key] = pickle.dumps(last_value(found) if isinstance(found, Iterator) else found)
    return pickle.loads(_given[key])


class Kept(ResultCache):
    """Results of fits and calls by key, in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.precomputed = shipped.find_result
        self.results: dict[str, FitResult] = {}
        self.values: dict[str, Any] = {}

    def get(self, key: str, held_out: str = "") -> tuple[FitResult | None, str]:
        return self.results.get(f"{key}/{held_out}", self.results.get(key)), ""

    def put(self, result: FitResult) -> str:
        self.results[result.key] = result
        if result.states is not None:
            self.results[f"{result.key}/{result.states.held_out}"] = result
        return ""

    def read(self, key: str) -> tuple[bool, Any, str]:
        return key in self.values, self.values.get(key), ""


class QuickEngine(Engine):
    """The engine without its cluster; with `auto`, jobs run at once.

    failing  message with which fits fail
    unable   messages with which questions fail, by name
    real     fit a GDM in as many steps as requested
    """

    def __init__(self, auto: bool = True, real: bool = False) -> None:
        self.auto, self.real, self.failing = auto, real, ""
        self.unable: dict[str, str] = {}
        self.cache = Kept()
        self.values = self.cache.values  # results of calls by cache key
        self.jobs: list[Job] = []
        self.forgotten: list[str] = []

    def submit(self, *args: Any, **how: Any) -> Job:
        job = super().submit(*args, **how)
        if job not in self.jobs:  # its result was cached
            self.jobs.append(job)
        return job

    def _enqueue(self, job: Job) -> None:
        self.jobs.append(job)
        if self.auto:
            self.run(job)

    def _on_end(self, job: Job) -> None: ...

    def info(self) -> EngineInfo:
        return EngineInfo(0, len(self.waiting()), 0)

    def forget(self, session: str) -> None:
        """Cancel the jobs of a session."""
        self.forgotten.append(session)
        self.cache.forget(session)
        for job in self.waiting():
            if job.session == session:
                job.cancel()

    def waiting(self, name: str | None = None) -> list[Job]:
        """Return unfinished jobs in order."""
        return [job for job in self.jobs if not job.poll().status.final and name in (None, job.name)]

    def run(self, job: Job) -> Job:
        """Run a job."""
        if job.poll().status.final:
            return job
        try:
            if isinstance(job.work, FitSpec):
                result = self._fitted(job.work, job.known is not None)
                self._keep(job, result)
                job.succeed(result)
            elif job.name in self.unable:
                raise FitError(self.unable[job.name])
            else:
                value = self._run_call(job.work)
                if job.work.cache_key is not None:
                    self.values[job.work.cache_key] = value
                job.succeed(value)
        except GdmError as error:
            job.fail(error)
        return job

    def report(self, job: Job, step: int = 1) -> None:
        """Report progress and a snapshot of a fit."""
        result = self._fitted(job.work)
        job.apply({"kind": "started"})
        job.apply(
            {"kind": "progress", "step": step, "total": 3, "curve": [[step, -1.0]]}
            | {"snapshot": pickle.dumps(result.snapshot)}
        )

    def run_all(self) -> None:
        """Run all waiting jobs."""
        for job in self.waiting():
            self.run(job)

    def _fitted(self, spec: FitSpec, known: bool = False) -> FitResult:
        if self.failing and not known:
            raise FitError(self.failing)
        steps = {"n_steps": 1} if spec.family == "gdm" and not self.real else {}
        return once(_fit, spec.family, dict(spec.config) | steps, spec.trials, spec.preview, spec.key, spec.test)

    def _run_call(self, call: Call) -> Any:
        work = call.function
        if not work.__module__.startswith("gdm_core."):  # a function of the test, which may count its calls
            found = work(*call.args)
            return last_value(found) if isinstance(found, Iterator) else found
        return once(work, *call.args)


def _fit(
    family: str, config: dict[str, Any], trials: Trials, preview: tuple[int, ...], key: str, test: Trials | None
) -> FitResult:
    model = resolve_family(family)(**config).fit(trials, calibrate=False)
    steps = tuple(progress.step for progress in model.history_)
    elbos = tuple(progress.elbo for progress in model.history_)
    picture = Snapshot.from_model(model, trials, preview, steps[-1], elbos[-1])
    even = tuple(np.full_like(level, 255 // level.shape[1]) for level in picture.levels)
    start = replace(picture, step=0, elbo=float("nan"), levels=even)
    states = None if test is None else TrialStates.from_model(model, trials, test)
    how = str(model.status_), model.elbo_, 0.1
    return FitResult(key, model.to_bytes(), *how, steps, elbos, (start, picture), states=states)


def ended(job: Job) -> bool:
    return job.poll().status is JobStatus.CANCELLED
