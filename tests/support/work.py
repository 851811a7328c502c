"""Functions for workers to run."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from distributed import WorkerPlugin, get_worker

from gdm_core.files import write_whole
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


def scheduler_address() -> str:
    return str(get_worker().scheduler.address)


def messages_kept(dask_scheduler: Any) -> int:
    """Return the number of sent messages that the scheduler stores per connection; runs on the scheduler."""
    streams = [*dask_scheduler.stream_comms.values(), *dask_scheduler.client_comms.values()]
    return max(len(stream.recent_message_log) for stream in streams)


class LightWarmUp(WorkerPlugin):
    """Loads no models on a new worker."""

    name = "gdm-warm-up"


def write_name(diary: str, name: str) -> None:
    """Write a name to a diary."""
    with open(diary, "a") as file:
        file.write(f"{name}\n")


def write_pid_and_sleep(path: str, seconds: float) -> None:
    """Write the worker's process id to a file, then sleep."""
    write_whole(Path(path), str(os.getpid()).encode())
    time.sleep(seconds)


def write_pid_and_return(path: str, n_bytes: int) -> bytes:
    """Write the worker's process id to a file and return a large result, which travels for a while."""
    write_whole(Path(path), str(os.getpid()).encode())
    return bytes(n_bytes)


def kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DeadlyResult:
    """Kills the worker that pickles it."""

    def __reduce__(self) -> Any:
        kill_this_process()
