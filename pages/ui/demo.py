"""Finished results that ship with the app, so that Home opens at once.

assets/demo/<name>.npz   x, y [T] float; states [T, K] (float16, or uint8 with 255 for 1); optional labels [T] (-1 unknown)
assets/demo/<name>.json  {"title", "about", "facts": {name: text}, "query": {...}, "licence",
                          "scores": [{"name", "value", "line", "line_name", "spread", "digits"}]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from pages.ui.card import Score
from pages.ui.theme import ASSETS

FOLDER = ASSETS / "demo"


@dataclass(frozen=True, eq=False)
class Demo:
    """One bundled result: a path, its soft states, and what was measured when it was made."""

    name: str
    position: npt.NDArray[np.float32]  # [T, 2]
    states: npt.NDArray[np.float32]  # [T, K]
    labels: npt.NDArray[np.int64] | None
    title: str
    about: str
    facts: Mapping[str, str]
    scores: tuple[Score, ...]
    query: Mapping[str, Any]
    licence: str


def load_demo(name: str) -> Demo | None:
    """The bundled result `name`, or None where this installation has none."""
    arrays, words = FOLDER / f"{name}.npz", FOLDER / f"{name}.json"
    if not (arrays.is_file() and words.is_file()):
        return None
    return _read(name, arrays, words, arrays.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _read(name: str, arrays: Path, words: Path, changed: int) -> Demo:
    with np.load(arrays, allow_pickle=False) as file:
        missing = {"x", "y", "states"} - set(file.files)
        if missing:
            raise DataError(
                f"{arrays.name} lacks {', '.join(sorted(missing))}. Make it again with assets/make_demo.py."
            )
        states = file["states"]
        soft = states.astype(np.float32) / (255 if states.dtype == np.uint8 else 1)
        position = np.column_stack([file["x"], file["y"]]).astype(np.float32)
        labels = file["labels"].astype(np.int64) if "labels" in file.files else None
    if len(position) != len(soft):
        raise DataError(f"{arrays.name} has {len(position)} positions but {len(soft)} states.")
    about = json.loads(words.read_text(encoding="utf-8"))
    return Demo(
        name=name,
        position=position,
        states=soft,
        labels=labels,
        title=about["title"],
        about=about["about"],
        facts=about.get("facts", {}),
        scores=tuple(Score(**score) for score in about.get("scores", [])),
        query=about.get("query", {}),
        licence=about.get("licence", ""),
    )
