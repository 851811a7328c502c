"""Deployment: the services of compose.yaml, outside a container."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.engine_requests import PATIENCE_S
from tests.support.patience import until

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def started(service: str, folder: Path, **changes: str) -> subprocess.Popen[str]:
    """Start a service's own command with addresses of this machine."""
    command = [changes.get(word, word) for word in COMPOSE["services"][service]["command"]]
    bin_folder = Path(sys.executable).parent
    program = [sys.executable, "-m", "gdm_studio"] if command[0] == "gdm" else [str(bin_folder / command[0])]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GDM_")}
    own = COMPOSE["x-gdm"]["environment"] | {"GDM_DATA_DIR": str(folder / "data"), "PYTHONPATH": str(ROOT)}
    own |= {name: value for name, value in changes.items() if name.startswith("GDM_")}
    log = (folder / f"{service}.log").open("w")
    return subprocess.Popen([*program, *command[1:]], cwd=folder, env=kept | own, stdout=log, stderr=log, text=True)


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=4).close()
    except OSError:
        return False
    return True


def answered(port: int, folder: Path) -> None:
    until(
        lambda: answers(port), lambda: "\n".join(path.read_text()[-2000:] for path in folder.glob("*.log")), every_s=0.2
    )


@pytest.mark.bulk
def test_composed_services_start_and_fit(tmp_path, monkeypatch):
    from datasets import nascar
    from gdm_core.engine import Engine, ResultCache

    port, web = free_port(), free_port()
    address = f"tcp://127.0.0.1:{port}"
    processes = [started("scheduler", tmp_path, **{"8786": str(port), "0.0.0.0": "127.0.0.1"})]
    try:
        answered(port, tmp_path)
        processes.append(started("workers", tmp_path, **{"tcp://scheduler:8786": address}))
        studio = {"--address": f"--port={web}", "0.0.0.0": "--address=127.0.0.1", "GDM_SCHEDULER": address}
        processes.append(started("studio", tmp_path, **studio))
        answered(web, tmp_path)
        monkeypatch.setenv("GDM_SCHEDULER", address)
        with Engine(ResultCache(tmp_path / "fits")) as engine:  # a worker that finds models and loaders
            engine.start().result(PATIENCE_S)
            assert engine.submit(nascar.simulate, "soft", 50).result(PATIENCE_S).n_samples == 50
    finally:
        for process in reversed(processes):  # a worker needs the scheduler to sign off
            process.terminate()
            process.wait(PATIENCE_S)
    assert not answers(port)
