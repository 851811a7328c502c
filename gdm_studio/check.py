"""What a machine lacks for the dashboard, found before a visitor does."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from urllib.parse import urlsplit

from gdm_core.errors import ConfigError
from gdm_studio.seeds import more_seeds

LEVELS = ("wrong", "poor", "fine")
SERVER_BYTES = 900 * 2**20  # what the web server holds after an hour of use
FREE_DISK_BYTES = 2**30
REACH_S = 3.0
# What was tested on each Python version.
PYTHONS = {
    (3, 11): "all tests were run",
    (3, 12): "all examples were run",
    (3, 13): "all examples were run",
    (3, 14): "only resolved",
}
PACKAGES = ("streamlit", "plotly", "torch", "distributed", "numpy", "pandas", "scipy", "scikit-learn", "fastf1")


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `level` is "wrong" (it will not run), "poor" (it will run badly) or "fine"."""

    level: str
    what: str
    text: str


def examine(address: str, port: int) -> list[Finding]:
    """Everything that is looked at."""
    return [python(), *packages(), *memory_and_workers(), seeds(), data_folder(), web_port(address, port), scheduler()]


def python() -> Finding:
    """The interpreter's version, and what was tried on it."""
    tried = PYTHONS.get(sys.version_info[:2])
    text = ".".join(map(str, sys.version_info[:3]))
    if tried == PYTHONS[3, 11]:
        return Finding("fine", "Python", f"{text}; {tried} on 3.11")
    what = f"not tested in full ({tried})" if tried else "not tested"
    return Finding("poor", "Python", f"{text} is {what}; Python 3.11 is")


def packages() -> Iterator[Finding]:
    """Every package that is missing or older than what was tested."""
    missing, old = [], []
    for name, least in _needed().items():
        try:
            found = version(name)
        except PackageNotFoundError:
            missing.append(name)
            continue
        if least and _numbers(found) < _numbers(least):
            old.append(f"{name} {found} (tested with {least})")
    if missing:
        yield Finding("wrong", "packages", f"{', '.join(missing)} missing; install with `pip install gdm-studio`")
    if old:
        yield Finding("poor", "packages", f"older than tested: {', '.join(old)}")
    if not missing and not old:
        yield Finding("fine", "packages", ", ".join(f"{name} {version(name)}" for name in PACKAGES))


def _needed() -> dict[str, str]:
    """{package: least version} as the installed distribution says; in a checkout the names alone."""
    try:
        lines = requires("gdm-studio") or []
    except PackageNotFoundError:
        return dict.fromkeys(PACKAGES, "")
    found = {}
    for line in lines:
        name = re.match(r"[\w.-]+", line)
        least = re.search(r">=\s*([\d.]+)", line)
        if name is not None and "extra ==" not in line:
            found[name.group()] = least.group(1) if least else ""
    return found


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.split("+")[0])[:3])


def memory_and_workers() -> Iterator[Finding]:
    """Whether the workers that will be started fit beside the web server."""
    from distributed.system import MEMORY_LIMIT

    from gdm_core.engine.cluster import LEAST_MEMORY, MEMORY_VARIABLE, WORKERS_VARIABLE, worker_count, worker_memory

    try:
        n_workers = worker_count()
        each = worker_memory(n_workers)
    except ConfigError as error:
        yield Finding("wrong", "workers", str(error))
        return
    total = int(MEMORY_LIMIT)
    words = f"{n_workers} worker process(es) of at most {_size(each)}, {_size(total)} of memory in all"
    needed = SERVER_BYTES + n_workers * LEAST_MEMORY // 2
    if total < needed:
        advice = f"set {WORKERS_VARIABLE}=1" if n_workers > 1 else "take a larger machine, or a scheduler elsewhere"
        yield Finding("wrong", "memory", f"{words}; server and workers need {_size(needed)} to start: {advice}")
    elif SERVER_BYTES + n_workers * each > total:
        yield Finding(
            "poor",
            "memory",
            f"{words}; full workers and the server take more: lower {WORKERS_VARIABLE} or {MEMORY_VARIABLE}",
        )
    else:
        yield Finding("fine", "memory", words)
    cores = os.cpu_count() or 1
    if n_workers > cores:
        yield Finding("poor", "workers", f"{n_workers} on {cores} core(s); more than one a core only makes each slower")


def seeds() -> Finding:
    """How many fits are made besides those that visitors ask for."""
    try:
        return Finding("fine", "more seeds", f"{more_seeds()} more fits of each result, while nobody waits")
    except ConfigError as error:
        return Finding("wrong", "more seeds", str(error))


def data_folder() -> Finding:
    """Whether finished fits and caches can be kept."""
    from gdm_core.engine.cache import DATA_VARIABLE, default_folder

    folder = default_folder().parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return Finding(
            "wrong", "data folder", f"{folder} cannot be written ({error}); set {DATA_VARIABLE} to a folder that can"
        )
    free = shutil.disk_usage(folder).free
    if free < FREE_DISK_BYTES:
        return Finding("poor", "data folder", f"{folder} has {_size(free)} free; kept fits alone may take 2 GiB")
    return Finding("fine", "data folder", f"{folder}, {_size(free)} free")


def web_port(address: str, port: int) -> Finding:
    """Whether the web server could listen there."""
    if not 0 < port < 65536:
        return Finding("wrong", "port", f"{port} is no port; choose one from 1 to 65535")
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        with closing(socket.socket(family, kind, protocol)) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(where)
    except OSError as error:
        return Finding(
            "wrong", "port", f"{address}:{port} cannot be used ({error.strerror or error}); choose another --port"
        )
    return Finding("fine", "port", f"{address}:{port} is free")


def scheduler() -> Finding:
    """Whether the cluster that the environment names can be reached."""
    from gdm_core.engine.cluster import SCHEDULER_VARIABLE

    named = os.environ.get(SCHEDULER_VARIABLE, "").strip()
    if not named:
        return Finding("fine", "scheduler", "none named; fits run on this machine")
    place = place_of(named)
    if place is None:
        return Finding("wrong", "scheduler", f"{SCHEDULER_VARIABLE} is {named!r}; write tcp://HOST:PORT")
    try:
        socket.create_connection(place, timeout=REACH_S).close()
    except OSError as error:
        return Finding("wrong", "scheduler", f"nothing answers at {named} ({error.strerror or error})")
    return Finding("fine", "scheduler", f"{named} answers")


def place_of(address: str) -> tuple[str, int] | None:
    """Host and port of a scheduler's address; None where it names none."""
    try:
        parts = urlsplit(address if "://" in address else f"tcp://{address}")
        known = parts.scheme in ("tcp", "tls") and parts.hostname and parts.port
        return (str(parts.hostname), int(parts.port or 0)) if known else None
    except ValueError:
        return None


def _size(n_bytes: int | float) -> str:
    return f"{n_bytes / 2**30:.1f} GiB"
