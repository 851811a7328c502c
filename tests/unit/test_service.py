"""Running it for others: what a machine lacks is said before it matters, and a service's parts start as its files say."""

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

from docs.licences import closure, licence_of, objection
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


def test_a_sound_machine_has_nothing_wrong(capsys):
    assert not [one for one in found().values() if one.level == "wrong"]
    assert main(["studio", "--check", "--address", "127.0.0.1", "--port", str(free_port())]) == 0
    assert "data folder" in capsys.readouterr().out


def test_a_taken_port_is_wrong_and_exits_with_1(capsys):
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
        ("GDM_SCHEDULER", "tcp://host:port", "scheduler", "write tcp://HOST:PORT"),
        ("GDM_WORKERS", "many", "workers", "whole number"),
        ("GDM_WORKERS", "²", "workers", "whole number"),
        ("GDM_MORE_SEEDS", "-1", "more seeds", "from 0 to 20"),
        ("GDM_MORE_SEEDS", "21", "more seeds", "from 0 to 20"),
        ("GDM_WORKER_MEMORY", "much", "workers", "write a size"),
        ("GDM_DATA_DIR", "/dev/null/data", "data folder", "cannot be written"),
    ],
)
def test_settings_that_cannot_work_are_named(monkeypatch, variable, value, what, words):
    monkeypatch.setenv(variable, value)
    finding = found()[what]
    assert finding.level == "wrong"
    assert words in finding.text


@pytest.mark.bulk
def test_a_server_does_not_start_with_a_setting_that_would_break_its_pages(tmp_path):
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(free_port())]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"GDM_MORE_SEEDS": "many", "GDM_DATA_DIR": str(tmp_path)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode
    assert "GDM_MORE_SEEDS is 'many'; it must be a whole number" in done.stdout + done.stderr


def test_a_small_machine_is_told_what_would_fit(monkeypatch):
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


def test_a_port_that_is_none_is_refused():
    assert check.web_port("127.0.0.1", 70000).level == "wrong"
    assert check.web_port("no.such.host.invalid", 8501).level == "wrong"


# ---- the parts of compose.yaml, outside a container ---------------------------------------------------------------
def started(service: str, folder: Path, **changes: str) -> subprocess.Popen[str]:
    """A service's own command, with addresses of this machine in place of the composition's."""
    command = [changes.get(word, word) for word in COMPOSE["services"][service]["command"]]
    bin_folder = Path(sys.executable).parent
    program = [sys.executable, "-m", "gdm_studio"] if command[0] == "gdm" else [str(bin_folder / command[0])]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GDM_")}
    # The package as an installation has it: found from anywhere.
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
def test_scheduler_worker_and_dashboard_start_as_the_composition_says(tmp_path, monkeypatch):
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


def test_the_image_and_the_composition_run_what_the_package_has():
    image = (ROOT / "Dockerfile").read_text()
    assert "\nUSER gdm\n" in image
    assert "VOLUME /data" in image
    assert json.loads(re.search(r"^CMD (\[.*\])$", image, re.M)[1]) == COMPOSE["services"]["studio"]["command"]
    checked = json.loads(re.search(r"HEALTHCHECK .*CMD (\[.*\])$", image, re.M)[1])
    assert checked[:3] == ["python", "-m", "gdm_studio.health"]
    assert COMPOSE["services"]["scheduler"]["healthcheck"]["test"][1:4] == checked[:3]
    assert COMPOSE["services"]["workers"]["command"][3:5] == ["--workers", "2"]


@pytest.mark.parametrize(("arguments", "code"), [([], 2), (["nonsense"], 2), (["tcp://127.0.0.1:1"], 1)])
def test_the_health_check_says_by_its_exit_code(monkeypatch, arguments, code):
    monkeypatch.setattr(sys, "argv", ["health", *arguments])
    assert health.main() == code


# ---- licences -----------------------------------------------------------------------------------------------------
def test_every_package_that_is_pulled_in_has_a_licence_that_suits():
    packages = closure(["streamlit", "torch", "distributed", "fastf1", "openpyxl", "scikit-learn"])
    assert {"numpy", "pandas", "tornado"} <= packages.keys()
    looked_at = {name: objection(licence_of(package), name) for name, package in packages.items()}
    assert not {name: why for name, why in looked_at.items() if why}


def test_licences_that_ask_for_more_are_pointed_out():
    assert objection("GNU General Public License v3 (GPLv3)")
    assert objection("")
    assert not objection("MIT OR GPL-2.0")
    assert not objection("LGPL-2.1")
    assert objection("Other/Proprietary License", "nvidious")
    assert not objection("Other/Proprietary License", "nvidia-cublas")
