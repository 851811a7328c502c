"""All that is used of Dask beyond what it documents, in one place: a test says in words when it is gone."""

from __future__ import annotations

from typing import Any


def pid_of_starting_worker(nanny: Any) -> int | None:
    """The process that a nanny has started and that is not a worker yet; None where there is none.

    Nannies say which process is theirs, but not whether it has become a worker.
    """
    started = nanny.process
    pid: int | None = nanny.pid if started is not None and started.status.name == "starting" else None
    return pid
