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
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import accuracy, report, speed
from benchmarks.report import Part
from gdm_core.engine.spec import code_version
from gdm_core.maths.threads import one_thread, one_torch_thread
from gdm_core.models.registry import available

FILE = Path(__file__).resolve().parents[1] / "docs" / "results.json"
Stored = dict[str, Any]


def nascar(before: Stored, models: Sequence[str]) -> Stored:
    """Measure state accuracy of models on both tracks: `gdm reproduce nascar`."""
    from gdm_studio.reproduce import SETTINGS, run_tasks, summarise, tasks

    found: Stored = {setting: dict(before.get(setting, {})) for setting in SETTINGS}
    for name in models:
        for setting in SETTINGS:
            runs = list(run_tasks(tasks([name], [setting], n_seeds=accuracy.N_SEEDS)))
            for row, columns in summarise(runs).items():
                measured = {column: asdict(spread) for column, spread in columns.items() if spread}
                found[setting][row] = measured | {"code": code_version()}  # rows may come from several runs
    return found


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


def rounded(value: Any) -> Any:
    """Round every number to six digits."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


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
                with one_thread(), one_torch_thread():
                    values = PARTS[name](stored, turn)
            entry = {"code": code_version(), "machine": report.machine(), "values": rounded(values)}
            FILE.write_text(json.dumps(before | {name: entry}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            print(f"{name} {' '.join(turn)}: {FILE}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
