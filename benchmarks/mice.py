"""Mice and rats: what the models find and what it costs. `python -m benchmarks.mice [size] [states] [--json FILE]`.

size    a training set of 507,738 frames and 28 channels in 70 trials (simulated), and 19 test trials of 262,107 frames
states  real recordings in ../shared/data (or $GDM_TEST_DATA), first 60 % to last 40 %, and simulated mice, by features

Times are processor seconds on one thread, which a shared machine leaves alone.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from datasets import keypoints, mice
from datasets.readers.pose import FeatureSet, KeypointSet
from gdm_core.analysis.bouts import like_expert, median_bout
from gdm_core.analysis.metrics import balanced_accuracy, macro_f1, majority_map, state_baselines, state_scores
from gdm_core.models.base import StateModel
from gdm_core.models.registry import build
from gdm_core.trials import Trials

DATA = Path(os.environ.get("GDM_TEST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
REAL = {
    "mouse083": "calms21/mouse083_test.npz",
    "rats 1": "other/rat_pair_1.npz",
    "rats 8": "other/rat_pair_8.npz",
}
Variant = Callable[[int, int, int], StateModel]  # (K, most latent dimensions, seed)


def _gdm(**changes: Any) -> Variant:
    wanted = changes.pop("n_latent", 6)
    extra = changes.pop("more_states", 0)
    return lambda k, most, seed: build("gdm", k + extra, min(wanted, most), seed, **changes)


VARIANTS: dict[str, Variant] = {
    "GDM moves": _gdm(),
    "GDM moves, D 3": _gdm(n_latent=3),
    "GDM moves, K 8": _gdm(more_states=3),
    "GDM moves, tau 0.5": _gdm(temperature=0.5),
    "GDM moves, gamma 0.9": _gdm(stickiness=0.9),
    "GDM moves, 3 lags": _gdm(lags=3),
    "GDM places": _gdm(posterior="linear"),
    "GDM places, K 8": _gdm(posterior="linear", more_states=3),
    "GDM places, tau 0.5": _gdm(posterior="linear", temperature=0.5),
    "GDM places, 4 starts": _gdm(posterior="linear", n_restarts=4),
    "GDM places, gamma 0.9": _gdm(posterior="linear", stickiness=0.9),
    "GDM with memory": lambda k, most, seed: build("gdm-rnn", k, min(6, most), seed),
    "rSLDS sticky": lambda k, most, seed: build("rslds-sticky", k, min(6, most), seed),
    "rSLDS": lambda k, most, seed: build("rslds-ro", k, min(6, most), seed),
    "AR-HMM": lambda k, most, seed: build("arhmm", k, min(6, most), seed),
    "AR-HMM sticky": lambda k, most, seed: build("arhmm-sticky", k, min(6, most), seed),
}


def size(posterior: str) -> dict[str, Any]:
    """The paper's data set in size: what a fit and the inference of the test trials take."""
    train = mice.training_set_sized(0)
    test = mice.training_set_sized(1, n_frames=262_107, n_trials=19)
    model = build("gdm", 5, 3, 0, posterior=posterior)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    began = time.process_time()
    steps = model.fit_iter(train)
    fitted = began
    for _ in steps:
        fitted = time.process_time()
    done = time.process_time()
    found = model.predict_proba(test)
    inferred = time.process_time()
    soft = model.predict_proba(train)
    scores = state_scores(np.concatenate(soft), labels_of(train), np.concatenate(found), labels_of(test))
    return {
        "training set": f"{len(train)} trials, {train.n_samples:,} x {train.n_channels}",
        "test set": f"{len(test)} trials, {test.n_samples:,}",
        "fit, s": fitted - began,
        "fit with scoring and calibration, s": done - began,
        "inference of the test trials, s": inferred - done,
        "largest memory, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "memory before the fit, MB": before,
        "paper's accuracy": scores.paper_accuracy,
        "macro-F1": scores.macro_f1,
    }


def pairs() -> Iterator[tuple[str, KeypointSet, KeypointSet]]:
    """(name, train, test) recordings."""
    for name, file in REAL.items():
        path = DATA / file
        if not path.is_file():
            print(f"{name}: skipped, there is no {path}")
            continue
        table = keypoints.clean(keypoints.read(path), fill_seconds=0.5)
        yield name, *halves(table)
    whole = mice.simulate_recordings(12, 2000, seed=0)
    yield "simulated", KeypointSet(whole.tables[:8], "train"), KeypointSet(whole.tables[8:], "test")


def halves(table: keypoints.KeypointTable, share: float = 0.6) -> tuple[KeypointSet, KeypointSet]:
    """The first 60 % and the rest of one recording."""
    from dataclasses import replace

    at = int(share * table.n_frames)

    def part(frames: slice, name: str) -> KeypointSet:
        scores = None if table.scores is None else table.scores[frames]
        labels = None if table.labels is None else table.labels[frames]
        return KeypointSet((replace(table, xy=table.xy[frames], scores=scores, labels=labels, name=name),), name)

    return part(slice(0, at), f"{table.name}, first"), part(slice(at, None), f"{table.name}, rest")


