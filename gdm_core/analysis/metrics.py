"""Honest scores: how well states match labels, how well a model reconstructs and predicts, and what it has to beat.

The functions here are pure and usable alone; `evaluate` runs all of them on one fitted model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gdm_core.adaptation import adapted
from gdm_core.analysis import baselines
from gdm_core.analysis.scores import MAX_NEIGHBOUR_SAMPLES, MAX_ORIGINS, PredictionScores, Scores, StateScores, notes_on
from gdm_core.errors import DataError, FitError
from gdm_core.forecast import coverage, outcomes, width
from gdm_core.maths.gaps import carried_forward
from gdm_core.trials import UNLABELLED, Trials, TrialsLike, as_trials, labels_of

if TYPE_CHECKING:
    from gdm_core.models.base import StateModel

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

NEIGHBOURS = 10  # of the paper's metric
HORIZON = 10
N_PATHS = 100


# ---- states against labels ----------------------------------------------------------------------------------------
def match_states(states: npt.ArrayLike, labels: npt.ArrayLike, n_states: int | None = None) -> IntArray:
    """[n_states] the label of each state under the one-to-one matching that agrees most; -1 for a state left over."""
    from scipy.optimize import linear_sum_assignment

    counts, classes = _contingency(states, labels, n_states)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    mapping = np.full(len(counts), UNLABELLED, dtype=np.int64)
    mapping[rows] = classes[columns]
    return mapping


def majority_map(states: npt.ArrayLike, labels: npt.ArrayLike, n_states: int | None = None) -> IntArray:
    """[n_states] the most frequent label of each state; a state never seen takes the most frequent label of all."""
    counts, classes = _contingency(states, labels, n_states)
    overall = classes[counts.sum(axis=0).argmax()]
    return np.where(counts.sum(axis=1) > 0, classes[counts.argmax(axis=1)], overall).astype(np.int64)


def mapped_accuracy(mapping: IntArray, states: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Share of labelled samples whose state maps to their label."""
    z, known = _labelled(states, labels)
    return float((mapping[z] == known).mean())


