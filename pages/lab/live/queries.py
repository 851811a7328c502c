"""Questions about a finished fit (scores, envelopes, maps), computed on workers while the page goes on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gdm_core.engine import Engine, FitSpec, Job, JobStatus, Priority
from gdm_core.errors import GdmError

MAX_RESULTS = 48


@dataclass(frozen=True, eq=False)
class Query:
    """A question as far as it is known: its result, or an earlier result of the same name.

    fresh     whether `value` is the result of this very question
    pending   whether it is being computed
    message   why there is no result
    about     what the caller says that `value` is about; an earlier value keeps its own
    partial   results so far of a function that yields
    queued    whether it waits for a worker
    """

    value: Any = None
    fresh: bool = False
    pending: bool = False
    message: str = ""
    about: Any = None
    name: str = ""
    partial: Any = None
    queued: bool = False


class Queries:
    """The questions of one page and one visitor; per name, the latest wins."""

    def __init__(self, engine: Engine, session: str) -> None:
        self._engine, self._session = engine, session
        self._results: OrderedDict[tuple[str, str], Query] = OrderedDict()
        self._failures: dict[tuple[str, str], str] = {}
        self._jobs: dict[str, tuple[str, Job, Any]] = {}
        self._latest: dict[str, Query] = {}
        self._partial: dict[str, Any] = {}
        self._owed: set[str] = set()  # names whose caller was told to ask again
        self._idle: set[str] = set()  # names of low priority, which no page waits for
        self.n_news = 0  # results and partial results so far
        self.n_settled = 0  # results that the page waited for

    @property
    def pending(self) -> bool:
        return bool(self._jobs)

    @property
    def awaited(self) -> bool:
        """Whether the page waits for a result, other than those of low priority."""
        return any(name not in self._idle for name in self._jobs)

    def ask(
        self,
        name: str,
        key: str,
        function: Callable[..., Any],
        *args: Any,
        about: Any = None,
        kept: bool = False,
        priority: Priority = Priority.NORMAL,
        wait_s: float = 0.0,
    ) -> Query:
        """Return the result of `function(*args)`, or a pending query while a worker computes it.

        key       contains everything that the result depends on; another key replaces the question of the same name
        about     returned with the result, also when it is shown as an earlier one
        kept      whether the result, which JSON must hold, stays on disk
        priority  HIGH: part of the picture. LOW: computed while the page waits for nothing else
        wait_s    seconds that the page may wait
        """

        def submit() -> Job:
            return self._engine.submit(
                function,
                *args,
                session=self._session,
                name=f"ask-{name}",
                priority=priority,
                cached_as=key if kept else "",
            )

        return self._resolve(name, key, submit, about, priority, wait_s)

    def ask_fit(self, name: str, spec: FitSpec) -> Query:
        """Return the result of a fit of low priority."""

        def submit() -> Job:
            return self._engine.submit(spec, session=self._session, name=f"ask-{name}", priority=Priority.LOW)

        return self._resolve(name, spec.key, submit, None, Priority.LOW)

    def _resolve(
        self, name: str, key: str, submit: Callable[[], Job], about: Any, priority: Priority, wait_s: float = 0.0
    ) -> Query:
        self.collect()
        self._owed.discard(name)
        if priority is Priority.LOW:
            self._idle.add(name)
        question = (name, key)
        if question in self._results:
            self._drop(name, unless=key)
            self._results.move_to_end(question)
            self._latest[name] = self._results[question]
            return self._results[question]
        if question in self._failures:
            return replace(self.latest(name), message=self._failures[question])
        if name not in self._jobs or self._jobs[name][0] != key:
            self.cancel(name)
            try:
                job = submit()
            except GdmError as error:
                return replace(self.latest(name), message=str(error))
            self._jobs[name], self._partial[name] = (key, job, about), None
            if wait_s:
                job.wait(wait_s)
            if job.poll().status.final:  # cached, or done meanwhile
                return self._resolve(name, key, submit, about, priority)
        self._owed.add(name)
        view = self._jobs[name][1].poll()
        self._partial[name] = view.found
        return replace(self.latest(name), pending=True, partial=view.found, queued=view.status is JobStatus.QUEUED)

    def find(self, name: str, key: str) -> Any:
        """Return the result of a question that was asked before, None if there is none."""
        found = self._results.get((name, key))
        return None if found is None else found.value

    def cancel(self, name: str) -> None:
        """End the question of that name."""
        self._drop(name, unless="")

    def cancel_all(self) -> None:
        for name in list(self._jobs):
            self.cancel(name)

    def is_pending_except(self, name: str) -> bool:
        """Return whether another question is being computed."""
        return any(other != name for other in self._jobs)

    def latest(self, name: str) -> Query:
        """Return the newest result of that name, as an earlier one."""
        return replace(self._latest.get(name, Query(name=name)), fresh=False)

    def set_latest(self, name: str, value: Any, about: Any = None) -> None:
        """Set the earlier result of that name to a value known from elsewhere."""
        self._latest[name] = Query(value, about=about, name=name)

    def retry(self, name: str) -> None:
        """Forget that questions of that name failed."""
        self._failures = {question: why for question, why in self._failures.items() if question[0] != name}

    def pop_owed(self) -> bool:
        """Return once whether results have arrived that their callers have not seen.

        Every question collects all results, so one may arrive after its caller asked and before the next question of a run.
        """
        arrived = {name for name in self._owed if name not in self._jobs}
        self._owed -= arrived
        return bool(arrived - self._idle)

    def collect(self) -> None:
        """Take in the results of finished jobs."""
        for name, (key, job, about) in list(self._jobs.items()):
            view = job.poll()
            if not view.status.final:
                self.n_news += view.found is not self._partial[name]
                self._partial[name] = view.found
                continue
            del self._jobs[name]
            self.n_news += 1
            self.n_settled += name not in self._idle
            if view.status is JobStatus.DONE:
                self._remember(name, key, view.result, about)
            elif view.status is JobStatus.FAILED:
                self._failures[name, key] = view.message

    def _remember(self, name: str, key: str, value: Any, about: Any) -> None:
        self._results[name, key] = Query(value, fresh=True, about=about, name=name)
        while len(self._results) > MAX_RESULTS:
            self._results.popitem(last=False)

    def _drop(self, name: str, unless: str) -> None:
        if name in self._jobs and self._jobs[name][0] != unless:
            self._owed.discard(name)
            self._jobs.pop(name)[1].cancel()
