"""What a few marked moments teach. `python -m benchmarks.teach [words] [proposals] [speed] [--draws N] [--json FILE]`.

words      first 60 % of each real recording may be marked (clips of 2 s at random, or all of it), the last 40 % is scored by
           macro-F1 above the majority class; simulated mice: 8 trials and 4. Beside the taught GDM: forests, gradient
           boosting, both with a sticky chain on top, and the GDM that saw no labels
proposals  5 clips at random, then 3 times 5 that the library proposes, or at random, or the least confident ones
speed      processor seconds on one thread: a new mark on 10,000 and 30,000 frames, and 507,738 frames with 1 % labelled

Nothing was chosen on the scored parts: see docs/teach.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.recordings import pairs
from datasets import mice
from gdm_core import GDM, Trials
from gdm_core.analysis.agreement import reliability
from gdm_core.analysis.bouts import median_bout
from gdm_core.analysis.metrics import macro_f1, majority_map
from gdm_core.analysis.proposals import Clip, propose
from gdm_core.maths import hmm
from gdm_core.models.gdm.window_features import window_features, window_lengths

CLIP = 60
STAY = 0.98
Marks = list[npt.NDArray[np.int64]]
Proba = list[npt.NDArray[Any]]


@dataclass(frozen=True)
class Case:
    name: str
    train: Trials
    test: Trials

    @property
    def truth(self) -> npt.NDArray[np.int64]:
        return np.concatenate([np.asarray(trial.labels) for trial in self.test])

    @property
    def majority(self) -> float:
        known = np.concatenate([np.asarray(trial.labels) for trial in self.train])
        return macro_f1(np.full(len(self.truth), np.bincount(known[known >= 0]).argmax()), self.truth)


def cases() -> Iterator[Case]:
    for name, ours, theirs in pairs():
        yield Case(name, ours.to_trials("egocentric"), theirs.to_trials("egocentric"))
    kept_aside = mice.simulate_recordings(12, 2000, seed=7)  # looked at by nothing else
    tables = kept_aside.to_trials("egocentric").trials
    names = kept_aside.tables[0].label_names
    yield Case("simulated, aside", Trials(tables[:8], "train", names), Trials(tables[8:], "test", names))


def draw(case: Case, n_clips: int | None, seed: int) -> Marks:
    """Labels of clips at random; of at least two words. A word that a clip shows for one frame alone is nobody's mark."""
    labels = [np.asarray(trial.labels) for trial in case.train]
    if n_clips is None:
        return [part.copy() for part in labels]
    rng = np.random.default_rng(seed)
    room = np.array([len(part) - CLIP for part in labels], float)
    while True:
        marks = [np.full(len(part), -1) for part in labels]
        taken = [np.zeros(len(part), bool) for part in labels]
        left = n_clips
        while left:
            i = int(rng.choice(len(room), p=room / room.sum()))
            at = int(rng.integers(int(room[i])))
            if not taken[i][at : at + CLIP].any():
                taken[i][at : at + CLIP] = True
                marks[i][at : at + CLIP] = labels[i][at : at + CLIP]
                left -= 1
        if len(set(np.concatenate(without_single_frames(marks)).tolist()) - {-1}) >= 2:
            return without_single_frames(marks)


def without_single_frames(marks: Marks) -> Marks:
    words, count = np.unique(np.concatenate(marks), return_counts=True)
    return [np.where(np.isin(part, words[count == 1]), -1, part) for part in marks]


# ---- who names the moments ----------------------------------------------------------------------------------------
def gdm(case: Case, marks: Marks, seed: int) -> Proba:
    return list(taught(case, marks, seed).predict_label_proba(case.test))


def taught(case: Case, marks: Marks, seed: int) -> GDM:
    return GDM(n_states=8, n_latent=6, posterior="linear", seed=seed).fit(case.train, labels=marks)


def gdm_parts(case: Case, marks: Marks, seed: int) -> dict[str, Proba]:
    """The taught GDM; its states through their map to words; and the classifier with its chain, without the GDM."""
    model = taught(case, marks, seed)
    standard = [model.scaler_.apply(trial.y) for trial in case.test] if model.scaler_ else []
    evidence = model.word_model_
    assert evidence is not None
    return {
        "GDM, taught": list(model.predict_label_proba(case.test)),
        "  its states' words alone": [states @ model.word_map_ for states in model.predict_proba(case.test)],
        "  its classifier and chain alone": [evidence.probabilities(y) for y in standard],
    }


