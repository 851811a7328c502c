"""Precomputed first results of pages, available before any worker has started: `find_result` is part of the result cache.

The part "fit" of the files (pages/ui/result_files.py) has the model, its snapshots, the states of all trials, the settings and
scores; each part of VARIANTS has the model, snapshots and states for another K or temperature. They replace fits only for equal
settings and data of the same recipe (`gdm_core.trials.with_recipe`), because processors round differently. `make demo` makes
the files; tests refit them and compare.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gdm_core.engine import FitResult, FitSpec, Snapshot
from gdm_core.engine.results import TrialStates
from gdm_core.errors import DataError
from gdm_core.trials import Trials
from pages.ui import result_files

TEMPERATURES = (0.1, 0.25, 0.5, 0.75, 1.5, 2.0, 3.0)
# Changes to the configuration of a result with which its fits ship too, by part.
VARIANTS: Mapping[str, Mapping[str, Any]] = {f"K{k}": {"n_states": k} for k in range(2, 13)} | {
    f"tau{value:g}": {"temperature": value} for value in TEMPERATURES
}


@dataclass(frozen=True, eq=False)
class Shipped:
    """A precomputed fit with the states and scores of its page.

    fingerprint  of the training and held-out trials
    more         scores, by names that the page chooses
    variants     other fits by part, see VARIANTS
    """

    fingerprint: tuple[str, str]
    family: str
    config: Mapping[str, Any]
    result: FitResult
    more: Mapping[str, Any]
    variants: Mapping[str, FitResult]

    def find(self, spec: FitSpec) -> FitResult | None:
        """Return the result of `spec`, whatever its held-out trials; None if there is none."""
        if spec.family != self.family or spec.trials.fingerprint != self.fingerprint[0]:
            return None
        if dict(spec.config) == dict(self.config):
            return self.result
        same = (part for part in self.variants if dict(spec.config) == {**self.config, **VARIANTS[part]})
        return next((self.variants[part] for part in same), None)


def find_result(spec: FitSpec) -> FitResult | None:
    """Return the precomputed result of `spec`, whatever its held-out trials; None if there is none."""
    return next((result for found in _load_fits_of(spec) if (result := found.find(spec)) is not None), None)


def find_scores(spec: FitSpec, options: tuple[Any, ...]) -> Mapping[str, Any] | None:
    """Return the scores of a precomputed result ("scores", and "seeds" of more fits) that were measured with `options`."""
    for found in _load_fits_of(spec):
        same_data = spec.test is not None and found.fingerprint == (spec.trials.fingerprint, spec.test.fingerprint)
        if same_data and found.find(spec) is found.result and tuple(found.more.get("options", ())) == options:
            return found.more
    return None


def _load_fits_of(spec: FitSpec) -> Iterator[Shipped]:
    """Return the precomputed results of the training trials of `spec`."""
    for path in sorted(result_files.FOLDER.glob("*.npz")):
        words = result_files.read_words(path.stem).get("fit", {})
        if words.get("fingerprint", "").partition("/")[0] == spec.trials.fingerprint:
            found = load(path.stem)
            assert found is not None
            yield found


def load(name: str) -> Shipped | None:
    """Return a precomputed result, None if the app has none of that name."""
    return None if (here := result_files.version(name)) is None else _load(name, here)


@lru_cache(maxsize=16)
def _load(name: str, here: tuple[str, int]) -> Shipped | None:
    found = result_files.read(name, "fit")
    if found is None:
        return None
    arrays, words = found
    train, test = words["fingerprint"].split("/")
    parts = {part: result_files.read(name, part) for part in VARIANTS}
    others = {part: _unpack(*found, test) for part, found in parts.items() if found is not None}
    result = _unpack(arrays, words, test)
    return Shipped((train, test), words["family"], words["config"], result, words["more"], others)


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


def _unpack(arrays: result_files.Arrays, words: Mapping[str, Any], held_out: str) -> FitResult:
    train, test = (tuple(arrays[f"{side}_{i}"] for i in range(words[f"n_{side}"])) for side in ("train", "test"))
    snapshots = tuple(
        Snapshot(
            step,
            tuple(range(len(strides))),
            tuple(strides),
            tuple(arrays[f"snapshot_{number}_{i}"] for i in range(len(strides))),
            math.nan if elbo is None else elbo,
        )
        for number, (step, elbo, strides) in enumerate(words["snapshots"])
    )
    return FitResult(
        "", arrays["model"].tobytes(), words["fit_status"], words["elbo"], words["seconds"], tuple(words["steps"]),
        tuple(words["elbos"]), snapshots, from_cache=True, is_precomputed=True,
        states=TrialStates(held_out, train, test),
    )  # fmt: skip


def write(
    name: str,
    train: Trials,
    test: Trials,
    family: str,
    config: Mapping[str, Any],
    result: FitResult,
    more: Mapping[str, Any],
) -> Shipped:
    if unknown := [trial.name for trial in (*train, *test) if not trial.recipe]:
        raise DataError(
            f"{unknown[0]!r} has no recipe, so another processor could not match it with {name!r}. "
            "Precompute results of simulated trials only."
        )
    arrays, words = _pack(result, TrialStates.from_model(result.model(), train, test))
    words |= {
        "fingerprint": f"{train.fingerprint}/{test.fingerprint}",
        "family": family,
        "config": dict(config),
        "more": dict(more),
    }
    result_files.write(name, "fit", arrays, words)
    found = load(name)
    assert found is not None
    return found


def write_variant(name: str, train: Trials, test: Trials, part: str, result: FitResult) -> None:
    """Add a fit of VARIANTS to a result."""
    result_files.write(name, part, *_pack(result, TrialStates.from_model(result.model(), train, test)))
