"""A scheduler and workers as a lab would start them: separate processes, on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from distributed import Client

from gdm_core.engine.messages import code_version
from tests.support.patience import patience_s, until

ROOT = Path(__file__).parents[2]


def environment(**more: str) -> dict[str, str]:
    """For a child process that can import the project, with torch kept from hogging the machine."""
    version = code_version().partition("+")[2]  # as it is here, even where somebody edits the code meanwhile
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GDM_CODE_VERSION": version, **more}


def wait_for_workers(address: str, n_workers: int) -> None:
    """Until as many have come: on a starved machine they need longer than an engine would wait for the first."""
    with Client(address, timeout=patience_s(), set_as_default=False) as client:
        client.wait_for_workers(n_workers, timeout=patience_s())


def children(process: psutil.Process) -> list[psutil.Process]:
    """Those that live; none of a process that has ended."""
    try:
        return [child for child in process.children() if _lives(child)]
    except psutil.NoSuchProcess:
        return []


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def command(process: psutil.Process) -> str:
    """What it was started with; nothing for one that has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def kept_processes(parent: psutil.Process, kind: str) -> list[psutil.Process]:
    """Those below `parent`: workers, which are copies of the warm process, or the process with the nannies above both."""
    hosts = [child for child in children(parent) if "gdm_core.engine.host" in command(child)]
    if kind != "worker":
        return hosts
    warm = [child for host in hosts for child in children(host) if "forkserver" in command(child)]
    return [worker for child in warm for worker in children(child)]


class KeptCluster:
    """A scheduler and workers that a service manager looks after: whatever ends is started again, in the same way.

    dask  workers are those of `dask worker`, each of which loads everything; else those of `gdm workers`
    """

    def __init__(self, folder: Path, n_workers: int, memory: str, dask: bool = False) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", self.address, "--nthreads", "1", "--nanny"]
        worker += ["--host", "127.0.0.1", "--no-dashboard", "--local-directory", str(folder), "--memory-limit", memory]
        ours = [sys.executable, "-m", "gdm_studio", "workers", self.address, "--workers", str(n_workers)]
        self._dask = dask
        self._commands = [
            [*scheduler, "--no-dashboard"],
            *([worker] * n_workers if dask else [[*ours, "--memory", memory]]),
        ]
        self._common = {"cwd": folder, "env": environment(), "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._running: list[subprocess.Popen[bytes]] = [
            subprocess.Popen(command, **self._common) for command in self._commands
        ]
        self._leave = threading.Event()
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()

    def _keep(self) -> None:
        while not self._leave.wait(0.2):
            for i, process in enumerate(self._running):
                if process.poll() is not None:
                    self._running[i] = subprocess.Popen(self._commands[i], **self._common)

    def processes(self, kind: str) -> list[psutil.Process]:
        """Those that run as "scheduler", "nanny" or "worker"."""
        scheduler, *nannies = [psutil.Process(process.pid) for process in self._running]
        if kind == "scheduler":
            return [scheduler]
        if not self._dask:
            return kept_processes(nannies[0], kind)
        if kind == "worker":
            return [child for nanny in nannies for child in children(nanny) if "spawn_main" in command(child)]
        return nannies

    def listens(self) -> bool:
        """Whether somebody answers where the scheduler is to be."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", int(self.address.rpartition(":")[2]))) == 0

    def close(self) -> None:
        self._leave.set()
        self._keeper.join()
        for process in self._running:
            process.kill()
            process.wait()


@contextmanager
def kept_cluster(folder: Path, n_workers: int, memory: str = "2 GiB", dask: bool = False) -> Iterator[KeptCluster]:
    """Processes end with the block."""
    cluster = KeptCluster(folder, n_workers, memory, dask)
    try:
        until(cluster.listens, lambda: "The scheduler did not start.", 0.05)
        yield cluster
    finally:
        cluster.close()
