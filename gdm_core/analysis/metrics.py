"""All scores of a fitted model: states, reconstruction, forecasts and ELBO, with baselines."""

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
from gdm_core.analysis.state_scores import StateScores, state_baselines, state_scores
from gdm_core.errors import DataError, FitError
from gdm_core.forecast import coverage, outcomes, width
from gdm_core.maths.gaps import carry_forward
from gdm_core.models.variants import format_call, make_untrained
from gdm_core.text import for_json
from gdm_core.trials import UNLABELLED, Trials, TrialsLike, as_trials, labels_of

if TYPE_CHECKING:
    from gdm_core.models.base import StateModel

Array = npt.NDArray[np.float64]

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
MAX_ORIGINS = 2_000


# ---- the record -----------------------------------------------------------------------------------------------------
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
    """Scores of a model on training and test trials.

    smoothed_r2_*   R² of the reconstruction from smoothed states; `persistence_smoothed_r2_*` of persistence
    elbo_*          nats per time step in the units of the data; `ar1_log_likelihood_*` of a linear AR(1)
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
        return "\n".join(text)


def align(rows: list[tuple[str, ...]]) -> list[str]:
    """Format rows as lines of text with left-aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


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
    carried = carry_forward(np.asarray(y), np.nan)
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
        now = carry_forward(trial.y, np.nan)[at]  # [O, N]
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
        "model": format_call(model),
        "posterior": _posterior_name(model),
        "n_states": soft.shape[1],
        "n_train": ours.n_samples,
        "n_test": theirs.n_samples,
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


def _soft_states(model: StateModel, trials: Trials) -> Array:
    soft = np.concatenate(model.predict_proba(trials)).astype(np.float64)
    if not np.isfinite(soft).all():
        raise FitError(
            f"{model!r} has soft states that are not finite, because its fit diverged. Fit it again before scoring."
        )
    return soft


def _stacked_r2(trials: Trials, predicted: list[Any]) -> float:
    return r2(np.concatenate([trial.y for trial in trials]), np.concatenate(predicted))


def smoothed_r2(model: StateModel, trials: Trials, truth: Trials | None = None) -> float:
    """Return the R² of the model's reconstruction of trials, of themselves or of others of the same lengths."""
    return _stacked_r2(truth or trials, model.smooth(trials))


def _posterior_name(model: StateModel) -> str | None:
    """Return the name of the posterior; None if the family has one only."""
    found = getattr(model, "posterior_", None) or getattr(model.config, "posterior", None)
    return None if found is None else str(found)
