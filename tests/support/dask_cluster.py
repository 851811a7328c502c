"""A scheduler and workers as a lab would start them: separate processes, on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from distributed import Client

from gdm_core.engine.messages import code_version

ROOT = Path(__file__).parents[2]


def environment(**more: str) -> dict[str, str]:
    """For a child process that can import the project, with torch kept from hogging the machine."""
    version = code_version().partition("+")[2]  # as it is here, even where somebody edits the code meanwhile
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GDM_CODE_VERSION": version, **more}


@contextmanager
def running_cluster(folder: Path, n_workers: int, nanny: bool = True) -> Iterator[str]:
    """The scheduler's address. Processes end with the block."""
    notes = folder / "scheduler.json"
    common = {"cwd": folder, "env": environment(), "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(notes), "--nthreads", "1"]
    worker += ["--host", "127.0.0.1", "--no-dashboard", "--local-directory", str(folder)]
    worker += ["--nanny" if nanny else "--no-nanny"]
    processes = [subprocess.Popen([*scheduler, "--no-dashboard", "--scheduler-file", str(notes)], **common)]
    try:
        processes += [subprocess.Popen(worker, **common) for _ in range(n_workers)]
        yield _address(notes)
    finally:
        for process in processes:  # workers leave with the nannies that watch over them
            process.kill()
            process.wait()


def wait_for_workers(address: str, n_workers: int) -> None:
    """Until as many have come: on a starved machine they need longer than an engine would wait for the first."""
    with Client(address, timeout=180, set_as_default=False) as client:
        client.wait_for_workers(n_workers, timeout=180)


def _address(notes: Path) -> str:
    until = time.monotonic() + 90
    while time.monotonic() < until:
        if notes.is_file() and notes.read_text().rstrip().endswith("}"):
            address: str = json.loads(notes.read_text())["address"]
            return address
        time.sleep(0.05)
    raise TimeoutError("The scheduler did not start within 90 s.")
