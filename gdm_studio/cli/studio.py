"""`studio`: serve the dashboard. `workers`: run worker processes for an existing scheduler."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from urllib.parse import urlsplit

from datasets.storage import StorageError, cache_dir
from gdm_core.engine.spec import code_version
from gdm_core.errors import ConfigError
from gdm_core.files import write_whole
from gdm_studio.paths import APP


def studio(options: argparse.Namespace) -> int:
    """Prepare this machine and replace this process by the Streamlit server."""
    prepare()
    command = [sys.executable, "-m", "streamlit", "run", str(APP / "app.py")]
    command += [f"--server.port={options.port}", f"--server.address={options.address}", *options.streamlit]
    # With one malloc arena per server thread, memory freed by one thread is not reused by others.
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    sys.stdout.flush()
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())  # on a terminal, Streamlit asks for an email address
    os.execv(command[0], command)


def prepare() -> None:
    """Compile loops if this version has not done so, because a first fit would wait for it."""
    try:
        note = cache_dir("compiled") / "prepared"
    except StorageError as error:
        print(f"Loops are compiled at the first fit. {error}", file=sys.stderr)
        return
    version = f"{code_version()} Python {platform.python_version()} {platform.node()}"
    if note.exists() and note.read_text(encoding="utf-8") == version:
        return
    from gdm_core.models.warm import compile_loops

    for share in compile_loops(("arhmm", "gdm")):  # others are compiled at their first fit
        print(f"\rPreparing, once: {share:4.0%}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    write_whole(note, version.encode())


def workers(options: argparse.Namespace) -> int:
    """Replace this process by the Dask worker command."""
    from gdm_core.engine.cluster import child_environment, parse_size, worker_count, worker_memory

    number = worker_count() if options.workers is None else options.workers
    if number < 1:
        raise ConfigError(f"--workers is {number}; at least 1 process is needed.")
    memory = worker_memory(number) if options.memory is None else parse_size(options.memory, "--memory")
    scheduler = _scheduler_address(options.scheduler)
    print(f"{number} workers for {scheduler}, {memory / 2**30:.1f} GiB each.", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "distributed.cli.dask_worker", scheduler, "--nworkers", str(number)]
    command += ["--nthreads", "1", "--memory-limit", str(memory), "--no-dashboard", "--preload", "gdm_studio.worker"]
    os.execve(command[0], command, {**os.environ, **child_environment()})


def _scheduler_address(text: str) -> str:
    """Return the address of a scheduler with its protocol; raise ConfigError for anything else."""
    address = text if "://" in text else f"tcp://{text}"
    try:
        parts = urlsplit(address)
        valid = parts.scheme in ("tcp", "tls") and bool(parts.hostname) and bool(parts.port)
    except ValueError:  # the port is not a number
        valid = False
    if not valid:
        raise ConfigError(f"The scheduler is {text!r}; write tcp://HOST:PORT.")
    return address
