"""The embedded cluster: start, network, memory, and no process left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest

from gdm_core.engine import Engine, FitRequest, ResultCache
from gdm_core.errors import FitError
from gdm_core.trials import Trial, Trials
from tests.support.engine_requests import until
from tests.support.fake_model import FAMILY
from tests.support.local_cluster import ROOT, environment
from tests.support.work import messages_kept

SCRIPT = """
import json, os, sys
import numpy as np
from gdm_core.engine import FitRequest, get_engine
from gdm_core.trials import Trial, Trials
from tests.support.work import process_facts

here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "runs"), "a") as runs:
    runs.write(f"{os.getpid()} {__name__}\\n")
trials = Trials((Trial(np.random.default_rng(0).standard_normal((300, 2))),))
engine = get_engine()
assert get_engine() is engine
request = FitRequest("tests.support.fake_model:FakeModel", {"n_steps": 5}, trials, use_cache=False)
job = engine.submit(request, session="one")
result = job.result(240)
with open(os.path.join(here, "answer"), "w") as answer:
    facts = engine.call(process_facts, session="one").result(60)
    json.dump({"status": result.fit_status, "torch here": "torch" in sys.modules, "pid": os.getpid(), **facts}, answer)
"""


@pytest.fixture(autouse=True)
def _one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GDM_SCHEDULER", raising=False)
    monkeypatch.setenv("GDM_WORKERS", "1")


@pytest.fixture
def _nothing_stays_behind() -> Iterator[None]:
    before = set(psutil.Process().children(recursive=True))
    yield
    until(lambda: not set(psutil.Process().children(recursive=True)) - before)


@contextmanager
def started(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    env = environment(GDM_WORKERS="1", GDM_DATA_DIR=str(folder / "data"), PYTHONPATH=str(ROOT))
    env.pop("GDM_SCHEDULER", None)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
        family: list[psutil.Process] = []
        try:
            yield process
            family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        finally:
            process.kill()
            process.wait()
            for child in family:
                if child.is_running():
                    child.kill()


def write(folder: Path, tail: str = "") -> Path:
    script = folder / "script.py"
    script.write_text(SCRIPT + textwrap.dedent(tail))
    return script


@pytest.mark.bulk
def test_script_without_main_guard_leaves_no_process(tmp_path: Path) -> None:
    listening = """
    import psutil
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    open_to = {c.laddr.ip for p in family for c in p.net_connections("inet") if c.status == "LISTEN"}
    with open(os.path.join(here, "family"), "w") as file:
        json.dump({"pids": [p.pid for p in family], "open to": sorted(open_to)}, file)
    """
    with started([sys.executable, str(write(tmp_path, listening))], tmp_path) as process:
        assert process.wait(400) == 0, (tmp_path / "log").read_text()
    answer = json.loads((tmp_path / "answer").read_text())
    family = json.loads((tmp_path / "family").read_text())
    assert (tmp_path / "runs").read_text() == f"{answer['pid']} __main__\n"
    assert answer["status"] == "converged"
    assert not answer["torch here"]
    assert answer["torch threads"] == 1
    assert answer["nice"] == min(19, os.nice(0) + 5)
    assert answer["data lie in"] == "dict"  # the default of Dask spills to disk
    assert not answer["stops when full"]
    assert family["open to"] == ["127.0.0.1"]
    assert len(family["pids"]) >= 4
    until(lambda: not any(psutil.pid_exists(pid) for pid in family["pids"]))
    assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.mark.bulk
def test_killed_server_leaves_no_process(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    options = ["--server.headless", "true", "--server.port", str(port), "--server.address", "127.0.0.1"]
    options += ["--browser.gatherUsageStats", "false", "--server.fileWatcherType", "none"]
    command = [sys.executable, "-m", "streamlit", "run", str(write(tmp_path)), *options]
    with started(command, tmp_path) as server:
        until(lambda: _answers(port))
        asyncio.run(_open_page(port, until_exists=tmp_path / "answer", seconds=400))
        answer = json.loads((tmp_path / "answer").read_text())
        assert answer["status"] == "converged"
        runs = (tmp_path / "runs").read_text().splitlines()
        assert {int(line.split()[0]) for line in runs} == {answer["pid"]}
        assert len(runs) == 1
        family = psutil.Process(server.pid).children(recursive=True)
        assert len(family) >= 3
        server.send_signal(signal.SIGKILL)
        until(lambda: not any(child.is_running() for child in family))


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def _open_page(port: int, until_exists: Path, seconds: float) -> None:
    """Open the WebSocket of Streamlit and request the page."""
    from streamlit.proto.BackMsg_pb2 import BackMsg
    from tornado.httpclient import HTTPRequest
    from tornado.websocket import websocket_connect

    headers = {"Sec-WebSocket-Protocol": "streamlit", "Origin": f"http://127.0.0.1:{port}"}
    stream = await websocket_connect(HTTPRequest(f"ws://127.0.0.1:{port}/_stcore/stream", headers=headers))
    message = BackMsg()
    message.rerun_script.query_string = ""
    await stream.write_message(message.SerializeToString(), binary=True)
    end = time.monotonic() + seconds
    while not (until_exists.exists() and until_exists.stat().st_size):
        assert time.monotonic() < end
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)  # time for a second run of the script
    stream.close()


@pytest.mark.usefixtures("_nothing_stays_behind")
def test_start_timeout_raises_fit_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("gdm_core.engine.cluster.START_TIMEOUT_S", 0.01)
    with Engine(ResultCache(tmp_path)) as engine, pytest.raises(FitError, match=r"could not be started.*GDM_WORKERS=1"):
        engine.wait_ready(240)


@pytest.mark.bulk
def test_fit_over_memory_limit_fails_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GDM_WORKER_MEMORY", "1 GiB")
    trials = Trials((Trial(np.random.default_rng(0).standard_normal((300, 2))),))
    with Engine(ResultCache(tmp_path)) as engine:
        engine.wait_ready(240)
        greedy = FitRequest(FAMILY, {"misbehave": "memory", "step_s": 0.1, "n_steps": 200}, trials, deadline_s=400)
        with pytest.raises(FitError, match="needs more memory than a worker has"):
            engine.submit(greedy, session="a").result(400)
        assert engine.submit(FitRequest(FAMILY, {}, trials), session="a").result(150).fit_status == "converged"


@pytest.mark.bulk
def test_uploads_stay_off_disk_and_out_of_messages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GDM_WORKER_MEMORY", "1 GiB")
    monkeypatch.setenv("DASK_TEMPORARY_DIRECTORY", str(tmp_path / "scratch"))
    with Engine(ResultCache(tmp_path / "fits")) as engine:
        engine.wait_ready(240)
        for i in range(7):  # 64 MB each
            upload = Trials((Trial(np.random.default_rng(i).standard_normal((10**6, 16), dtype=np.float32)),))
            fit = FitRequest(FAMILY, {"n_steps": 2}, upload, use_cache=False)
            assert engine.submit(fit, session=f"visitor {i}").result(300).fit_status == "converged"
        small = Trials((Trial(np.random.default_rng(0).standard_normal((500, 3))),))
        for i in range(3):
            engine.submit(FitRequest(FAMILY, {"seed": i}, small, use_cache=False), session="a").result(300)
        link = engine._dispatcher._link
        assert link.client.run_on_scheduler(messages_kept) <= 2  # one to the server, one to the worker
        written = [path for path in (tmp_path / "scratch").rglob("*") if path.is_file()]
        assert (tmp_path / "scratch").is_dir()
        assert sum(path.stat().st_size for path in written) < 10**6, written
