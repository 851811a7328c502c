"""How well bouts match expert labels, trial by trial, beside what they have to beat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis import score_uncertainty
from gdm_core.analysis.baselines import NEIGHBOURS, lines
from gdm_core.analysis.bouts import BoutRule, median_bout
from gdm_core.analysis.looks import last, under_way
from gdm_core.analysis.metrics import balanced_accuracy, macro_f1, majority_map, neighbour_labels, persistence, r2
from gdm_core.models.loading import model_from_bytes
from gdm_core.trials import UNLABELLED, Trials, labels_of

MAX_BASELINE_SAMPLES = 30_000
MAX_KEPT = 8
_kept: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}  # baselines, by what they depend on; no data


def scores(
    model_bytes: bytes, train: Trials, test: Trials, smooth_s: float, shortest_s: float, seed: int = 0
) -> dict[str, Any]:
    """What is measured of a model, and under "lines" what needs no dynamics on the same trials: another way to read bouts
    changes none of these."""
    return last(score_parts(model_bytes, train, test, smooth_s, shortest_s, seed))


PARTS = ("bouts", "how well new trials are explained", "what has to be beaten")


def score_parts(
    model_bytes: bytes, train: Trials, test: Trials, smooth_s: float, shortest_s: float, seed: int = 0
) -> Iterator[dict[str, Any]]:
    """The same by and by: what is known so far, and in the end all of it."""
    found: dict[str, Any] = {}
    for number, found in enumerate(_parts(model_bytes, train, test, smooth_s, shortest_s, seed), start=1):
        yield found | under_way(PARTS, number)
    n_states = model_from_bytes(model_bytes).config.n_states
    key = (train.fingerprint, test.fingerprint, n_states, seed)
    to_beat = _kept.get(key)
    if to_beat is None:
        to_beat = _kept[key] = baselines(train, test, n_states, seed)
        while len(_kept) > MAX_KEPT:
            _kept.pop(next(iter(_kept)), None)
    yield found | {"lines": to_beat}


def measure(
    model_bytes: bytes, train: Trials, test: Trials, smooth_s: float, shortest_s: float, seed: int = 0
) -> dict[str, Any]:
    """Scores of all test trials together and of each, as plain values.

    States become labels by the most frequent label of each in the fitted trials. "raw" scores leave out the smoothing.
    """
    return last(_parts(model_bytes, train, test, smooth_s, shortest_s, seed))


def _parts(
    model_bytes: bytes, train: Trials, test: Trials, smooth_s: float, shortest_s: float, seed: int
) -> Iterator[dict[str, Any]]:
    """First what the states say, then how well trials are explained beside the sample before: each is gone through again."""
    model = model_from_bytes(model_bytes)
    rule = BoutRule(smooth_s, shortest_s)
    soft = [np.asarray(s, np.float32) for s in model.predict_proba(train)]
    soft_test = [np.asarray(s, np.float32) for s in model.predict_proba(test)]
    hard = [rule.labels(s, trial.rate_hz) for s, trial in zip(soft, train, strict=True)]
    hard_test = [rule.labels(s, trial.rate_hz) for s, trial in zip(soft_test, test, strict=True)]
    known, truth = labels_of(train), labels_of(test)
    expert = median_bout(truth)
    pieces = score_uncertainty.cut(test, expert)
    found: dict[str, Any] = {
        "train": [{"name": trial.name, "samples": trial.n_samples} for trial in train],
        "test": [{"name": trial.name, "samples": trial.n_samples} for trial in test],
        "bout_s": median_bout(hard_test) / test[0].rate_hz,
        "n_bouts": sum(int(np.count_nonzero(np.diff(z)) + 1) for z in hard_test),
        "raw_bout_s": median_bout([s.argmax(axis=1) for s in soft_test]) / test[0].rate_hz,
        "pieces": {"n": len(pieces.parts), "words": pieces.words, "in_steps": pieces.in_steps},
    }
    kinds = [_kinds(known), _kinds(truth)]
    if max(kinds) > 0:
        found["table"] = _tables(hard, known, hard_test, truth, soft[0].shape[1])
    if min(kinds) == 1:
        found["alone"] = "fitted" if kinds[0] == 1 else "new"
    elif min(kinds) > 1:
        found |= _against_labels(found["test"], pieces, soft, soft_test, hard, hard_test, known, truth, seed)
        found["expert_bout_s"] = expert / test[0].rate_hz
    yield found
    smooth = [[np.asarray(model.smooth(trial), np.float64) for trial in side] for side in (train, test)]
    sides = {
        name: [
            row | {"r2": _number(r2(trial.y, one)), "persistence": _number(r2(trial.y, persistence(trial.y)))}
            for row, trial, one in zip(found[name], side, ours, strict=True)
        ]
        for name, side, ours in zip(("train", "test"), (train, test), smooth, strict=True)
    }
    yield found | sides | {"r2": _explained(smooth[1], test, pieces)}


def named(
    model_bytes: bytes,
    train: Trials,
    test: Trials,
    smooth_s: float,
    shortest_s: float,
    into: tuple[int, ...],
    stands: tuple[int, ...],
) -> dict[str, Any]:
    """Scores of states as somebody named and merged them: what is judged is that, and not what the fitted trials say.

    into    [K] which of the merged states each of the model's goes to
    stands  of each merged state, the label that it is said to be; -1 for the most frequent one in the fitted trials
    """
    model = model_from_bytes(model_bytes)
    rule = BoutRule(smooth_s, shortest_s)
    merged = np.eye(len(stands), dtype=np.float32)[list(into)]
    hard, hard_test = (
        [
            rule.labels(np.asarray(s, np.float32) @ merged, trial.rate_hz)
            for s, trial in zip(model.predict_proba(side), side, strict=True)
        ]
        for side in (train, test)
    )
    known, truth = labels_of(train), labels_of(test)
    found: dict[str, Any] = {"table": _tables(hard, known, hard_test, truth, len(stands))}
    if _kinds(truth) < 2:
        return found
    fitted = majority_map(np.concatenate(hard), np.concatenate(known), len(stands)) if _kinds(known) else None
    mapping = np.array(
        [label if label >= 0 or fitted is None else fitted[k] for k, label in enumerate(stands)], np.int64
    )
    guess, seen = mapping[np.concatenate(hard_test)], np.concatenate(truth)
    return found | {
        "mapping": mapping.tolist(),
        "macro_f1": macro_f1(guess, seen),
        "balanced_accuracy": balanced_accuracy(guess, seen),
    }


def _tables(hard: Any, known: Any, hard_test: Any, truth: Any, n_states: int) -> dict[str, list[list[int]]]:
    """How many samples of each state [K] had each label [L], in the fitted and in the new trials."""
    size = 1 + max(int(np.max(z, initial=-1)) for z in (*known, *truth))
    found = {}
    for side, states, labels in (("fitted", hard, known), ("new", hard_test, truth)):
        z, label = np.concatenate(states), np.concatenate(labels)
        seen = label != UNLABELLED
        flat = np.bincount(z[seen] * size + label[seen], minlength=n_states * size)
        found[side] = flat.reshape(n_states, size).tolist()
    return found


def _explained(
    smooth: list[npt.NDArray[np.float64]], test: Trials, pieces: score_uncertainty.Pieces
) -> dict[str, float | None]:
    """R2 of all new trials together, that of the sample before, and how far the difference can be trusted."""
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
        "value": _number(1 - error.sum() / total.sum()),
        "persistence": _number(1 - line.sum() / total.sum()),
        "margin": score_uncertainty.ratio_margin(error, line, total),
    }


def _kinds(labels: list[npt.NDArray[np.int64]]) -> int:
    """How many behaviours are labelled. With one alone, whoever names it is right, and a score says nothing."""
    joined = np.concatenate(labels)
    return len(np.unique(joined[joined != UNLABELLED]))


def _against_labels(
    rows: list[dict[str, Any]],
    pieces: score_uncertainty.Pieces,
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
    near = _near(np.concatenate(soft), labels, soft_test, truth, seed)
    for row, z, nearest, expert in zip(rows, hard_test, near, truth, strict=True):
        if (expert != UNLABELLED).any():
            row |= _judged(mapping[z], nearest, expert, constant)
    guesses = [mapping[z] for z in hard_test]
    return {
        **_judged(named, np.concatenate(near), seen, constant),
        "mapping": mapping.tolist(),
        "raw_macro_f1": macro_f1(raw, seen),
        "shifted": {
            name: score_uncertainty.shifted(guesses, truth, name, seed) for name in ("macro_f1", "balanced_accuracy")
        }
        | {"paper_accuracy": score_uncertainty.shifted(near, truth, "accuracy", seed)},
        "counts": {
            "bouts": pieces.counts(guesses, truth).tolist(),
            "paper": pieces.counts(near, truth).tolist(),
        },
    }


def _judged(guess: Any, nearest: Any, truth: Any, constant: int) -> dict[str, float]:
    """Guessed labels [T], those of the nearest neighbours and one label for everything, each against the expert's."""
    known, always = truth != UNLABELLED, np.full(len(truth), constant)
    return {
        "paper_accuracy": float((nearest == truth)[known].mean()),
        "accuracy": float((guess == truth)[known].mean()),
        "majority": float((truth == constant)[known].mean()),
        "balanced_accuracy": balanced_accuracy(guess, truth),
        "majority_balanced": balanced_accuracy(always, truth),
        "macro_f1": macro_f1(guess, truth),
        "majority_f1": macro_f1(always, truth),
    }


