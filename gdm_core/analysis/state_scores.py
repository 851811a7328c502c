"""Agreement of states with labels, and of baselines without dynamics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis import baselines
from gdm_core.analysis.score_uncertainty import count_labels, score
from gdm_core.errors import DataError, FitError
from gdm_core.trials import UNLABELLED, Trials, labels_of

if TYPE_CHECKING:
    from gdm_core.models.base import StateModel

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

NEIGHBOURS = 10  # in the paper's metric
MAX_NEIGHBOUR_SAMPLES = 20_000


@dataclass(frozen=True)
class StateScores:
    """Agreement of states with test labels; None if a score does not apply.

    matched_accuracy       main score: accuracy after one-to-one matching on the training trials. If the numbers of states
                           and labels differ, `matching` is "many-to-one" and each state predicts its majority label
    matched_on_test        accuracy after matching on the test trials, for reference
    majority_map_accuracy  each state predicts its majority training label
    paper_accuracy         the paper's metric: 10 nearest neighbours from soft states to labels
    paper_accuracy_hard    the same from one-hot states, whose nearest neighbours are arbitrary
    balanced_accuracy, macro_f1   of the labels that matching predicts
    nmi, ari               of the strongest state and the labels
    """

    matching: str | None = None
    matched_accuracy: float | None = None
    matched_on_test: float | None = None
    majority_map_accuracy: float | None = None
    paper_accuracy: float | None = None
    paper_accuracy_hard: float | None = None
    balanced_accuracy: float | None = None
    macro_f1: float | None = None
    nmi: float | None = None
    ari: float | None = None


def match_states(states: npt.ArrayLike, labels: npt.ArrayLike, n_states: int | None = None) -> IntArray:
    """Return the label of each state under the best one-to-one matching; -1 if unmatched."""
    from scipy.optimize import linear_sum_assignment

    counts, classes = _contingency(states, labels, n_states)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    mapping = np.full(len(counts), UNLABELLED, dtype=np.int64)
    mapping[rows] = classes[columns]
    return mapping


def majority_map(states: npt.ArrayLike, labels: npt.ArrayLike, n_states: int | None = None) -> IntArray:
    """Return the most frequent label of each state; unused states get the overall one."""
    counts, classes = _contingency(states, labels, n_states)
    overall = classes[counts.sum(axis=0).argmax()]
    return np.asarray(np.where(counts.sum(axis=1) > 0, classes[counts.argmax(axis=1)], overall).astype(np.int64))


def mapped_accuracy(mapping: IntArray, states: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the share of labelled samples whose state maps to their label."""
    z, known = _select_labelled(states, labels)
    return float((mapping[z] == known).mean())


