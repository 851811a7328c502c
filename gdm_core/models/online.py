"""States of the present moment, sample by sample, from what is known by then: causal, and in constant memory.

Every family that can says the same of a new sample: what its candidates are (states, or draws of soft states), and how
well each goes with each of the sample before. From that follow the filter, and the shares of an earlier moment once
`lag` more samples are known.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from gdm_core.maths.spikes import REACH, find_new_spikes
from gdm_core.maths.threads import one_thread
from gdm_core.models.scaling import Scaler
from gdm_core.trials import unmasked

Float = npt.NDArray[np.float64]
Arrays = dict[str, npt.NDArray[Any]]


class Candidates(NamedTuple):
    """What one sample adds.

    transfer  [A, B] how well each of B candidates goes with each of the A of the sample before, up to a factor; A is 1
              where the sample before does not matter
    shares    [B, K] of each candidate
    """

    transfer: npt.NDArray[Any]
    shares: npt.NDArray[Any]


class SampleReader(Protocol):
    """What a family does with one standardised sample after the other.

    memory  all that it knows of those before, as arrays
    """

    memory: Arrays

    def read(self, y: npt.NDArray[np.float32]) -> Candidates:
        """Take in the next sample `y` [N], NaN where missing."""


@dataclass(frozen=True, eq=False)
class Moment:
    """What is known of one sample so far.

    sample  its number, from 0; below 0 while fewer than lag + 1 samples are known, and all else is NaN
    shares  [K]
    """

    sample: int
    shares: npt.NDArray[np.float32]

    def __str__(self) -> str:
        said = [f"S{i + 1} {share:.2f}" for i, share in enumerate(self.shares)]
        return f"sample {self.sample}: {', '.join(said)}"


class Online:
    """Follows one recording as it is made. `StateModel.online` begins one.

    reader    of the family
    scaler    of the model, which has n_states states
    lag       samples after which each one is answered for
    ignores_outliers   whether values far from those before them count as missing
    """

    def __init__(
        self, reader: SampleReader, scaler: Scaler, n_states: int, lag: int, ignores_outliers: bool = False
    ) -> None:
        self._reader, self._scaler, self._n_states, self.lag = reader, scaler, n_states, lag
        self.n_seen = 0
        self._recent: deque[npt.NDArray[Any]] | None = deque(maxlen=REACH) if ignores_outliers else None
        self._window: deque[tuple[Candidates, Float]] = deque(maxlen=lag + 1)  # with the weights [B] of the filter

    def step(self, y: npt.ArrayLike) -> Moment:
        """Take the next sample `y` [N], NaN where missing, and say what is known of the one `lag` samples ago."""
        sample = np.asarray(unmasked(y), self._scaler.center.dtype)
        if sample.shape != self._scaler.center.shape:
            raise DataError(
                f"A sample has the shape {sample.shape}; this model takes one value for each of its "
                f"{len(self._scaler.center)} channels at a time. Use predict_proba or filter for whole recordings."
            )
        if np.isinf(sample).any():
            raise DataError(
                f"Sample {self.n_seen} is infinite in channel {int(np.isinf(sample).argmax())}. Mark it NaN."
            )
        standardised = self._scaler.apply(sample)
        if self._recent is not None:
            self._recent.append(standardised)
            is_spike = find_new_spikes(np.stack(self._recent))[-1]
            standardised = np.where(is_spike, np.float32(np.nan), standardised)
        found = self._reader.read(standardised)
        before = self._window[-1][1] if self._window and len(found.transfer) > 1 else np.ones(len(found.transfer))
        weights = before @ found.transfer
        self._window.append((found, weights / weights.sum()))
        self.n_seen += 1
        if self.n_seen <= self.lag:
            nothing = np.full(self._n_states, np.nan, np.float32)
            return Moment(self.n_seen - 1 - self.lag, nothing)
        return Moment(self.n_seen - 1 - self.lag, self._shares(0))

    def follow(self, y: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """[T, K] what is said of each sample of `y` [T, N], the last ones from what there is."""
        with one_thread():  # what a step multiplies is small
            known = [self.step(sample).shares for sample in y][self.lag :]
        return np.concatenate([np.array(known, np.float32).reshape(-1, self._n_states), self.rest()])

    def rest(self) -> npt.NDArray[np.float32]:
        """[at most lag, K] shares of the samples that `step` has not answered for yet, where no more are to come."""
        first = max(0, len(self._window) - self.lag)
        found = [self._shares(at) for at in range(first, len(self._window))]
        return np.array(found, np.float32).reshape(-1, self._n_states)

    def _shares(self, at: int) -> npt.NDArray[np.float32]:
        """[K] of sample `at` of the window, from all that was seen."""
        future: Float = np.ones(1)
        for i in range(len(self._window) - 1, at, -1):
            transfer = self._window[i][0].transfer
            future = transfer @ np.broadcast_to(future, transfer.shape[1])
            future = future / future.max()
        found, weights = self._window[at]
        both = weights * future
        return np.asarray(both @ found.shares / both.sum(), np.float32)
