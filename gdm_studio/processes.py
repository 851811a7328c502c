"""Independent pieces of work on several processes, each with one thread."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

from gdm_core.errors import ConfigError

Item = TypeVar("Item")
Result = TypeVar("Result")

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def run_all(function: Callable[[Item], Result], items: Sequence[Item], jobs: int = 1) -> Iterator[tuple[Item, Result]]:
    """(item, function(item)) as each is done. With one job everything runs here, in order."""
    if jobs < 1:
        raise ConfigError(f"jobs is {jobs}; at least 1 process is needed.")
    if jobs == 1 or len(items) < 2:
        for item in items:
            yield item, function(item)
        return
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))  # children read these when they import their libraries
    try:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(jobs, len(items)), mp_context=context) as pool:
            waiting = {pool.submit(function, item): item for item in items}
            try:
                for future in as_completed(waiting):
                    yield waiting[future], future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
