"""How long countable work will take: going by what of it is done, revised at each look; before that, by what is usual."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

MEASURED_S = 2.0  # of work say how slow a machine is
RECENT = 8  # steps of progress that a rate is taken from: a machine is busier at one time than at another


def in_words(seconds: float) -> str:
    """A duration that is not known better than by a fifth or so."""
    if seconds < 90:
        return f"about {max(1, round(seconds) if seconds < 10 else 5 * round(seconds / 5))} s"
    return f"about {seconds / 60:.0f} minutes" if seconds < 90 * 60 else f"about {seconds / 3600:.0f} hours"


class Slowness:
    """How many times as long work takes here as it usually does: measured by what was done last, for the next estimate."""

    FORGOTTEN_S = 600.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = (-self.FORGOTTEN_S, 1.0)

    def learn(self, factor: float) -> None:
        self._last = (self._clock(), factor)

    @property
    def factor(self) -> float:
        when, factor = self._last
        return factor if self._clock() - when < self.FORGOTTEN_S else 1.0


here = Slowness()


def beforehand(usual_s: float, waiting: int = 0, slowness: Slowness = here) -> str:
    """What is said of work that would take `usual_s` with all workers to itself, before any of it is done.

    waiting  jobs that run or wait here now
    """
    words = in_words(usual_s * slowness.factor)
    if slowness.factor > 1.5 or slowness.factor < 0.7:
        words += ", going by what was fitted here just now"
    if waiting:
        words += f", and {waiting} other {'job runs or waits' if waiting == 1 else 'jobs run or wait'} here"
    return words


class Estimate:
    """Of one piece of work: told at each look what is done of it. What was done before the first look took no time.

    usual_s  what was said beforehand without knowing this machine, to learn how slow it is
    """

    def __init__(
        self, usual_s: float | None = None, clock: Callable[[], float] = time.monotonic, slowness: Slowness = here
    ) -> None:
        self._usual_s, self._clock, self._slowness = usual_s, clock, slowness
        self._began = clock()
        self._seen: deque[tuple[float, int]] = deque(maxlen=RECENT + 1)

    def left_s(self, done: int, total: int) -> float | None:
        """Seconds that the rest takes at the rate of late; None before anything has been done."""
        now = self._clock()
        if not self._seen or done != self._seen[-1][1]:
            self._seen.append((now, done))
        when, before = self._seen[0]
        if done <= before or now <= when:
            return None
        each = (now - when) / (done - before)
        if self._usual_s and done - before >= 3 and now - when > MEASURED_S:
            self._slowness.learn(each * total / self._usual_s)
        return each * (total - done)

    def words(self, done: int, total: int, what: str = "fits") -> str:
        """How far it is, and how much longer it takes as far as that can be said."""
        left = self.left_s(done, total)
        if left is not None:
            return f"{done} of {total} {what}, {in_words(left)} left"
        spent = self._clock() - self._began
        if spent < 5 or done >= total:
            return f"{done} of {total} {what}"
        return f"{done} of {total} {what} after {spent:.0f} s: how long it takes is known once more of them are done"
