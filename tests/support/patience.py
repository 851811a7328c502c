"""How long tests wait for what may never come.

Seconds here are those of a quiet machine: where more processes want a processor than there are processors, they pass more
slowly, so that a busy machine is never told that something hangs, and a quiet one hears of it within minutes.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import psutil
from greenlet import greenlet

WAIT_S = 60.0  # quiet seconds for whatever a test waits for: the slowest of all takes a few
STEP_S = 150.0  # and for the whole of a test, or of what is set up for it or taken down after it
LOOK_S = 1.0


def slowness() -> float:
    """How many times longer things may take here than on a quiet machine: processes that want a processor, for each."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def patience_s(seconds: float = WAIT_S) -> float:
    """As many quiet seconds on the clock, by what this machine is doing now."""
    return seconds * slowness()


class Clock:
    """Quiet seconds since it was made, as of the last look at it: whoever waits looks often.

    A machine counts as no less busy than it was in the beginning: a wait that was given its seconds then (`patience_s`) comes
    to its end, and says what did not come, before whoever watches over the whole test ends it.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._looked, self._slowness = time.monotonic(), slowness()

    def look(self) -> float:
        now = time.monotonic()
        self.seconds += (now - self._looked) / max(self._slowness, slowness())
        self._looked = now
        return self.seconds


def until(condition: Callable[[], object], said: Callable[[], str] = lambda: "", every_s: float = 0.005) -> None:
    """Wait for `condition`; where it does not come, fail with what is `said` then."""
    clock = Clock()
    while not condition():
        assert clock.look() < WAIT_S, f"Not so within {WAIT_S:g} quiet seconds. {said()}"
        time.sleep(every_s)


class WaitedInVainError(Exception):
    """A test that hangs."""


class Watch:
    """Ends what hangs in this process, on a thread of its own: with an exception where the test waits, and with the whole
    process where that does not help, or must not be tried (`gently`: Playwright never comes back from one)."""

    def __init__(self, stderr: int, step_s: float = STEP_S, look_s: float = LOOK_S) -> None:
        self._stderr, self._step_s, self._look_s = stderr, step_s, look_s
        self._what, self._gently, self._clock = "", False, Clock()
        self._lock = threading.Lock()
        self._told = False
        signal.signal(signal.SIGALRM, self._raise)
        threading.Thread(target=self._run, daemon=True).start()

    @contextmanager
    def over(self, what: str, gently: bool) -> Iterator[None]:
        """Watch over the block."""
        self._begin(what, gently)
        try:
            yield
        finally:
            self._begin("", False)

    def _begin(self, what: str, gently: bool) -> None:
        with self._lock:
            self._what, self._gently, self._clock, self._told = what, gently, Clock(), False

    def _run(self) -> None:
        while True:
            time.sleep(self._look_s)
            with self._lock:
                if not self._what:
                    continue
                seconds = self._clock.look()
                if seconds >= 1.5 * self._step_s or (seconds >= self._step_s and not self._gently):
                    self._end_the_process()
                if seconds >= self._step_s and not self._told:
                    self._told = True
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)

    def _raise(self, number: int, frame: FrameType | None) -> None:
        if self._told:  # what it was meant for has not ended meanwhile
            raise WaitedInVainError(f"{self._what} has not ended within {self._step_s:g} quiet seconds.")

    def _end_the_process(self) -> None:
        said = [f"\n{self._what} has not ended within {self._clock.seconds:.0f} quiet seconds, and hangs here:\n"]
        for ident, frame in sys._current_frames().items():
            if ident != threading.get_ident():
                said += [f"\nThread {ident}\n", *traceback.format_stack(frame)]
        # A test that waits for its browser stands aside in one of these, and the thread waits for messages.
        waiting = (each.gr_frame for each in gc.get_objects() if isinstance(each, greenlet))
        said += ["\nAside\n" + "".join(traceback.format_stack(frame)) for frame in waiting if frame is not None]
        os.write(self._stderr, "".join(said).encode())
        for child in psutil.Process().children(recursive=True):
            child.kill()
        os._exit(1)
