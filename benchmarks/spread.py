"""A fit spread over worker processes against the same fit in one: `python -m benchmarks.spread [--rows N] [--json FILE]`.

Two shares of simulated data (16 channels, K = 8, D = 3), each step over all rows of a large batch. One worker holds both
shares, then two hold one each; rounds alternate, so that both see the same machine. Clocks say what a quiet machine gains;
on a busy one the processor time of the busiest worker does, which is what a step waits for.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client

from benchmarks.local_cluster import running_cluster, wait_for_workers
from benchmarks.scale import simulated
from datasets.large import open_large
from gdm_core import GDM
from gdm_core.engine.spread import fit_spread_iter


def processor_seconds() -> float:
    """Of the worker that answers, so far."""
    return sum(os.times()[:2])


def measured(parts: list[Any], client: Client, workers: list[str], batch: int, n_steps: int) -> dict[str, Any]:
    """Clock and processor seconds from the first report to the last: start and reading of statistics are left out."""
    model = GDM(n_states=8, n_latent=3, batch_size=batch, n_steps=n_steps)
    steps = fit_spread_iter(model, parts, client, workers, finish=False)
    next(steps)
    before, mine, clock = client.run(processor_seconds), processor_seconds(), time.perf_counter()
    for progress in steps:
        if progress.step == n_steps:
            break
    clock = time.perf_counter() - clock
    spent = {worker: used - before[worker] for worker, used in client.run(processor_seconds).items()}
    mine = processor_seconds() - mine
    steps.close()
    return {
        "clock s": clock,
        "processor s of each worker": sorted(spent.values(), reverse=True),
        "processor s of the client": mine,
        "objective": model.history_[-1].objective,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--batch", type=int, default=131_072)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write every number here")
    options = parser.parse_args()
    rounds = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        y = np.concatenate(list(simulated(options.rows, 16, 3, 8)))
        for i, share in enumerate(np.array_split(y, 2)):
            np.save(folder / f"{i}.npy", share)
        parts = [partial(open_large, folder / f"{i}.npy") for i in range(2)]
        with running_cluster(folder, 2) as address:
            wait_for_workers(address, 2)
            with Client(address, set_as_default=False) as client:
                workers = sorted(client.scheduler_info()["workers"])
                for number in range(options.rounds):
                    one = measured(parts, client, workers[:1] * 2, options.batch, options.steps)
                    two = measured(parts, client, workers, options.batch, options.steps)
                    assert one["objective"] == two["objective"], "the same fit, wherever the shares are"
                    overhead = [r["processor s of the client"] for r in (one, two)]
                    busiest = [r["processor s of each worker"][0] for r in (one, two)]
                    rounds.append(
                        {
                            "one": one,
                            "two": two,
                            "clock ratio": one["clock s"] / two["clock s"],
                            "processor ratio": (busiest[0] + overhead[0]) / (busiest[1] + overhead[1]),
                        }
                    )
                    print(
                        f"round {number + 1}: one worker {one['clock s']:.1f} s, two {two['clock s']:.1f} s, "
                        f"ratio {rounds[-1]['clock ratio']:.2f} by the clock, {rounds[-1]['processor ratio']:.2f} by "
                        f"processor time of the busiest worker and the client; load {os.getloadavg()[0]:.1f}"
                    )
    for key in ("clock ratio", "processor ratio"):
        found = np.array([r[key] for r in rounds])
        print(f"{key}: {found.mean():.2f} ± {found.std():.2f}")
    if options.json:
        options.json.write_text(json.dumps(rounds, indent=2))


if __name__ == "__main__":
    main()
