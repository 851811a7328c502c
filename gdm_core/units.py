"""Units of time for recordings that last from seconds to months, or that have no sampling rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Unit:
    """A unit of time.

    many   plural, if it differs from the name
    """

    name: str
    seconds: float
    many: str = ""

    def convert(self, seconds: float) -> float:
        return seconds / self.seconds

    @property
    def plural(self) -> str:
        return self.many or self.name


SECONDS = Unit("s", 1.0)
STEPS = Unit("step", 1.0, "steps")  # without a sampling rate, a sample counts as a second
# (shortest duration for the unit, unit)
_LONGER_UNITS = ((600.0, Unit("min", 60.0)), (36_000.0, Unit("h", 3600.0)), (864_000.0, Unit("days", 86_400.0)))


def unit_for(seconds: float, counted: str = "s") -> Unit:
    """Return a readable unit for a duration; STEPS if `counted` is "step"."""
    if counted == "step":
        return STEPS
    found = SECONDS
    for least, unit in _LONGER_UNITS:
        if np.isfinite(seconds) and seconds >= least:
            found = unit
    return found


def dwell_unit(typical: float, page: Unit) -> Unit:
    """Return `page`, or a smaller unit if `typical` seconds are short for it."""
    if page in (SECONDS, STEPS) or not np.isfinite(typical):
        return page
    smaller = [SECONDS, *(unit for _, unit in _LONGER_UNITS if unit.seconds <= page.seconds)]
    return next((unit for unit in reversed(smaller) if typical >= unit.seconds / 2), SECONDS)
