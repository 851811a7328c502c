"""Soft states and scores of a model given as bytes, for jobs on workers.

The posterior and its number of draws belong to the models (`gdm_core.models.gdm.readout`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis import metrics
from gdm_core.analysis.state_scores import score_states
from gdm_core.errors import FitError
from gdm_core.models.loading import model_from_bytes
from gdm_core.models.progress import Status
from gdm_core.models.registry import import_family
from gdm_core.models.variants import infer_quickly, with_parameters
from gdm_core.text import for_json
from gdm_core.trials import Trial, Trials

if TYPE_CHECKING:
    from gdm_core.models.base import StateModel

Array = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class InferredStates:
    """Soft states [T, K] of each trial, in the model's order of states."""

    train: tuple[Array, ...]
    test: tuple[Array, ...]


def calibrate(model_bytes: bytes, train: Trials) -> bytes:
    """Return the model with calibrated prediction intervals."""
    model = model_from_bytes(model_bytes)
    return model_bytes if model.calibration_ is not None else model.calibrate(train).to_bytes()


def filter_states(model_bytes: bytes, trial: Trial) -> Array:
    """Return filtered soft states [T, K], which use past samples only."""
    return model_from_bytes(model_bytes).filter(trial)


def sweep(
    model_bytes: bytes, train: Trials, test: Trials, which: Sequence[int], name: str, values: Sequence[Any]
) -> list[tuple[npt.NDArray[np.uint8], ...]]:
    """Return rough 8-bit states of some trials for each of `values` of the parameter `name`.

    which   indices of trials, training trials first
    """
    every = (*train, *test)
    found = []
    for value in values:
        model = with_parameters(_load_model(model_bytes), **{name: value})
        soft = [infer_quickly(model, every[i]) for i in which]
        found.append(tuple(np.rint(255 * np.nan_to_num(np.asarray(part))).astype(np.uint8) for part in soft))
    return found


_load_model = lru_cache(maxsize=2)(model_from_bytes)  # while a slider moves


def infer(model_bytes: bytes, train: Trials, test: Trials | None) -> InferredStates:
    """Return soft states of all trials."""
    model = model_from_bytes(model_bytes)
    return InferredStates(predict_states(model, train), () if test is None else predict_states(model, test))


def predict_states(model: StateModel, trials: Trials) -> tuple[Array, ...]:
    """Return soft states [T, K] of each trial."""
    return tuple(np.asarray(states, np.float32) for states in model.predict_proba(trials))


Found = dict[str, Any]


def score_parts(model_bytes: bytes, train: Trials, test: Trials, seed: int = 0) -> Iterator[Found]:
    """Yield scores and baselines incrementally, as plain values; the last item has all of them."""
    found: Found = {}
    model = model_from_bytes(model_bytes)
    for number, part in enumerate(metrics.score_parts(model, train, test, seed), start=1):
        found |= for_json(part)
        yield found | next_part(metrics.PARTS, number)
        if model.calibration_ is None and metrics.PARTS.index("forecasts") == number:
            model.calibrate(train)  # only forecasts have intervals


def quick_scores(model_bytes: bytes, train: Trials, test: Trials) -> dict[str, float]:
    """Return the held-out ELBO per sample, and the matched accuracy if true states are known."""
    model = model_from_bytes(model_bytes)
    found = {"elbo_test": float(model.score(test))}
    if any(trial.states is None for trial in test):
        return found
    accuracy = score_states(model, train, test).matched_accuracy
    return found if accuracy is None else found | {"matched_accuracy": accuracy}


def next_part(parts: Sequence[str], done: int) -> Found:
    """Return the name and number of the next part; {} when done."""
    return {"under_way": [parts[done], done, len(parts)]} if done < len(parts) else {}


def fit_model(family: str, config: Mapping[str, Any], train: Trials) -> StateModel:
    """Return a model fitted to `train`; raise FitError if the fit fails."""
    model: StateModel = import_family(family)(**config).fit(train)
    if model.status_ is Status.FAILED:
        raise FitError(f"Seed {config.get('seed')}: {model.failure_message}")
    return model
