"""Timeouts of tests, longer where the machine has more to do than processors."""

import os
import time
from collections.abc import Callable

WAIT_S = 60.0  # on an idle machine; the slowest condition takes a few seconds


def patience_s(seconds: float = WAIT_S) -> float:
    """Return a timeout scaled by the load of the machine."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def until(condition: Callable[[], object], describe: Callable[[], str] = lambda: "", every_s: float = 0.005) -> None:
    """Wait for `condition`; on a timeout, fail with what `describe` returns."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < patience_s(), f"Timed out after {WAIT_S:g} s. {describe()}"
        time.sleep(every_s)
