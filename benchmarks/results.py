"""Every number that README and docs state, measured by one command and kept in docs/results.json: `make numbers`.

`python -m benchmarks.results [--only PART] [--models a,b]` measures some of it again and leaves the rest as it was.
`python -m docs.render` then writes the pages' tables from the file; a test holds that they agree.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report, run
from gdm_core.engine.messages import code_version
from gdm_core.maths.threads import one_thread, one_torch_thread
from gdm_core.models.registry import available

FILE = Path(__file__).resolve().parents[1] / "docs" / "results.json"
N_SEEDS = 10
Stored = dict[str, Any]


def nascar(before: Stored, models: Sequence[str]) -> Stored:
    """The comparison of all models, a line a model: `gdm reproduce nascar --models all`."""
    from gdm_studio.reproduce import SETTINGS, run_tasks, summarise, tasks

    found: Stored = {setting: dict(before.get(setting, {})) for setting in SETTINGS}
    for name in models:
        for setting in SETTINGS:
            runs = list(run_tasks(tasks([name], [setting], n_seeds=N_SEEDS)))
            for row, columns in summarise(runs).items():
                measured = {column: asdict(spread) for column, spread in columns.items() if spread}
                found[setting][row] = measured | {"code": code_version()}  # rows may be measured at different times
    return found


def ceiling(before: Stored, models: Sequence[str]) -> Stored:
    """A network taught by labelled tracks: `python -m benchmarks.ceiling`."""
    from benchmarks.ceiling import ceiling as taught

    own, others = zip(*(taught(seed) for seed in range(N_SEEDS)), strict=True)
    return {"mean": float(np.mean(own)), "worst": min(own), "n": len(own), "others": float(np.mean(others))}


def envelopes(before: Stored, models: Sequence[str]) -> Stored:
    """What envelopes hold and how wide they are, as calibrated and adaptive: `python -m benchmarks.envelopes`."""
    from benchmarks.envelopes import COLUMNS, cases, table
    from gdm_core.adaptation import RATE

    return {"columns": COLUMNS, "rows": table(cases(), (0.0, RATE))}


def _part_of_bench(name: str) -> Callable[[Stored, Sequence[str]], Stored]:
    """A part of `make bench`, by the words in its first column."""

    def measure(before: Stored, models: Sequence[str]) -> Stored:
        title, columns, rows = run.PARTS[name]()
        return {"title": title, "columns": columns, "rows": rows}

    return measure


def app(before: Stored, models: Sequence[str]) -> Stored:
    """What visitors wait for: `make bench-app`."""
    from benchmarks.app import Effort, measure
    from tests.support.browser_server import find_chromium

    chromium = find_chromium()
    if chromium is None:
        raise SystemExit("No Chromium was found. Install one to measure the app, or name other parts with --only.")
    with tempfile.TemporaryDirectory() as folder:
        rows, details = measure(chromium, Path(folder), Effort(), alone=True, load=True, held=False)
    if details["errors"]:
        raise SystemExit("\n".join(["Visitors met errors, so nothing was kept:", *details["errors"]]))
    return {row.what: {"value": row.value, "unit": row.unit, "goal": row.goal, "load": row.load} for row in rows}


PARTS: dict[str, Callable[[Stored, Sequence[str]], Stored]] = {
    "nascar": nascar,
    "ceiling": ceiling,
    "envelopes": envelopes,
    "speed": _part_of_bench("speed"),
    "scale": _part_of_bench("scale"),
    "mice": _part_of_bench("mice"),
    "app": app,
}


def load() -> Stored:
    """What is stored: {part: {"values", "code", "machine"}}, and `elsewhere`, which this command cannot measure."""
    stored: Stored = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}
    return stored


def rounded(value: Any) -> Any:
    """Six digits are more than any page shows."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append", help="measure these parts alone")
    parser.add_argument("--models", default="", help="of the comparison measure these models alone, comma-separated")
    options = parser.parse_args()
    models = [name for name in options.models.split(",") if name]
    if not options.only:  # each part in a process of its own: what a process has once held shows in its peak of memory
        parts = [
            [sys.executable, "-m", "benchmarks.results", "--only", name, "--models", options.models] for name in PARTS
        ]
        return next((code for part in parts if (code := subprocess.run(part).returncode)), 0)
    for name in options.only:
        # Model by model, so that a comparison which was stopped has kept what it had.
        turns = [[model] for model in models or available()] if name == "nascar" else [[]]
        for turn in turns:
            before = load()
            stored = before.get(name, {}).get("values", {})
            if name == "app":
                values = PARTS[name](stored, turn)
            else:
                with one_thread(), one_torch_thread():
                    values = PARTS[name](stored, turn)
            entry = {"code": code_version(), "machine": report.machine(), "values": rounded(values)}
            FILE.write_text(json.dumps(before | {name: entry}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            print(f"{name} {' '.join(turn)}: {FILE}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
