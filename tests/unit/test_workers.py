"""`gdm workers`: worker processes for an existing scheduler, which outlive it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from distributed import Client

from gdm_core.engine.worker import warm_up
from gdm_studio.cli import main
from tests.support.engine_requests import PATIENCE_S, until
from tests.support.local_cluster import ROOT, environment


@contextmanager
def running(folder: Path, name: str, *module: str) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *module], cwd=folder, env=environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def joined(folder: Path, port: int) -> Iterator[Client]:
    """Run a scheduler and a client of it."""
    place = ["--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    with running(folder, "scheduler", "distributed.cli.dask_scheduler", *place):
        client = Client(f"tcp://127.0.0.1:{port}", timeout=PATIENCE_S, set_as_default=False)
        try:
            yield client
        finally:
            client.close(timeout=1)


@pytest.mark.bulk
def test_workers_wait_for_scheduler_and_outlive_it(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address, log = f"tcp://127.0.0.1:{port}", tmp_path / "workers.log"
    options = ["--workers", "2", "--memory", "1GiB"]
    with running(tmp_path, "workers", "gdm_studio", "workers", address, *options) as workers:
        until(lambda: log.read_text().count(f"waits for a scheduler at {address}") == 2, log.read_text)
        assert "Traceback" not in log.read_text()
        for _ in range(2):
            with joined(tmp_path, port) as client:
                until(lambda client=client: len(client.run(warm_up)) == 2, log.read_text)
                family = psutil.Process(workers.pid).children(recursive=True)
        workers.send_signal(signal.SIGTERM)
        assert workers.wait(PATIENCE_S) == 0
        until(lambda: not [process for process in family if process.is_running()])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["somewhere"], "tcp://HOST:PORT"),
        (["tcp://10.0.0.5:8786", "--workers", "0"], "at least 1"),
        (["tcp://10.0.0.5:8786", "--memory", "much"], "2 GiB"),
    ],
)
def test_invalid_worker_options_are_refused(capsys, monkeypatch, arguments, words):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert main(["workers", *arguments]) == 2
    assert words in capsys.readouterr().err
