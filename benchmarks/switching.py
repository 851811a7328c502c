"""Speed and accuracy of the switching models: `python -m benchmarks.switching [--seeds N] [--scale] [--json FILE]`.

Accuracy is measured on simulated cars: train seed s, test seed 100 + s, one emission matrix for both, soft states of the
test trial inferred from the test trial. Times are processor seconds, which a shared machine leaves alone.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from datasets import nascar
from gdm_core import ARHMM, SLDS
from gdm_core.analysis.metrics import matched_accuracy, paper_accuracy
from gdm_core.models.base import StateModel

MODELS: dict[str, Callable[[int], StateModel]] = {
    "AR-HMM stationary": lambda seed: ARHMM(4, transitions="stationary", seed=seed),
    "AR-HMM sticky": lambda seed: ARHMM(4, transitions="sticky", seed=seed),
    "AR-HMM recurrent only": lambda seed: ARHMM(4, transitions="recurrent_only", seed=seed),
    "SLDS sticky": lambda seed: SLDS(4, transitions="sticky", seed=seed),
    "rSLDS sticky recurrent": lambda seed: SLDS(4, transitions="recurrent", seed=seed),
    "rSLDS recurrent only": lambda seed: SLDS(4, transitions="recurrent_only", seed=seed),
}


def fit_timed(model: StateModel, data: Any) -> tuple[float, float]:
    """Processor seconds of the fit proper, and with scoring and the calibration of forecasts."""
    started = time.process_time()
    steps = model.fit_iter(data)
    fitted = started
    for _ in steps:
        fitted = time.process_time()
    return fitted - started, time.process_time() - started


def accuracy(setting: str, name: str, seeds: int) -> dict[str, Any]:
    """Mean and spread over simulations and fits."""
    rows = []
    for seed in range(seeds):
        train, test = nascar.train_test(setting, seed=seed)
        model = MODELS[name](seed)
        fit, whole = fit_timed(model, train)
        started = time.process_time()
        found = model.predict_proba(test)
        inference = time.process_time() - started
        assert train.labels is not None
        assert test.labels is not None
        rows.append(
            {
                "paper's metric": paper_accuracy(model.predict_proba(train), train.labels, found, test.labels),
                "matched": matched_accuracy(found.argmax(axis=1), test.labels),
                "test ELBO": model.score(test),
                "fit s": fit,
                "with calibration s": whole,
                "new trial s": inference,
                "iterations": len(model.history_) - 1,
            }
        )
    summary: dict[str, Any] = {"setting": setting, "model": name, "seeds": seeds}
    for key in rows[0]:
        values = np.array([row[key] for row in rows], dtype=float)
        summary[key] = {"mean": values.mean(), "sd": values.std(), "min": values.min(), "max": values.max()}
    return summary


def keypoint_like(n_trials: int, total: int, seed: int = 0) -> list[np.ndarray]:
    """Trials of 28 channels that follow five rotations and drifts of three latents."""
    rng = np.random.default_rng(seed)
    emission = rng.normal(size=(3, 28))
    skew = 0.1 * rng.normal(size=(5, 3, 3))
    turns = np.linalg.qr(np.eye(3) + skew - np.swapaxes(skew, 1, 2))[0]
    turns *= np.sign(np.diagonal(turns, axis1=1, axis2=2))[:, None, :]
    drift = 0.05 * rng.normal(size=(5, 3))
    trials = []
    for _ in range(n_trials):
        length = total // n_trials
        states = np.repeat(rng.integers(0, 5, size=length // 50 + 1), 50)[:length]
        x = np.zeros((length, 3))
        noise = 0.03 * rng.normal(size=(length, 3))
        for t in range(1, length):
            x[t] = 0.99 * turns[states[t]] @ x[t - 1] + drift[states[t]] + noise[t]
        trials.append((x @ emission + 0.3 * rng.normal(size=(length, 28))).astype(np.float32))
    return trials


def scale() -> list[dict[str, Any]]:
    """One long race, then half a million samples of 28 channels in 70 trials."""
    race = nascar.simulate("soft", T=23_500, seed=0).y
    mice = keypoint_like(70, 500_000)
    jobs: list[tuple[str, Any, StateModel]] = [
        ("race 23,500 x 10, K=8", race, ARHMM(8, transitions="recurrent_only")),
        ("race 23,500 x 10, K=8", race, SLDS(8, transitions="recurrent_only")),
        ("race 23,500 x 10, K=8", race, SLDS(8, transitions="recurrent")),
        ("500,000 x 28 in 70 trials, K=5", mice, ARHMM(5, n_latent=3, transitions="sticky")),
        ("500,000 x 28 in 70 trials, K=5", mice, SLDS(5, n_latent=3, transitions="recurrent_only")),
    ]
    rows = []
    for data_name, data, model in jobs:
        fit, whole = fit_timed(model, data)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        name = f"{type(model).__name__} {model.config.transitions}"
        rows.append(
            {
                "data": data_name,
                "model": name,
                "fit s": fit,
                "with calibration s": whole,
                "iterations": len(model.history_) - 1,
                "status": str(model.status_),
                "peak GiB so far": peak,
            }
        )
        print(
            "  ".join(
                f"{key}: {value if isinstance(value, str) else round(value, 2)}" for key, value in rows[-1].items()
            )
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--scale", action="store_true", help="also the long recordings (minutes)")
    parser.add_argument("--json", type=Path, help="write every number here")
    args = parser.parse_args()
    results: dict[str, Any] = {"accuracy": []}
    print(f"{'setting':<10}{'model':<24}{'paper metric':>16}{'matched':>16}{'fit s':>14}{'new trial s':>13}")
    for setting in ("soft", "standard"):
        for name in MODELS:
            row = accuracy(setting, name, args.seeds)
            results["accuracy"].append(row)
            cells = [f"{row[key]['mean']:.3f} ± {row[key]['sd']:.3f}" for key in ("paper's metric", "matched")]
            cost = f"{row['fit s']['mean']:.2f} ± {row['fit s']['sd']:.2f}"
            print(f"{setting:<10}{name:<24}{cells[0]:>16}{cells[1]:>16}{cost:>14}{row['new trial s']['mean']:>13.3f}")
    if args.scale:
        results["scale"] = scale()
    if args.json:
        args.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
