"""Soft states of a model file's model on given trials, and its scores: what is asked of every fit."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis import metrics
from gdm_core.errors import FitError
from gdm_core.models.base import StateModel, Status
from gdm_core.models.loading import model_from_bytes
from gdm_core.models.registry import import_family
from gdm_core.text import for_json
from gdm_core.trials import Trial, Trials

Array = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Look:
    """A fitted model seen through its data, in the model's own order of states.

    train, test   soft states [T, K] of each trial
    stay          how strongly the state before holds on (gamma), where the family has such a number
    sees          which posterior found the states, where there is a choice
    """

    train: tuple[Array, ...]
    test: tuple[Array, ...]
    stay: float | None
    sees: str | None


def known_then(model_bytes: bytes, trial: Trial) -> Array:
    """[T, K] soft states of a trial as they could have been known at each moment, from nothing that came later."""
    return model_from_bytes(model_bytes).filter(trial)


def sweep(
    model_bytes: bytes, train: Trials, test: Trials, which: Sequence[int], name: str, values: Sequence[Any]
) -> list[tuple[npt.NDArray[np.uint8], ...]]:
    """Return rough states [T, K] of some trials, in steps of 1/255, for each of `values` of the parameter `name`.

    which   numbers of the trials: fitted ones first, then those of `test`, which no fit ever sees
    """
    every = (*train, *test)
    found = []
    for value in values:
        model = _changed(model_bytes, train, {name: value})
        soft = [model.rough_states(every[i]) for i in which]
        found.append(tuple(np.rint(255 * np.nan_to_num(np.asarray(part))).astype(np.uint8) for part in soft))
    return found


def _changed(model_bytes: bytes, trials: Trials, changes: Mapping[str, Any]) -> StateModel:
    known = _model(model_bytes)
    return known.adjusted(**changes) if set(changes) <= known.adjustable else _begun(known, trials, changes)


def _begun(known: StateModel, trials: Trials, changes: Mapping[str, Any]) -> StateModel:
    """The first steps of a fit with `changes` that starts from another one."""
    model = known.warm_start(**changes)
    steps = model.fit_iter(trials, finish=False)
    next(steps, None)
    steps.close()  # type: ignore[attr-defined]
    return model


@lru_cache(maxsize=2)
def _model(model_bytes: bytes) -> StateModel:
    """A model that is read again and again while a slider moves. Not to be changed."""
    return model_from_bytes(model_bytes)


def soft_states(model_bytes: bytes, trials: Trials) -> tuple[Array, ...]:
    """Soft states of each trial, as `predict_proba` gives them."""
    return states_of(model_from_bytes(model_bytes), trials)


def look(model_bytes: bytes, train: Trials, test: Trials | None) -> Look:
    """Soft states of all trials, as `predict_proba` gives them."""
    model = model_from_bytes(model_bytes)
    stay = getattr(model, "stickiness_", None)
    sees = getattr(model, "posterior_", None)
    return Look(
        states_of(model, train),
        () if test is None else states_of(model, test),
        None if stay is None else float(stay),
        None if sees is None else str(sees),
    )


def states_of(model: StateModel, trials: Trials) -> tuple[Array, ...]:
    """Soft states [T, K] of each trial."""
    return tuple(np.asarray(states, np.float32) for states in model.predict_proba(trials))


Found = dict[str, Any]


def score_parts(model_bytes: bytes, train: Trials, test: Trials, seed: int = 0) -> Iterator[Found]:
    """Every score beside its baselines, as plain values: what is known so far, again and again, and in the end all of it."""
    found: Found = {}
    for number, part in enumerate(metrics.score_parts(model_from_bytes(model_bytes), train, test, seed), start=1):
        found |= for_json(part)
        yield found | under_way(metrics.PARTS, number)


def under_way(parts: Sequence[str], done: int) -> Found:
    """What is worked out next, for whoever waits: nothing once all is done."""
    return {"under_way": [parts[done], done, len(parts)]} if done < len(parts) else {}


def fitted(family: str, config: Mapping[str, Any], train: Trials) -> StateModel:
    """A model fitted to `train`. Raises FitError where the fit diverges."""
    model: StateModel = import_family(family)(**config).fit(train)
    if model.status_ is Status.FAILED:
        raise FitError(f"Seed {config.get('seed')}: {model.failure_message}")
    return model


def last(parts: Iterable[Found]) -> Found:
    """All that such a function finds, for who waits for the end."""
    return deque(parts, maxlen=1).pop()
