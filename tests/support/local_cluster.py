"""A Dask scheduler and workers in separate processes on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from distributed import Client

from gdm_core.engine.messages import code_version
from tests.support.patience import patience_s

ROOT = Path(__file__).parents[2]


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a child process that can import the project, with one torch thread."""
    version = code_version().partition("+")[2]  # children report the same version even if the code changes meanwhile
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GDM_CODE_VERSION": version, **more}


def wait_for_workers(address: str, n_workers: int) -> None:
    """Wait until the scheduler has `n_workers` workers."""
    with Client(address, timeout=patience_s(), set_as_default=False) as client:
        if n_workers:
            client.wait_for_workers(n_workers, timeout=patience_s())


@contextmanager
def dask_cluster(folder: Path, n_workers: int) -> Iterator[str]:
    """Run `dask scheduler` and `dask worker` processes, and yield the address of the scheduler."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    scheduler = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    worker = ["distributed.cli.dask_worker", address, "--nthreads", "1", "--nanny", "--host", "127.0.0.1"]
    worker += ["--no-dashboard", "--local-directory", str(folder), "--memory-limit", "2 GiB"]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for command in [scheduler, *[worker] * n_workers]
    ]  # fmt: skip
    try:
        wait_for_workers(address, n_workers)
        yield address
    finally:
        for process in processes:
            process.kill()
            process.wait()
