"""What a fit costs beside the fit itself: starts, round trips, pictures, cancels, and bytes on the wire.

`python -m benchmarks.engine [--json]`. A scheduler and two workers run as processes of their own, as in a lab; a relay
between them and this process counts bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from benchmarks.local_cluster import running_cluster, two_seconds
from benchmarks.wire import Relay, counted
from datasets import nascar
from gdm_core.engine import Engine, FitRequest, Job, ResultCache
from gdm_core.trials import Trials

REPEATS = 5
CONFIG = {"n_states": 4, "n_latent": 2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        numbers = {**embedded(Path(folder)), **joined(Path(folder))}
    if arguments.json:
        print(json.dumps(numbers))
        return
    for name, value in numbers.items():
        print(f"{name:<52}{value:>14,.4g}")


def embedded(folder: Path) -> dict[str, float]:
    """The cluster that a server starts for itself."""
    os.environ.pop("GDM_SCHEDULER", None)
    began = time.perf_counter()
    with Engine(ResultCache(folder / "embedded")) as engine:
        engine.wait_ready()
        ready = time.perf_counter() - began
        children = psutil.Process().children(recursive=True)
        resident = max(child.memory_info().rss for child in children)
        return {"embedded cluster ready (s)": ready, "memory of an idle worker (MB)": resident / 1e6}


def joined(folder: Path) -> dict[str, float]:
    """A cluster that runs already."""
    trials = Trials((nascar.simulate("standard", T=1000, seed=0),))
    with running_cluster(folder, n_workers=2) as address, counted(address) as relay:
        os.environ["GDM_SCHEDULER"] = relay.address
        began = time.perf_counter()
        with Engine(ResultCache(folder / "joined")) as engine:
            engine.wait_ready()
            numbers = {"running cluster joined (s)": time.perf_counter() - began}
            numbers["round trip of a call (ms)"] = 1e3 * median(lambda i: timed(lambda: call(engine, i)))
            numbers |= fits(engine, trials, relay)
            numbers["cancelled fit leaves its worker (ms)"] = 1e3 * median(lambda i: cancel(engine, trials, 100 + i))
            numbers["bulk work stands aside: fit's first picture (ms)"] = 1e3 * behind_bulk(engine, trials)
    return numbers


def fits(engine: Engine, trials: Trials, relay: Relay) -> dict[str, float]:
    """First and later fits of the same data, and one that was seen before."""
    totals, insides, pictures, sent, received = [], [], [], [], []
    for seed in range(REPEATS + 1):
        before = relay.to_server, relay.to_client
        began = time.perf_counter()
        job = engine.submit(request(trials, seed), session="bench")
        pictures.append(until(lambda job=job: job.poll().snapshot is not None))
        result = job.result(120)
        totals.append(time.perf_counter() - began)
        insides.append(result.seconds)
        sent.append(relay.to_server - before[0])
        received.append(relay.to_client - before[1])
    seen = timed(lambda: engine.submit(request(trials, 0), session="bench").result(5))
    return {
        "first picture of a fit (ms)": 1e3 * statistics.median(pictures[1:]),
        "a fit, NASCAR T=1000 K=4, to its result (s)": statistics.median(totals[1:]),
        "  of which its steps (s)": statistics.median(insides[1:]),
        "a fit already seen (ms)": 1e3 * seen,
        "data (bytes)": trials[0].y.nbytes,
        "sent, first fit of the data (bytes)": sent[0],
        "sent, each further fit (bytes)": statistics.median(sent[1:]),
        "received, each fit with live pictures (bytes)": statistics.median(received[1:]),
        "model file (bytes)": len(result.model_bytes),
    }


def request(trials: Trials, seed: int) -> FitRequest:
    return FitRequest("gdm", {**CONFIG, "seed": seed}, trials)


def call(engine: Engine, i: int) -> None:
    engine.call(divmod, i, 2, session="bench").result(20)


def cancel(engine: Engine, trials: Trials, seed: int) -> float:
    job = engine.submit(request(trials, seed), session="bench")
    until(lambda: job.poll().step > 3)
    began = time.perf_counter()
    job.cancel()
    until(lambda: job.id not in engine.info().out)
    return time.perf_counter() - began


def behind_bulk(engine: Engine, trials: Trials) -> float:
    bulk = engine.map(two_seconds, {str(i): (i,) for i in range(50)}, session="sweep", key="bench", cached=False)
    until(lambda: len(engine.info().out) >= 2)

    def one(seed: int) -> float:
        job: Job = engine.submit(request(trials, seed), session="bench")
        waited = until(lambda: job.poll().snapshot is not None)
        job.cancel()
        until(lambda: job.id not in engine.info().out)
        return waited

    waited = median(lambda i: one(200 + i))
    bulk.cancel()
    return waited


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def until(condition: Callable[[], object]) -> float:
    """Seconds until the condition holds."""
    began = time.perf_counter()
    while not condition():
        time.sleep(0.002)
        if time.perf_counter() - began > 120:
            raise TimeoutError("nothing happened for two minutes")
    return time.perf_counter() - began


def median(measure: Callable[[int], float]) -> float:
    return statistics.median(measure(i) for i in range(REPEATS))


if __name__ == "__main__":
    main()
