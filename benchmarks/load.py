"""A machine that has much else to do: `python -m benchmarks.load [--loops 8] [--seconds 600] [COMMAND ...]`.

Keeps that many loops busy: as long as COMMAND runs, whose exit status it then has, else for a bounded time.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

# Ends by itself, and with the process that wanted it, whose end it hears as the end of its input.
LOOP = """
import sys, threading, time, os
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    sum(range(100_000))
"""


@contextmanager
def load(loops: int, seconds: float = 600.0) -> Iterator[None]:
    """As many busy processes beside the block, for `seconds` at most."""
    command = [sys.executable, "-S", "-c", LOOP, str(seconds)]
    busy = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(loops)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loops", type=int, default=8, help="busy processes (8)")
    parser.add_argument("--seconds", type=float, default=600.0, help="so long, where no COMMAND is given (600)")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    with load(arguments.loops, math.inf if arguments.command else arguments.seconds):
        if arguments.command:
            sys.exit(subprocess.call(arguments.command))
        time.sleep(arguments.seconds)


if __name__ == "__main__":
    main()
