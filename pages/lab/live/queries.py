"""Queries about a finished fit (scores, forecasts, maps), computed on workers."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from gdm_core.engine import Engine, FitSpec, Job, JobStatus, Priority
from gdm_core.errors import GdmError
from gdm_core.trials import Trial, Trials

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


@dataclass(eq=False)
class _Pending:
    """A job of a query, and its latest partial result."""

    key: str
    job: Job
    about: Any
    partial: Any = None


class Queries:
    """The queries of one page and one visitor; per name, the latest wins."""

    def __init__(self, engine: Engine, session: str) -> None:
        self._engine, self._session = engine, session
        self._results: OrderedDict[tuple[str, str], Query] = OrderedDict()  # by name, and name of all inputs
        self._failures: dict[tuple[str, str], str] = {}
        self.pending: dict[str, _Pending] = {}
        self._latest: dict[str, Query] = {}
        self.news: set[str] = set()  # names whose results the script has not seen yet
        self._idle: set[str] = set()  # names of low priority, which no page waits for
        self.drawn: set[str] = set()  # names whose results the channel draws, so that no script has to run
        self.n_news = 0  # results and partial results so far

    @property
    def awaited(self) -> bool:
        """Whether the script waits for a result."""
        return bool(self.pending.keys() - self._idle - self.drawn)

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
        submit = partial(self._engine.submit, function, *args, cached_as=key if kept else "")
        return self._resolve(name, key, submit, about, priority, wait_s)

    def ask_fit(self, name: str, spec: FitSpec, priority: Priority = Priority.LOW) -> Query:
        """Return the result of a fit."""
        held_out = "" if spec.test is None else spec.test.fingerprint
        return self._resolve(name, f"{spec.key}/{held_out}", partial(self._engine.submit, spec), None, priority)

    def _resolve(
        self, name: str, key: str, submit: Callable[..., Job], about: Any, priority: Priority, wait_s: float = 0.0
    ) -> Query:
        self.collect()
        if priority is Priority.LOW:
            self._idle.add(name)
        if (name, key) in self._results:
            self.news.discard(name)
            if name in self.pending and self.pending[name].key != key:
                self.cancel(name)
            self._results.move_to_end((name, key))
            self._latest[name] = self._results[name, key]
            return self._results[name, key]
        if (name, key) in self._failures:
            return replace(self.latest(name), message=self._failures[name, key])
        pending = self.pending.get(name)
        if pending is None or pending.key != key:
            self.cancel(name)
            try:
                job = submit(session=self._session, name=f"ask-{name}", priority=priority)
                pending = self.pending[name] = _Pending(key, job, about)
            except GdmError as error:
                return replace(self.latest(name), message=str(error))
            if pending.job.wait(wait_s):  # cached, or done meanwhile
                return self._resolve(name, key, submit, about, priority)
        view = pending.job.poll()
        pending.partial = view.found
        return replace(self.latest(name), pending=True, partial=view.found, queued=view.status is JobStatus.QUEUED)

    def put(self, name: str, key: str, value: Any, about: Any = None) -> None:
        """Add the result of a query that came with the application."""
        self._results.setdefault((name, key), Query(value, fresh=True, about=about, name=name))

    def find(self, name: str, key: str) -> Any:
        """Return the result of an earlier query, None if there is none."""
        found = self._results.get((name, key))
        return None if found is None else found.value

    def cancel(self, name: str) -> None:
        """Cancel the query of a name."""
        if name in self.pending:
            self.pending.pop(name).job.cancel()

    def cancel_idle(self) -> None:
        """Cancel the queries of low priority."""
        for name in self._idle:
            self.cancel(name)

    def latest(self, name: str) -> Query:
        """Return the newest result of a name, as an earlier one."""
        return replace(self._latest.get(name, Query(name=name)), fresh=False)

    def retry(self, name: str) -> None:
        """Forget the failures of a name."""
        self._failures = {query: why for query, why in self._failures.items() if query[0] != name}

    def collect(self) -> None:
        """Store the results of finished jobs."""
        for name, pending in list(self.pending.items()):
            view = pending.job.poll()
            if not view.status.final:
                self.n_news += view.found is not pending.partial
                pending.partial = view.found
                continue
            del self.pending[name]
            self.n_news += 1
            failed = view.status is JobStatus.FAILED  # a script shows why
            if name not in self._idle and (failed or name not in self.drawn):
                self.news.add(name)
            if view.status is JobStatus.DONE:
                self.put(name, pending.key, view.result, pending.about)
            elif failed:
                self._failures[name, pending.key] = view.message
        while len(self._results) > MAX_RESULTS:
            self._results.popitem(last=False)


# ---- names of queries ------------------------------------------------------------------------------------------
def query_key(result: str, function: Callable[..., Any], args: Iterable[Any]) -> str:
    """Return a name of all inputs of a result: the fit, the function and the content of each argument."""
    return "/".join([result, f"{function.__module__}.{function.__qualname__}", *map(_content, args)])


def _content(value: Any) -> str:
    if isinstance(value, Trial | Trials):
        return value.fingerprint
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, list | tuple):
        return f"({','.join(map(_content, value))})"
    return repr(value)
