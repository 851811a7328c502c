"""`gdm workers`: worker processes for an existing scheduler, which outlive it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from distributed import Client

from gdm_core.engine.host import COPIES
from gdm_core.engine.worker import warm_up
from gdm_studio.cli import main
from tests.support.local_cluster import ROOT, command, environment, kept_processes

PATIENCE_S = 600


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


def until(ready: Callable[[], object], folder: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while not ready():
        logs = "\n".join(path.read_text()[-2000:] for path in folder.glob("*.log"))
        assert time.monotonic() < end, logs
        time.sleep(0.05)


def there(client: Client) -> set[str]:
    """Return the addresses of workers that can run fits."""
    try:
        return set(client.run(warm_up))
    except OSError:  # one has died and is not missed yet
        return set()


@pytest.mark.bulk
@pytest.mark.skipif(not COPIES, reason="where workers are no copies, the processes are others")
def test_workers_wait_for_scheduler_and_outlive_it(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address, log = f"tcp://127.0.0.1:{port}", tmp_path / "workers.log"
    with running(tmp_path, "workers", "gdm_studio", "workers", address, "--workers", "2", "--memory", "1GiB") as ours:
        until(lambda: log.read_text().count(f"waits for a scheduler at {address}") == 2, tmp_path)
        assert "Traceback" not in log.read_text()
        with joined(tmp_path, port) as client:
            until(lambda: len(there(client)) == 2, tmp_path)
            first = there(client)
        until(lambda: log.read_text().count("waits for a scheduler") > 2, tmp_path)
        before = set(_below(ours))
        with joined(tmp_path, port) as client:
            until(lambda: len(there(client)) == 2, tmp_path)
            second = there(client)
            assert not first & second
            warm = {process for process in _below(ours) if "forkserver" in command(process)} & before
            assert warm
            kept_processes(psutil.Process(ours.pid), "nanny")[0].kill()
            until(lambda: len(there(client)) == 2 and not there(client) & second, tmp_path)
            assert "it is started again" in log.read_text()
            everything = _below(ours)
            ours.send_signal(signal.SIGTERM)
            assert ours.wait(PATIENCE_S) == 0
            until(lambda: not [process for process in everything if process.is_running()], tmp_path)


def _below(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["somewhere"], "write tcp://HOST:PORT"),
        (["http://10.0.0.5:8786"], "write tcp://HOST:PORT"),
        (["tcp://10.0.0.5:8786", "--workers", "0"], "at least 1 process is needed"),
        (["tcp://10.0.0.5:8786", "--memory", "much"], "write a size such as '2 GiB'"),
    ],
)
def test_invalid_worker_options_are_refused(capsys, monkeypatch, arguments, words):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert main(["workers", *arguments]) == 2
    assert words in capsys.readouterr().err
