"""Precomputed first results of pages, available before any worker has started.

The part "fit" of the files (pages/ui/result_files.py) has the model, its snapshots, the states of all trials, the settings and
scores; a part such as "K3" has the model and snapshots of another number of states, for the slider preview. They replace fits
only for equal settings and data of the same recipe (`gdm_core.trials.with_recipe`), because processors round differently.
`assets/make_demo.py` and `assets/make_mice.py` make the files; tests refit them and compare.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from gdm_core.engine import FitResult, ResultCache, Snapshot
from gdm_core.engine.results import TrialStates
from gdm_core.errors import DataError
from gdm_core.trials import Trials
from pages.lab.live.state import PageSpec
from pages.ui import result_files

NUMBERS = range(2, 13)  # of states whose fits ship with a result


@dataclass(frozen=True, eq=False)
class Shipped:
    """A precomputed fit with the states and scores of its page.

    more        scores, by names that the page chooses
    neighbours  fits with other numbers of states
    """

    fingerprint: str
    family: str
    config: Mapping[str, Any]
    result: FitResult
    more: Mapping[str, Any]
    neighbours: Mapping[int, FitResult]

    def is_result_of(self, spec: PageSpec) -> bool:
        """Return whether this is the result of `spec`."""
        return (
            spec.family == self.family
            and dict(spec.config) == dict(self.config)
            and fingerprint(spec.dataset.train, spec.dataset.test) == self.fingerprint
        )

    def matches(self, result: FitResult | None) -> bool:
        """Return whether `result` is this one, under any key."""
        return result is not None and result.model_bytes == self.result.model_bytes

    def includes(self, result: FitResult | None) -> bool:
        """Return whether `result` is this one or that of a neighbour."""
        return self.matches(result) or (
            result is not None and any(one.model_bytes == result.model_bytes for one in self.neighbours.values())
        )


def fingerprint(train: Trials, test: Trials) -> str:
    return f"{train.fingerprint}/{test.fingerprint}"


def load(name: str) -> Shipped | None:
    """Return a precomputed result, None if the app has none of that name."""
    return None if (here := result_files.version(name)) is None else _load(name, here)


@lru_cache(maxsize=4)
def _load(name: str, here: tuple[str, int]) -> Shipped | None:
    found = result_files.read(name, "fit")
    if found is None:
        return None
    arrays, words = found
    held_out = words["fingerprint"].partition("/")[2]
    parts = {k: result_files.read(name, f"K{k}") for k in NUMBERS}
    others = {k: _unpack(*part, held_out) for k, part in parts.items() if part is not None}
    result = _unpack(arrays, words, held_out)
    return Shipped(words["fingerprint"], words["family"], words["config"], result, words["more"], others)


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
        tuple(words["elbos"]), snapshots, from_cache=True, states=TrialStates(held_out, train, test),
    )  # fmt: skip


def offer(name: str, spec: PageSpec, cache: ResultCache) -> Shipped | None:
    """Put the result into the cache if it is that of `spec`; return None if it is not."""
    found = load(name)
    if found is None or not found.is_result_of(spec):
        return None
    kept = cache.get(spec.key, spec.dataset.test.fingerprint)[0]
    if kept is None or kept.states is None or not found.matches(kept):  # its scores belong to this fit only
        cache.put(replace(found.result, key=spec.key))
    return found


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
        "fingerprint": fingerprint(train, test),
        "family": family,
        "config": dict(config),
        "more": dict(more),
    }
    result_files.write(name, "fit", arrays, words)
    found = load(name)
    assert found is not None
    return found


def write_neighbour(name: str, train: Trials, test: Trials, n_states: int, result: FitResult) -> None:
    """Add the fit with another number of states to a result."""
    states = TrialStates.from_model(result.model(), train, test)
    result_files.write(name, f"K{n_states}", *_pack(result, states))


def list_fits(found: Shipped, spec: PageSpec) -> list[FitResult]:
    """Return the result of `spec`, and its fits with other numbers of states, under their keys."""
    others = (
        replace(fit, key=PageSpec.from_choice(spec.dataset, spec.choice, spec.measure, n_states=k).key)
        for k, fit in found.neighbours.items()
    )
    return [replace(found.result, key=spec.key), *others]
