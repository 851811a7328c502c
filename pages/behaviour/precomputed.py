"""The first result of the page, made beforehand, so that it is there at once. `assets/make_demo.py behaviour` makes it.

assets/demo/behaviour-fit.npz   the model file, its snapshot, and the soft states of all trials in eight bits
assets/demo/behaviour-fit.json  data, family and configuration that it belongs to, and what was measured

It stands for a fit only where data and settings are the very same; a test fits them anew and compares.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from gdm_core.engine import FitResult, Snapshot
from gdm_core.trials import Trials
from pages.behaviour.bouts import BoutRule
from pages.behaviour.data import Data
from pages.ui.demo import FOLDER
from pages.ui.live import Wanted
from pages.ui.results import Look

ARRAYS, WORDS = FOLDER / "behaviour-fit.npz", FOLDER / "behaviour-fit.json"


@dataclass(frozen=True, eq=False)
class Bundle:
    """A finished fit with everything that the page asks about it at first."""

    fingerprint: str
    family: str
    config: Mapping[str, Any]
    rule: BoutRule
    result: FitResult
    look: Look
    measured: Mapping[str, Any]
    lines: Mapping[str, Any]

    def fits(self, wanted: Wanted) -> bool:
        """Whether this is what `wanted` asks for."""
        return (
            wanted.family == self.family
            and dict(wanted.config) == dict(self.config)
            and wanted.test is not None
            and both(wanted.train, wanted.test) == self.fingerprint
        )

    def stands(self, result: FitResult | None) -> bool:
        """Whether `result` is this one, whatever key it has here."""
        return result is not None and result.model_bytes == self.result.model_bytes


def both(train: Trials, test: Trials) -> str:
    return f"{train.fingerprint}/{test.fingerprint}"


def bundled() -> Bundle | None:
    """The result that ships with the app, or None where it does not."""
    if not (ARRAYS.is_file() and WORDS.is_file()):
        return None
    return _read(ARRAYS.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _read(changed: int) -> Bundle:
    words = json.loads(WORDS.read_text(encoding="utf-8"))
    with np.load(ARRAYS, allow_pickle=False) as file:
        model = file["model"].tobytes()
        levels = tuple(file[f"level_{i}"] for i in range(len(words["strides"])))
        train = tuple(_soft(file[f"train_{i}"]) for i in range(words["n_train"]))
        test = tuple(_soft(file[f"test_{i}"]) for i in range(words["n_test"]))
    snapshot = Snapshot(words["steps"][-1], tuple(range(len(levels))), tuple(words["strides"]), levels)
    result = FitResult(
        "", model, words["fit_status"], words["elbo"], words["seconds"], tuple(words["steps"]), tuple(words["elbos"]),
        snapshot, from_cache=True,
    )  # fmt: skip
    return Bundle(
        words["fingerprint"], words["family"], words["config"], BoutRule(**words["rule"]), result,
        Look(train, test, words["stay"], words["sees"]), words["measured"], words["lines"],
    )  # fmt: skip


def _soft(levels: np.ndarray) -> np.ndarray:
    soft = levels.astype(np.float32)
    return soft / np.maximum(soft.sum(axis=1, keepdims=True), 1)


def offer(wanted: Wanted, cache: Any) -> Bundle | None:
    """Put the bundled result where fits are looked up, if it is what is asked for; the bundle if so."""
    found = bundled()
    if found is None or not found.fits(wanted):
        return None
    if cache.get(wanted.key)[0] is None:
        cache.put(replace(found.result, key=wanted.key))
    return found


def write(data: Data, family: str, config: Mapping[str, Any], rule: BoutRule, result: FitResult) -> Bundle:
    """Save a result for the page."""
    from pages.behaviour import scoring
    from pages.ui import results

    assert result.snapshot is not None
    look = results.look(result.model_bytes, data.train, data.test)
    seed = int(config["seed"])
    measured = scoring.measure(result.model_bytes, data.train, data.test, rule.smooth_s, rule.shortest_s, seed)
    lines = scoring.baselines(data.train, data.test, int(config["n_states"]), seed)
    arrays: dict[str, Any] = {"model": np.frombuffer(result.model_bytes, np.uint8)}
    arrays |= {f"level_{i}": level for i, level in enumerate(result.snapshot.levels)}
    for side, parts in (("train", look.train), ("test", look.test)):
        arrays |= {f"{side}_{i}": np.rint(soft * 255).astype(np.uint8) for i, soft in enumerate(parts)}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    ARRAYS.write_bytes(buffer.getvalue())
    words = {
        "fingerprint": both(data.train, data.test),
        "family": family,
        "config": dict(config),
        "rule": {"smooth_s": rule.smooth_s, "shortest_s": rule.shortest_s},
        "fit_status": result.fit_status,
        "elbo": result.elbo,
        "seconds": round(result.seconds, 2),
        "steps": list(result.steps),
        "elbos": [round(value, 4) for value in result.elbos],
        "strides": list(result.snapshot.strides),
        "n_train": len(look.train),
        "n_test": len(look.test),
        "stay": look.stay,
        "sees": look.sees,
        "measured": measured,
        "lines": lines,
    }
    WORDS.write_text(json.dumps(words, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    found = bundled()
    assert found is not None
    return found
