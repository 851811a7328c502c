"""What is installed: built as anyone builds it, put into an environment of its own, and used there."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import sysconfig
import tarfile
import time
import tomllib
import urllib.request
import venv
import zipfile
from pathlib import Path
from urllib.error import URLError

import pandas as pd
import pytest
from packaging.requirements import Requirement

from datasets import nascar
from pages.ui.exports import Fit, Recipe, script
from tests.support.engine_requests import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SHORT_NAMES = ("app", "assets", "datasets", "pages", "tests", "benchmarks", "docs")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with an sdist, and the wheel that was built from that sdist."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory) -> Path:
    """The programs of a fresh environment with the wheel in it. Its dependencies are those of the tests' environment."""
    home = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    wheel = next(built.glob("*.whl"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel)], check=True)
    return python.parent


def run(program: Path, *arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program as a user of the installed package runs it: elsewhere, with nothing of the checkout on its path."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "GDM_SCHEDULER")}
    own = {"GDM_DATA_DIR": str(cwd / "data"), "GDM_WORKERS": "1"}
    return subprocess.run(
        [str(program), *arguments],
        cwd=cwd,
        env=kept | own | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def run_code(installed: Path, code: str, cwd: Path, **environment: str) -> str:
    """Output of Python code in the fresh environment."""
    done = run(installed / "python", "-c", code, cwd=cwd, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# ---- what is declared ---------------------------------------------------------------------------------------------
def pins(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text().splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def test_dependencies_are_those_of_the_two_commands_and_allow_what_was_tested():
    declared = {one.name: one for one in map(Requirement, PROJECT["project"]["dependencies"])}
    tested = pins("requirements.txt")
    assert declared.keys() == tested.keys()
    refused = [
        f"{one} does not allow {tested[name]}" for name, one in declared.items() if tested[name] not in one.specifier
    ]
    assert not refused


def test_the_build_backend_is_the_one_tests_use():
    backend = Requirement(PROJECT["build-system"]["requires"][0])
    assert pins("requirements-dev.txt")[backend.name] == str(backend.specifier).removeprefix("==")


# ---- what is built ------------------------------------------------------------------------------------------------
def test_the_wheel_takes_two_names_and_has_every_file(built):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        files = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert {name.split("/")[0] for name in files} == {"gdm_core", "gdm_studio"}
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    place = {"gdm_core": "", "gdm_studio": "", "datasets": "gdm_studio/_app/", "pages": "gdm_studio/_app/"}
    place |= {"assets": "gdm_studio/_app/", "app.py": "gdm_studio/_app/", ".streamlit": "gdm_studio/_app/"}
    wanted = {place[top] + name for name in listed.split("\0") if (top := name.split("/")[0]) in place}
    assert {name for name in wanted if (ROOT / name.removeprefix("gdm_studio/_app/")).is_file()} <= files
    assert not [name for name in files if "__pycache__" in name or name.endswith(".pyc")]


def test_the_sdist_has_what_it_takes_to_build_and_test(built):
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        names = {name.split("/", 1)[1] for name in sdist.getnames() if "/" in name}
    wanted = {"pyproject.toml", "README.md", "LICENSE", "Makefile", "requirements.txt", "requirements-dev.txt"}
    assert wanted <= names
    assert {"tests/conftest.py", "datasets/nascar.py", "pages/home/page.py", "assets/demo/nascar.npz"} <= names


# ---- what is installed --------------------------------------------------------------------------------------------
def test_no_short_name_is_taken(installed, tmp_path):
    code = f"""
import importlib.util, json
import gdm_core, gdm_studio
from gdm_studio.datasets import nascar, formula1, tables
print(json.dumps([n for n in {SHORT_NAMES!r} if importlib.util.find_spec(n)]))
print(nascar.simulate("soft", T=5, seed=0).n_samples, "datasets" in __import__("sys").modules)
"""
    assert run_code(installed, code, tmp_path).splitlines() == ["[]", "5 False"]


@pytest.mark.bulk
def test_somebody_elses_datasets_stays_theirs(installed, tmp_path):
    other = tmp_path / "other" / "datasets"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("def load_dataset(name):\n    return f'theirs: {name}'\n")
    code = """
from datasets import load_dataset
from gdm_core import GDM
from gdm_studio.datasets import nascar
import datasets
print(load_dataset("x"), datasets.__file__.endswith("other/datasets/__init__.py"), nascar.__name__)
"""
    found = run_code(installed, code, tmp_path, PYTHONPATH=str(other.parent))
    assert found == "theirs: x True gdm_studio.datasets.nascar"


@pytest.mark.bulk
def test_the_command_fits_and_refuses(installed, tmp_path):
    gdm = installed / "gdm"
    pd.DataFrame(nascar.simulate("soft", T=200, seed=0).y).add_prefix("c").to_csv(tmp_path / "track.csv", index=False)
    fitted = run(gdm, "fit", "track.csv", "--model", "arhmm", "--json", cwd=tmp_path)
    assert fitted.returncode == 0, fitted.stderr
    assert json.loads(fitted.stdout)["samples"] == 200
    wrong = run(gdm, "fit", "absent.csv", cwd=tmp_path)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "There is no file at absent.csv" in wrong.stderr


@pytest.mark.bulk
def test_the_command_reproduces_in_processes_of_its_own(installed, tmp_path):
    asked = ("reproduce", "nascar", "--setting", "soft", "--models", "arhmm", "--seeds", "2", "--samples", "100")
    repeated = run(installed / "gdm", *asked, "--jobs", "2", cwd=tmp_path)  # which simulate as well
    assert repeated.returncode == 0, repeated.stderr
    assert "arhmm, untrained" in repeated.stdout


@pytest.mark.bulk
def test_a_worker_process_finds_models_and_loaders(installed, tmp_path):
    (tmp_path / "sweep.py").write_text(
        """
if __name__ == "__main__":
    from gdm_studio.paths import find_app_code
    find_app_code()
    from datasets import nascar
    from gdm_core.engine import Engine
    with Engine() as engine:
        print(engine.call(nascar.simulate, "soft", 50, deadline_s=120).result(200).n_samples)
"""
    )
    done = run(installed / "python", "sweep.py", cwd=tmp_path)
    assert done.stdout.strip() == "50", done.stderr


FIT = Fit("arhmm", {"n_states": 2, "seed": 0}, (1, 0))
RECIPE = Recipe(
    ["from gdm_studio.datasets.nascar import train_test"],
    ['train, test = ([trial] for trial in train_test("soft", 0, T=100))'],
)


@pytest.mark.bulk
def test_an_exported_script_runs(installed, tmp_path):
    """Saved anywhere where the package is installed; of a checkout, tests of the pages run it."""
    (tmp_path / "reproduce.py").write_text(script(RECIPE, FIT, "A view"))
    done = run(installed / "python", "reproduce.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "states.npz").is_file()


@pytest.mark.bulk
def test_the_dashboard_opens(installed, tmp_path):
    code = """
from streamlit.testing.v1 import AppTest
from gdm_studio.paths import APP, find_app_code
find_app_code()
app = AppTest.from_file(str(APP / "app.py"), default_timeout=600).run()
print([error.message for error in app.exception], len(app.get("page_link")))
"""
    assert (
        run_code(installed, code, tmp_path).splitlines()[-1] == "[] 6"
    )  # Home's three cards, the first step, and the ways to data and to studies of one's own


@pytest.mark.bulk
def test_studio_serves_from_any_folder(installed, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"GDM_DATA_DIR": str(tmp_path / "data")}
    command = [
        str(installed / "gdm"),
        "studio",
        f"--port={port}",
        "--address=127.0.0.1",
        "--",
        "--server.baseUrlPath=lab",
    ]
    log = tmp_path / "log.txt"
    with log.open("w") as out, subprocess.Popen(command, cwd=tmp_path, env=kept, stdout=out, stderr=out) as server:
        try:
            address = f"http://127.0.0.1:{port}/lab/"
            assert until_answered(server, f"{address}_stcore/health") == b"ok", log.read_text()
            assert b"Plotly" in until_answered(server, f"{address}gdm/plotly.min.js")[:4000]  # a route of our own app
        finally:
            server.terminate()
            server.wait(PATIENCE_S)
    assert not re.search("Traceback", log.read_text())


def until_answered(server: subprocess.Popen[bytes], address: str) -> bytes:
    """What an address gives, once the server is up."""
    for _ in range(3000):
        if server.poll() is not None:
            return b""
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                return bytes(answer.read())
        except (URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    return b""
