"""Precomputed first results of pages, available before any worker has started.

The part "fit" of the files (pages/ui/result_files.py) has the model, its snapshots, the states of all trials, the settings and
scores. It replaces a fit only for equal settings and data of the same recipe (`gdm_core.trials.with_recipe`), because processors
round differently. `assets/make_demo.py` and `assets/make_mice.py` make the files; tests refit them and compare.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from gdm_core.analysis import inference
from gdm_core.analysis.inference import InferredStates
from gdm_core.engine import FitResult, ResultCache, Snapshot
from gdm_core.errors import DataError
from gdm_core.trials import Trials
from pages.lab.spec import PageSpec
from pages.ui import result_files


@dataclass(frozen=True, eq=False)
class Shipped:
    """A precomputed fit with the states and scores of its page.

    look  soft states of all trials
    more  scores, by names that the page chooses
    """

    fingerprint: str
    family: str
    config: Mapping[str, Any]
    result: FitResult
    look: InferredStates
    more: Mapping[str, Any]

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
    train, test = (
        tuple(result_files.soft(arrays[f"{side}_{i}"]) for i in range(words[f"n_{side}"])) for side in ("train", "test")
    )
    snapshots = tuple(_snapshot(arrays, i, *words["snapshots"][i]) for i in range(len(words["snapshots"])))
    result = FitResult(
        "", arrays["model"].tobytes(), words["fit_status"], words["elbo"], words["seconds"], tuple(words["steps"]),
        tuple(words["elbos"]), snapshots, from_cache=True,
    )  # fmt: skip
    look = InferredStates(train, test, words["posterior"])
    return Shipped(words["fingerprint"], words["family"], words["config"], result, look, words["more"])


def _snapshot(arrays: result_files.Arrays, number: int, step: int, elbo: float, strides: Sequence[int]) -> Snapshot:
    levels = tuple(arrays[f"snapshot_{number}_{i}"] for i in range(len(strides)))
    return Snapshot(step, tuple(range(len(levels))), tuple(strides), levels, math.nan if elbo is None else elbo)


def offer(name: str, spec: PageSpec, cache: ResultCache) -> Shipped | None:
    """Put the result into the cache if it is that of `spec`; return None if it is not."""
    found = load(name)
    if found is None or not found.is_result_of(spec):
        return None
    kept = cache.get(spec.key)[0]
    if kept is None or not found.matches(kept):  # its scores belong to this fit only
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
    look = inference.infer(result.model_bytes, train, test)
    arrays: dict[str, Any] = {"model": np.frombuffer(result.model_bytes, np.uint8)}
    for number, snapshot in enumerate(result.snapshots):
        arrays |= {f"snapshot_{number}_{i}": level for i, level in enumerate(snapshot.levels)}
    for side, parts in (("train", look.train), ("test", look.test)):
        arrays |= {f"{side}_{i}": result_files.levels(soft) for i, soft in enumerate(parts)}
    words = {
        "fingerprint": fingerprint(train, test),
        "family": family,
        "config": dict(config),
        "fit_status": result.fit_status,
        "elbo": result.elbo,
        "seconds": round(result.seconds, 2),
        "steps": list(result.steps),
        "elbos": [round(value, 4) for value in result.elbos],
        "snapshots": [
            [one.step, round(one.elbo, 4) if math.isfinite(one.elbo) else None, list(one.strides)]
            for one in result.snapshots
        ],
        "n_train": len(look.train),
        "n_test": len(look.test),
        "posterior": look.posterior,
        "more": dict(more),
    }
    result_files.write(name, "fit", arrays, words)
    found = load(name)
    assert found is not None
    return found
