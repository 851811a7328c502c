"""Functions for workers to run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from distributed import WorkerPlugin, get_worker

from gdm_core.trials import Trials


def count_to(end: int) -> Iterator[dict[str, int] | None]:
    """Yield partial values, and None at points where the job may stop."""
    for n in range(1, end):
        yield {"n": n}
        yield None
    yield {"n": end}


def total(trials: Trials, factor: float) -> float:
    """Return the scaled sum of the first trial."""
    return factor * float(trials[0].y.sum())


def process_facts() -> dict[str, int | str | bool]:
    """Return settings of the worker process."""
    import torch

    worker = get_worker()
    return {
        "torch threads": torch.get_num_threads(),
        "data lie in": type(worker.data).__name__,
        "stops when full": bool(worker.memory_manager.memory_pause_fraction),
    }


def messages_kept(dask_scheduler: Any) -> int:
    """Return the number of sent messages that the scheduler stores per connection; runs on the scheduler."""
    streams = [*dask_scheduler.stream_comms.values(), *dask_scheduler.client_comms.values()]
    return max(len(stream.recent_message_log) for stream in streams)


def allow_no_failures(dask_scheduler: Any) -> None:
    """Fail a job at the first death of its worker; runs on the scheduler."""
    dask_scheduler.allowed_failures = 0


class LightWarmUp(WorkerPlugin):
    """Loads no models on a new worker."""

    name = "gdm-warm-up"


def write_name(diary: str, name: str) -> None:
    """Write a name to a diary."""
    with open(diary, "a") as file:
        file.write(f"{name}\n")
