"""Fake clusters in this process: one whose jobs a test ends by hand, and one that runs them in threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from gdm_core.engine import JobStatus, worker
from tests.support.patience import until


class Sent:
    """A fake future; `end` sets its outcome, `state` is its state on the scheduler."""

    status = "pending"

    def __init__(self, key: str = "", workers: list[str] | None = None, args: tuple[Any, ...] = ()) -> None:
        self.key, self.workers, self.args, self.state = key, workers, args, "processing"
        self._callbacks: list[Callable[[Sent], None]] = []
        self._outcome: Any = None

    def add_done_callback(self, callback: Callable[[Sent], None]) -> None:
        self._callbacks.append(callback)
        if self.status != "pending":
            callback(self)

    def end(self, outcome: Any, status: str = "finished") -> None:
        self._outcome, self.status = outcome, status
        for callback in self._callbacks:
            callback(self)

    def cancel(self) -> None:
        self.end(None, "cancelled")

    def result(self, timeout: float) -> Any:
        if callable(self._outcome):
            return self._outcome()
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    def exception(self, timeout: float) -> Any:
        return self._outcome


class Cluster:
    """Two workers of one thread each; nothing that is submitted runs."""

    status = "running"

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.workers = ["one", "other"]
        self._looks = 0
        self.scheduler = SimpleNamespace(identity=self._identity)

    def sync(self, question: Callable[..., Any], callback_timeout: float, **content: Any) -> Any:
        return question(**content)

    def _identity(self, n_workers: int) -> dict[str, Any]:
        self._looks += 1
        about = {"nthreads": 1, "memory_limit": 0, "last_seen": self._looks}
        return {"workers": dict.fromkeys(self.workers, about)}

    def processing(self) -> dict[str, list[str]]:
        return {"any of them": [sent.key for sent in self.sent if sent.state == "processing"]}

    def submit(self, *work: Any, key: str, workers: list[str] | None = None, **_: object) -> Sent:
        self.sent.append(Sent(key, workers, work[1:]))
        return self.sent[-1]

    def job(self, number: int) -> Sent:
        """Wait for the job with this number, counted from 0."""
        until(lambda: len(self.sent) > number)
        return self.sent[number]

    def answer(self, number: int, value: object) -> None:
        """End the job with this number with a value."""
        self.job(number).end((JobStatus.DONE, value))

    def run(self, order: Any, *content: object, nanny: bool = False, **_: object) -> None:
        """Ignore orders."""

    def close(self, timeout: float) -> None:
        self.status = "closed"


class Working(Cluster):
    """Runs each job in a thread; `hear` receives the messages of jobs."""

    _place = threading.local()

    def __init__(self, hear: Callable[[Mapping[str, Any]], None]) -> None:
        super().__init__()
        self._hear = hear

    @classmethod
    def here(cls) -> Any:
        """Return the worker of the current job."""
        return cls._place.worker

    def submit(self, function: Callable[..., Any], *args: Any, **how: Any) -> Sent:  # type: ignore[override]
        sent = super().submit(function, *args, **how)
        if function is worker.run:
            threading.Thread(target=self._work, args=(sent, function), daemon=True).start()
        else:  # data, which jobs need before they start
            sent.end(function(*args))
        return sent

    def _work(self, sent: Sent, function: Callable[..., Any]) -> None:
        (address,) = sent.workers or self.workers[:1]
        self._place.worker = SimpleNamespace(address=address, log_event=lambda topic, event: self._hear(event))
        try:
            found = function(*(arg.result(0) if isinstance(arg, Sent) else arg for arg in sent.args))
        except Exception as error:  # noqa: BLE001 - a bug travels as itself
            sent.end(error, "error")
        else:
            sent.end(found)

    def run(self, order: Any, *content: object, nanny: bool = False, **_: object) -> None:
        if not nanny:
            order(*content)
