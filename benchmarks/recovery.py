"""How soon the next result stands after a process of the cluster was killed or stopped: `python -m benchmarks.recovery`.

For the embedded cluster, and for ones that run beside it ("outer": workers by `gdm workers`; "dask": by `dask worker`), idle
or with --load N busy loops. In each round a fit runs for somebody else, one process gets its signal, and a new fit is asked
for at once. Counted are the seconds to its result, and the fits of others that were lost. Whatever ends in a cluster that
runs beside it is started again, as a service manager would.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks import report
from benchmarks.load import load
from gdm_core.engine import Engine, FitRequest, ResultCache
from gdm_core.errors import GdmError
from gdm_core.trials import Trial, Trials
from tests.support.fake_model import FAMILY
from tests.support.local_cluster import kept_cluster, kept_processes

TRIALS = Trials((Trial(np.random.default_rng(0).standard_normal((500, 3))),))
# A fit of others: long enough to be under way when the signal comes, short enough for many rounds.
OTHERS = {"n_steps": 150, "step_s": 0.02}
WAIT_S = 240.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="of each kind (10)")
    parser.add_argument("--load", type=int, default=0, help="busy loops beside (none)")
    parser.add_argument("--clusters", nargs="+", default=["embedded", "outer"], choices=["embedded", "outer", "dask"])
    parser.add_argument("--faults", nargs="+", default=list(FAULTS), choices=list(FAULTS))
    parser.add_argument("--json", help="a file for the figures")
    arguments = parser.parse_args()
    rows: list[list[Any]] = []
    with load(arguments.load, 3600):
        for where in arguments.clusters:
            rows += measured(where, arguments.faults, arguments.rounds)
    columns = ["cluster", "fault", "rounds", "median s", "longest s", "others lost", "failed"]
    print(report.table(f"Next result after a fault, {arguments.load} busy loops beside", columns, rows))
    report.write(
        arguments.json, {"load": arguments.load, "recovery": [dict(zip(columns, row, strict=True)) for row in rows]}
    )


def measured(where: str, faults: list[str], rounds: int) -> list[list[Any]]:
    with tempfile.TemporaryDirectory() as folder, cluster(where, Path(folder)) as find:
        began = time.monotonic()
        with Engine(ResultCache(Path(folder) / "fits")) as engine:
            fit(engine, "first", {"n_steps": 5})
            seconds = time.monotonic() - began
            rows: list[list[Any]] = [[where, "none: first start", 1, seconds, seconds, 0, 0]]
            print(*rows[-1], sep="\t", file=sys.stderr, flush=True)
            for fault in faults:
                rows.append([where, fault, rounds, *times(engine, find, fault, rounds)])
                print(*rows[-1], sep="\t", file=sys.stderr, flush=True)
        return rows


def times(engine: Engine, find: Callable[[str], list[psutil.Process]], fault: str, rounds: int) -> list[Any]:
    """Median and longest time to the next result, fits of others that were lost, and next results that failed."""
    seconds, lost, failed = [], 0, 0
    for number in range(rounds):
        until(lambda: len(find("worker")) >= 2)
        other = engine.submit(request(OTHERS, seed=number), session="other")
        until(lambda other=other: other.poll().step)  # type: ignore[misc]
        FAULTS[fault](engine, find, number)
        began = time.monotonic()
        try:
            fit(engine, "next", {"n_steps": 5})
        except GdmError as error:
            failed += 1
            print(f"{fault}, round {number}: {error}", file=sys.stderr)
        seconds.append(time.monotonic() - began)
        try:
            other.result(WAIT_S)
        except GdmError as error:
            lost += 1
            print(f"{fault}, round {number}, other: {error}", file=sys.stderr)
    return [statistics.median(seconds), max(seconds), lost, failed]


def request(config: dict[str, Any], seed: int = 0) -> FitRequest:
    return FitRequest(FAMILY, {**config, "seed": seed}, TRIALS, use_cache=False, deadline_s=WAIT_S)


def fit(engine: Engine, session: str, config: dict[str, Any]) -> None:
    engine.submit(request(config), session=session).result(WAIT_S)


def send(how: signal.Signals, kind: str) -> Callable[..., None]:
    """Send a signal to one of the processes of that kind, another one in each round."""

    def fault(engine: Engine, find: Callable[[str], list[psutil.Process]], number: int) -> None:
        there = find(kind)
        os.kill(there[number % len(there)].pid, how)

    return fault


def both(engine: Engine, find: Callable[[str], list[psutil.Process]], number: int) -> None:
    for process in find("worker"):
        process.kill()


def memory(engine: Engine, find: Callable[[str], list[psutil.Process]], number: int) -> None:
    """A fit that fills its worker until its nanny ends it; it is cancelled once it has, and the next one follows."""
    before = {process.pid for process in find("worker")}
    config = {"misbehave": "memory", "n_steps": 500, "step_s": 0.01}
    greedy = engine.submit(request(config), session="greedy")
    until(lambda: before - {process.pid for process in find("worker")})
    greedy.cancel()


FAULTS: dict[str, Callable[..., None]] = {
    "worker killed": send(signal.SIGKILL, "worker"),
    "all workers killed": both,
    "worker stopped": send(signal.SIGSTOP, "worker"),
    "worker out of memory": memory,
    "nanny killed": send(signal.SIGKILL, "nanny"),
    "scheduler killed": send(signal.SIGKILL, "scheduler"),
}


@contextmanager
def cluster(where: str, folder: Path) -> Iterator[Callable[[str], list[psutil.Process]]]:
    """Set the engine's variables, and give a way to find the processes of a kind."""
    os.environ["GDM_WORKERS"] = "2"
    os.environ["GDM_WORKER_MEMORY"] = "1 GiB"
    os.environ.pop("GDM_SCHEDULER", None)
    if where == "embedded":
        yield partial(kept_processes, psutil.Process())
        return
    with kept_cluster(folder, n_workers=2, memory="1 GiB", dask=where == "dask") as outer:
        os.environ["GDM_SCHEDULER"] = outer.address
        yield outer.processes


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not so within {WAIT_S:g} s")
        time.sleep(0.02)


if __name__ == "__main__":
    main()
