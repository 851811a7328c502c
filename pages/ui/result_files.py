"""Files of precomputed results, and the card of each on Home.

assets/demo/<name>.npz and <name>.json have the parts of a result: "fit" (pages/lab/shipped.py) and "card". Arrays are
called <part>.<name>; states have eight bits, 255 for 1. Scripts in assets/ write the files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.engine.results import from_levels, to_levels
from gdm_core.errors import DataError
from pages.ui.card import Score
from pages.ui.theme import ASSETS

FOLDER = ASSETS / "demo"
Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Card:
    """A path, its soft states and their scores, for Home.

    query   address of the view that the card shows
    """

    position: npt.NDArray[np.float32]  # [T, 2]
    states: npt.NDArray[np.float32]  # [T, K]
    score: Score
    query: Mapping[str, Any]


def load_card(name: str) -> Card | None:
    """Return the card of a result, None if it is not installed."""
    return None if (here := version(name)) is None else _card(name, here)


@lru_cache(maxsize=8)
def _card(name: str, here: tuple[str, int]) -> Card | None:
    found = read(name, "card")
    if found is None:
        return None
    arrays, words = found
    if missing := {"position", "states"} - set(arrays):
        raise DataError(f"{name}.npz lacks {', '.join(sorted(missing))}. Make it again with the scripts in assets.")
    position, states = arrays["position"], from_levels(arrays["states"])
    if len(position) != len(states):
        raise DataError(f"{name}.npz has {len(position)} positions but {len(states)} states.")
    return Card(position, states, Score(**{"name": ""} | words["score"]), words["query"])


def write_card(name: str, card: Card) -> None:
    """Add the card to the files of a result."""
    arrays: Arrays = {"position": np.asarray(card.position, np.float32), "states": to_levels(card.states)}
    write(name, "card", arrays, {"score": _score_fields(card.score), "query": dict(card.query)})


def _score_fields(score: Score) -> dict[str, Any]:
    """Return the fields of a score that differ from the default, with seven digits."""
    default = asdict(Score("", score.value))
    given = {"value": score.value} | {name: value for name, value in asdict(score).items() if value != default[name]}
    return {name: round(value, 7) if isinstance(value, float) else value for name, value in given.items()}


def version(name: str) -> tuple[str, int] | None:
    """Return an id of the files of a result for caches, None if there are none."""
    path = FOLDER / f"{name}.npz"
    return (str(path), path.stat().st_mtime_ns) if path.is_file() else None


def read_words(name: str) -> Mapping[str, dict[str, Any]]:
    """Return the words of each part of a result, {} if it is not installed."""
    return {} if (here := version(name)) is None else _read_words(name, here)


@lru_cache(maxsize=16)
def _read_words(name: str, here: tuple[str, int]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def read(name: str, part: str) -> tuple[Arrays, dict[str, Any]] | None:
    """Return (arrays, words) of one part of a result, None if it lacks that part."""
    words = read_words(name)
    if part not in words:
        return None
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as file:
        own = [key for key in file.files if key.startswith(f"{part}.")]
        return {key.removeprefix(f"{part}."): file[key] for key in own}, words[part]


def write(name: str, part: str, arrays: Arrays, words: Mapping[str, Any]) -> None:
    """Replace one part of a result."""
    FOLDER.mkdir(exist_ok=True)
    arrays_path, words_path = FOLDER / f"{name}.npz", FOLDER / f"{name}.json"
    whole, every = {}, {}
    if arrays_path.is_file():
        with np.load(arrays_path, allow_pickle=False) as file:
            whole = {key: file[key] for key in file.files if not key.startswith(f"{part}.")}
        every = json.loads(words_path.read_text(encoding="utf-8"))
    words_path.write_text(json.dumps(every | {part: words}, ensure_ascii=False) + "\n", encoding="utf-8")
    np.savez_compressed(arrays_path, **whole | {f"{part}.{key}": value for key, value in arrays.items()})
