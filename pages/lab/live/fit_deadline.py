"""What the server minds of a fit under way: that it takes no longer than it may, and that it does not stand still."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from gdm_core.engine import JobStatus, JobView

STILL_S = 120.0  # on a machine with a load of 80 a step of 50 ms takes some four seconds
PATIENCE = 10.0  # times the longest that this very fit has taken from one news to the next


class FitDeadline:
    """Of one fit, from look to look; one that nobody looks at is judged at the next look.

    out_of_time  whether it has run for as long as it may, and waits for somebody to say that it should go on
    """

    def __init__(self, deadline_s: float = math.inf, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._deadline_s = clock, deadline_s
        self.out_of_time = False
        self._turns = 1
        self._spent_s = self._longest_s = 0.0
        self._looked = self._since = clock()
        self._news: tuple[JobStatus, int, int, bool] | None = None

    def give_time(self) -> None:
        """Let a fit that has used its time have as much again."""
        self._turns += self.out_of_time
        self.out_of_time = False

    def uses_up_its_time(self, view: JobView) -> bool:
        """Whether its time is over as of now; said once. Time on hold does not count."""
        now, before = self._clock(), self._looked
        self._looked = now
        if view.status is not JobStatus.RUNNING or view.held:
            return False
        self._spent_s += now - before
        over = self._spent_s > self._turns * self._deadline_s and not self.out_of_time
        self.out_of_time |= over
        return over

    def complaint(self, view: JobView, on_hold: bool) -> str:
        """Why it is to be ended: nothing was heard of it for long although it should move. "" while all is well.

        on_hold  whether it was told to stand
        """
        now, news = self._clock(), (view.status, view.step, len(view.notes), on_hold)
        if news != self._news:
            moved = self._news is not None and self._news[0] is JobStatus.RUNNING and not self._news[3]
            self._longest_s = max(self._longest_s, (now - self._since) * moved)
            self._news, self._since = news, now
        still = now - self._since
        begun = view.status is JobStatus.RUNNING and 0 < view.total != view.step  # its start and its end tell nothing
        if not begun or on_hold or still <= max(STILL_S, PATIENCE * self._longest_s):
            return ""
        return (
            f"Nothing has been heard of the fit for {still:.0f} s: it stood at step {view.step:,} of {view.total:,}, and was "
            "ended. Try again starts it anew."
        )
