"""Importing the library is cheap, and its type stub lists its exports."""

import ast
import subprocess
import sys
from pathlib import Path

import gdm_core

ROOT = Path(__file__).resolve().parents[2]


def loaded_by(modules: str, *candidates: str) -> set[str]:
    """Return the candidates that a fresh interpreter has loaded after importing these modules."""
    program = f"import sys, {modules}; print([name for name in {candidates!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(ast.literal_eval(done.stdout))


def test_imports_load_no_heavy_packages():
    modules = ["datasets", *(f"datasets.{path.stem}" for path in (ROOT / "datasets").glob("[!_]*.py"))]
    assert loaded_by(", ".join(modules), "torch", "numba", "streamlit", "plotly", "altair", "fastf1") == set()
    library = "gdm_core, gdm_core.trials, gdm_core.errors, gdm_core.models.gdm.config"
    assert loaded_by(library, "torch", "numba", "scipy", "distributed") == set()


def test_type_stub_names_every_export():
    stub = ast.parse((ROOT / "gdm_core/__init__.pyi").read_text(encoding="utf-8"))
    homes = {
        alias.asname: node.module for node in ast.walk(stub) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    exported = set(gdm_core.__all__) - {"__version__"}
    assert homes == {name: getattr(gdm_core, name).__module__ for name in exported}
