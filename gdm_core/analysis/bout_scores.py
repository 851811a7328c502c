"""Agreement of bouts with expert labels, per trial, with baselines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis import score_uncertainty
from gdm_core.analysis.baselines import NEIGHBOURS, fit_baselines
from gdm_core.analysis.bouts import BoutRule, find_bouts, median_bout
from gdm_core.analysis.inference import next_part
from gdm_core.analysis.predictions import persistence, r2
from gdm_core.analysis.state_scores import label_scores, macro_f1, majority_map, neighbour_labels
from gdm_core.models.loading import model_from_bytes
from gdm_core.text import for_json
from gdm_core.trials import UNLABELLED, Trials, labels_of

if TYPE_CHECKING:
    from gdm_core.models.base import StateModel

IntArray = npt.NDArray[np.int64]

MAX_CACHED = 8
_cached: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}  # baselines by data, number of states and seed


def scores(
    model_bytes: bytes, train: Trials, test: Trials, smooth_s: float, shortest_s: float, seed: int = 0
) -> dict[str, Any]:
    """Return scores of all test trials and of each, and of baselines under "lines", as plain values.

    Each state predicts its most frequent label in the training trials. "raw" scores are without smoothing.
    """
    *_, found = score_parts(model_bytes, train, test, smooth_s, shortest_s, seed)
    return found


PARTS = ("bouts", "variance explained", "baselines")


def score_parts(
    model_bytes: bytes, train: Trials, test: Trials, smooth_s: float, shortest_s: float, seed: int = 0
) -> Iterator[dict[str, Any]]:
    """Yield scores of states, then add the variance explained, then baselines."""
    model = model_from_bytes(model_bytes)
    rule = BoutRule(smooth_s, shortest_s)
    ours, theirs = (_Side.from_model(model, side, rule) for side in (train, test))
    expert = median_bout(theirs.labels)
    pieces = score_uncertainty.split_pieces(test, expert)
    found: dict[str, Any] = {
        "train": [{"name": trial.name, "samples": trial.n_samples} for trial in train],
        "test": [{"name": trial.name, "samples": trial.n_samples} for trial in test],
        "bout_s": median_bout(theirs.bouts) / test[0].rate_hz,
        "n_bouts": sum(len(find_bouts(z)) for z in theirs.bouts),
        "raw_bout_s": median_bout([s.argmax(axis=1) for s in theirs.soft]) / test[0].rate_hz,
        "pieces": {"words": pieces.words, "in_steps": pieces.in_steps},
    }
    kinds = [_count_behaviours(side.labels) for side in (ours, theirs)]
    if max(kinds) > 0:
        found["table"] = _count_labels(ours, theirs)
    if min(kinds) == 1:
        found["alone"] = "fitted" if kinds[0] == 1 else "new"
    elif min(kinds) > 1:
        found |= _score_labels(found["test"], pieces, ours, theirs, seed)
        found["expert_bout_s"] = expert / test[0].rate_hz
    yield found | next_part(PARTS, 1)
    for name, side in (("train", train), ("test", test)):
        smooth = [np.asarray(model.smooth(trial), np.float64) for trial in side]
        rows = zip(found[name], side, smooth, strict=True)
        found[name] = [
            row | for_json({"r2": r2(trial.y, one), "persistence": r2(trial.y, persistence(trial.y))})
            for row, trial, one in rows
        ]
    found["r2"] = _variance_explained(smooth, test, pieces)
    yield found | next_part(PARTS, 2)
    key = (train.fingerprint, test.fingerprint, model.config.n_states, seed)
    if key not in _cached:
        _cached[key] = baselines(train, test, model.config.n_states, seed)
        while len(_cached) > MAX_CACHED:
            _cached.pop(next(iter(_cached)), None)
    yield found | {"lines": _cached[key]}


@dataclass(frozen=True, eq=False)
class _Side:
    """Soft states, bouts and labels of each training or test trial."""

    soft: list[npt.NDArray[np.float32]]
    bouts: list[IntArray]
    labels: list[IntArray]

    @classmethod
    def from_model(cls, model: StateModel, trials: Trials, rule: BoutRule) -> _Side:
        soft = [np.asarray(s, np.float32) for s in model.predict_proba(trials)]
        bouts = [rule.labels(s, trial.rate_hz) for s, trial in zip(soft, trials, strict=True)]
        return cls(soft, bouts, labels_of(trials))

    @property
    def strongest(self) -> IntArray:
        return np.concatenate(self.soft).argmax(axis=1)


def _count_labels(ours: _Side, theirs: _Side) -> dict[str, list[list[int]]]:
    """Count the samples of each state and label [K, L], in training and held-out trials."""
    size = 1 + max(int(np.max(z, initial=-1)) for z in (*ours.labels, *theirs.labels))
    n_states = ours.soft[0].shape[1]
    found = {}
    for name, side in (("fitted", ours), ("new", theirs)):
        z, label = np.concatenate(side.bouts), np.concatenate(side.labels)
        seen = label != UNLABELLED
        flat = np.bincount(z[seen] * size + label[seen], minlength=n_states * size)
        found[name] = flat.reshape(n_states, size).tolist()
    return found


def _variance_explained(
    smooth: list[npt.NDArray[np.float64]], test: Trials, pieces: score_uncertainty.Pieces
) -> dict[str, float | None]:
    """Return R² over all held-out trials, R² of persistence, and the margin of their difference."""
    sums = []
    before = [persistence(trial.y) for trial in test]
    means = [np.nanmean(trial.y, axis=0, dtype=np.float64) for trial in test]
    for i, start, stop in pieces.parts:
        y = np.asarray(test[i].y[start:stop], np.float64)
        off = [np.square(y - part) for part in (smooth[i][start:stop], before[i][start:stop], means[i])]
        known = np.isfinite(off).all(axis=0)
        sums.append([float(part[known].sum()) for part in off])
    error, line, total = np.array(sums).T
    if total.sum() <= 0:
        return {"value": None, "persistence": None, "margin": None}
    return {
        "value": float(1 - error.sum() / total.sum()),
        "persistence": float(1 - line.sum() / total.sum()),
        "margin": score_uncertainty.r2_margin(error, line, total),
    }


def _count_behaviours(labels: list[npt.NDArray[np.int64]]) -> int:
    """Count the labelled behaviours; scores need at least two."""
    joined = np.concatenate(labels)
    return len(np.unique(joined[joined != UNLABELLED]))


def _score_labels(
    rows: list[dict[str, Any]], pieces: score_uncertainty.Pieces, ours: _Side, theirs: _Side, seed: int
) -> dict[str, Any]:
    """Score bouts against the expert's labels, in all test trials and in each of `rows`."""
    labels, truth = np.concatenate(ours.labels), theirs.labels
    states = np.concatenate(ours.soft)
    mapping = majority_map(np.concatenate(ours.bouts), labels, states.shape[1])
    raw = majority_map(ours.strongest, labels, states.shape[1])[theirs.strongest]
    constant = majority_map(np.zeros(len(labels), np.int64), labels, 1)[0]
    guesses = [mapping[z] for z in theirs.bouts]
    near = _neighbour_labels(states, labels, theirs.soft, truth, seed)
    for row, guess, nearest, expert in zip(rows, guesses, near, truth, strict=True):
        if (expert != UNLABELLED).any():
            row |= _score_guess(guess, nearest, expert, constant)
    seen = np.concatenate(truth)
    return {
        **_score_guess(np.concatenate(guesses), np.concatenate(near), seen, constant),
        "mapping": mapping.tolist(),
        "raw_macro_f1": macro_f1(raw, seen),
        "shifted": score_uncertainty.chance_scores(guesses, truth, ("macro_f1", "balanced_accuracy"), seed)
        | {"paper_accuracy": score_uncertainty.chance_scores(near, truth, ("accuracy",), seed)["accuracy"]},
        "counts": _count_pieces(pieces, guesses, near, truth),
    }


