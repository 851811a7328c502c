"""Times in a unit that suits them: recordings last from seconds to months, and of some nobody has said how fast they were."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Unit:
    """What is written, and how many seconds it stands for.

    many   how several are called in a sentence
    """

    name: str
    seconds: float
    many: str = ""

    def of(self, seconds: float) -> float:
        return seconds / self.seconds

    @property
    def plural(self) -> str:
        return self.many or self.name


SECONDS = Unit("s", 1.0)
STEPS = Unit("step", 1.0, "steps")  # where no time is known a sample has the length of a second
# Each is taken from so many of the smaller one on: 10 min, 10 h, 10 days.
_LONGER = ((600.0, Unit("min", 60.0)), (36_000.0, Unit("h", 3600.0)), (864_000.0, Unit("days", 86_400.0)))


def unit_for(seconds: float, counted: str = "s") -> Unit:
    """The unit in which a time of about so many seconds is easily read; steps where those are `counted`."""
    if counted == "step":
        return STEPS
    found = SECONDS
    for least, unit in _LONGER:
        if np.isfinite(seconds) and seconds >= least:
            found = unit
    return found


def unit_of_stays(typical: float, page: Unit) -> Unit:
    """The unit for lengths of stays on a page that counts time in `page`: the same, or a smaller one where half of that is
    longer than the `typical` stay, in seconds."""
    if page in (SECONDS, STEPS) or not np.isfinite(typical):
        return page
    smaller = [SECONDS, *(unit for _, unit in _LONGER if unit.seconds <= page.seconds)]
    return next((unit for unit in reversed(smaller) if typical >= unit.seconds / 2), SECONDS)
