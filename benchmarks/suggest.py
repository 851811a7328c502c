"""Whether suggested numbers of states are true: new simulations with known K, beside BIC, the plain ELBO and a mixture.

`python -m benchmarks.suggest [--settings standard soft] [--tracks 20] [--first-seed 500] [--json FILE]`

Tracks are polygons with 2 to 8 sides in turn (datasets/polygons.py). BIC and ELBO judge the very fits that the
suggestion made; the mixture is what the page proposes before any fit (datasets/preview.py).
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

from benchmarks import report
from datasets import polygons, preview
from gdm_core.analysis.suggestions import Probe, Recommendation
from gdm_core.engine.suggest import Question, suggest
from gdm_core.maths.threads import one_thread
from gdm_core.trials import as_trials

MOST = 10


def by_bic(verdict: Recommendation, n_samples: int) -> int:
    """The K of least Bayesian information criterion; each half's fit saw half of the samples."""

    def bic(probe: Probe) -> float:
        half = n_samples / 2
        return probe.parameters * math.log(half) - 2 * half * probe.elbo

    return int(min(verdict.probes, key=bic).setting["n_states"])


def by_elbo(verdict: Recommendation) -> int:
    return int(max(verdict.probes, key=lambda p: p.elbo).setting["n_states"])


def track(n_states: int, setting: str, seed: int) -> dict[str, Any]:
    """What each way says of one track."""
    trials = as_trials(polygons.simulate(n_states, setting, seed=seed).y)  # nobody sees the labels
    began = time.process_time()
    question = Question("gdm", trials, states=tuple(range(1, MOST + 1)))
    verdict = next(suggest(question)).verdicts[0]
    return {
        "setting": setting,
        "seed": seed,
        "true": n_states,
        "suggested": verdict.value,
        "sure": verdict.sure,
        "BIC": by_bic(verdict, trials.n_samples),
        "ELBO": by_elbo(verdict),
        "mixture": preview.suggest(trials).n_states,
        "cpu_seconds": time.process_time() - began,
        "probes": [p.to_dict() for p in verdict.probes],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", nargs="+", default=list(polygons.SETTINGS))
    parser.add_argument("--tracks", type=int, default=20, help="of each setting")
    parser.add_argument("--first-seed", type=int, default=500)
    parser.add_argument("--json")
    options = parser.parse_args()
    found = []
    with one_thread():
        for setting in options.settings:
            for number in range(options.tracks):
                found.append(track(2 + number % 7, setting, options.first_seed + number))
                now = found[-1]
                print({name: value for name, value in now.items() if name != "probes"}, flush=True)
    ways = ("suggested", "BIC", "ELBO", "mixture")
    rows = []
    for setting in options.settings:
        mine = [one for one in found if one["setting"] == setting]
        for way in ways:
            exact = sum(one[way] == one["true"] for one in mine) / len(mine)
            near = sum(abs(one[way] - one["true"]) <= 1 for one in mine) / len(mine)
            rows.append([setting, way, exact, near])
    print(report.table("Share of tracks", ["setting", "way", "the true K", "or one beside it"], rows))
    report.write(options.json, {"tracks": found})


if __name__ == "__main__":
    main()
