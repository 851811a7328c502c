"""Times in a unit that suits them: recordings last from seconds to months."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Unit:
    """What is written, and how many seconds it stands for."""

    name: str
    seconds: float

    def of(self, seconds: float) -> float:
        return seconds / self.seconds


SECONDS = Unit("s", 1.0)
# Each is taken from so many of the smaller one on: 10 min, 10 h, 10 days.
_LONGER = ((600.0, Unit("min", 60.0)), (36_000.0, Unit("h", 3600.0)), (864_000.0, Unit("days", 86_400.0)))


def unit_for(seconds: float) -> Unit:
    """The unit in which a time of about so many seconds is easily read."""
    found = SECONDS
    for least, unit in _LONGER:
        if np.isfinite(seconds) and seconds >= least:
            found = unit
    return found
