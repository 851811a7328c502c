"""Compiled loops: noise, windows, without a compiler or a folder for their cache, and warmed up."""

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np
import pytest
import torch

import gdm_core.compiled
from gdm_core import ARHMM, GDM, SLDS
from gdm_core.compiled import training
from gdm_core.compiled.batches import take_windows
from gdm_core.models.gdm.chain import make_batch
from gdm_core.models.warm import compile_loops
from tests.support.gdm import random_rows

ROOT = Path(__file__).resolve().parents[2]
# Tests of loops against enumeration and dense algebra, small enough for plain Python.
SMALL = (
    "test_hmm.py::test_posterior_equals_enumeration", "test_hmm.py::test_filter_equals_posterior_of_the_past",
    "test_hmm.py::test_path_is_the_best_of_all", "test_gaussian.py::test_zero_block_separates_trials",
    "test_switching.py::test_one_state_filter_equals_dense_conditioning",
    "test_slds.py::test_curvature_of_weights_equals_gradient_slope", "test_slds.py::test_newton_climbs_to_the_mode",
)  # fmt: skip


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = os.environ | environment
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=120
    )


def test_loops_are_right_as_plain_python():
    done = run(
        "-m", "pytest", "-n", "0", "--noconftest", *(f"tests/unit/{name}" for name in SMALL), NUMBA_DISABLE_JIT="1"
    )
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


# ---- training step and read-out ------------------------------------------------------------------------------------
# Steps in two blocks, with both objectives, shared noise and noise per state.
STEPS = """
import torch
from gdm_core.models.gdm.chain import chain_log_probabilities, make_batch
from gdm_core.models.gdm.config import GDMConfig
from gdm_core.models.gdm.fused import FusedObjective
from gdm_core.models.gdm.readout import read_out
from tests.support.gdm import random_module, random_rows
config, total = GDMConfig(2, 1, n_hidden=2), []
for lasting, importance in ((False, True), (True, False)):
    rows = random_rows(100, 40, n_channels=2, missing=0.2, dtype=torch.float32)
    batch = make_batch(rows)
    module = random_module(config, 2, dtype=torch.float32, lasting=lasting)
    objective = FusedObjective(module)
    chain, stay = chain_log_probabilities(objective.evidence(batch), batch.linked, 0.9)
    value = objective(batch._replace(chain=chain), 2, 5, importance)
    total += [value, stay, *objective.gradient, *objective.curvature.dynamics.ravel(), *chain.ravel()]
    found = read_out(module, rows, 4)
    total += [*found.log_bound.tolist(), *found.states.flatten().tolist()]
"""


def test_plain_python_gives_the_same_step():
    """Numba's arithmetic must not differ from Python's, in types or in overflow."""
    scope: dict[str, list[float]] = {}
    exec(STEPS, scope)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", STEPS + "print(*map(float, total))"],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    np.testing.assert_allclose(np.array(done.stdout.split(), float), scope["total"], rtol=1e-3, atol=1e-4)


def test_noise_is_exponential_and_depends_on_place_and_key():
    drawn = np.array([[training.exponential(place, np.uint32(key)) for place in range(20_000)] for key in (0, 12345)])
    assert drawn.min() > 0
    for power, mean in ((1, 1.0), (2, 2.0), (3, 6.0)):
        values = drawn.ravel() ** power
        assert values.mean() == pytest.approx(mean, abs=5 * values.std() / values.size**0.5)
    for one, other in ((drawn[0], drawn[1]), (drawn[0, 1:], drawn[0, :-1]), (drawn[0, 64:], drawn[0, :-64])):
        assert abs(np.corrcoef(one, other)[0, 1]) < 5 / len(one) ** 0.5


def test_windows_keep_rows_and_score_what_is_inside():
    batch = make_batch(random_rows(50, 30, missing=0.1, dtype=torch.float32))
    found = take_windows(batch, np.array([-2, 40, 75, 200]), 10, 3)
    assert found.y.shape == (3, 52)
    np.testing.assert_array_equal(found.y[:, 13:26], batch.y[:, 37:50])
    np.testing.assert_array_equal(found.linked[13:26], batch.linked[37:50])
    np.testing.assert_array_equal(np.flatnonzero(found.share), [*range(5, 13), *range(16, 26), *range(29, 34)])
    assert found.share.sum() == pytest.approx(1)
    assert not found.y[:, 34:].any()
    outside_first = take_windows(batch, np.array([90, 40]), 10, 3)
    np.testing.assert_array_equal(np.flatnonzero(outside_first.share), np.arange(16, 26))
