"""How well bouts match expert labels, trial by trial, beside what they have to beat."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.bouts import BoutRule, median_bout
from gdm_core.analysis.metrics import balanced_accuracy, macro_f1, majority_map, persistence, r2, state_baselines
from gdm_core.models.base import StateModel
from gdm_core.models.loading import model_from_bytes
from gdm_core.trials import UNLABELLED, Trial, Trials

MAX_NEIGHBOURS = 20_000
MAX_BASELINE_SAMPLES = 30_000


def measure(
    model_bytes: bytes, train: Trials, test: Trials, smooth_s: float, shortest_s: float, seed: int = 0
) -> dict[str, Any]:
    """Scores of all test trials together and of each, as plain values.

    States become labels by the most frequent label of each in the fitted trials. "raw" scores leave out the smoothing.
    """
    model = model_from_bytes(model_bytes)
    rule = BoutRule(smooth_s, shortest_s)
    soft = [np.asarray(s, np.float32) for s in model.predict_proba(train)]
    soft_test = [np.asarray(s, np.float32) for s in model.predict_proba(test)]
    hard = [rule.labels(s, trial.rate_hz) for s, trial in zip(soft, train, strict=True)]
    hard_test = [rule.labels(s, trial.rate_hz) for s, trial in zip(soft_test, test, strict=True)]
    found: dict[str, Any] = {
        "train": [_fit_of(model, trial) for trial in train],
        "test": [_fit_of(model, trial) for trial in test],
        "bout_s": median_bout(hard_test) / test[0].rate_hz,
        "raw_bout_s": median_bout([s.argmax(axis=1) for s in soft_test]) / test[0].rate_hz,
    }
    known, truth = labels_of(train), labels_of(test)
    kinds = [_kinds(known), _kinds(truth)]
    if min(kinds) == 1:
        found["alone"] = "fitted" if kinds[0] == 1 else "new"
    elif min(kinds) > 1:
        found |= _against_labels(found["test"], soft, soft_test, hard, hard_test, known, truth, seed)
        found["expert_bout_s"] = median_bout(truth) / test[0].rate_hz
    return found


def _kinds(labels: list[npt.NDArray[np.int64]]) -> int:
    """How many behaviours are labelled. With one alone, whoever names it is right, and a score says nothing."""
    joined = np.concatenate(labels)
    return len(np.unique(joined[joined != UNLABELLED]))


def _fit_of(model: StateModel, trial: Trial) -> dict[str, Any]:
    """How well one trial is explained, beside the sample before."""
    return {
        "name": trial.name,
        "samples": trial.n_samples,
        "r2": _number(r2(trial.y, model.smooth(trial))),
        "persistence": _number(r2(trial.y, persistence(trial.y))),
    }


def _against_labels(
    rows: list[dict[str, Any]],
    soft: list[Any],
    soft_test: list[Any],
    hard: list[Any],
    hard_test: list[Any],
    known: list[Any],
    truth: list[Any],
    seed: int,
) -> dict[str, Any]:
    n_states = soft[0].shape[1]
    labels, seen = np.concatenate(known), np.concatenate(truth)
    mapping = majority_map(np.concatenate(hard), labels, n_states)
    raw_mapping = majority_map(np.concatenate(soft).argmax(axis=1), labels, n_states)
    named, raw = mapping[np.concatenate(hard_test)], raw_mapping[np.concatenate(soft_test).argmax(axis=1)]
    constant = majority_map(np.zeros(len(labels), np.int64), labels, 1)[0]
    neighbours = _neighbours(np.concatenate(soft), labels, seed)
    for row, states, z, expert in zip(rows, soft_test, hard_test, truth, strict=True):
        here = expert != UNLABELLED
        if not here.any():
            continue
        row["paper_accuracy"] = float((neighbours.predict(states[here]) == expert[here]).mean())
        row["majority"] = float((expert[here] == constant).mean())
        row["accuracy"] = float((mapping[z][here] == expert[here]).mean())
        row["balanced_accuracy"] = balanced_accuracy(mapping[z], expert)
        row["majority_balanced"] = balanced_accuracy(np.full(len(expert), constant), expert)
        row["macro_f1"] = macro_f1(mapping[z], expert)
        row["majority_f1"] = macro_f1(np.full(len(expert), constant), expert)
    everything = np.concatenate(soft_test)[seen != UNLABELLED]
    return {
        "mapping": mapping.tolist(),
        "macro_f1": macro_f1(named, seen),
        "raw_macro_f1": macro_f1(raw, seen),
        "majority_f1": macro_f1(np.full(len(seen), constant), seen),
        "balanced_accuracy": balanced_accuracy(named, seen),
        "majority_balanced": balanced_accuracy(np.full(len(seen), constant), seen),
        "accuracy": float((named == seen)[seen != UNLABELLED].mean()),
        "majority": float((seen == constant)[seen != UNLABELLED].mean()),
        "paper_accuracy": float((neighbours.predict(everything) == seen[seen != UNLABELLED]).mean()),
    }


def _neighbours(states: npt.NDArray[Any], labels: npt.NDArray[Any], seed: int) -> Any:
    """The paper's reading of states: ten nearest neighbours, of at most 20,000 labelled samples."""
    from sklearn.neighbors import KNeighborsClassifier

    rows = np.flatnonzero(labels != UNLABELLED)
    if len(rows) > MAX_NEIGHBOURS:
        rows = np.random.default_rng(seed).choice(rows, MAX_NEIGHBOURS, replace=False)
    return KNeighborsClassifier(min(10, len(rows))).fit(states[rows], labels[rows])


def baselines(train: Trials, test: Trials, n_states: int, seed: int = 0) -> dict[str, dict[str, float | None]]:
    """Scores of what needs no dynamics, on the same trials. Long sets are measured on their first trials."""
    if min(_kinds(labels_of(test)), _kinds(labels_of(train))) < 2:
        return {}
    lines = state_baselines(_head(train), _head(test), n_states, seed)
    names = ("macro_f1", "balanced_accuracy", "paper_accuracy")
    return {line: {name: getattr(scores, name) for name in names} for line, scores in lines.items()}


def _head(trials: Trials) -> Trials:
    kept, left = [], MAX_BASELINE_SAMPLES
    for trial in trials:
        if left < 2:
            break
        kept.append(trial if trial.n_samples <= left else trial.slice(0, left))
        left -= trial.n_samples
    return replace(trials, trials=tuple(kept))


def labels_of(trials: Trials) -> list[npt.NDArray[np.int64]]:
    return [
        np.full(t.n_samples, UNLABELLED, np.int64) if t.labels is None else np.asarray(t.labels, np.int64)
        for t in trials
    ]


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
