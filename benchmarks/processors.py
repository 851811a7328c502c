"""The tests of whatever is computed, on processors that this one can be taken for: `make processors`.

`python -m benchmarks.processors [--only NAME ...] [TEST ...]`; tests are files or folders, `TESTS` where none is given.

Last bits differ between processors: NumPy, its BLAS and torch each choose their code by what a processor can. Each row takes
all of that away, but for the BLAS of an old, a common and a new one, and has another number of threads. What runs must find
the results that ship, the same data under the same names, and fits that are as good.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support.last_bits import every_optional_feature

ROOT = Path(__file__).resolve().parents[1]
# name: (core that OpenBLAS takes this one for, threads of everything)
PROCESSORS = {"prescott": ("Prescott", 1), "haswell": ("Haswell", 2), "zen": ("Zen", 4)}
CALLED = {"Prescott": "Katmai", "Zen": "Haswell"}  # OpenBLAS as NumPy brings it: the same code under an older name
# What simulates, fits, or holds against something stored.
TESTS = (
    "tests/contract/test_contract.py",
    *(f"tests/unit/test_{name}.py" for name in (
        "recipes", "simulators", "lap_simulator", "features", "paper", "store", "gdm", "fused", "adaptation",
        "on_tracks", "recurrent", "mixture", "pdlds", "slds", "switching",
    )),
    *(f"tests/app/test_{name}.py" for name in (
        "last_bits", "home", "nascar", "behaviour", "formula1_page", "paper",
    )),
)  # fmt: skip
SHOW = """
import numpy, threadpoolctl, torch
found = numpy.show_config("dicts")["SIMD Extensions"].get("found", [])
(blas, *_) = [one["architecture"] for one in threadpoolctl.threadpool_info() if one["internal_api"] == "openblas"]
print(len(found), blas, torch.backends.cpu.get_cpu_capability(), torch.get_num_threads(), sep="/")
"""


def taken_for(core: str, threads: int, features: list[str]) -> dict[str, str]:
    """The environment in which a new process computes as on another processor."""
    count = str(threads)
    return {
        "NPY_DISABLE_CPU_FEATURES": " ".join(features),
        "OPENBLAS_CORETYPE": core,
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_DYNAMIC": "FALSE",  # or torch takes no more threads than there are cores
        **{f"{name}_NUM_THREADS": count for name in ("OMP", "OPENBLAS", "MKL")},
    }


def checked(environment: Mapping[str, str], core: str, threads: int) -> str:
    """What a process there says that it computes on; a name that its libraries do not know would change nothing."""
    child = [sys.executable, "-c", SHOW]
    said = subprocess.run(child, capture_output=True, text=True, check=True, env=environment).stdout.strip()
    if said not in (f"0/{as_told}/DEFAULT/{threads}" for as_told in (core, CALLED.get(core))):
        raise SystemExit(f"This machine cannot be taken for {core} with {threads} threads: it says {said}.")
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", default=TESTS, metavar="TEST", help="files or folders")
    parser.add_argument("--only", nargs="+", choices=PROCESSORS, default=list(PROCESSORS), help="rows; all by default")
    given = parser.parse_args()
    if platform.machine() not in ("x86_64", "AMD64"):
        print(
            f"No other processor is known that a {platform.machine()} could be taken for; `make test` ran on what it is."
        )
        return 0
    features = every_optional_feature()
    failed = []
    for name in given.only:
        core, threads = PROCESSORS[name]
        environment = os.environ | taken_for(core, threads, features)
        print(f"== {name}: {checked(environment, core, threads)}", flush=True)
        began = time.monotonic()
        command = [sys.executable, "-m", "pytest", "-n", "auto", "-m", "not bulk and not browser", *given.tests]
        if subprocess.run(command, cwd=ROOT, env=environment).returncode != 0:
            failed.append(name)
        print(f"== {name}: {time.monotonic() - began:.0f} s", flush=True)
    print(f"Failed on {', '.join(failed)}." if failed else f"Green on {', '.join(given.only)}.")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