def classifier(make: Callable[[int], Any], running: bool) -> Callable[[Case, Marks, int], dict[str, Proba]]:
    """A classifier of standardised features, of single frames or with running means; and with the chain on top."""

    def name_moments(case: Case, marks: Marks, seed: int) -> dict[str, Proba]:
        seen = np.concatenate([trial.y for trial in case.train])
        center, scale = np.nanmean(seen, axis=0), np.nanstd(seen, axis=0)
        windows = window_lengths(30.0) if running else ()
        x = [[window_features((t.y - center) / scale, windows) for t in part] for part in (case.train, case.test)]
        known = np.concatenate(marks)
        fitted = make(seed).fit(np.concatenate(x[0])[known >= 0], known[known >= 0])
        plain, chained = [], []
        for rows in x[1]:
            p = np.full((len(rows), int(max(case.truth.max(), known.max())) + 1), 1e-9)
            p[:, fitted.classes_] = fitted.predict_proba(rows)
            plain.append(p)
            chained.append(through_chain(p))
        return {"": plain, ", chain": chained}

    return name_moments


def through_chain(p: npt.NDArray[Any]) -> npt.NDArray[Any]:
    n = p.shape[1]
    transition = np.where(np.eye(n, dtype=bool), np.log(STAY), np.log((1 - STAY) / (n - 1)))
    starts = np.arange(len(p)) == 0
    return hmm.posterior(np.log(np.maximum(p, 1e-3)), np.full(n, -np.log(n)), transition, starts).states


def forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(200, class_weight="balanced", min_samples_leaf=3, random_state=seed)


def boosting(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=8, min_samples_leaf=10, class_weight="balanced", random_state=seed
    )


RIVALS = {
    "forest, running means": classifier(forest, True),
    "forest": classifier(forest, False),
    "boosting, running means": classifier(boosting, True),
}


def score(case: Case, proba: Proba) -> dict[str, float]:
    joined = np.concatenate(proba)
    labels = [p.argmax(axis=1) for p in proba]
    return {
        "above_majority": macro_f1(joined.argmax(axis=1), case.truth) - case.majority,
        "calibration_error": reliability(joined, case.truth).error,
        "median_bout": median_bout(labels),
    }


def unsupervised(case: Case, seed: int) -> dict[str, float]:
    """States found without labels, each named by its commonest label of the whole first part."""
    known = np.concatenate([np.asarray(trial.labels) for trial in case.train])
    model = GDM(n_states=8, n_latent=6, posterior="linear", seed=seed).fit(case.train)
    named = majority_map(np.concatenate(model.predict(case.train)), known, 8)
    labels = [named[z] for z in model.predict(case.test)]
    above = macro_f1(np.concatenate(labels), case.truth) - case.majority
    return {"above_majority": above, "calibration_error": float("nan"), "median_bout": median_bout(labels)}