def matched_accuracy(states: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Accuracy after the one-to-one matching of states to labels that agrees most on these very samples."""
    return mapped_accuracy(match_states(states, labels), states, labels)


def paper_accuracy(
    train_states: npt.ArrayLike,
    train_labels: npt.ArrayLike,
    test_states: npt.ArrayLike,
    test_labels: npt.ArrayLike,
    seed: int = 0,
) -> float:
    """The paper's Inferred State Accuracy: 10 nearest neighbours from state vectors to labels, learned on train.

    One-hot vectors tie by the thousand and the neighbours are then an arbitrary ten: compare `majority_map`.
    With more than 20,000 training samples a random 20,000 of them (fixed by `seed`) are the neighbours.
    """
    predicted, truth = neighbour_labels(train_states, train_labels, test_states, test_labels, seed)
    return float((predicted == truth).mean())


def balanced_accuracy(predicted: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Mean recall over the labels that occur."""
    guess, known = _labelled(predicted, labels)
    return float(np.mean([(guess[known == label] == label).mean() for label in np.unique(known)]))


def macro_f1(predicted: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Mean F1 over the labels that occur."""
    guess, known = _labelled(predicted, labels)
    scores = []
    for label in np.unique(known):
        hit = np.sum((guess == label) & (known == label))
        scores.append(2 * hit / (np.sum(guess == label) + np.sum(known == label)))
    return float(np.mean(scores))


def _labelled(values: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[Any, IntArray]:
    """The samples that have a label."""
    z, known = np.asarray(values), np.asarray(labels, dtype=np.int64)
    if known.ndim != 1 or len(z) != len(known):
        raise DataError(f"There are {len(z)} states for labels of shape {known.shape}; expected one label a sample.")
    keep = known != UNLABELLED
    if not keep.any():
        raise DataError("No sample has a label (all are -1); state scores need labels.")
    return z[keep], known[keep]


def _contingency(states: npt.ArrayLike, labels: npt.ArrayLike, n_states: int | None) -> tuple[IntArray, IntArray]:
    """(counts [states, classes], classes)."""
    z, known = _labelled(states, labels)
    if z.ndim != 1 or not np.issubdtype(z.dtype, np.integer) or z.min() < 0:
        raise DataError(
            "States must be one whole number of at least 0 for each sample; take the argmax of soft states."
        )
    size = int(z.max()) + 1 if n_states is None else n_states
    if z.max() >= size:
        raise DataError(f"State {int(z.max())} occurs but n_states is {size}.")
    classes, code = np.unique(known, return_inverse=True)
    counts = np.zeros((size, len(classes)), dtype=np.int64)
    np.add.at(counts, (z, code), 1)
    return counts, classes.astype(np.int64)


def neighbour_labels(
    train: npt.ArrayLike, train_labels: npt.ArrayLike, test: npt.ArrayLike, test_labels: npt.ArrayLike, seed: int
) -> tuple[IntArray, IntArray]:
    """(predicted, true) labels of the labelled test samples."""
    from sklearn.neighbors import KNeighborsClassifier

    (x, known), (x_test, truth) = _labelled(train, train_labels), _labelled(test, test_labels)
    if x.ndim != 2 or x_test.ndim != 2 or x.shape[1] != x_test.shape[1]:
        raise DataError(
            f"State vectors have shapes {x.shape} and {x_test.shape}; expected [time, states] with equal states."
        )
    if len(x) > MAX_NEIGHBOUR_SAMPLES:
        chosen = np.random.default_rng(seed).choice(len(x), MAX_NEIGHBOUR_SAMPLES, replace=False)
        x, known = x[chosen], known[chosen]
    classifier = KNeighborsClassifier(min(NEIGHBOURS, len(x))).fit(x, known)
    # Equal vectors get equal answers: asking once each is the whole cost of one-hot states.
    if np.isin(x_test, (0, 1)).all():
        distinct, where = np.unique(x_test, axis=0, return_inverse=True)
        return classifier.predict(distinct)[where.ravel()], truth
    return classifier.predict(x_test), truth


def state_scores(
    train_states: npt.ArrayLike,
    train_labels: npt.ArrayLike,
    test_states: npt.ArrayLike,
    test_labels: npt.ArrayLike,
    seed: int = 0,
) -> StateScores:
    """Every state score of soft states [T, K]. What needs training labels is None where there are none."""
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    soft, soft_test = np.asarray(train_states, np.float64), np.asarray(test_states, np.float64)
    known, truth = np.asarray(train_labels, np.int64), np.asarray(test_labels, np.int64)
    n_states = soft_test.shape[1]
    hard, hard_test = soft.argmax(axis=1), soft_test.argmax(axis=1)
    labels = np.unique(np.concatenate([known, truth]))
    one_to_one = n_states == np.sum(labels != UNLABELLED)
    z, seen = _labelled(hard_test, truth)
    on_test = (match_states if one_to_one else majority_map)(hard_test, truth, n_states)
    scores = StateScores(
        matching="one-to-one" if one_to_one else "many-to-one",
        matched_on_test=mapped_accuracy(on_test, hard_test, truth),
        nmi=float(normalized_mutual_info_score(seen, z)),
        ari=float(adjusted_rand_score(seen, z)),
    )
    if (known == UNLABELLED).all():
        return scores
    majority = majority_map(hard, known, n_states)
    mapping = match_states(hard, known, n_states) if one_to_one else majority
    one_hot = np.eye(n_states)
    return StateScores(
        **asdict(scores)
        | {
            "matched_accuracy": mapped_accuracy(mapping, hard_test, truth),
            "majority_map_accuracy": mapped_accuracy(majority, hard_test, truth),
            "paper_accuracy": paper_accuracy(soft, known, soft_test, truth, seed),
            "paper_accuracy_hard": paper_accuracy(one_hot[hard], known, one_hot[hard_test], truth, seed),
            "balanced_accuracy": balanced_accuracy(mapping[hard_test], truth),
            "macro_f1": macro_f1(mapping[hard_test], truth),
        }
    )


# ---- observations -------------------------------------------------------------------------------------------------
def r2(y: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """1 - squared error / squared distance from each channel's mean, pooled over channels; missing entries do not count.

    NaN where nothing can be compared or the data never moves.
    """
    truth, guess = np.asarray(y, np.float64), np.asarray(predicted, np.float64)
    if truth.shape != guess.shape:
        raise DataError(f"Observations have shape {truth.shape} but predictions {guess.shape}.")
    known = np.isfinite(truth) & np.isfinite(guess)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, truth, 0).sum(axis=0) / count
    total = np.where(known, truth - mean, 0)
    error = np.where(known, truth - guess, 0)
    spread = float((total**2).sum())
    return 1 - float((error**2).sum()) / spread if spread > 0 else float("nan")


def persistence(y: npt.ArrayLike) -> Array:
    """[T, N] each sample predicted by the last value seen before it; NaN for the first."""
    carried = carried_forward(np.asarray(y), np.nan)
    return np.concatenate([np.full_like(carried[:1], np.nan), carried[:-1]])


def prediction_scores(model: StateModel, train: Trials, test: Trials, seed: int = 0) -> PredictionScores:
    """Forecasts of the test trials from at most 2,000 origins, beside persistence and the linear AR(1) from the same."""
    linear = baselines.LinearAR.fit(train)
    first = model.min_samples - 1
    stride = max(1, -(-test.n_samples // MAX_ORIGINS))
    truths, means, last, rolled, shares, weights, widths = [], [], [], [], [], [], []
    for trial in test:
        at = np.arange(first, trial.n_samples - 1, stride)
        if not len(at):
            continue
        found = model.forecast(trial, horizon=HORIZON, n_paths=N_PATHS, seed=seed, origins=at, adaptive=False)
        learning = adapted(found, trial.y)
        truth = outcomes(trial.y, at, HORIZON)  # [O, H, N]
        now = carried_forward(trial.y, np.nan)[at]  # [O, N]
        truths.append(truth)
        means.append(found.mean)
        last.append(np.repeat(now[:, None], HORIZON, axis=1))
        rolled.append(linear.forecast(trial.y, at, HORIZON))
        shares.append([coverage(bands, trial.y, level) for bands in (found, learning) for level in (0.5, 0.9)])
        widths.append([width(bands, 0.9) * len(at) for bands in (found, learning)])
        weights.append((np.isfinite(truth) & np.isfinite(found.mean)).sum(axis=(0, 2)))
    if not truths:
        return PredictionScores()
    truth = np.concatenate(truths)

    def per_horizon(parts: list[Any]) -> tuple[float, ...]:
        joined = np.concatenate(parts)
        return tuple(r2(truth[:, h], joined[:, h]) for h in range(HORIZON))

    weight = np.array(weights, np.float64)  # [trials, H]
    total = weight.sum(axis=0)
    held = np.einsum("ilh,ih->lh", np.array(shares, np.float64), weight) / np.where(total > 0, total, np.nan)
    calibrated, learned = np.array(widths, np.float64).sum(axis=0)  # [H, N]
    moving = (calibrated > 0).all(axis=0)
    return PredictionScores(
        forecast_r2=per_horizon(means),
        persistence_r2=per_horizon(last),
        ar1_r2=per_horizon(rolled),
        coverage_50=tuple(held[0].tolist()),
        coverage_90=tuple(held[1].tolist()),
        adaptive_50=tuple(held[2].tolist()),
        adaptive_90=tuple(held[3].tolist()),
        adaptive_width=tuple((learned[:, moving] / calibrated[:, moving]).mean(axis=1).tolist())
        if moving.any()
        else (),
        n_origins=len(truth),
    )


# ---- everything ---------------------------------------------------------------------------------------------------
def evaluate(model: StateModel, train: TrialsLike, test: TrialsLike, seed: int = 0) -> Scores:
    """Every score of a fitted model, each beside its baselines. State scores are None where no test sample is labelled.

    train   what the model was fitted to; states are matched to labels there
    test    what is scored, with states inferred on it
    seed    of forecasts, of baselines and of the untrained control
    """
    found: dict[str, Any] = {}
    for part in score_parts(model, train, test, seed):
        found |= part
    return Scores(**found)


PARTS = ("states", "log-likelihood", "what has to be beaten", "the next ten steps", "fitted trials")


def score_parts(model: StateModel, train: TrialsLike, test: TrialsLike, seed: int = 0) -> Iterator[dict[str, Any]]:
    """The fields of `Scores`, a few at a time: PARTS says what. Forecasts take most of the time, and come late."""
    ours, theirs = as_trials(train), as_trials(test)
    known, truth = (np.concatenate(labels_of(side)) for side in (ours, theirs))
    soft, soft_test = _soft_states(model, ours), _soft_states(model, theirs)
    untrained = model.untrained(ours, seed) if hasattr(model, "untrained") else None
    labelled = bool((truth != UNLABELLED).any())
    yield asdict(state_scores(soft, known, soft_test, truth, seed) if labelled else StateScores()) | {
        "model": repr(model),
        "posterior": _posterior_name(model),
        "n_states": soft.shape[1],
        "n_train": ours.n_samples,
        "n_test": theirs.n_samples,
        "notes": notes_on(ours, theirs, known, truth, soft.shape[1], untrained is not None),
    }
    linear = baselines.LinearAR.fit(ours)
    yield {
        "elbo_test": model.score(theirs),
        "untrained_elbo_test": None if untrained is None else untrained.score(theirs),
        "ar1_log_likelihood_train": linear.log_likelihood(ours),
        "ar1_log_likelihood_test": linear.log_likelihood(theirs),
    }
    lines = state_baselines(ours, theirs, soft.shape[1], seed) if labelled else {}
    if labelled and untrained is not None:
        blank = [_soft_states(untrained, side) for side in (ours, theirs)]
        lines["untrained model"] = state_scores(blank[0], known, blank[1], truth, seed)
    yield {"baselines": lines}
    yield asdict(prediction_scores(model, ours, theirs, seed))
    yield {
        "smoothed_r2_train": smoothed_r2(model, ours),
        "smoothed_r2_test": smoothed_r2(model, theirs),
        "persistence_smoothed_r2_train": _stacked_r2(ours, [persistence(trial.y) for trial in ours]),
        "persistence_smoothed_r2_test": _stacked_r2(theirs, [persistence(trial.y) for trial in theirs]),
        "untrained_smoothed_r2_test": None if untrained is None else smoothed_r2(untrained, theirs),
        "elbo_train": model.score(ours),
    }


def state_accuracy(model: StateModel, train: Trials, test: Trials) -> dict[str, float]:
    """Two accuracies and nothing slower, for sweeps over many fits."""
    known, truth = (np.concatenate(labels_of(side)) for side in (train, test))
    soft, soft_test = (np.concatenate(model.predict_proba(side)) for side in (train, test))
    return accuracies(soft, known, soft_test, truth)


def accuracies(soft: Any, known: IntArray, soft_test: Any, truth: IntArray) -> dict[str, float]:
    """The same of soft states [T, K] on either side."""
    mapping = majority_map(soft.argmax(axis=1), known, soft.shape[1])
    return {
        "paper_accuracy": paper_accuracy(soft, known, soft_test, truth),
        "majority_map_accuracy": mapped_accuracy(mapping, soft_test.argmax(axis=1), truth),
    }


def state_baselines(train: Trials, test: Trials, n_states: int, seed: int = 0) -> dict[str, StateScores]:
    """State scores of what learns no dynamics: majority class, k-means, Gaussian HMM, 10 neighbours, on place and step."""
    known, truth = (np.concatenate(labels_of(side)) for side in (train, test))
    lines: dict[str, StateScores] = {}
    labelled = bool((known != UNLABELLED).any())
    if labelled:
        constant = majority_map(np.zeros(len(known), np.int64), known)[0]
        lines["majority class"] = _supervised(np.full(len(truth), constant), truth, constant=True)
    for method, on, rows, rows_test in baselines.lines(train, test, n_states, seed):
        if method != baselines.NEIGHBOURS:
            lines[f"{method} on {on}"] = state_scores(rows, known, rows_test, truth, seed)
        elif labelled:
            lines[f"{method} on {on}"] = _supervised(*neighbour_labels(rows, known, rows_test, truth, seed))
    return lines


def _supervised(predicted: IntArray, truth: IntArray, constant: bool = False) -> StateScores:
    """Scores of predicted labels. A constant guess is also a (one-state) clustering, so it has every accuracy."""
    guess, seen = _labelled(predicted, truth)
    accuracy = float((guess == seen).mean())
    return StateScores(
        matched_accuracy=accuracy if constant else None,
        majority_map_accuracy=accuracy if constant else None,
        paper_accuracy=accuracy,
        paper_accuracy_hard=accuracy if constant else None,
        balanced_accuracy=balanced_accuracy(predicted, truth),
        macro_f1=macro_f1(predicted, truth),
        nmi=0.0 if constant else None,
        ari=0.0 if constant else None,
    )


def _soft_states(model: StateModel, trials: Trials) -> Array:
    soft = np.concatenate(model.predict_proba(trials)).astype(np.float64)
    if not np.isfinite(soft).all():
        raise FitError(
            f"{model!r} gave soft states that are not finite; its fit diverged. Fit it again before scoring."
        )
    return soft


def _stacked_r2(trials: Trials, predicted: list[Any]) -> float:
    return r2(np.concatenate([trial.y for trial in trials]), np.concatenate(predicted))


def smoothed_r2(model: StateModel, trials: Trials) -> float:
    """R2 of what a model makes of trials whose samples it has seen."""
    return _stacked_r2(trials, model.smooth(trials))


def _posterior_name(model: StateModel) -> str | None:
    """Which posterior found the states: what a state means follows what it saw."""
    found = getattr(model, "posterior_", None) or getattr(model.config, "posterior", None)
    return None if found is None else str(found)
