"""Snapshots of a running fit, and the result of a finished one."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from gdm_core.errors import GdmError
from gdm_core.models.variants import infer_quickly
from gdm_core.trials import Trials

if TYPE_CHECKING:  # pages open faster without scikit-learn
    from gdm_core.models.base import StateModel

SNAPSHOT_BYTES = 40_000
MAX_SNAPSHOTS = 100
SNAPSHOT_SHARE = 0.1  # of the fit's time

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Thinned 8-bit soft states of the preview trials after one step. `elbo` is NaN before the first step."""

    step: int
    preview: tuple[int, ...]
    strides: tuple[int, ...]
    levels: tuple[npt.NDArray[np.uint8], ...]  # each [ceil(T / stride), K]
    elbo: float = math.nan

    @classmethod
    def from_model(
        cls, model: StateModel, trials: Trials, preview: Sequence[int], step: int, elbo: float, *, rough: bool = False
    ) -> Snapshot:
        """Return the states of the preview trials in at most SNAPSHOT_BYTES."""
        infer = partial(infer_quickly, model) if rough else model.predict_proba
        return cls.from_levels([to_levels(infer(trials[i])) for i in preview], preview, step, elbo)

    @classmethod
    def from_levels(
        cls, states: Sequence[npt.NDArray[np.uint8]], preview: Sequence[int], step: int, elbo: float
    ) -> Snapshot:
        """Return 8-bit states [T, K] of the preview trials, thinned to SNAPSHOT_BYTES."""
        stride = max(1, -(-sum(levels.size for levels in states) // SNAPSHOT_BYTES))
        return cls(step, tuple(preview), (stride,) * len(states), tuple(levels[::stride] for levels in states), elbo)

    def states(self, position: int = 0) -> npt.NDArray[np.float32]:
        """Return soft states [t, K] of the preview trial at `position`, every `strides[position]` samples."""
        return from_levels(self.levels[position])

    @property
    def n_bytes(self) -> int:
        return sum(level.nbytes for level in self.levels)


@dataclass(frozen=True, eq=False)
class TrialStates:
    """8-bit soft states of all trials, in the model's order: a second entry under a fit and its held-out trials.

    held_out   fingerprint of the held-out trials
    train, test  each [T, K]; () after an error
    error      why there are none
    """

    held_out: str
    train: tuple[npt.NDArray[np.uint8], ...] = ()
    test: tuple[npt.NDArray[np.uint8], ...] = ()
    error: str = ""

    @classmethod
    def from_model(cls, model: StateModel, train: Trials, test: Trials) -> TrialStates:
        """Return the states of all trials, or why they cannot be computed."""
        try:
            ours, others = (tuple(to_levels(soft) for soft in model.predict_proba(side)) for side in (train, test))
        except GdmError as error:
            return cls(test.fingerprint, error=str(error))
        return cls(test.fingerprint, ours, others)

    def soft(self, index: int) -> npt.NDArray[np.float32]:
        """Return soft states [T, K] of one trial, training trials first."""
        return from_levels((*self.train, *self.test)[index])


def to_levels(states: npt.ArrayLike) -> npt.NDArray[np.uint8]:
    """Return soft states as 8-bit levels, 255 for 1."""
    return np.rint(np.clip(np.nan_to_num(np.asarray(states)), 0.0, 1.0) * 255).astype(np.uint8)


def from_levels(levels: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Return soft states that sum to one, from 8-bit levels."""
    found = levels.astype(np.float32)
    return np.asarray(found / np.maximum(found.sum(axis=1, keepdims=True), 1.0))


class Recorder:
    """Takes evenly spaced snapshots, in at most SNAPSHOT_SHARE of the time of the fit."""

    def __init__(self, model: StateModel, trials: Trials, preview: Sequence[int]) -> None:
        self._model, self._trials, self._preview = model, trials, preview
        self.snapshots: list[Snapshot] = []
        self._began, self._spent_s = time.monotonic(), 0.0
        self._seen, self._every = 0, 1

    def record(self, step: int, elbo: float) -> Snapshot | None:
        """Return a snapshot of this step, or None if it is skipped."""
        self._seen += 1
        began = time.monotonic()
        late = self._spent_s > SNAPSHOT_SHARE * (began - self._began)
        if not self._preview or late or (self._seen - 1) % self._every:
            return None
        taken = Snapshot.from_model(self._model, self._trials, self._preview, step, elbo, rough=True)
        self._spent_s += time.monotonic() - began
        self.snapshots.append(taken)
        if len(self.snapshots) > MAX_SNAPSHOTS:
            self.snapshots = self.snapshots[::2]
            self._every *= 2
        return taken


def thin(items: tuple[T, ...], limit: int) -> tuple[T, ...]:
    """Drop every second item until at most `limit` remain."""
    while len(items) > limit:
        items = items[::2]
    return items


@dataclass(frozen=True, eq=False)
class FitResult:
    """A finished fit: its model file, its ELBO curve, and snapshots that end with the final states.

    states          of all trials, if the fit was requested with held-out trials
    is_precomputed  whether it came with the application
    scores          that came with it
    """

    key: str
    model_bytes: bytes = field(repr=False)
    fit_status: str
    elbo: float
    seconds: float
    steps: tuple[int, ...] = field(repr=False)
    elbos: tuple[float, ...] = field(repr=False)
    snapshots: tuple[Snapshot, ...] = field(default=(), repr=False)
    from_cache: bool = False
    is_precomputed: bool = False
    states: TrialStates | None = field(default=None, repr=False)
    scores: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def has_states(self, test: Trials | None) -> bool:
        """Return whether the states of all trials are known, given the held-out ones."""
        return test is None or (self.states is not None and self.states.held_out == test.fingerprint)

    def with_states(self, states: TrialStates) -> FitResult:
        """Return the result with the states of other held-out trials, for which its scores do not hold."""
        return replace(self, states=states, scores={})

    @property
    def n_bytes(self) -> int:
        """Approximate size in memory."""
        states = () if self.states is None else (*self.states.train, *self.states.test)
        return len(self.model_bytes) + sum(one.n_bytes for one in self.snapshots) + sum(one.nbytes for one in states)

    @property
    def snapshot(self) -> Snapshot | None:
        """Final states."""
        return self.snapshots[-1] if self.snapshots else None

    def model(self) -> StateModel:
        """Return a new copy of the fitted model."""
        from gdm_core.models.loading import model_from_bytes

        return model_from_bytes(self.model_bytes)
