"""Precomputed results, available before any worker has started, and the card of each on Home.

assets/demo/<name>.npz and <name>.json have the parts of a result: "fit" (model, snapshots, states of all trials, settings and
scores), a fit for each of VARIANTS, and "card". Arrays are called <part>.<name>; states have eight bits, 255 for 1. Results
replace fits only for equal settings and data of the same recipe (`gdm_core.trials.with_recipe`), because processors round
differently. `make demo` makes the files; tests refit them and compare.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.engine import FitResult, FitSpec, Snapshot
from gdm_core.engine.results import TrialStates, from_levels, to_levels
from gdm_core.errors import DataError
from gdm_core.trials import Trials
from pages.ui.card import Score
from pages.ui.theme import ASSETS

FOLDER = ASSETS / "demo"
FIT, CARD = "fit", "card"
TEMPERATURES = (0.1, 0.25, 0.5, 0.75, 1.5, 2.0, 3.0)
# Changes to the configuration of a result with which its fits ship too, by part.
VARIANTS: Mapping[str, Mapping[str, Any]] = {f"K{k}": {"n_states": k} for k in range(2, 13)} | {
    f"tau{value:g}": {"temperature": value} for value in TEMPERATURES
}
Arrays = Mapping[str, npt.NDArray[Any]]
Words = Mapping[str, Any]


# ---- files ----------------------------------------------------------------------------------------------------------
def _read_words(name: str) -> dict[str, Words]:
    """Return the words of each part of a result, {} if it is not installed."""
    path = FOLDER / f"{name}.json"
    return _parse_words(str(path), path.stat().st_mtime_ns) if path.is_file() else {}


@lru_cache(maxsize=16)
def _parse_words(path: str, _: int) -> dict[str, Words]:
    with open(path, encoding="utf-8") as file:
        found: dict[str, Words] = json.load(file)
    return found


def _read_arrays(name: str, part: str) -> Arrays:
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as file:
        own = [key for key in file.files if key.startswith(f"{part}.")]
        return {key.removeprefix(f"{part}."): file[key] for key in own}


def write_part(name: str, part: str, arrays: Arrays, words: Words) -> None:
    """Replace one part of a result."""
    FOLDER.mkdir(exist_ok=True)
    path, whole = FOLDER / f"{name}.npz", {}
    if path.is_file():
        with np.load(path, allow_pickle=False) as file:
            whole = {key: file[key] for key in file.files if not key.startswith(f"{part}.")}
    text = json.dumps({**_read_words(name), part: words}, ensure_ascii=False)
    path.with_suffix(".json").write_text(f"{text}\n", encoding="utf-8")
    np.savez_compressed(path, **whole | {f"{part}.{key}": value for key, value in arrays.items()})


# ---- fits -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Shipped:
    """A precomputed fit, its scores, and its fits with other settings.

    fingerprint  of the training and held-out trials
    """

    name: str
    fingerprint: tuple[str, str]
    family: str
    config: Mapping[str, Any]
    result: FitResult

    def find(self, spec: FitSpec) -> FitResult | None:
        """Return the result of `spec`, whatever its held-out trials; None if there is none."""
        if spec.family != self.family or spec.trials.fingerprint != self.fingerprint[0]:
            return None
        if dict(spec.config) == dict(self.config):
            return self.result
        words = _read_words(self.name)
        parts = (part for part, changes in VARIANTS.items() if dict(spec.config) == {**self.config, **changes})
        return next((_load_fit(self.name, part, _version(self.name)) for part in parts if part in words), None)


def find_result(spec: FitSpec) -> FitResult | None:
    """Return the precomputed result of `spec`, whatever its held-out trials; None if there is none."""
    for path in sorted(FOLDER.glob("*.json")):
        words = _read_words(path.stem).get(FIT, {})
        if words.get("fingerprint", "").partition("/")[0] == spec.trials.fingerprint:
            found = load(path.stem)
            if found is not None and (result := found.find(spec)) is not None:
                return result
    return None


def load(name: str) -> Shipped | None:
    """Return a precomputed result, None if the app has none of that name."""
    words = _read_words(name).get(FIT)
    if words is None:
        return None
    train, test = words["fingerprint"].split("/")
    result = _load_fit(name, FIT, _version(name))
    return Shipped(name, (train, test), words["family"], words["config"], result)


def _version(name: str) -> tuple[str, int]:
    """Return an id of the files of a result, for caches."""
    path = FOLDER / f"{name}.npz"
    return str(path), path.stat().st_mtime_ns


@lru_cache(maxsize=64)
def _load_fit(name: str, part: str, _: tuple[str, int]) -> FitResult:
    words, arrays = _read_words(name), _read_arrays(name, part)
    own, held_out = words[part], words[FIT]["fingerprint"].partition("/")[2]
    train, test = (tuple(arrays[f"{side}_{i}"] for i in range(own[f"n_{side}"])) for side in ("train", "test"))
    snapshots = tuple(
        Snapshot(
            step,
            tuple(range(len(strides))),
            tuple(strides),
            tuple(arrays[f"snapshot_{number}_{i}"] for i in range(len(strides))),
            math.nan if elbo is None else elbo,
        )
        for number, (step, elbo, strides) in enumerate(own["snapshots"])
    )
    return FitResult(
        "", arrays["model"].tobytes(), own["fit_status"], own["elbo"], own["seconds"], tuple(own["steps"]),
        tuple(own["elbos"]), snapshots, from_cache=True, is_precomputed=True,
        states=TrialStates(held_out, train, test), scores=own.get("more", {}),
    )  # fmt: skip


def _pack(result: FitResult, states: TrialStates) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arrays and the words of a fit and the states of all trials."""
    arrays: dict[str, Any] = {"model": np.frombuffer(result.model_bytes, np.uint8)}
    for number, snapshot in enumerate(result.snapshots):
        arrays |= {f"snapshot_{number}_{i}": level for i, level in enumerate(snapshot.levels)}
    for side, parts in (("train", states.train), ("test", states.test)):
        arrays |= {f"{side}_{i}": levels for i, levels in enumerate(parts)}
    return arrays, {
        "n_train": len(states.train),
        "n_test": len(states.test),
        "fit_status": result.fit_status,
        "elbo": result.elbo,
        "seconds": round(result.seconds, 2),
        "steps": list(result.steps),
        "elbos": [round(value, 4) for value in result.elbos],
        "snapshots": [
            [one.step, round(one.elbo, 4) if math.isfinite(one.elbo) else None, list(one.strides)]
            for one in result.snapshots
        ],
    }


