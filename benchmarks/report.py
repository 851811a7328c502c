"""Tables and JSON files of benchmark results."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
