"""What the states of the present moment are worth: matched accuracy as it could be known then, a few samples later, and
with the whole recording. `python -m benchmarks.online [--seeds N]` prints the table of docs/scores.md."""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from datasets import nascar
from gdm_core import ARHMM, GDM, SLDS
from gdm_core.analysis.metrics import match_states
from gdm_core.models.base import StateModel

LAGS = (0, 5, 25)
MODELS: dict[str, StateModel] = {
    "GDM": GDM(n_states=4, n_latent=2),
    "AR-HMM, recurrent only": ARHMM(n_states=4, n_latent=2, transitions="recurrent_only"),
    "AR-HMM, sticky": ARHMM(n_states=4, n_latent=2, transitions="sticky"),
    "SLDS, sticky": SLDS(n_states=4, n_latent=2),
    "rSLDS": SLDS(n_states=4, n_latent=2, transitions="recurrent"),
}


def accuracies(model: StateModel, variant: str, seed: int) -> tuple[list[float], float]:
    """Matched accuracy on a new track at each lag and of the whole recording; processor ms a sample at lag 0."""
    train, test = nascar.train_test(variant, seed)
    model.fit(train)
    assert train.labels is not None
    assert test.labels is not None
    match = match_states(model.predict(train), train.labels, 4)
    began = time.process_time()
    found = [model.filter(test, 0)]
    spent = (time.process_time() - began) / test.n_samples * 1000
    found += [model.filter(test, lag) for lag in LAGS[1:]] + [model.predict_proba(test)]
    return [float((match[shares.argmax(axis=1)] == test.labels).mean()) for shares in found], spent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="how many new simulations, each with a fit of its own")
    n_seeds = parser.parse_args().seeds
    columns = [*(f"{lag} later" for lag in LAGS), "whole recording"]
    print(f"| track | model | {' | '.join(columns)} | ms a sample |\n|{'---|' * (len(columns) + 3)}")
    for variant in ("soft", "standard"):
        for name, model in MODELS.items():
            runs = [accuracies(model, variant, seed) for seed in range(n_seeds)]
            values = np.array([accuracy for accuracy, _ in runs])
            cells = [f"{m:.3f} ± {s:.3f}" for m, s in zip(values.mean(0), values.std(0), strict=True)]
            milliseconds = np.median([spent for _, spent in runs])
            print(f"| {variant} | {name} | {' | '.join(cells)} | {milliseconds:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
