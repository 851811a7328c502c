"""Speed and cost of the Gumbel Dynamical Model: `make bench`, or one part with --only. Prints tables, --json FILE keeps them.

Times are processor seconds on one thread, so that a busy machine changes them little; claims are ratios within one run.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import report

Part = tuple[str, list[str], list[list[Any]]]


def speed() -> Part:
    """One fit at T=1,000 against the paper's recipe run to its end, and that against a plain loop, in this process."""
    from benchmarks.plain_loop import steps_per_second
    from datasets import nascar
    from gdm_core import GDM

    train, _ = nascar.train_test("soft", 0)
    GDM(n_steps=20).fit(train)  # libraries load before the clock starts
    models = [GDM(seed=seed) for seed in range(5)]
    fast = [_seconds(lambda model=model: model.fit(train)) for model in models]
    papers = [GDM(preset="paper", seed=seed) for seed in range(3)]
    seconds = [_seconds(lambda model=model: model.fit(train)) for model in papers]
    lengths = [model.history_[-1].step for model in papers]
    paper_seconds, steps = float(np.mean(seconds)), round(float(np.mean(lengths)))
    ours, plain = steps / paper_seconds, steps_per_second(train.y, 300)
    median = float(np.median(fast))
    return (
        "One fit, NASCAR soft, T=1000, N=10, K=4 (processor seconds)",
        ["what", "seconds", "steps/s", "ratio"],
        [
            ["fast preset, median of 5", median, models[0].history_[-1].step / median, 1.0],
            [
                f"paper preset, until it stops itself ({min(lengths)}-{max(lengths)} steps)",
                paper_seconds,
                ours,
                paper_seconds / median,
            ],
            ["paper preset, all 4000 steps", 4000 / ours, ours, 4000 / ours / median],
            ["plain loop of the paper's recipe", steps / plain, plain, ours / plain],
        ],
    )


def scale() -> Part:
    """Cost against length: one trial of T samples."""
    from datasets import nascar
    from gdm_core import GDM

    base, _ = nascar.train_test("soft", 0, T=20_000)
    rows: list[list[Any]] = []
    for t in (1_000, 10_000, 100_000, 1_000_000):
        y = np.concatenate([base.y] * -(-t // len(base.y)))[:t]
        model = GDM(seed=0)
        seconds = _seconds(lambda model=model, y=y: model.fit(y))
        read = _seconds(lambda model=model, y=y: model.predict_proba(y))
        rows.append([t, seconds, read, 1e6 * (seconds + read) / t, _peak_mb()])
    return "Cost against T (N=10, K=4)", ["T", "fit s", "read-out s", "us a sample", "peak MB"], rows


def mice() -> Part:
    """The size of CalMS21's training set, simulated."""
    from datasets import mice as simulator
    from gdm_core import GDM

    trials = simulator.training_set_sized(0)
    model = GDM(n_states=5, n_latent=3, seed=0)
    seconds = _seconds(lambda: model.fit(trials))
    half = list(trials)[: len(trials) // 2]
    read = _seconds(lambda: [model.predict_proba(trial) for trial in half])
    samples = sum(trial.n_samples for trial in half)
    return (
        f"{trials.n_samples:,} x {trials.n_channels} in {len(trials)} trials, K=5, D=3",
        ["fit s", f"states of {samples:,} new samples s", "peak MB"],
        [[seconds, read, _peak_mb()]],
    )


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _peak_mb() -> int:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


PARTS: dict[str, Callable[[], Part]] = {"speed": speed, "scale": scale, "mice": mice}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="run these parts alone")
    parser.add_argument("--json", metavar="FILE", help="write the results there too")
    options = parser.parse_args()
    from gdm_core.maths.threads import one_thread, one_torch_thread

    results: dict[str, Any] = {}
    with one_thread(), one_torch_thread():
        for name in options.only or PARTS:
            title, columns, rows = PARTS[name]()
            print(report.table(title, columns, rows), flush=True)
            results[name] = {"title": title, "columns": columns, "rows": rows}
    report.write(options.json, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