def matched_accuracy(states: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the accuracy after matching states to labels on the same samples."""
    return mapped_accuracy(match_states(states, labels), states, labels)


def paper_accuracy(
    train: npt.ArrayLike, train_labels: npt.ArrayLike, test: npt.ArrayLike, test_labels: npt.ArrayLike, seed: int = 0
) -> float:
    """Return the paper's Inferred State Accuracy: the share of labels that `neighbour_labels` predicts."""
    predicted, truth = neighbour_labels(train, train_labels, test, test_labels, seed)
    return float((predicted == truth).mean())


def label_scores(predicted: npt.ArrayLike, labels: npt.ArrayLike) -> dict[str, float]:
    """Return the accuracy, and the mean recall and F1 over the labels that occur."""
    counts = count_labels(*_select_labelled(predicted, labels))
    return {name: score(counts, name) for name in ("accuracy", "balanced_accuracy", "macro_f1")}


def macro_f1(predicted: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the mean F1 over the labels that occur."""
    return label_scores(predicted, labels)["macro_f1"]


def _select_labelled(values: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[Any, IntArray]:
    """Return the values and labels of labelled samples."""
    z, known = np.asarray(values), np.asarray(labels, dtype=np.int64)
    if known.ndim != 1 or len(z) != len(known):
        raise DataError(f"There are {len(z)} states for labels of shape {known.shape}; expected one label per sample.")
    keep = known != UNLABELLED
    if not keep.any():
        raise DataError("No sample has a label (all are -1); state scores need labels.")
    return z[keep], known[keep]


def _contingency(states: npt.ArrayLike, labels: npt.ArrayLike, n_states: int | None) -> tuple[IntArray, IntArray]:
    """Return counts [states, classes] and the classes."""
    z, known = _select_labelled(states, labels)
    if z.ndim != 1 or not np.issubdtype(z.dtype, np.integer) or z.min() < 0:
        raise DataError("States must be whole numbers of at least 0, one per sample; take the argmax of soft states.")
    size = int(z.max()) + 1 if n_states is None else n_states
    if z.max() >= size:
        raise DataError(f"State {int(z.max())} occurs but n_states is {size}.")
    classes, code = np.unique(known, return_inverse=True)
    counts = np.bincount(z * len(classes) + code, minlength=size * len(classes)).reshape(size, len(classes))
    return counts, classes.astype(np.int64)


def neighbour_labels(
    train: npt.ArrayLike, train_labels: npt.ArrayLike, test: npt.ArrayLike, test_labels: npt.ArrayLike, seed: int
) -> tuple[IntArray, IntArray]:
    """Return labels predicted by 10 nearest neighbours, and true labels, of the labelled test samples.

    Distances between one-hot vectors tie, so their neighbours are arbitrary; use `majority_map` instead. Of more than
    20,000 training samples, a random 20,000 are used.
    """
    from sklearn.neighbors import KNeighborsClassifier

    (x, known), (x_test, truth) = _select_labelled(train, train_labels), _select_labelled(test, test_labels)
    if x.ndim != 2 or x_test.ndim != 2 or x.shape[1] != x_test.shape[1]:
        raise DataError(
            f"State vectors have shapes {x.shape} and {x_test.shape}; expected [time, states] with equal states."
        )
    if len(x) > MAX_NEIGHBOUR_SAMPLES:
        chosen = np.random.default_rng(seed).choice(len(x), MAX_NEIGHBOUR_SAMPLES, replace=False)
        x, known = x[chosen], known[chosen]
    classifier = KNeighborsClassifier(min(NEIGHBOURS, len(x))).fit(x, known)
    # One-hot vectors repeat; predict each distinct one once.
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
    """Return state scores of soft states [T, K]; some need training labels."""
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    soft, soft_test = np.asarray(train_states, np.float64), np.asarray(test_states, np.float64)
    known, truth = np.asarray(train_labels, np.int64), np.asarray(test_labels, np.int64)
    n_states = soft_test.shape[1]
    hard, hard_test = soft.argmax(axis=1), soft_test.argmax(axis=1)
    match = choose_matching(n_states, known, truth)
    z, seen = _select_labelled(hard_test, truth)
    on_test = match(hard_test, truth, n_states)
    scores = StateScores(
        matching="one-to-one" if match is match_states else "many-to-one",
        matched_on_test=mapped_accuracy(on_test, hard_test, truth),
        nmi=float(normalized_mutual_info_score(seen, z)),
        ari=float(adjusted_rand_score(seen, z)),
    )
    if (known == UNLABELLED).all():
        return scores
    majority = majority_map(hard, known, n_states)
    matched = label_scores(match(hard, known, n_states)[hard_test], truth)
    one_hot = np.eye(n_states)
    return replace(
        scores,
        matched_accuracy=matched["accuracy"],
        majority_map_accuracy=mapped_accuracy(majority, hard_test, truth),
        paper_accuracy=paper_accuracy(soft, known, soft_test, truth, seed),
        paper_accuracy_hard=paper_accuracy(one_hot[hard], known, one_hot[hard_test], truth, seed),
        balanced_accuracy=matched["balanced_accuracy"],
        macro_f1=matched["macro_f1"],
    )


def choose_matching(n_states: int, known: IntArray, truth: IntArray) -> Callable[..., IntArray]:
    """Return `match_states` if there are as many states as labels, otherwise `majority_map`."""
    labels = np.unique(np.concatenate([known, truth]))
    return match_states if n_states == np.sum(labels != UNLABELLED) else majority_map


def finite_states(model: StateModel, trials: Trials) -> Array:
    """Return the soft states [T, K] of all trials; raise FitError if they are not finite."""
    soft = np.concatenate(model.predict_proba(trials)).astype(np.float64)
    if not np.isfinite(soft).all():
        raise FitError(
            f"{model!r} has soft states that are not finite, because its fit diverged. Fit it again before scoring."
        )
    return soft


def score_states(model: StateModel, train: Trials, test: Trials, seed: int = 0) -> StateScores:
    """Return the state scores of a model."""
    known, truth = (np.concatenate(labels_of(side)) for side in (train, test))
    return state_scores(finite_states(model, train), known, finite_states(model, test), truth, seed)


def state_accuracy(model: StateModel, train: Trials, test: Trials) -> dict[str, float]:
    """Return two accuracies for sweeps."""
    return select_accuracies(score_states(model, train, test))


def select_accuracies(scores: StateScores) -> dict[str, float]:
    found = {name: getattr(scores, name) for name in ("paper_accuracy", "majority_map_accuracy")}
    return {name: value for name, value in found.items() if value is not None}


def state_baselines(
    train: Trials, test: Trials, n_states: int, seed: int = 0, untrained: StateModel | None = None
) -> dict[str, StateScores]:
    """Return state scores of baselines without dynamics, on positions and on steps, and of an untrained model."""
    known, truth = (np.concatenate(labels_of(side)) for side in (train, test))
    lines: dict[str, StateScores] = {}
    labelled = bool((known != UNLABELLED).any())
    if labelled:
        constant = majority_map(np.zeros(len(known), np.int64), known)[0]
        lines["majority class"] = _score_labels(np.full(len(truth), constant), truth, constant=True)
    for method, on, rows, rows_test in baselines.fit_baselines(train, test, n_states, seed):
        if method != baselines.NEIGHBOURS:
            lines[f"{method} on {on}"] = state_scores(rows, known, rows_test, truth, seed)
        elif labelled:
            lines[f"{method} on {on}"] = _score_labels(*neighbour_labels(rows, known, rows_test, truth, seed))
    if untrained is not None:
        lines["untrained model"] = score_states(untrained, train, test, seed)
    return lines


def _score_labels(predicted: IntArray, truth: IntArray, constant: bool = False) -> StateScores:
    """Return scores of predicted labels; a constant prediction also counts as one state."""
    accuracy, balanced, f1 = label_scores(predicted, truth).values()
    found = StateScores(paper_accuracy=accuracy, balanced_accuracy=balanced, macro_f1=f1)
    if not constant:
        return found
    return replace(
        found, matched_accuracy=accuracy, majority_map_accuracy=accuracy, paper_accuracy_hard=accuracy, nmi=0.0, ari=0.0
    )
