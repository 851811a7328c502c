"""`workers`: worker processes for a scheduler that a lab runs."""

from __future__ import annotations

import argparse
import signal
import sys
from typing import Any

from gdm_core.errors import ConfigError, FitError


def add_workers(commands: Any) -> None:
    """The command `workers`."""
    parser = commands.add_parser(
        "workers",
        help="run fits for a Dask scheduler",
        description="Runs worker processes of one thread each for a scheduler (`dask scheduler`), until stopped. They are copies "
        "of one process that has loaded everything, so that one that dies, or all of them after the scheduler has gone and come "
        "back, are there again in a moment.",
    )
    parser.add_argument("scheduler", help="its address, such as tcp://10.0.0.5:8786; it need not be there yet")
    parser.add_argument(
        "--workers", type=int, help="how many (default: one for each core that has 1 GiB to go with it)"
    )
    parser.add_argument(
        "--memory", help="at which one is stopped, such as 4GiB (default: their share of 70 %% of the machine)"
    )
    parser.set_defaults(run=workers)


def workers(options: argparse.Namespace) -> int:
    """Until stopped, or until they cannot be started."""
    from gdm_core.engine.cluster import Host, size, worker_count, worker_memory

    number = worker_count() if options.workers is None else options.workers
    if number < 1:
        raise ConfigError(f"--workers is {number}; at least 1 process is needed.")
    memory = worker_memory(number) if options.memory is None else size(options.memory, "--memory")
    scheduler = _address(options.scheduler)
    for ending in (signal.SIGTERM, signal.SIGINT):  # jobs in the background are told to ignore the second
        signal.signal(ending, signal.default_int_handler)
    print(f"{number} workers for {scheduler}, {memory / 2**30:.1f} GiB each.", file=sys.stderr, flush=True)
    try:
        while True:
            host = Host(number, memory, scheduler)
            try:
                host.address()
                status = host.wait()
            finally:
                host.close()
            print(f"The process that keeps the workers ended (status {status}); it is started again.", file=sys.stderr)
    except KeyboardInterrupt:
        return 0
    except OSError as error:
        raise FitError(f"The worker processes cannot be started ({error}); what they said stands above.") from error


def _address(text: str) -> str:
    from gdm_studio.check import place_of

    if place_of(text) is None:
        raise ConfigError(f"The scheduler is {text!r}; write tcp://HOST:PORT.")
    return text if "://" in text else f"tcp://{text}"
