"""This library beside the packages it is compared with, in one run on one machine.

`python -m benchmarks.official --ssm-python PATH --pdlds-python PATH [--seeds N] [--settings soft] [--json FILE]`

Each PATH is the Python interpreter of an environment of yours in which that package is installed (`ssm` of the Linderman
lab; `pdLDS` from PyPI); without a path its rows are left out. Every model sees the same standardised trials, its states
of the test trial are inferred on the test trial, and all are scored by the same functions. Times are processor seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from datasets import nascar
from gdm_core.analysis.metrics import mapped_accuracy, match_states, paper_accuracy
from gdm_core.analysis.scores import align
from gdm_core.models.pdlds.model import PDLDS
from gdm_core.models.registry import build
from gdm_core.models.scaling import Scaler
from gdm_core.trials import Trial, as_trials

CHILD = Path(__file__).with_name("official_child.py")
# The other package's model -> ours with the same structure.
SSM = {
    "ssm SLDS sticky": "slds-sticky",
    "ssm rSLDS sticky recurrent": "rslds-sticky",
    "ssm rSLDS recurrent only": "rslds-ro",
}
PDLDS_PAIR = {"pdLDS": "pdlds"}
LIMIT_S = 1800


@dataclass(frozen=True)
class Found:
    """States of both trials, and processor seconds."""

    states: npt.NDArray[Any]
    states_test: npt.NDArray[Any]
    fit: float
    infer: float


def ours(name: str, train: Trial, test: Trial, seed: int) -> Found:
    """`fit` is the optimisation alone, as it is for the other packages, which calibrate no forecasts."""
    model = build(name, 4, 2, seed)
    started = fitted = time.process_time()
    for _ in model.fit_iter(train):
        fitted = time.process_time()
    begun = time.process_time()
    view = model.coefficients if isinstance(model, PDLDS) else model.predict_proba
    states_test = view(test)
    return Found(view(train), states_test, fitted - started, time.process_time() - begun)


def theirs(name: str, interpreter: Path, train: Trial, test: Trial, seed: int) -> Found:
    scaler = Scaler.from_trials(as_trials(train))
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "data.npz"), Path(folder, "result.npz")
        np.savez(source, train=scaler.apply(train.y).astype(float), test=scaler.apply(test.y).astype(float))
        command = [str(interpreter), str(CHILD), name, str(source), str(target), str(seed)]
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=os.environ | threads)
        if done.returncode:
            raise SystemExit(f"{name} failed under {interpreter}:\n{done.stderr[-2000:]}")
        with np.load(target) as result:
            return Found(result["states"], result["states_test"], float(result["fit"]), float(result["infer"]))


def scored(found: Found, train: Trial, test: Trial) -> dict[str, float]:
    assert train.labels is not None
    assert test.labels is not None
    largest, largest_test = found.states.argmax(axis=1), found.states_test.argmax(axis=1)
    mapping = match_states(largest, train.labels, found.states.shape[1])
    return {
        "paper's metric": paper_accuracy(found.states, train.labels, found.states_test, test.labels),
        "matched": mapped_accuracy(mapping, largest_test, test.labels),
        "fit s": found.fit,
        "infer s": found.infer,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ssm-python", type=Path, help="interpreter that has ssm")
    parser.add_argument("--pdlds-python", type=Path, help="interpreter that has pdLDS")
    parser.add_argument("--settings", nargs="+", default=["standard", "soft"], choices=["standard", "soft"])
    parser.add_argument("--seeds", type=int, default=3, help="simulations, and fits, per row")
    parser.add_argument("--json", type=Path, help="write every run to this file")
    options = parser.parse_args()
    pairs = [(*pair, options.ssm_python) for pair in SSM.items() if options.ssm_python]
    pairs += [(*pair, options.pdlds_python) for pair in PDLDS_PAIR.items() if options.pdlds_python]
    if not pairs:
        parser.error("give --ssm-python, --pdlds-python or both: the packages are not part of this one")
    ours("slds-sticky", *nascar.train_test("soft", 0, T=100), seed=0)  # imports are no part of a fit
    runs: list[dict[str, Any]] = []
    for setting in options.settings:
        for rival, own, interpreter in pairs:
            for seed in range(options.seeds):
                train, test = nascar.train_test(setting, seed)
                both = {own: ours(own, train, test, seed), rival: theirs(rival, interpreter, train, test, seed)}
                print(f"{setting}, seed {seed}: {own} and {rival} are done", file=sys.stderr, flush=True)
                for name, found in both.items():
                    runs.append({"setting": setting, "model": name, "seed": seed} | scored(found, train, test))
        print(table([run for run in runs if run["setting"] == setting], setting), flush=True)
    if options.json:
        options.json.write_text(json.dumps(runs, indent=1))


def table(runs: list[dict[str, Any]], title: str) -> str:
    columns = [name for name in runs[0] if name not in ("setting", "model", "seed")]
    rows: list[tuple[str, ...]] = [(title, *columns)]
    for model in dict.fromkeys(run["model"] for run in runs):
        values = {name: [run[name] for run in runs if run["model"] == model] for name in columns}
        rows.append((model, *(f"{np.mean(v):.3f} ± {np.std(v):.3f}" for v in values.values())))
    return "\n".join(align(rows))


if __name__ == "__main__":
    main()
