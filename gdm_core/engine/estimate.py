"""Remaining time of countable work, from its recent rate."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

RECENT = 8  # steps of progress that determine the rate, because the load of a machine changes


def format_duration(seconds: float) -> str:
    """Return a duration, rounded to about a fifth."""
    if seconds < 90:
        return f"about {max(1, round(seconds) if seconds < 10 else 5 * round(seconds / 5))} s"
    return f"about {seconds / 60:.0f} minutes" if seconds < 90 * 60 else f"about {seconds / 3600:.0f} hours"


class Estimate:
    """Remaining time of one piece of work. Whatever is done at the first update counts as instant."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._updates: deque[tuple[float, int]] = deque(maxlen=RECENT + 1)

    def left_s(self, done: int, total: int) -> float | None:
        """Return the remaining seconds at the recent rate; None before any progress."""
        now = self._clock()
        if not self._updates or done != self._updates[-1][1]:
            self._updates.append((now, done))
        when, before = self._updates[0]
        if done <= before or now <= when:
            return None
        return (now - when) / (done - before) * (total - done)

    def describe(self, done: int, total: int) -> str:
        """Return a phrase such as "8 of 64 fits, about 55 s left"."""
        left = self.left_s(done, total)
        return f"{done} of {total} fits" + (f", {format_duration(left)} left" if left is not None else "")
