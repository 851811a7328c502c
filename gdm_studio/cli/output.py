"""Results on stdout and in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gdm_core.text import for_json


def say(value: Any) -> None:
    print(json.dumps(for_json(value), indent=2, allow_nan=False))


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(for_json(value), indent=2, allow_nan=False) + "\n")
