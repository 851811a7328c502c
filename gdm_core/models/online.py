"""Causal states, sample by sample, in constant memory.

For each new sample a family returns candidates (states, or draws of soft states) and how well each agrees with each
candidate of the previous sample. The filter follows from these, and the states of earlier samples once `lag` more are known.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gdm_core.arrays import Array, Float, Values
from gdm_core.errors import DataError
from gdm_core.maths.repeats import NewValues, Repeats
from gdm_core.maths.spikes import REACH, find_new_spikes
from gdm_core.maths.threads import one_thread
from gdm_core.models.scaling import Scaler
from gdm_core.trials import unmasked


class Candidates(NamedTuple):
    """Candidates of one sample.

    transfer  [A, B] weight of each of B candidates after each of the A candidates of the previous sample, up to a factor;
              A is 1 where the previous sample does not matter
    shares    [B, K] states of each candidate
    """

    transfer: Values
    shares: Values


class SampleReader(Protocol):
    """Filter over standardised samples, one at a time."""

    def read(self, y: Array) -> Candidates:
        """Read the next sample `y` [N], NaN where missing."""


@dataclass(frozen=True, eq=False)
class Moment:
    """Soft states of one sample.

    sample  number of the sample, from 0; negative, with NaN shares, before lag + 1 samples are known
    shares  [K]
    """

    sample: int
    shares: Array

    def __str__(self) -> str:
        said = [f"S{i + 1} {share:.2f}" for i, share in enumerate(self.shares)]
        return f"sample {self.sample}: {', '.join(said)}"


class Online:
    """Infers the states of a recording while it is made; `StateModel.online` creates one.

    lag               samples between a sample and its result
    ignore_outliers   values far from the previous ones count as missing
    repeats           repeated values of the training data; repeated rows are not counted and change nothing
    """

    def __init__(
        self,
        reader: SampleReader,
        scaler: Scaler,
        n_states: int,
        lag: int,
        ignore_outliers: bool,
        repeats: Repeats | None,
    ) -> None:
        self._reader, self._scaler, self._n_states, self.lag = reader, scaler, n_states, lag
        self.n_seen = 0
        self._recent: deque[Values] | None = deque(maxlen=REACH) if ignore_outliers else None
        self._window: deque[tuple[Candidates, Float]] = deque(maxlen=lag + 1)  # with the weights [B] of the filter
        self._new_values = None if repeats is None else NewValues(repeats)
        self._moment = Moment(-1 - lag, np.full(n_states, np.nan, np.float32))

    def step(self, y: npt.ArrayLike) -> Moment:
        """Read the next sample `y` [N], NaN where missing; return the states of the sample `lag` samples ago."""
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
        if self._new_values is not None:
            new = self._new_values.read(sample)
            if new is None:
                return self._moment
            sample = new
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
        known = self.n_seen > self.lag
        shares = self._shares(0) if known else np.full(self._n_states, np.nan, np.float32)
        self._moment = Moment(self.n_seen - 1 - self.lag, shares)
        return self._moment

    def follow(self, y: Values) -> Array:
        """Return the states [T, K] of all samples `y` [T, N]; the last `lag` use fewer later samples."""
        with one_thread():  # the products are small
            known = [self.step(sample).shares for sample in y][self.lag :]
        return np.concatenate([np.array(known, np.float32).reshape(-1, self._n_states), self.rest()])

    def rest(self) -> Array:
        """Return the states [at most lag, K] of the samples that `step` has not returned yet, at the end of a recording."""
        first = max(0, len(self._window) - self.lag)
        found = [self._shares(at) for at in range(first, len(self._window))]
        return np.array(found, np.float32).reshape(-1, self._n_states)

    def _shares(self, at: int) -> Array:
        """Return states [K] of sample `at` of the window, given all samples so far."""
        future: Float = np.ones(1)
        for i in range(len(self._window) - 1, at, -1):
            transfer = self._window[i][0].transfer
            future = transfer @ np.broadcast_to(future, transfer.shape[1])
            future = future / future.max()
        found, weights = self._window[at]
        both = weights * future
        return np.asarray(both @ found.shares / both.sum(), np.float32)
