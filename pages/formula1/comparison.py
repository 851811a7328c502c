"""The comparison of two drivers, or of one with himself, over pairs of laps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from datasets.f1.time_won import Estimate
from datasets.formula1 import TimeWon
from gdm_core.text import format_signed

Floats = npt.NDArray[np.float64]
INTERVALS = (
    "95% intervals: Student's t over laps or pairs of laps, from slow changes, so correlated laps widen them; they cover 93 to "
    "95% of simulated means (12 to 53 laps, correlations up to 0.5; 8 laps: from 92%, 5: from 90%)."
)
KINDS = {"phase": "Kind of road", "corner": "Corner", "sector": "Sector", "minisector": "Minisector", "state": "State"}


@dataclass(frozen=True, eq=False)
class Gain(Estimate):
    """Seconds per lap that the first driver gains on the second in P parts of the lap.

    names         names of the parts; `edges` [P + 1] in metres, None for other parts than stretches
    """

    names: tuple[str, ...]
    edges: Floats | None = None

    @classmethod
    def from_estimate(cls, won: Estimate, names: Sequence[str], edges: Floats | None = None) -> Gain:
        return cls(won.mean, won.error, won.freedom, tuple(names), edges)

    @property
    def winners(self) -> list[int]:
        """Return the faster driver per part [P], significantly or not."""
        return [int(mean < 0) for mean in self.mean]


@dataclass(frozen=True, eq=False)
class Between:
    """Pairs of laps of two drivers, or of one, and the delta by part of the lap.

    codes   drivers of both sides
    names   both sides in words and legends
    how     in words, how laps are paired
    gains   by key of KINDS, as far as the circuit has such parts; "joint" for corners that share a braking zone
    joint   first and last corner of each of these
    """

    codes: tuple[str, str]
    names: tuple[str, str]
    won: TimeWon
    gains: Mapping[str, Gain]
    how: str
    joint: tuple[tuple[int, int], ...] = ()

    @property
    def sides(self) -> list[tuple[str, tuple[int, ...]]]:
        """Driver and laps of both sides, in the order of the pairs."""
        return list(zip(self.codes, self.won.laps, strict=True))

    @property
    def single(self) -> bool:
        """Whether a single pair of laps is compared."""
        return len(self.won.pairs) == 1

    @property
    def titles(self) -> list[str]:
        """Both sides with their laps, for legends."""
        laps = self.won.laps
        return [
            f"{one} lap {n[0]}" if self.single else f"{one}, mean of {len(n)} laps"
            for one, n in zip(self.names, laps, strict=True)
        ]


def describe(found: Between) -> str:
    """Name the laps that every figure and table compares."""
    codes, won = found.names, found.won
    if found.single:
        return f"{found.titles[0]} and {found.titles[1]}. Intervals: timing error only."
    text = f"{len(won.pairs)} laps each, {found.how}."
    if won.n_close:
        kept = f"Too few laps in clear air: {won.n_close} laps in traffic kept."
        text += f" {won.n_close} laps in traffic left out." if won.free else f" {kept}"
    if won.trend is not None and abs(won.taken_off) >= 0.005:
        later = "later" if won.later > 0 else "earlier"
        text += (
            f" {codes[0]}'s are {abs(won.later):.1f} laps {later}: {format_signed(-won.taken_off, 2)} s/lap for fuel and track "
            f"({format_signed(won.trend.lap, 3)} s per lap)."
        )
    return text
