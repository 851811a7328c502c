"""Stretches of laps in metres, and the samples that they are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from pages.formula1.data import Floats, Laps

Doubles = npt.NDArray[np.float64]

FEW = 20  # samples of a lap: fewer do not say by themselves in which lap a place at the line lies
FAR_STEPS = 5  # usual steps from one sample to the next: what lies further from any sample was not sent


@dataclass(frozen=True, eq=False)
class LapAxis:
    """The laps of one driver by metres: that of lap n at x metres after the line is n * length + x."""

    laps: Laps
    length: float

    @cached_property
    def along(self) -> list[Doubles]:
        """[T] of each trial, never falling: a car that is sent a few metres back has not driven back."""
        ends = np.cumsum([trial.n_samples for trial in self.laps.trials])[:-1]
        distances, laps = np.split(self.laps.distance.astype(np.float64), ends), np.split(self.laps.lap, ends)
        return [self._along(distance, lap) for distance, lap in zip(distances, laps, strict=True)]

    def _along(self, distance: Doubles, lap: npt.NDArray[np.int64]) -> Doubles:
        """Distances run on over the line; at the line itself a sample may still count to the lap before, or count already to
        the next, so that whole laps say which is which."""
        driven = np.unwrap(distance, period=self.length)
        turns = np.round((lap * self.length + distance - driven) / self.length)
        numbers, where, counts = np.unique(lap, return_inverse=True, return_counts=True)
        found = np.array([np.median(turns[where == i]) for i in range(len(numbers))])
        known = np.flatnonzero(counts >= FEW)
        if len(known):
            found = found[known[np.abs(np.arange(len(numbers))[:, None] - known).argmin(axis=1)]]
        rising: Doubles = np.maximum.accumulate(driven + np.round(found[where]) * self.length)
        return rising

    @cached_property
    def step(self) -> float:
        """Metres from one sample to the next, usually."""
        steps = np.concatenate([np.diff(along) for along in self.along])
        moving = steps[steps > 0.5]
        return float(np.median(moving)) if len(moving) else self.length

    @cached_property
    def numbers(self) -> list[int]:
        """The laps."""
        return [int(number) for number in np.unique(self.laps.lap)]

    def frames(self, lap: int, begin: float | None, end: float | None) -> tuple[int, int, int]:
        """(trial, first sample, the one after the last) from `begin` to `end` metres after the line at which `lap` starts."""
        if begin is None or end is None or not (np.isfinite(begin) and np.isfinite(end)):
            raise DataError("From and To are needed: type at which metre of the lap the stretch begins and ends.")
        stretch = f"The stretch from {begin:,.0f} to {end:,.0f} m of lap {lap}"
        line = f"a lap has {self.length:,.0f} m"
        if end <= begin:
            raise DataError(
                f"{stretch} has to end after it begins. If it goes on over the start line, To is beyond the end of the lap: {line}."
            )
        if begin < -self.length or begin >= self.length or end > 2 * self.length:
            raise DataError(f"{stretch} lies outside of it: {line}, and a stretch may go on into the next lap.")
        low, high = lap * self.length + begin, lap * self.length + end
        ranges = [np.searchsorted(along, (low - 1e-6, high - 1e-6)) for along in self.along]
        found = [(i, int(start), int(stop)) for i, (start, stop) in enumerate(ranges) if stop > start]
        if len(found) > 1:
            first = self.along[found[0][0]][found[0][2] - 1] - lap * self.length
            after = self.along[found[1][0]][found[1][1]] - lap * self.length
            raise DataError(
                f"{stretch} has a hole in what {self.laps.code} has sent, between {first:,.0f} and {after:,.0f} m. Mark what lies "
                "before it, then what lies after it."
            )
        far = FAR_STEPS * self.step
        if (
            not found
            or (known := self.along[found[0][0]])[found[0][1]] - low > far
            or high - known[found[0][2] - 1] > far
        ):
            sent = ""
            if found:
                edges = known[[found[0][1], found[0][2] - 1]] - lap * self.length
                sent = f" of it positions are known from {edges[0]:,.0f} to {edges[1]:,.0f} m."
            raise DataError(
                f"{stretch} is not all among the laps that are fitted:{sent or ' nothing of it is.'} Mark a stretch that is."
            )
        if found[0][2] - found[0][1] < 2:
            raise DataError(
                f"{stretch} holds less than two samples, from which nothing can be learned; there is one every "
                f"{self.step:.0f} m or so. Mark a longer one."
            )
        return found[0]

    def metres(self, index: int, start: int, stop: int) -> tuple[int, float, float]:
        """(lap, from, to) of samples of a trial; `to` may lie beyond the end of the lap."""
        along = self.along[index]
        end = along[stop] if stop < len(along) else along[stop - 1] + self.step
        lap = int(np.clip(np.floor(along[start] / self.length), self.numbers[0], self.numbers[-1]))
        if lap + 1 not in self.numbers:  # then nothing lies beyond the line but a last sample at it
            end = max(min(end, (lap + 1) * self.length), along[stop - 1] + 0.1)
        return lap, float(along[start] - lap * self.length), float(end - lap * self.length)

    def in_words(self, index: int, start: int, stop: int) -> str:
        """A stretch as one says it."""
        lap, begin, end = self.metres(index, start, stop)
        if end > self.length + 1:
            return f"lap {lap}, {begin:,.0f} m to lap {lap + 1}, {end - self.length:,.0f} m"
        return f"lap {lap}, {begin:,.0f}-{end:,.0f} m"

    def trials_of(self, lap: int) -> list[int]:
        """The trials that hold something of a lap."""
        low, high = lap * self.length, (lap + 1) * self.length
        return [i for i, along in enumerate(self.along) if along[-1] >= low and along[0] < high]

    def on_grid(self, lap: int, index: int, values: Floats, n_bins: int) -> Floats:
        """[n_bins, C] of values [T, C] of one trial the nearest to the middle of each part of a lap; missing where nothing was
        sent."""
        along = self.along[index]
        grid = (lap + (np.arange(n_bins) + 0.5) / n_bins) * self.length
        right = np.clip(np.searchsorted(along, grid), 1, len(along) - 1)
        nearest = np.where(grid - along[right - 1] < along[right] - grid, right - 1, right)
        found = np.asarray(values, np.float32)[nearest]
        found[np.abs(along[nearest] - grid) > FAR_STEPS * self.step] = np.nan
        return found
