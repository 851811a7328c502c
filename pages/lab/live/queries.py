"""Queries about a finished fit (scores, forecasts, maps), computed on workers."""

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
    """A query with its result, or with an earlier result of the same name.

    fresh     whether `value` is the result of this query, not an earlier one
    pending   whether the result is being computed
    message   why there is no result
    about     caller's note on `value`, stored with it
    partial   latest value of a function that yields
    queued    whether the query waits for a worker
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
    """The queries of one page and one visitor; per name, the latest wins."""

    def __init__(self, engine: Engine, session: str) -> None:
        self._engine, self._session = engine, session
        self._results: OrderedDict[tuple[str, str], Query] = OrderedDict()
        self._failures: dict[tuple[str, str], str] = {}
        self._jobs: dict[str, tuple[str, Job, Any]] = {}
        self._latest: dict[str, Query] = {}
        self._partial: dict[str, Any] = {}
        self._unseen: set[str] = set()  # names that were pending when last asked for
        self._idle: set[str] = set()  # names of low priority, which no page waits for
        self.n_news = 0  # results and partial results so far
        self.n_settled = 0  # results of other than low priority

    @property
    def pending(self) -> bool:
        return bool(self._jobs)

    @property
    def awaited(self) -> bool:
        """Whether the page waits for a result of more than low priority."""
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

        key       name of all inputs; another key replaces the query of the same name
        about     stored with the result
        kept      whether the result, which must be JSON, is stored on disk
        priority  HIGH: part of the picture. LOW: computed when the page waits for nothing else
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
        self._unseen.discard(name)
        if priority is Priority.LOW:
            self._idle.add(name)
        if (name, key) in self._results:
            self._drop(name, unless=key)
            self._results.move_to_end((name, key))
            self._latest[name] = self._results[name, key]
            return self._results[name, key]
        if (name, key) in self._failures:
            return replace(self.latest(name), message=self._failures[name, key])
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
        self._unseen.add(name)
        view = self._jobs[name][1].poll()
        self._partial[name] = view.found
        return replace(self.latest(name), pending=True, partial=view.found, queued=view.status is JobStatus.QUEUED)

    def find(self, name: str, key: str) -> Any:
        """Return the result of an earlier query, None if there is none."""
        found = self._results.get((name, key))
        return None if found is None else found.value

    def cancel(self, name: str) -> None:
        """Cancel the query of a name."""
        self._drop(name, unless="")

    def cancel_all(self) -> None:
        for name in list(self._jobs):
            self.cancel(name)

    def latest(self, name: str) -> Query:
        """Return the newest result of a name, as an earlier one."""
        return replace(self._latest.get(name, Query(name=name)), fresh=False)

    def set_latest(self, name: str, value: Any, about: Any = None) -> None:
        """Set the earlier result of a name."""
        self._latest[name] = Query(value, about=about, name=name)

    def retry(self, name: str) -> None:
        """Forget the failures of a name."""
        self._failures = {query: why for query, why in self._failures.items() if query[0] != name}

    def pop_unseen(self) -> bool:
        """Return whether results have arrived that their callers have not seen; each counts once.

        Each query collects all results, so a result may arrive between its caller's query and a later one.
        """
        arrived = {name for name in self._unseen if name not in self._jobs}
        self._unseen -= arrived
        return bool(arrived - self._idle)

    def collect(self) -> None:
        """Store the results of finished jobs."""
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
            self._unseen.discard(name)
            self._jobs.pop(name)[1].cancel()
