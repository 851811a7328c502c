"""Measure the numbers in README and docs and store them in docs/results.json: `make numbers`.

`python -m benchmarks.results [--only PART] [--models a,b]` measures some and keeps the others. `python -m docs.render`
writes them into the pages.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import accuracy, report, speed
from benchmarks.report import Part
from datasets import nascar as tracks
from gdm_core.analysis.metrics import evaluate
from gdm_core.engine.spec import code_version
from gdm_core.maths.threads import one_thread
from gdm_core.models.progress import Status
from gdm_core.models.registry import available, build
from gdm_studio.paper import round_floats

FILE = Path(__file__).resolve().parents[1] / "docs" / "results.json"
Stored = dict[str, Any]


# ---- NASCAR tracks --------------------------------------------------------------------------------------------------
TRACKS = ("standard", "soft")
STATE_SCORES = ("matched_accuracy", "paper_accuracy", "paper_accuracy_hard", "majority_map_accuracy")
Values = dict[str, dict[str, list[Any]]]  # row -> column -> value for each seed


def nascar(before: Stored, models: Sequence[str]) -> Stored:
    """Measure models and their baselines on both tracks; each seed has its own simulation and fit."""
    found: Stored = {setting: dict(before.get(setting, {})) for setting in TRACKS}
    for name in models:
        for setting in TRACKS:
            values: Values = defaultdict(lambda: defaultdict(list))
            for seed in range(accuracy.N_SEEDS):
                add_scores(values, name, setting, seed)
            for row, columns in values.items():
                measured = {column: describe(column, each) for column, each in columns.items()}
                found[setting][row] = {column: one for column, one in measured.items() if one}
                found[setting][row]["code"] = code_version()  # rows may come from several runs
    return found


def add_scores(values: Values, name: str, setting: str, seed: int) -> None:
    """Fit a model to one track, and add its scores and those of its baselines to `values`."""
    train, test = tracks.train_test(setting, seed)
    model, began = build(name, tracks.N_STATES, 2, seed), time.process_time()
    model.fit(train)
    seconds = time.process_time() - began
    if model.status_ is Status.FAILED:
        print(f"{name} on {setting} seed {seed}: {model.failure_}")
        return
    scores = evaluate(model, train, test, seed=seed)
    rows: dict[str, Any] = {name: scores, **scores.baselines}
    if (untrained := rows.pop("untrained model", None)) is not None:
        rows[f"{name}, untrained"] = untrained
        values[f"{name}, untrained"]["elbo_test"].append(scores.untrained_elbo_test)
    for row, one in rows.items():
        for column in STATE_SCORES:
            values[row][column].append(getattr(one, column))
    own = {column: getattr(scores, column) for column in ("coverage_90", "adaptive_90", "elbo_test")}
    own |= {"r2_10": scores.forecast_r2[-1], "fit_seconds": model.seconds_, "cpu_seconds": seconds}
    for column, value in own.items():
        values[name][column].append(value)
    values["persistence"]["r2_10"].append(scores.persistence_r2[-1])
    values["linear AR(1)"]["r2_10"].append(scores.ar1_r2[-1])
    values["linear AR(1)"]["elbo_test"].append(scores.ar1_log_likelihood_test)


def describe(column: str, values: list[Any]) -> dict[str, float] | None:
    """Summarise a score over seeds; coverage is averaged over seeds and summarised over horizons."""
    if column in ("coverage_90", "adaptive_90"):
        values = np.mean(values, axis=0).tolist()
    known = np.array([value for value in values if value is not None and np.isfinite(value)])
    if not len(known):
        return None
    found = {"mean": known.mean(), "median": np.median(known), "sd": known.std(ddof=1) if len(known) > 1 else 0.0}
    return {
        **{k: float(v) for k, v in found.items()},
        "worst": float(known.min()),
        "best": float(known.max()),
        "n": len(known),
    }


# ---- other parts ----------------------------------------------------------------------------------------------------
def app(before: Stored, models: Sequence[str]) -> Stored:
    """Measure the waiting times of visitors: `make bench-app`."""
    from benchmarks.browser import PARTS, Effort, measure
    from tests.support.browser_server import find_chromium

    chromium = find_chromium()
    if chromium is None:
        raise SystemExit("No Chromium was found. Install it, or choose other parts with --only.")
    with tempfile.TemporaryDirectory() as folder:
        rows, errors = measure(chromium, Path(folder), Effort(), list(PARTS))
    if errors:
        raise SystemExit("\n".join(["Pages had errors, so nothing is stored:", *errors]))
    return {row.what: {"value": row.value, "unit": row.unit, "goal": row.goal, "load": row.load} for row in rows}


def table(measure: Callable[[], Part]) -> Callable[[Stored, Sequence[str]], Stored]:
    """Return a part that stores the table of a benchmark."""

    def part(before: Stored, models: Sequence[str]) -> Stored:
        title, columns, rows = measure()
        return {"title": title, "columns": columns, "rows": rows}

    return part


PARTS: dict[str, Callable[[Stored, Sequence[str]], Stored]] = {
    "nascar": nascar,
    "ceiling": table(accuracy.ceiling),
    "intervals": table(accuracy.intervals),
    **{name: table(measure) for name, measure in speed.PARTS.items()},
    "app": app,
}


def load() -> Stored:
    """Return the stored parts with values, code and machine; `elsewhere` is not measured here."""
    stored: Stored = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}
    return stored


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append", help="measure these parts only")
    parser.add_argument("--models", default="", help="models of the comparison, comma-separated; all by default")
    options = parser.parse_args()
    models = [name for name in options.models.split(",") if name]
    if not options.only:  # one process per part, to measure its peak memory
        parts = [
            [sys.executable, "-m", "benchmarks.results", "--only", name, "--models", options.models] for name in PARTS
        ]
        return next((code for part in parts if (code := subprocess.run(part).returncode)), 0)
    for name in options.only:
        # Store the comparison model by model, to allow interruption.
        turns = [[model] for model in models or available()] if name == "nascar" else [[]]
        for turn in turns:
            before = load()
            stored = before.get(name, {}).get("values", {})
            if name == "app":
                values = PARTS[name](stored, turn)
            else:
                with one_thread():
                    values = PARTS[name](stored, turn)
            entry = {"code": code_version(), "machine": report.machine(), "values": round_floats(values)}
            FILE.write_text(json.dumps(before | {name: entry}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            print(f"{name} {' '.join(turn)}: {FILE}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
