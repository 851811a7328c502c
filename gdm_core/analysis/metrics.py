"""Scores of states, reconstructions and forecasts, with their baselines.

`evaluate` computes all scores of a fitted model. The other functions can be used alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.adaptation import adapt
from gdm_core.analysis import baselines
from gdm_core.errors import DataError, FitError
from gdm_core.forecast import coverage, outcomes, width
from gdm_core.maths.gaps import carried_forward
from gdm_core.models.variants import make_untrained
from gdm_core.text import for_json
from gdm_core.trials import UNLABELLED, Trials, TrialsLike, as_trials, labels_of

if TYPE_CHECKING:
    from gdm_core.models.base import StateModel

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

NEIGHBOURS = 10  # in the paper's metric
HORIZON = 10
N_PATHS = 100
# Rows of the table: field -> description. The first is the main score.
STATE_ROWS = {
    "matched_accuracy": "state accuracy, matched",
    "matched_on_test": "  matched on the test trial itself",
    "majority_map_accuracy": "state accuracy, majority vote",
    "paper_accuracy": "the paper's accuracy (10-NN, soft)",
    "paper_accuracy_hard": "the paper's accuracy (10-NN, one-hot)",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro-F1",
    "nmi": "normalised mutual information",
    "ari": "adjusted Rand index",
}
HORIZONS_SHOWN = (1, 2, 5, 10)
MAX_NEIGHBOUR_SAMPLES = 20_000
MAX_ORIGINS = 2_000


# ---- the record -----------------------------------------------------------------------------------------------------
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


@dataclass(frozen=True)
class PredictionScores:
    """Scores of forecasts of the test trials, at the horizons 1..10.

    coverage_*       share of outcomes inside calibrated intervals
    adaptive_*       share of outcomes inside adaptive intervals
    adaptive_width   mean width of adaptive 90% intervals, relative to calibrated ones
    """

    forecast_r2: tuple[float, ...] = ()
    persistence_r2: tuple[float, ...] = ()
    ar1_r2: tuple[float, ...] = ()
    coverage_50: tuple[float, ...] = ()
    coverage_90: tuple[float, ...] = ()
    adaptive_50: tuple[float, ...] = ()
    adaptive_90: tuple[float, ...] = ()
    adaptive_width: tuple[float, ...] = ()
    n_origins: int = 0


@dataclass(frozen=True, kw_only=True)
class Scores(StateScores, PredictionScores):
    """All scores of a model on training and test trials.

    smoothed_r2_*   R² of the reconstruction from smoothed states; `persistence_smoothed_r2_*` is that of persistence
    elbo_*          nats per time step in the units of the data; `ar1_log_likelihood_*` is that of a linear AR(1)
    baselines       state scores of models without dynamics, and of the untrained model
    """

    model: str
    posterior: str | None
    n_states: int
    n_train: int
    n_test: int
    smoothed_r2_train: float
    smoothed_r2_test: float
    persistence_smoothed_r2_train: float
    persistence_smoothed_r2_test: float
    untrained_smoothed_r2_test: float | None
    elbo_train: float
    elbo_test: float
    untrained_elbo_test: float | None
    ar1_log_likelihood_train: float | None
    ar1_log_likelihood_test: float | None
    baselines: Mapping[str, StateScores] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; non-finite numbers become None."""
        plain: dict[str, Any] = for_json(self)
        return plain

    def best_baseline(self, score: str) -> tuple[str, float] | None:
        """Return (name, value) of the best baseline of a state score."""
        found = [(getattr(b, score), name) for name, b in self.baselines.items() if getattr(b, score) is not None]
        if not found:
            return None
        value, name = max(found)
        return name, value

    def to_frame(self) -> pd.DataFrame:
        """Return the state scores of the model and of its baselines, one column each."""
        rows = {self.model: self, **self.baselines}
        return pd.DataFrame({name: {score: getattr(one, score) for score in STATE_ROWS} for name, one in rows.items()})

    def __str__(self) -> str:
        return self.table()

    def table(self) -> str:
        """Format each score and its best baseline as text."""
        rows: list[tuple[str, str, str]] = []
        if self.matched_on_test is not None:
            for score, words in STATE_ROWS.items():
                best = self.best_baseline(score)
                detail = f" ({self.matching})" if score == "matched_accuracy" else ""
                baseline = "-" if best is None else f"{best[1]:.3f}  {best[0]}"
                rows.append((words + detail, _number(getattr(self, score)), baseline))
        for side in ("train", "test"):
            baseline = f"{_number(getattr(self, f'persistence_smoothed_r2_{side}'))}  persistence"
            rows.append((f"R2 of reconstruction, {side}", _number(getattr(self, f"smoothed_r2_{side}")), baseline))
        for h in HORIZONS_SHOWN:
            if h <= len(self.forecast_r2):
                forecasts = {"persistence": self.persistence_r2[h - 1], "linear AR(1)": self.ar1_r2[h - 1]}
                baseline = ", ".join(f"{_number(value, 4)}  {name}" for name, value in forecasts.items())
                words = f"R2 of forecast, {h} step{'s' * (h > 1)} ahead"
                rows.append((words, _number(self.forecast_r2[h - 1], 4), baseline))
        for h in HORIZONS_SHOWN:
            if h <= len(self.coverage_90):
                covered = f"{_number(self.adaptive_50[h - 1])} / {_number(self.adaptive_90[h - 1])}"
                fixed = f"{_number(self.coverage_50[h - 1])} / {_number(self.coverage_90[h - 1])}  as calibrated"
                words = f"coverage of adaptive intervals, {h} step{'s' * (h > 1)} ahead"
                rows.append((words, covered, f"0.500 / 0.900  nominal, {fixed}"))
        for side in ("train", "test"):
            baseline = f"{_number(getattr(self, f'ar1_log_likelihood_{side}'))}  linear AR(1) log-likelihood"
            if side == "test" and self.untrained_elbo_test is not None:
                baseline += f", {_number(self.untrained_elbo_test)}  untrained"
            rows.append((f"ELBO per time step, {side} (nats)", _number(getattr(self, f"elbo_{side}")), baseline))
        text = [self.model + (f", posterior {self.posterior}" if self.posterior else "")]
        text += align([("", "model", "baselines"), *rows])
        text += [f"Note: {note}" for note in self.notes]
        return "\n".join(text)


