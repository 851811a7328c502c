"""The wheel and sdist, built and installed into a fresh environment before a release."""

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
from pages.ui import component, wheel
from pages.ui.exports import Fit, Recipe, script
from tests.support.engine_requests import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SHORT_NAMES = ("app", "assets", "datasets", "pages", "tests", "benchmarks", "docs")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """Return a folder with the sdist and the wheel built from it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def install(wheel: Path, home: Path) -> Path:
    """Return the Python of a fresh environment with a wheel installed."""
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel)], check=True)
    return python


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory) -> Path:
    """Return the bin folder of a fresh environment with the wheel installed."""
    return install(next(built.glob("*.whl")), tmp_path_factory.mktemp("installed") / "venv").parent


def run(program: Path, *arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program outside the checkout."""
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
    """Return the output of Python code in the fresh environment."""
    done = run(installed / "python", "-c", code, cwd=cwd, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# ---- declarations -------------------------------------------------------------------------------------------------
def pins(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text().splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def test_dependencies_allow_the_pinned_versions():
    declared = {one.name: one for one in map(Requirement, PROJECT["project"]["dependencies"])}
    tested = pins("requirements.txt")
    assert declared.keys() == tested.keys()
    refused = [
        f"{one} does not allow {tested[name]}" for name, one in declared.items() if tested[name] not in one.specifier
    ]
    assert not refused


# ---- sdist and wheel ----------------------------------------------------------------------------------------------
@pytest.mark.bulk
def test_wheel_has_two_packages_and_every_file(built):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        files = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert {name.split("/")[0] for name in files} == {"gdm_core", "gdm_studio"}
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    place = {"gdm_core": "", "gdm_studio": "", "datasets": "gdm_studio/_app/", "pages": "gdm_studio/_app/"}
    place |= {"assets": "gdm_studio/_app/", "app.py": "gdm_studio/_app/", ".streamlit": "gdm_studio/_app/"}
    wanted = {place[top] + name for name in listed.split("\0") if (top := name.split("/")[0]) in place}
    assert {name for name in wanted if (ROOT / name.removeprefix("gdm_studio/_app/")).is_file()} <= files
    assert not [name for name in files if "__pycache__" in name or name.endswith(".pyc")]


@pytest.mark.bulk
def test_sdist_has_build_and_test_files(built):
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        names = {name.split("/", 1)[1] for name in sdist.getnames() if "/" in name}
    wanted = {"pyproject.toml", "README.md", "LICENSE", "Makefile", "requirements.txt", "requirements-dev.txt"}
    assert wanted <= names
    assert {"tests/conftest.py", "datasets/nascar.py", "pages/home/page.py", "assets/demo/nascar.npz"} <= names


# ---- installation -------------------------------------------------------------------------------------------------
@pytest.mark.bulk
def test_wheel_installs_no_short_names(installed, tmp_path):
    code = f"""
import importlib.util, json
import gdm_core, gdm_studio
from gdm_studio.datasets import nascar, formula1, tables
print(json.dumps([n for n in {SHORT_NAMES!r} if importlib.util.find_spec(n)]))
print(nascar.simulate("soft", T=5, seed=0).n_samples, "datasets" in __import__("sys").modules)
"""
    assert run_code(installed, code, tmp_path).splitlines() == ["[]", "5 False"]


@pytest.mark.bulk
def test_installed_command_fits_and_refuses(installed, tmp_path):
    gdm = installed / "gdm"
    pd.DataFrame(nascar.simulate("soft", T=200, seed=0).y).add_prefix("c").to_csv(tmp_path / "track.csv", index=False)
    fitted = run(gdm, "fit", "track.csv", "--model", "arhmm", "--json", cwd=tmp_path)
    assert fitted.returncode == 0, fitted.stderr
    assert json.loads(fitted.stdout)["samples"] == 200
    wrong = run(gdm, "fit", "absent.csv", cwd=tmp_path)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "There is no file at absent.csv" in wrong.stderr


FIT = Fit("arhmm", {"n_states": 2, "seed": 0}, (1, 0))
RECIPE = Recipe(
    ["from gdm_studio.datasets.nascar import train_test"],
    ['train, test = ([trial] for trial in train_test("soft", 0, T=100))'],
)


@pytest.mark.bulk
def test_exported_script_runs_with_the_exported_wheel(tmp_path):
    (tmp_path / wheel.FILE).write_bytes(wheel.build())
    assert wheel.requirements() == PROJECT["project"]["dependencies"]
    python = install(tmp_path / wheel.FILE, tmp_path / "venv")
    (tmp_path / "reproduce.py").write_text(script(RECIPE, FIT, "A view"))
    done = run(python, "reproduce.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "states.npz").is_file()


@pytest.mark.bulk
@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "examples").glob("*.py")))
def test_example_runs_from_the_wheel(installed, name, tmp_path):
    code = f"""
import runpy
import plotly.graph_objects as go
go.Figure.show = lambda figure: None
runpy.run_path({str(ROOT / "examples" / f"{name}.py")!r}, run_name="__main__")
"""
    (tmp_path / "run.py").write_text(code)
    done = run(installed / "python", "run.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "nan" not in done.stdout.replace("nanosecond", ""), done.stdout


@pytest.mark.bulk
def test_installed_dashboard_opens(installed, tmp_path):
    code = """
from streamlit.testing.v1 import AppTest
from gdm_studio.paths import APP, find_app_code
find_app_code()
app = AppTest.from_file(str(APP / "pages" / "ui" / "main.py"), default_timeout=600).run()
print([error.message for error in app.exception], len(app.get("page_link")))
"""
    assert run_code(installed, code, tmp_path).splitlines()[-1] == "[] 6"  # links of the home page


@pytest.mark.bulk
def test_installed_studio_serves_under_base_path(installed, tmp_path):
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
            module = f"{address}{component.route()[1:]}/plotly.min.js"
            assert b"Plotly" in until_answered(server, module)[:4000]
        finally:
            server.terminate()
            server.wait(PATIENCE_S)
    assert not re.search("Traceback", log.read_text())


def until_answered(server: subprocess.Popen[bytes], address: str) -> bytes:
    """Return the response of an address once the server is up."""
    for _ in range(3000):
        if server.poll() is not None:
            return b""
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                return bytes(answer.read())
        except (URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    return b""