def _near(states: Any, labels: Any, soft_test: list[Any], truth: list[Any], seed: int) -> list[npt.NDArray[np.int64]]:
    """The paper's reading of states, ten nearest neighbours, for the labelled samples of each test trial."""
    joined, seen = np.concatenate(soft_test), np.concatenate(truth)
    found = np.full(len(seen), UNLABELLED, np.int64)
    found[seen != UNLABELLED] = neighbour_labels(states, labels, joined, seen, seed)[0]
    return np.split(found, np.cumsum([len(z) for z in truth])[:-1])


def baselines(train: Trials, test: Trials, n_states: int, seed: int = 0) -> dict[str, dict[str, Any]]:
    """Scores of what needs no dynamics, on the same trials and piece by piece. Long sets are measured on their first trials."""
    if min(_kinds(labels_of(test)), _kinds(labels_of(train))) < 2:
        return {}
    pieces = score_uncertainty.cut(test, median_bout(labels_of(test)))
    train, test = _head(train), _head(test)
    known, truth = np.concatenate(labels_of(train)), labels_of(test)
    sizes = np.cumsum([len(z) for z in truth])[:-1]
    found: dict[str, dict[str, Any]] = {}

    def take(line: str, bouts: npt.NDArray[Any], paper: npt.NDArray[Any]) -> None:
        counts = {
            kind: pieces.counts(np.split(guess, sizes), truth) for kind, guess in (("bouts", bouts), ("paper", paper))
        }
        found[line] = {
            "macro_f1": score_uncertainty.score(counts["bouts"], "macro_f1"),
            "balanced_accuracy": score_uncertainty.score(counts["bouts"], "balanced_accuracy"),
            "paper_accuracy": score_uncertainty.score(counts["paper"], "accuracy"),
            "counts": {kind: part.tolist() for kind, part in counts.items()},
        }

    constant = np.full(sum(len(z) for z in truth), majority_map(np.zeros(len(known), np.int64), known, 1)[0])
    take("majority class", constant, constant)
    for method, on, rows, rows_test in lines(train, test, n_states, seed):
        near = np.concatenate(_near(rows, known, np.split(rows_test, sizes), truth, seed))
        guess = near
        if method != NEIGHBOURS:
            guess = majority_map(rows.argmax(axis=1), known, n_states)[rows_test.argmax(axis=1)]
        take(f"{method} on {on}", guess, near)
    return found


def _head(trials: Trials) -> Trials:
    kept, left = [], MAX_BASELINE_SAMPLES
    for trial in trials:
        if left < 2:
            break
        kept.append(trial if trial.n_samples <= left else trial.slice(0, left))
        left -= trial.n_samples
    return replace(trials, trials=tuple(kept))


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