def align(rows: list[tuple[str, ...]]) -> list[str]:
    """Format rows as lines of text with left-aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def collect_notes(
    train: Trials,
    test: Trials,
    known: npt.NDArray[np.int64],
    truth: npt.NDArray[np.int64],
    n_states: int,
    has_untrained: bool,
) -> tuple[str, ...]:
    """Return notes on missing or approximate scores."""
    notes = []
    if (truth == UNLABELLED).all():
        notes.append("No test sample has a label, so there are no state scores.")
    else:
        if (known == UNLABELLED).all():
            notes.append("No training sample has a label, so scores that predict labels are missing.")
        labels = set(np.unique(np.concatenate([known, truth])).tolist()) - {UNLABELLED}
        if len(labels) != n_states:
            notes.append(
                f"{n_states} states for {len(labels)} labels cannot be matched one to one: each state predicts its majority "
                "training label (many-to-one)."
            )
    if int((known != UNLABELLED).sum()) > MAX_NEIGHBOUR_SAMPLES:
        notes.append(f"Nearest neighbours are among {MAX_NEIGHBOUR_SAMPLES:,} random training samples.")
    if train.n_samples > baselines.MAX_TRAINING_SAMPLES:
        notes.append(f"k-means and the HMM use the first {baselines.MAX_TRAINING_SAMPLES:,} training samples.")
    if test.n_samples > MAX_ORIGINS:
        notes.append(f"Forecasts start from about {MAX_ORIGINS:,} evenly spaced origins.")
    if not has_untrained:
        notes.append("This model family has no untrained control.")
    return tuple(notes)


# ---- states against labels ----------------------------------------------------------------------------------------
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
    return np.where(counts.sum(axis=1) > 0, classes[counts.argmax(axis=1)], overall).astype(np.int64)


def mapped_accuracy(mapping: IntArray, states: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the share of labelled samples whose state maps to their label."""
    z, known = _select_labelled(states, labels)
    return float((mapping[z] == known).mean())


