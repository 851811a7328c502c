"""What single steps cost in processor time, beside what they may cost on a machine of their own.

`python -m benchmarks.costs [--json]`. The least of several rounds. Tests hold what these steps do; how long they take is no
matter for a test, which shares its machine.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from datasets import mice, nascar, tables
from datasets.f1.race import simulate_race
from datasets.features import egocentric_features, principal_components
from gdm_core import GDM
from gdm_core.analysis import metrics
from gdm_core.analysis.tables import csv
from gdm_core.maths.threads import one_thread
from gdm_studio.plot import figures, palette
from pages.playground import gumbel

ROUNDS = 5
LOGITS = np.array([1.2, -0.4, 0.3])


def steps() -> dict[str, tuple[float, Callable[[], Any]]]:
    """(goal in seconds, what is measured) by name."""
    rng = np.random.default_rng(0)
    soft = rng.dirichlet(np.full(8, 0.4), 20_000).astype(np.float32)
    recording = mice.simulate_recordings(1, 120_000, seed=0)[0]
    raw = recording.to_trials()
    table = csv(pd.DataFrame(rng.normal(size=(50_000, 20)).round(6), columns=[f"c{i}" for i in range(20)]))
    train, test = nascar.train_test("soft", 0)
    model = GDM(n_states=4, n_latent=2).fit(train)
    return {
        "colours of a race, 20,000 samples of 8 states": (0.010, lambda: palette.mix(soft)),
        "a track of 1,000 steps": (0.020, lambda: nascar.simulate("soft", T=1000)),
        "a race of 20 drivers": (3.0, lambda: simulate_race("shanghai", seed=1)),
        "a set of 507,738 frames": (20.0, lambda: mice.training_set_sized(seed=1)),
        "features of 120,000 frames": (2.0, lambda: egocentric_features(recording)),
        "principal components of 120,000 frames": (2.5, lambda: principal_components(raw)),
        "a table of 10 MB": (10.0, lambda: tables.read(table, "a.csv")),
        "scores of 1,000 steps, the model's part included": (3.0, lambda: metrics.evaluate(model, train, test)),
        "everything that a move of the Playground asks for": (0.1, playground),
    }


def playground() -> None:
    many = figures.inside(gumbel.draws(LOGITS, 0.6, gumbel.noise(20_000, 3, 1)))
    levels = figures.holding(gumbel.log_density_on_simplex(many, LOGITS, 0.6))
    x, y, grid = figures.simplex_grid(many)
    density = gumbel.log_density_on_simplex(grid, LOGITS, 0.6)
    z = gumbel.draws(LOGITS, 0.6, gumbel.noise(500, 3, 0))
    figures.simplex(z, log_density=(x, y, density), levels=levels, other=z[:150])
    gumbel.winners(LOGITS, gumbel.noise(20_000, 3, 0))
    gumbel.sampled_kl(LOGITS, -LOGITS, np.array([0.1, 0.2, 0.5, 1.0, 2.0]), 8_000, 0)
    gumbel.simulate_stays(LOGITS, 0.6, 1.0, np.linspace(0, 1, 11), 0)


def cost(step: Callable[[], Any], goal: float) -> float:
    """Seconds of processor time: the least of some rounds, of two where one is long. The first pays for loading."""
    step()
    found = []
    for _ in range(ROUNDS if goal < 5 else 1):
        began = time.process_time()
        step()
        found.append(time.process_time() - began)
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    arguments = parser.parse_args()
    with one_thread():
        found = {name: (cost(step, goal), goal) for name, (goal, step) in steps().items()}
    if arguments.json:
        print(json.dumps({name: {"seconds": took, "goal": goal} for name, (took, goal) in found.items()}))
        return
    for name, (took, goal) in found.items():
        print(f"{name:<55}{1000 * took:>10,.1f} ms{1000 * goal:>10,.0f} ms {'' if took <= goal else '  missed'}")


if __name__ == "__main__":
    main()
