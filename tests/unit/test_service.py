"""Deployment: `gdm studio --check`, the health check, and the services of compose.yaml."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import distributed.system
import pytest
import yaml

from gdm_core.engine import cluster
from gdm_studio import check, health
from gdm_studio.cli import main
from tests.support.engine_requests import PATIENCE_S
from tests.support.patience import until

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture(autouse=True)
def _plain_machine(monkeypatch, tmp_path):
    for name in ("GDM_SCHEDULER", "GDM_WORKERS", "GDM_WORKER_MEMORY", "GDM_MORE_SEEDS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))


# ---- gdm studio --check -------------------------------------------------------------------------------------------
def found(address: str = "127.0.0.1", port: int | None = None) -> dict[str, check.Finding]:
    return {one.what: one for one in check.examine(address, port or free_port())}


def test_check_passes_on_sound_machine(capsys):
    assert not [one for one in found().values() if one.level == "wrong"]
    assert main(["studio", "--check", "--address", "127.0.0.1", "--port", str(free_port())]) == 0
    assert "data folder" in capsys.readouterr().out


def test_taken_port_exits_with_1(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["studio", "--check", "--json", "--address", "127.0.0.1", "--port", port]) == 1
    findings = json.loads(capsys.readouterr().out)
    assert findings[0]["level"] == "wrong"
    assert findings[0]["what"] == "port"
    assert "choose another --port" in findings[0]["text"]


@pytest.mark.parametrize(
    ("variable", "value", "what", "words"),
    [
        ("GDM_SCHEDULER", "tcp://127.0.0.1:1", "scheduler", "nothing answers"),
        ("GDM_SCHEDULER", "somewhere", "scheduler", "write tcp://HOST:PORT"),
        ("GDM_WORKERS", "many", "workers", "whole number"),
        ("GDM_MORE_SEEDS", "21", "more seeds", "from 0 to 20"),
        ("GDM_WORKER_MEMORY", "much", "workers", "write a size"),
        ("GDM_DATA_DIR", "/dev/null/data", "data folder", "cannot be written"),
    ],
)
def test_invalid_settings_are_named(monkeypatch, variable, value, what, words):
    monkeypatch.setenv(variable, value)
    finding = found()[what]
    assert finding.level == "wrong"
    assert words in finding.text


def test_too_little_memory_suggests_fewer_workers(monkeypatch):
    for module in (distributed.system, cluster):
        monkeypatch.setattr(module, "MEMORY_LIMIT", int(1.2 * 2**30))
    monkeypatch.setenv("GDM_WORKERS", "4")
    finding = found()["memory"]
    assert finding.level == "wrong"
    assert "set GDM_WORKERS=1" in finding.text


def test_missing_and_old_packages_are_named(monkeypatch):
    monkeypatch.setattr(check, "_needed", lambda: {"numpy": "99.1", "no-such-package": "1.0", "torch": "2.0"})
    levels = {one.level: one.text for one in check.packages()}
    assert "no-such-package missing" in levels["wrong"]
    assert re.search(r"numpy [\d.]+ \(tested with 99.1\)", levels["poor"])
    assert "torch" not in levels["poor"]


@pytest.mark.parametrize(("version", "level"), [((3, 11, 7), "fine"), ((3, 13, 0), "poor"), ((3, 15, 0), "poor")])
def test_python_version_is_rated(monkeypatch, version, level):
    monkeypatch.setattr(sys, "version_info", version)
    assert check.python().level == level


def test_invalid_port_or_host_is_wrong():
    assert check.web_port("127.0.0.1", 70000).level == "wrong"
    assert check.web_port("no.such.host.invalid", 8501).level == "wrong"


# ---- the parts of compose.yaml, outside a container ---------------------------------------------------------------
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


def answered(address: str, folder: Path) -> None:
    until(
        lambda: health.answers(address),
        lambda: "\n".join(path.read_text()[-2000:] for path in folder.glob("*.log")),
        every_s=0.2,
    )


@pytest.mark.bulk
def test_composed_services_start_and_fit(tmp_path, monkeypatch):
    from datasets import nascar
    from gdm_core.engine import Engine, ResultCache

    port, web = free_port(), free_port()
    address, page = f"tcp://127.0.0.1:{port}", f"http://127.0.0.1:{web}"
    processes = [started("scheduler", tmp_path, **{"8786": str(port), "0.0.0.0": "127.0.0.1"})]
    try:
        answered(address, tmp_path)
        processes.append(started("workers", tmp_path, **{"tcp://scheduler:8786": address}))
        studio = {"--address": f"--port={web}", "0.0.0.0": "--address=127.0.0.1", "GDM_SCHEDULER": address}
        processes.append(started("studio", tmp_path, **studio))
        answered(page, tmp_path)
        monkeypatch.setenv("GDM_SCHEDULER", address)
        with Engine(ResultCache(tmp_path / "fits")) as engine:  # a worker that finds models and loaders
            engine.wait_ready(PATIENCE_S)
            assert engine.call(nascar.simulate, "soft", 50, deadline_s=60).result(PATIENCE_S).n_samples == 50
    finally:
        for process in reversed(processes):  # a worker takes leave of its scheduler, which has to be there
            process.terminate()
            process.wait(PATIENCE_S)
    assert not health.answers(address)


@pytest.mark.parametrize(("arguments", "code"), [([], 2), (["nonsense"], 2), (["tcp://127.0.0.1:1"], 1)])
def test_health_check_exit_codes(monkeypatch, arguments, code):
    monkeypatch.setattr(sys, "argv", ["health", *arguments])
    assert health.main() == code
