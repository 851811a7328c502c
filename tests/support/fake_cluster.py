"""Clusters in this process: one that does nothing by itself, where a test says what becomes of each job and each worker; and one
that works, for what the engine does with jobs that simply run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from gdm_core.engine import JobStatus, worker
from tests.support.patience import until


class Sent:
    """Stands for a job on the cluster; `end` says what becomes of it. `state` is where the scheduler has it."""

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
    """Two workers of one thread. Those in `stopped` give no sign of life; `orders` are (function, worker, for its nanny)."""

    status = "running"

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.orders: list[tuple[Any, str, bool]] = []
        self.workers = ["one", "other"]
        self.stopped: list[str] = []
        self._looks = 0
        self.scheduler = SimpleNamespace(identity=self._identity)

    def sync(self, question: Callable[..., Any], callback_timeout: float, **content: Any) -> Any:
        return question(**content)

    def _identity(self, n_workers: int) -> dict[str, Any]:
        self._looks += 1
        seen = {name: 0 if name in self.stopped else self._looks for name in self.workers}
        return {"workers": {name: {"nthreads": 1, "memory_limit": 0, "last_seen": seen[name]} for name in seen}}

    def processing(self) -> dict[str, list[str]]:
        return {"any of them": [sent.key for sent in self.sent if sent.state == "processing"]}

    def submit(self, *work: Any, key: str, workers: list[str] | None = None, **_: object) -> Sent:
        self.sent.append(Sent(key, workers, work[1:]))
        return self.sent[-1]

    def job(self, number: int) -> Sent:
        """What was sent as this one, counted from 0, once it has been."""
        until(lambda: len(self.sent) > number)
        return self.sent[number]

    def answer(self, number: int, value: object) -> None:
        """A worker has sent back the value of that call."""
        self.job(number).end((JobStatus.DONE, value))

    def run(self, order: Any, *_: object, workers: tuple[str, ...] = (), nanny: bool = False, **__: object) -> None:
        """Orders are noted, and find nobody."""
        self.orders += [(order, worker, nanny) for worker in workers]

    def close(self, timeout: float) -> None:
        self.status = "closed"


class Working(Cluster):
    """What is sent is done, each job in a thread of its own. `hear` is told what jobs say."""

    _place = threading.local()

    def __init__(self, hear: Callable[[Mapping[str, Any]], None]) -> None:
        super().__init__()
        self._hear = hear

    @classmethod
    def here(cls) -> Any:
        """The worker that a job finds itself on."""
        return cls._place.worker

    def submit(self, function: Callable[..., Any], *args: Any, **how: Any) -> Sent:  # type: ignore[override]
        sent = super().submit(function, *args, **how)
        if function is worker.run:
            threading.Thread(target=self._work, args=(sent, function), daemon=True).start()
        else:  # of data, which have to be there before what is done with them
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
