"""Compiled loops: without a compiler, without a folder for their cache, and warmed up."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np
import pytest

import gdm_core.compiled
from gdm_core import ARHMM, GDM, SLDS
from gdm_core.models.warm import compile_loops

ROOT = Path(__file__).resolve().parents[2]
# Tests of loops against enumeration and dense algebra, small enough for plain Python.
SMALL = (
    "test_hmm.py::test_posterior_equals_enumeration", "test_hmm.py::test_filter_equals_posterior_of_the_past",
    "test_hmm.py::test_path_is_the_best_of_all", "test_gaussian.py::test_zero_block_separates_trials",
    "test_switching.py::test_one_state_filter_equals_dense_conditioning", "test_switching.py::test_filter_is_causal",
    "test_slds.py::test_curvature_of_weights_equals_gradient_slope", "test_slds.py::test_newton_climbs_to_the_mode",
)  # fmt: skip


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = os.environ | environment
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=120
    )


def test_loops_are_right_as_plain_python():
    done = run("-m", "pytest", "-n", "0", *(f"tests/unit/{name}" for name in SMALL), NUMBA_DISABLE_JIT="1")
    assert done.returncode == 0, done.stdout


def test_loops_compile_without_a_folder_for_their_cache(tmp_path):
    folder = tmp_path / "gdm_core" / "compiled"
    shutil.copytree(ROOT / "gdm_core/compiled", folder, ignore=lambda *_: ["__pycache__"])
    for blocked in (folder / "__pycache__", tmp_path / "file"):
        blocked.touch()  # no folder can be made in place of a file
    (folder.parent / "__init__.py").touch()
    program = (
        "import logging; logging.basicConfig(level='INFO'); import numpy as np\n"
        "from gdm_core.compiled import chains\n"
        "print(chains.best_path(np.zeros((3, 2)), np.zeros((3, 2, 2)), np.zeros(3, bool)))"
    )
    file = str(tmp_path / "file")
    home = {"HOME": file, "XDG_CACHE_HOME": file, "NUMBA_CACHE_DIR": "", "PYTHONPATH": str(tmp_path)}
    done = run("-P", "-c", program, **home)
    assert done.stdout.split() == ["[0", "0", "0]"], done.stderr
    assert "compiles best_path itself" in done.stderr


FIT = """
import numpy as np
from gdm_core import GDM
y = np.cumsum(np.random.default_rng(0).normal(size=(400, 3)), axis=0)
model = GDM(3, 2, n_steps=40).fit(y, calibrate=False)
print(model.elbo_, [float(value.sum()) for value in model.params_.values()])
"""


@pytest.mark.bulk
def test_first_process_fits_as_later_ones(tmp_path):
    first, later = (run("-c", FIT, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert first.stdout
    assert first.stdout == later.stdout


def signatures() -> dict[str, list[object]]:
    """Return the types for which each loop that Python calls is compiled."""
    modules = [import_module(f"gdm_core.compiled.{found.name}") for found in iter_modules(gdm_core.compiled.__path__)]
    loops = {f"{module.__name__}.{name}": loop for module in modules for name, loop in vars(module).items()}
    return {
        name: list(loop.signatures) for name, loop in loops.items() if hasattr(loop, "signatures") and "._" not in name
    }


@pytest.mark.usefixtures("one_torch_thread")
def test_warm_up_compiles_all_that_fits_need():
    shares = list(compile_loops())
    assert shares[-1] == 1.0
    ready = signatures()
    only_in_loops = "gdm_core.compiled.training.exponential"
    assert [name for name, compiled in ready.items() if not compiled and name != only_in_loops] == []
    y = np.cumsum(np.random.default_rng(1).normal(size=(400, 5)), axis=0)
    y[100:120, 2] = np.nan
    for model in (
        ARHMM(3, 2, lags=2, n_iter=3),
        SLDS(3, 3, transitions="recurrent_only", n_iter=3),
        GDM(3, 2, n_steps=60),
    ):
        model.fit(y).forecast(y, 5, origins=range(50, 400, 50))
    assert signatures() == ready
