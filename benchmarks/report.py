"""Tables and JSON files of benchmark results, and the command line of benchmarks."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gdm_core.maths.threads import one_thread

Part = tuple[str, list[str], list[list[Any]]]  # title, columns, rows


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a plain-text table with floats of four significant digits."""

    def text(value: Any) -> str:
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    cells = [list(columns), *([text(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([title, *lines, ""])


def machine() -> dict[str, Any]:
    """Return the facts about this machine that a reader needs to judge a timing."""
    return {
        "cores": os.cpu_count(),
        "processor": platform.machine(),
        "load_1min": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
    }


def write(path: str | None, results: dict[str, Any]) -> None:
    """Write results and the machine as JSON if a path is given."""
    if path:
        Path(path).write_text(json.dumps(results | {"machine": machine()}, indent=2))


def run(about: str | None, parts: Mapping[str, Callable[[], Part]]) -> None:
    """Measure the parts that the command line names, print their tables, and write them to a file if asked."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*parts, []], help="parts to measure; all by default")
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    with one_thread():
        for name in options.parts or parts:
            title, columns, rows = parts[name]()
            print(table(title, columns, rows), flush=True)
            results[name] = {"title": title, "columns": columns, "rows": rows}
    write(options.json, results)
