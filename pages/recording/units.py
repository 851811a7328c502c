"""Times in a unit that suits them: recordings last from seconds to months, and of some nobody has said how fast they were."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdm_core.analysis.bouts import LONGEST_S, BoutRule


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
LONGEST_STEPS = 50.0
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


def longest(counted: str) -> float:
    """The most that bouts are smoothed over."""
    return LONGEST_STEPS if counted == "step" else LONGEST_S


def rule_words(rule: BoutRule, counted: str) -> str:
    """How bouts are read, as a part of a sentence."""
    if rule.plain:
        return "as fitted"
    unit = "steps" if counted == "step" else "s"
    return f"smoothed over {rule.smooth_s:g} {unit}, none below {rule.shortest_s:g} {unit}"
