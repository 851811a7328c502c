"""Functions for workers to run."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from distributed import get_worker

from gdm_core.engine import checkpoint
from gdm_core.trials import Trials


def until_told(path: str, value: int) -> int:
    """Work that can be stopped and held, and goes on until there is a file at `path`."""
    while not Path(path).exists():
        time.sleep(0.01)
        checkpoint()
    return value


def total(trials: Trials, factor: float) -> float:
    """The sum of the first trial, scaled."""
    return factor * float(trials[0].y.sum())


def process_facts() -> dict[str, int | str | bool]:
    """How the process that runs this is set up."""
    import torch

    worker = get_worker()
    return {
        "torch threads": torch.get_num_threads(),
        "nice": os.nice(0),
        "data lie in": type(worker.data).__name__,
        "stops when full": bool(worker.memory_manager.memory_pause_fraction),
    }


def messages_kept(dask_scheduler: Any) -> int:
    """How many of the messages that it has sent a scheduler still has; Dask runs this there."""
    streams = [*dask_scheduler.stream_comms.values(), *dask_scheduler.client_comms.values()]
    return sum(len(stream.recent_message_log) for stream in streams)