def write(name: str, spec: FitSpec, result: FitResult, more: Words) -> Shipped:
    """Write a result with its scores: "scores", "seeds" of more fits, and the "options" with which they were measured."""
    train, test = spec.trials, spec.test
    assert test is not None
    if unknown := [trial.name for trial in (*train, *test) if not trial.recipe]:
        raise DataError(
            f"{unknown[0]!r} has no recipe, so another processor could not match it with {name!r}. "
            "Precompute results of simulated trials only."
        )
    arrays, words = _pack(result, TrialStates.from_model(result.model(), train, test))
    fingerprint = f"{train.fingerprint}/{test.fingerprint}"
    words |= {"fingerprint": fingerprint, "family": spec.family, "config": dict(spec.config), "more": dict(more)}
    write_part(name, FIT, arrays, words)
    found = load(name)
    assert found is not None
    return found


def write_variant(name: str, train: Trials, test: Trials, part: str, result: FitResult) -> None:
    """Add a fit of VARIANTS to a result."""
    write_part(name, part, *_pack(result, TrialStates.from_model(result.model(), train, test)))


# ---- cards ----------------------------------------------------------------------------------------------------------
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
    return _load_card(name, _version(name)) if CARD in _read_words(name) else None


@lru_cache(maxsize=8)
def _load_card(name: str, _: tuple[str, int]) -> Card:
    arrays, words = _read_arrays(name, CARD), _read_words(name)[CARD]
    if missing := {"position", "states"} - set(arrays):
        raise DataError(f"{name}.npz lacks {', '.join(sorted(missing))}. Make it again with the scripts in assets.")
    position, states = arrays["position"], from_levels(arrays["states"])
    if len(position) != len(states):
        raise DataError(f"{name}.npz has {len(position)} positions but {len(states)} states.")
    return Card(position, states, Score(**{"name": ""} | words["score"]), words["query"])


def write_card(name: str, card: Card) -> None:
    """Add the card to the files of a result; of its score, fields that differ from the default, with seven digits."""
    default = asdict(Score("", card.score.value))
    given = {key: value for key, value in asdict(card.score).items() if key == "value" or value != default[key]}
    rounded = {key: round(value, 7) if isinstance(value, float) else value for key, value in given.items()}
    arrays: Arrays = {"position": np.asarray(card.position, np.float32), "states": to_levels(card.states)}
    write_part(name, CARD, arrays, {"score": rounded, "query": dict(card.query)})