def labels_of(trials: Trials) -> npt.NDArray[np.int64]:
    return np.concatenate([np.asarray(t.labels, np.int64) for t in trials if t.labels is not None])


def states(seeds: int, models: list[str], kinds: list[str]) -> list[dict[str, Any]]:
    """Every score beside the majority class and the lines without a model; then the same as bouts of the Behaviour page."""
    rows = []
    for name, ours, theirs in pairs():
        for features in kinds:
            kind: FeatureSet = features  # type: ignore[assignment]
            train, test = ours.to_trials(kind), theirs.to_trials(kind)
            k = len(set(labels_of(train).tolist()) - {-1}) + 1
            lines = state_baselines(train, test, k)
            majority = lines["majority class"]
            expert = median_bout([np.asarray(t.labels) for t in test])
            print(f"\n{name}, {features}: K {k}, expert's median bout {expert:.0f} frames")
            print(
                f"{'':22}{'macro-F1':>9}{'balanced':>9}{'paper':>7}{'bout':>6}  as bouts:{'F1':>6}{'balanced':>9}{'bout':>6}"
            )
            for label, line in lines.items():
                print(f"{label:22}{_n(line.macro_f1)}{_n(line.balanced_accuracy)}{_n(line.paper_accuracy, 7)}")
            print(f"{'taught: random forest':22}{_n(taught(train, test))}")
            for label in models:
                found = [one(VARIANTS[label](k, train.n_channels, seed), train, test) for seed in range(seeds)]
                row = {key: float(np.mean([f[key] for f in found])) for key in found[0]}
                spread = float(np.std([f["bouts_macro_f1"] for f in found]))
                above = row["bouts_macro_f1"] - (majority.macro_f1 or 0.0)
                print(
                    f"{label:22}{_n(row['macro_f1'])}{_n(row['balanced_accuracy'])}{_n(row['paper_accuracy'], 7)}"
                    f"{row['median_bout']:6.0f}  {'':9}{_n(row['bouts_macro_f1'], 6)}{_n(row['bouts_balanced_accuracy'])}"
                    f"{row['bouts_median']:6.0f}   {above:+.3f} ± {spread:.3f} above majority, fit {row['seconds']:.1f} s",
                    flush=True,
                )
                rows.append({"data": name, "features": features, "model": label, "expert_bout": expert} | row)
    return rows


def taught(train: Trials, test: Trials) -> float:
    """Macro-F1 of a random forest that is given the labels: how much of the behaviours these features hold."""
    from sklearn.ensemble import RandomForestClassifier

    known = labels_of(train)
    there = known >= 0
    seen, new = (np.concatenate([np.nan_to_num(np.asarray(trial.y)) for trial in trials]) for trials in (train, test))
    forest = RandomForestClassifier(200, class_weight="balanced", min_samples_leaf=10, random_state=0)
    return float(macro_f1(forest.fit(seen[there], known[there]).predict(new), labels_of(test)))


def one(model: StateModel, train: Trials, test: Trials) -> dict[str, float]:
    """Scores as fitted, and after the bout rule of the Behaviour page."""
    began = time.process_time()
    model.fit(train)
    seconds = time.process_time() - began
    soft, soft_test = model.predict_proba(train), model.predict_proba(test)
    known, truth = labels_of(train), labels_of(test)
    scores = state_scores(np.concatenate(soft), known, np.concatenate(soft_test), truth)
    names = ("macro_f1", "balanced_accuracy", "matched_accuracy", "paper_accuracy", "nmi")
    found = {name: float(getattr(scores, name)) for name in names}
    rule = like_expert([np.asarray(t.labels) for t in train], train[0].rate_hz)  # what the Behaviour page starts with
    assert rule is not None
    bouts = [rule.labels(s, trial.rate_hz) for s, trial in zip(soft, train, strict=True)]
    bouts_test = [rule.labels(s, trial.rate_hz) for s, trial in zip(soft_test, test, strict=True)]
    named = majority_map(np.concatenate(bouts), known, model.config.n_states)[np.concatenate(bouts_test)]
    return found | {
        "median_bout": median_bout([s.argmax(axis=1) for s in soft_test]),
        "bouts_macro_f1": macro_f1(named, truth),
        "bouts_balanced_accuracy": balanced_accuracy(named, truth),
        "bouts_median": median_bout(bouts_test),
        "seconds": seconds,
    }


def _n(value: float | None, width: int = 9) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:{width}.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=["size", "states", []], help="all when none is given")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--models", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument(
        "--features", nargs="+", choices=["keypoints", "egocentric"], default=["keypoints", "egocentric"]
    )
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    wanted = chosen.what or ["size", "states"]
    out: dict[str, Any] = {}
    if "size" in wanted:
        out["size"] = {posterior: size(posterior) for posterior in ("window", "linear")}
        for posterior, found in out["size"].items():
            print(f"posterior {posterior}")
            for key, value in found.items():
                print(f"{key:40} {value if isinstance(value, str) else f'{value:,.2f}'}")
    if "states" in wanted:
        out["states"] = states(chosen.seeds, chosen.models, chosen.features)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