# ---- what is measured ---------------------------------------------------------------------------------------------
def words(draws: int, rivals: bool, ours: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for case in cases():
        expert = median_bout([np.asarray(trial.labels) for trial in case.test])
        print(
            f"\n{case.name}: majority class {case.majority:.3f}, expert's median bout {expert:.0f} frames", flush=True
        )
        for n_clips in (10, 20, None):
            found: dict[str, list[dict[str, float]]] = {}
            for seed in range(draws if n_clips else 1):
                marks = draw(case, n_clips, 1000 + seed)
                answers: dict[str, Proba] = gdm_parts(case, marks, seed) if ours else {}
                for name, rival in RIVALS.items() if rivals else ():
                    answers |= {name + end: proba for end, proba in rival(case, marks, seed).items()}
                for name, proba in answers.items():
                    found.setdefault(name, []).append(score(case, proba))
                if ours and n_clips is None:
                    found["GDM without labels"] = [unsupervised(case, s) for s in range(draws)]
            for name, scores in found.items():
                row = {key: float(np.mean([s[key] for s in scores])) for key in scores[0]}
                spread = float(np.std([s["above_majority"] for s in scores]))
                print(
                    f"{n_clips or 'all'!s:>4} {name:34}{row['above_majority']:+.3f} ± {spread:.3f}"
                    f"  calibration error {row['calibration_error']:.3f}  median bout {row['median_bout']:.0f}",
                    flush=True,
                )
                rows.append({"data": case.name, "clips": n_clips or "all", "who": name, "expert_bout": expert} | row)
    return rows


def proposals(draws: int) -> list[dict[str, Any]]:
    """20 clips: 5 at random, then 3 times 5 by each rule, on the same first 5."""
    rows = []
    for case in cases():
        found: dict[str, list[float]] = {}
        for seed in range(draws):
            for rule in ("proposed", "least confident", "at random"):
                marks, rng = draw(case, 5, 2000 + seed), np.random.default_rng(seed)
                for _ in range(3):
                    for clip in _chosen(rule, case, marks, seed, rng):
                        labels = np.asarray(case.train[clip.trial].labels)
                        marks[clip.trial][clip.start : clip.stop] = labels[clip.start : clip.stop]
                    marks = without_single_frames(marks)
                found.setdefault(rule, []).append(score(case, gdm(case, marks, seed))["above_majority"])
        print(f"{case.name}: " + ", ".join(f"{rule} {np.mean(v):+.3f}" for rule, v in found.items()), flush=True)
        rows += [{"data": case.name, "rule": rule, "above_majority": float(np.mean(v))} for rule, v in found.items()]
    return rows


def _chosen(rule: str, case: Case, marks: Marks, seed: int, rng: np.random.Generator) -> list[Clip]:
    if rule == "proposed":
        return list(propose(taught(case, marks, seed), case.train, marks, n=5))
    free = [
        Clip(i, at, at + CLIP)
        for i, part in enumerate(marks)
        for at in range(0, len(part) - CLIP + 1, CLIP)
        if (part[at : at + CLIP] < 0).all()
    ]
    if rule == "at random":
        return [free[i] for i in rng.choice(len(free), 5, replace=False)]
    proba = taught(case, marks, seed).predict_label_proba(case.train)
    sure = [proba[clip.trial][clip.start : clip.stop].max(axis=1).mean() for clip in free]
    return [free[i] for i in np.argsort(sure, kind="stable")[:5]]


def speed() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for n_frames in (10_000, 30_000):
        trials = mice.simulate(n_frames // 2000, 2000, seed=3, features="egocentric")
        case = Case("speed", trials, trials)
        model = taught(case, draw(case, 20, 0), 0)
        began = time.process_time()
        steps = model.warm_start().fit_iter(trials, labels=draw(case, 21, 0))
        for _ in steps:
            reached = time.process_time()
        found[f"new mark, {n_frames:,} frames, s"] = reached - began
    trials = mice.training_set_sized(0)
    rng = np.random.default_rng(0)
    marks = [np.asarray(trial.labels).copy() for trial in trials]
    for part in marks:  # a stretch of 1 % of each trial
        at = int(rng.integers(len(part) - len(part) // 100))
        part[:at] = -1
        part[at + len(part) // 100 :] = -1
    for posterior in ("linear", "window"):
        spent: list[list[float]] = []
        for labels in (None, without_single_frames(marks)):
            began = time.process_time()
            build = GDM(n_states=5, n_latent=3, posterior=posterior)  # type: ignore[arg-type]
            for _ in build.fit_iter(trials, labels=labels):
                reached = time.process_time()
            spent.append([reached - began, time.process_time() - began])
        for what, seconds in zip(("last step", "scored and calibrated"), zip(*spent, strict=True), strict=True):
            found[f"507,738 frames, {posterior}, {what}: without, with 1 % labelled, s"] = list(seconds)
    for name, value in found.items():
        print(name, np.round(value, 2), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=["words", "proposals", "speed", []], help="all when none is given")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--only", choices=["gdm", "rivals"], help="of words, one half alone")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    wanted = chosen.what or ["words", "proposals", "speed"]
    out: dict[str, Any] = {}
    if "words" in wanted:
        out["words"] = words(chosen.draws, chosen.only != "gdm", chosen.only != "rivals")
    if "proposals" in wanted:
        out["proposals"] = proposals(chosen.draws)
    if "speed" in wanted:
        out["speed"] = speed()
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
