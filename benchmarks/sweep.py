"""What a sweep costs: K = 2 to 10 from five seeds on a NASCAR track, on a cluster of one worker and of two.

`python -m benchmarks.sweep [--json]`. As multiples of one fit of K = 4 in this process, timed in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.local_cluster import running_cluster, wait_for_workers
from datasets import nascar
from gdm_core import GDM
from gdm_core.engine import Engine, ResultCache, sweep
from gdm_core.engine.sweep import Sweep
from gdm_core.maths.threads import one_thread
from gdm_core.trials import Trials

STATES, SEEDS = tuple(range(2, 11)), tuple(range(5))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    arguments = parser.parse_args()
    lap, another = nascar.train_test("standard", 0)
    wanted = Sweep("gdm", {"n_latent": 2}, {"n_states": STATES}, SEEDS, Trials((lap,)), Trials((another,)), "")
    one = one_fit(lap)
    numbers = {"one fit (s)": one}
    for n_workers in (1, 2):
        took = timed(wanted, n_workers)
        numbers[f"{len(wanted.cells())} fits, {n_workers} worker(s) (s)"] = took
        numbers[f"as multiples of one fit, {n_workers} worker(s)"] = took / one
    numbers["two workers are times as fast as one"] = (
        numbers["45 fits, 1 worker(s) (s)"] / numbers["45 fits, 2 worker(s) (s)"]
    )
    if arguments.json:
        print(json.dumps(numbers))
        return
    for name, value in numbers.items():
        print(f"{name:<45}{value:>10,.3g}")


def one_fit(lap: object) -> float:
    """Median of five, the first left out: it also pays for loading libraries."""
    took = []
    with one_thread():
        for seed in range(6):
            began = time.perf_counter()
            GDM(n_states=4, n_latent=2, seed=seed).fit(lap)
            took.append(time.perf_counter() - began)
    return statistics.median(took[1:])


def timed(wanted: Sweep, n_workers: int) -> float:
    """Seconds of the whole sweep with nothing in the store, once the workers are there."""
    with tempfile.TemporaryDirectory() as name, running_cluster(Path(name), n_workers) as address:
        wait_for_workers(address, n_workers)
        os.environ["GDM_SCHEDULER"] = address
        try:
            with Engine(ResultCache(Path(name) / "results")) as engine:
                engine.wait_ready()
                began = time.perf_counter()
                records = sweep.start(wanted, engine, "benchmark").wait(600)
                took = time.perf_counter() - began
        finally:
            del os.environ["GDM_SCHEDULER"]
        failed = [record.message for record in records if record.failed]
        if failed:
            raise SystemExit(f"{len(failed)} fits failed: {failed[0]}")
        return took


if __name__ == "__main__":
    main()