def matched_accuracy(states: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the accuracy after matching states to labels on the same samples."""
    return mapped_accuracy(match_states(states, labels), states, labels)


def paper_accuracy(
    train_states: npt.ArrayLike,
    train_labels: npt.ArrayLike,
    test_states: npt.ArrayLike,
    test_labels: npt.ArrayLike,
    seed: int = 0,
) -> float:
    """Return the paper's Inferred State Accuracy: 10 nearest neighbours from state vectors to labels.

    Distances between one-hot vectors tie, so their neighbours are arbitrary; use `majority_map` instead. Of more than
    20,000 training samples, a random 20,000 are used.
    """
    predicted, truth = neighbour_labels(train_states, train_labels, test_states, test_labels, seed)
    return float((predicted == truth).mean())


def balanced_accuracy(predicted: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the mean recall over the labels that occur."""
    guess, known = _select_labelled(predicted, labels)
    return float(np.mean([(guess[known == label] == label).mean() for label in np.unique(known)]))


def macro_f1(predicted: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the mean F1 over the labels that occur."""
    guess, known = _select_labelled(predicted, labels)
    scores = []
    for label in np.unique(known):
        hit = np.sum((guess == label) & (known == label))
        scores.append(2 * hit / (np.sum(guess == label) + np.sum(known == label)))
    return float(np.mean(scores))


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
    counts = np.zeros((size, len(classes)), dtype=np.int64)
    np.add.at(counts, (z, code), 1)
    return counts, classes.astype(np.int64)


def neighbour_labels(
    train: npt.ArrayLike, train_labels: npt.ArrayLike, test: npt.ArrayLike, test_labels: npt.ArrayLike, seed: int
) -> tuple[IntArray, IntArray]:
    """Return predicted and true labels of the labelled test samples."""
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
    labels = np.unique(np.concatenate([known, truth]))
    one_to_one = n_states == np.sum(labels != UNLABELLED)
    z, seen = _select_labelled(hard_test, truth)
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
    """Return R² pooled over channels, without missing entries; NaN without variance."""
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
    """Predict each sample by the last observed value [T, N]; NaN for the first."""
    carried = carried_forward(np.asarray(y), np.nan)
    return np.concatenate([np.full_like(carried[:1], np.nan), carried[:-1]])


def prediction_scores(model: StateModel, train: Trials, test: Trials, seed: int = 0) -> PredictionScores:
    """Score forecasts of the test trials, persistence and a linear AR(1)."""
    linear = baselines.LinearAR.fit(train)
    first = model.min_samples - 1
    stride = max(1, -(-test.n_samples // MAX_ORIGINS))
    truths, means, last, rolled, shares, weights, widths = [], [], [], [], [], [], []
    for trial in test:
        at = np.arange(first, trial.n_samples - 1, stride)
        if not len(at):
            continue
        found = model.forecast(trial, horizon=HORIZON, n_paths=N_PATHS, seed=seed, origins=at, adaptive=False)
        learning = adapt(found, trial.y)
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
    covered = np.einsum("ilh,ih->lh", np.array(shares, np.float64), weight) / np.where(total > 0, total, np.nan)
    calibrated, learned = np.array(widths, np.float64).sum(axis=0)  # [H, N]
    moving = (calibrated > 0).all(axis=0)
    return PredictionScores(
        forecast_r2=per_horizon(means),
        persistence_r2=per_horizon(last),
        ar1_r2=per_horizon(rolled),
        coverage_50=tuple(covered[0].tolist()),
        coverage_90=tuple(covered[1].tolist()),
        adaptive_50=tuple(covered[2].tolist()),
        adaptive_90=tuple(covered[3].tolist()),
        adaptive_width=tuple((learned[:, moving] / calibrated[:, moving]).mean(axis=1).tolist())
        if moving.any()
        else (),
        n_origins=len(truth),
    )


# ---- all scores ---------------------------------------------------------------------------------------------------
def evaluate(model: StateModel, train: TrialsLike, test: TrialsLike, seed: int = 0) -> Scores:
    """Return all scores of a fitted model and its baselines.

    train   training trials, on which states are matched to labels
    test    trials to score
    seed    of forecasts, baselines and the untrained control
    """
    found: dict[str, Any] = {}
    for part in score_parts(model, train, test, seed):
        found |= part
    return Scores(**found)


PARTS = ("states", "log-likelihood", "baselines", "forecasts", "reconstruction")


def score_parts(model: StateModel, train: TrialsLike, test: TrialsLike, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the fields of `Scores` in the order of PARTS."""
    ours, theirs = as_trials(train), as_trials(test)
    known, truth = (np.concatenate(labels_of(side)) for side in (ours, theirs))
    soft, soft_test = _soft_states(model, ours), _soft_states(model, theirs)
    untrained = make_untrained(model, ours, seed)
    labelled = bool((truth != UNLABELLED).any())
    yield asdict(state_scores(soft, known, soft_test, truth, seed) if labelled else StateScores()) | {
        "model": repr(model),
        "posterior": _posterior_name(model),
        "n_states": soft.shape[1],
        "n_train": ours.n_samples,
        "n_test": theirs.n_samples,
        "notes": collect_notes(ours, theirs, known, truth, soft.shape[1], untrained is not None),
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
    """Return two accuracies that are fast enough for sweeps."""
    known, truth = (np.concatenate(labels_of(side)) for side in (train, test))
    soft, soft_test = (np.concatenate(model.predict_proba(side)) for side in (train, test))
    return accuracies(soft, known, soft_test, truth)


def accuracies(soft: Any, known: IntArray, soft_test: Any, truth: IntArray) -> dict[str, float]:
    """Return the accuracies of `state_accuracy` from soft states [T, K]."""
    mapping = majority_map(soft.argmax(axis=1), known, soft.shape[1])
    return {
        "paper_accuracy": paper_accuracy(soft, known, soft_test, truth),
        "majority_map_accuracy": mapped_accuracy(mapping, soft_test.argmax(axis=1), truth),
    }


def state_baselines(train: Trials, test: Trials, n_states: int, seed: int = 0) -> dict[str, StateScores]:
    """Return state scores of baselines without dynamics, on positions and on steps."""
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
    return lines


def _score_labels(predicted: IntArray, truth: IntArray, constant: bool = False) -> StateScores:
    """Return scores of predicted labels; a constant prediction also counts as one state."""
    guess, seen = _select_labelled(predicted, truth)
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
            f"{model!r} has soft states that are not finite, because its fit diverged. Fit it again before scoring."
        )
    return soft


def _stacked_r2(trials: Trials, predicted: list[Any]) -> float:
    return r2(np.concatenate([trial.y for trial in trials]), np.concatenate(predicted))


def smoothed_r2(model: StateModel, trials: Trials) -> float:
    """Return the R² of the model's reconstruction."""
    return _stacked_r2(trials, model.smooth(trials))


def _posterior_name(model: StateModel) -> str | None:
    """Return the name of the posterior; None if the family has one only."""
    found = getattr(model, "posterior_", None) or getattr(model.config, "posterior", None)
    return None if found is None else str(found)
