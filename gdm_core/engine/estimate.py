"""Remaining time of countable work, from its recent rate."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

RECENT = 8  # steps of progress that a rate is taken from: a machine is busier at one time than at another


def in_words(seconds: float) -> str:
    """Return a duration, rounded to about a fifth."""
    if seconds < 90:
        return f"about {max(1, round(seconds) if seconds < 10 else 5 * round(seconds / 5))} s"
    return f"about {seconds / 60:.0f} minutes" if seconds < 90 * 60 else f"about {seconds / 3600:.0f} hours"


class Estimate:
    """Remaining time of one piece of work. What was done before the first look took no time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._began = clock, clock()
        self._seen: deque[tuple[float, int]] = deque(maxlen=RECENT + 1)

    def left_s(self, done: int, total: int) -> float | None:
        """Return the seconds that the rest takes at the recent rate; None before anything has been done."""
        now = self._clock()
        if not self._seen or done != self._seen[-1][1]:
            self._seen.append((now, done))
        when, before = self._seen[0]
        if done <= before or now <= when:
            return None
        return (now - when) / (done - before) * (total - done)

    def words(self, done: int, total: int, what: str = "fits") -> str:
        """Return how far the work is, and how much longer it takes."""
        left = self.left_s(done, total)
        if left is not None:
            return f"{done} of {total} {what}, {in_words(left)} left"
        spent = self._clock() - self._began
        if spent < 5 or done >= total:
            return f"{done} of {total} {what}"
        return f"{done} of {total} {what} after {spent:.0f} s"
