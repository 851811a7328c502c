"""What outlives the embedded cluster: `python -m gdm_core.engine.keeper '{"n_workers": 2, "memory": 2147483648}'`.

Loading torch and the models is what takes long when a worker starts: seconds on a quiet machine, a minute on a busy one. So
one process loads them, once, and workers are copies of it, ready in a moment. This one starts it, and beside it the process
with the scheduler and the nannies (host.py): again whenever that has ended, beside the same template. With "scheduler" among
the options, the workers are of one that somebody else runs.

It prints the address of each scheduler as it comes. A line on its standard input says that the cluster of that address is
given up. It ends with that input, and all others with it, so that a killed server leaves nothing behind.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import TextIO

import psutil

from gdm_core.engine import template

# A host has so long to let its workers go.
FAREWELL_S = 7.0

logger = logging.getLogger(__name__)


def main() -> None:
    """Run until the server that started this process has ended, or a host cannot be started."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the server's to hear, here and in all that follow
    addresses = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what jobs print is no address
    sys.exit(Keeper(sys.argv[1], addresses).run())


class Keeper:
    """One host after another, until there is no more input."""

    def __init__(self, options: str, addresses: TextIO) -> None:
        self._options, self._addresses = options, addresses
        self._lock = threading.Lock()
        self._ended = False
        self._host: subprocess.Popen[str] | None = None
        self._address = ""

    def run(self) -> int:
        """The status to end with: above 0 where a host ended before it was ready."""
        threading.Thread(target=self._listen, daemon=True).start()
        failed = False
        while not failed and (host := self._next()) is not None:
            failed = not self._announced(host)
            host.wait()
            _end(template.copies())  # one that was stopped does not hear that its nanny has gone
        return int(failed)

    def _next(self) -> subprocess.Popen[str] | None:
        with self._lock:
            if self._ended:
                return None
            self._address = ""  # a late word on the one before is not about the next
            variables, files = template.lend()
            self._host = subprocess.Popen(
                [sys.executable, "-m", "gdm_core.engine.host", self._options],
                env={**os.environ, **variables},
                pass_fds=files,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            return self._host

    def _announced(self, host: subprocess.Popen[str]) -> bool:
        """Whether its scheduler has come, and been told."""
        assert host.stdout is not None
        address = host.stdout.readline().strip()
        if address:
            with self._lock:
                self._address = address
            print(address, file=self._addresses, flush=True)
        return bool(address)

    def _listen(self) -> None:
        for line in sys.stdin:
            with self._lock:
                if self._host is not None and line.strip() == self._address:
                    self._host.kill()
        with self._lock:
            self._ended, host = True, self._host
        if host is not None:
            _dismiss(host)


def _dismiss(host: subprocess.Popen[str]) -> None:
    assert host.stdin is not None
    host.stdin.close()
    try:
        host.wait(FAREWELL_S)
    except subprocess.TimeoutExpired:
        host.kill()


def _end(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


if __name__ == "__main__":
    main()