def _score_guess(guess: Any, nearest: Any, truth: Any, constant: int) -> dict[str, float]:
    """Score predicted labels [T], nearest neighbours and a constant label against the expert's."""
    always = label_scores(np.full(len(truth), constant), truth)
    return label_scores(guess, truth) | {
        "paper_accuracy": label_scores(nearest, truth)["accuracy"],
        "majority": always["accuracy"],
        "majority_balanced": always["balanced_accuracy"],
        "majority_f1": always["macro_f1"],
    }


def _count_pieces(pieces: score_uncertainty.Pieces, guesses: Any, near: Any, truth: Any) -> dict[str, Any]:
    return {kind: pieces.counts(labels, truth).tolist() for kind, labels in (("bouts", guesses), ("paper", near))}


def _neighbour_labels(
    states: Any, labels: Any, soft_test: list[Any], truth: list[Any], seed: int
) -> list[npt.NDArray[np.int64]]:
    """Predict test labels by ten nearest neighbours of soft states, as in the paper."""
    joined, seen = np.concatenate(soft_test), np.concatenate(truth)
    found = np.full(len(seen), UNLABELLED, np.int64)
    found[seen != UNLABELLED] = neighbour_labels(states, labels, joined, seen, seed)[0]
    return np.split(found, np.cumsum([len(z) for z in truth])[:-1])


def baselines(train: Trials, test: Trials, n_states: int, seed: int = 0) -> dict[str, dict[str, Any]]:
    """Return scores of baselines on the same pieces."""
    if min(_count_behaviours(labels_of(test)), _count_behaviours(labels_of(train))) < 2:
        return {}
    pieces = score_uncertainty.split_pieces(test, median_bout(labels_of(test)))
    known, truth = np.concatenate(labels_of(train)), labels_of(test)
    sizes = np.cumsum([len(z) for z in truth])[:-1]
    found: dict[str, dict[str, Any]] = {}

    def take(line: str, bouts: npt.NDArray[Any], paper: npt.NDArray[Any]) -> None:
        counts = _count_pieces(pieces, np.split(bouts, sizes), np.split(paper, sizes), truth)
        found[line] = {
            "macro_f1": score_uncertainty.score(counts["bouts"], "macro_f1"),
            "balanced_accuracy": score_uncertainty.score(counts["bouts"], "balanced_accuracy"),
            "paper_accuracy": score_uncertainty.score(counts["paper"], "accuracy"),
            "counts": counts,
        }

    constant = np.full(sum(len(z) for z in truth), majority_map(np.zeros(len(known), np.int64), known, 1)[0])
    take("majority class", constant, constant)
    for method, on, rows, rows_test in fit_baselines(train, test, n_states, seed):
        near = np.concatenate(_neighbour_labels(rows, known, np.split(rows_test, sizes), truth, seed))
        guess = near
        if method != NEIGHBOURS:
            guess = majority_map(rows.argmax(axis=1), known, n_states)[rows_test.argmax(axis=1)]
        take(f"{method} on {on}", guess, near)
    return found
