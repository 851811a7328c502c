"""What a release needs, made and tried: `make release` writes it to build/release.

Wheel and sdist are built and their metadata checked; the wheel is installed into an empty environment of every Python here that
the package allows, and every example runs from it, in an empty folder, without this checkout. NOTES.md is the changelog's head for
this version, with what was tried and what was measured. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from gdm_core import __version__

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "release"
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
# Runs an example as a script; a figure that is shown goes nowhere, where a desk would open its browser.
RUN = """
import runpy, sys, plotly.io
from plotly.io.base_renderers import ExternalRenderer
class Unseen(ExternalRenderer):
    def render(self, fig_dict):
        assert fig_dict["data"]
plotly.io.renderers["unseen"] = Unseen()
plotly.io.renderers.default = "unseen"
if __name__ == "__main__":
    runpy.run_path(sys.argv[1], run_name="__main__")
"""


def built() -> Path:
    """The wheel, beside its sdist, with metadata that a registry takes."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(FOLDER), str(ROOT)]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, FOLDER.iterdir())], check=True)
    (wheel,) = FOLDER.glob("*.whl")
    return wheel


def installed(name: str) -> str | None:
    """Where a Python of this name is and starts: on the path, or among those that pyenv has put beside each other."""
    beside = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [which for which in (shutil.which(name), *map(str, sorted(beside.glob(f"*/bin/{name}")))) if which]
    return next((one for one in found if not subprocess.run([one, "-c", ""], capture_output=True).returncode), None)


def tried(name: str, wheel: Path, examples: list[Path]) -> str:
    """What became of the wheel under one Python, in a line."""
    python = installed(name)
    if python is None:
        return f"{name}: not on this machine"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        own = folder / "venv" / "bin" / "python"
        subprocess.run([python, "-m", "venv", str(folder / "venv")], check=True)
        asked = [str(own), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)]
        put = subprocess.run(asked, capture_output=True, text=True)
        if put.returncode:
            return f"{name}: could not be installed ({put.stderr.strip().splitlines()[-1]})"
        (folder / "run.py").write_text(RUN, encoding="utf-8")
        failed = []
        for example in examples:
            empty = folder / example.stem
            empty.mkdir()
            environment = {
                "HOME": place,
                "PATH": "/usr/bin:/bin",
                "GDM_DATA_DIR": str(folder / "data"),
                "OMP_NUM_THREADS": "1",
            }
            command = [str(own), str(folder / "run.py"), str(example)]
            done = subprocess.run(command, cwd=empty, env=environment, capture_output=True, text=True)
            if done.returncode:
                print(done.stderr, file=sys.stderr)
                failed.append(example.stem)
    said = f"failed: {', '.join(failed)}" if failed else "all run"
    return f"{name}: installed from the wheel, {len(examples)} examples, {said}"


def changes(version: str, text: str) -> str:
    """The changelog's part on a version."""
    found = re.search(rf"^## {re.escape(version)}\b.*?\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    if found is None:
        raise SystemExit(f"CHANGELOG.md says nothing of {version}: write `## {version}` with what changed for users.")
    return found[1].strip()


def notes(lines: list[str]) -> str:
    """The release's notes: what changed, what was tried, what was measured and has to be signed by whoever releases."""
    stored = json.loads((ROOT / "docs" / "results.json").read_text(encoding="utf-8"))
    measured = [f"- [ ] {name}" for name in sorted(stored) if isinstance(stored[name], dict)]
    day = datetime.now(UTC).date().isoformat()
    parts = [
        f"# GDM Studio {__version__}, {day}",
        changes(__version__, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")),
    ]
    parts += ["## Tried", "\n".join(f"- {line}" for line in lines)]
    parts += ["## Measured (docs/results.json), to be looked at and signed", "\n".join(measured), "Signed: "]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--python", nargs="*", default=PYTHONS, help="which Pythons to try, those of `make release` if none is named"
    )
    options = parser.parse_args()
    wheel = built()
    lines = []
    for python in options.python:
        lines.append(tried(python, wheel, sorted((ROOT / "examples").glob("*.py"))))
        print(lines[-1], flush=True)
    (FOLDER / "NOTES.md").write_text(notes(lines), encoding="utf-8")
    print(FOLDER / "NOTES.md")
    return 1 if any("failed" in line or "could not" in line for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
