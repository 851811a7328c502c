"""All scores of a fitted model: states, reconstruction, forecasts and ELBO, with baselines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.adaptation import adapt
from gdm_core.analysis.baselines import LinearAR
from gdm_core.analysis.predictions import HORIZON, Predictions, forecast_trials, persistence, stacked_r2
from gdm_core.analysis.state_scores import StateScores, finite_states, state_baselines, state_scores
from gdm_core.forecast import Forecast, coverage, outcomes, width
from gdm_core.maths.gaps import ratio
from gdm_core.models.extrapolation import describe_held_out
from gdm_core.models.latent import principal_components
from gdm_core.models.variants import format_call, make_untrained
from gdm_core.text import for_json, plural
from gdm_core.trials import UNLABELLED, Trial, Trials, TrialsLike, as_trials, labels_of

if TYPE_CHECKING:
    from gdm_core.models.base import StateModel

Array = npt.NDArray[np.float64]

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
    extrapolation   a sentence if the test trials leave the fitted range
    left_out        a sentence if the latent dimensions leave out variance
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
    extrapolation: str = ""
    left_out: str = ""

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
                words = f"R2 of forecast, {plural(h, 'step')} ahead"
                rows.append((words, _number(self.forecast_r2[h - 1], 4), baseline))
        for h in HORIZONS_SHOWN:
            if h <= len(self.coverage_90):
                covered = f"{_number(self.adaptive_50[h - 1])} / {_number(self.adaptive_90[h - 1])}"
                fixed = f"{_number(self.coverage_50[h - 1])} / {_number(self.coverage_90[h - 1])}  as calibrated"
                words = f"coverage of adaptive intervals, {plural(h, 'step')} ahead"
                rows.append((words, covered, f"0.500 / 0.900  nominal, {fixed}"))
        for side in ("train", "test"):
            baseline = f"{_number(getattr(self, f'ar1_log_likelihood_{side}'))}  linear AR(1) log-likelihood"
            if side == "test" and self.untrained_elbo_test is not None:
                baseline += f", {_number(self.untrained_elbo_test)}  untrained"
            rows.append((f"ELBO per time step, {side} (nats)", _number(getattr(self, f"elbo_{side}")), baseline))
        text = [self.model + (f", posterior {self.posterior}" if self.posterior else "")]
        rows.insert(0, ("", "model", "baselines"))
        first, second = (max(len(row[i]) for row in rows) for i in (0, 1))
        notes = filter(None, (self.extrapolation, self.left_out))
        return "\n".join(
            [*text, *(f"{words:{first}}  {own:{second}}  {line}".rstrip() for words, own, line in rows), *notes]
        )


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


# ---- all scores ---------------------------------------------------------------------------------------------------
class Evaluation:
    """Scores of a fitted model on test trials, in parts that are computed when they are needed."""

    def __init__(self, model: StateModel, train: Trials, test: Trials, seed: int = 0) -> None:
        self.model, self.train, self.test, self.seed = model, train, test, seed
        self.first = model.min_samples - 1  # forecast origin
        self.known, self.truth = (np.concatenate(labels_of(side)) for side in (train, test))
        self.is_labelled = bool((self.truth != UNLABELLED).any())

    @cached_property
    def states(self) -> tuple[Array, Array]:
        """Soft states [T, K] of the training and of the test trials."""
        return finite_states(self.model, self.train), finite_states(self.model, self.test)

    @cached_property
    def untrained(self) -> StateModel | None:
        return make_untrained(self.model, self.train, self.seed)

    @cached_property
    def linear(self) -> LinearAR:
        return LinearAR.fit(self.train)

    @cached_property
    def forecasts(self) -> list[tuple[Trial, Forecast]]:
        return forecast_trials(self.model, self.test, self.seed)

    @cached_property
    def predictions(self) -> Predictions:
        return Predictions.collect(self.test, self.first, ((one.mean, one.std[:, 0]) for _, one in self.forecasts))

    @cached_property
    def reconstructed_train(self) -> list[Any]:
        return list(self.model.smooth(self.train))

    def score_states(self) -> StateScores:
        return state_scores(self.states[0], self.known, self.states[1], self.truth, self.seed)

    def score_intervals(self) -> dict[str, tuple[float, ...]]:
        """Return coverage and relative width by horizon."""
        shares, widths, weights = [], [], []
        for trial, found in self.forecasts:
            learning = adapt(found, trial.y)
            truth = outcomes(trial.y, found.origins, HORIZON)  # [O, H, N]
            shares.append([coverage(bands, trial.y, level) for bands in (found, learning) for level in (0.5, 0.9)])
            widths.append([width(bands, 0.9) * len(found.origins) for bands in (found, learning)])
            weights.append((np.isfinite(truth) & np.isfinite(found.mean)).sum(axis=(0, 2)))
        weight = np.array(weights, np.float64)  # [trials, H]
        covered = ratio(np.einsum("ilh,ih->lh", np.array(shares, np.float64), weight), weight.sum(axis=0))
        calibrated, learned = np.array(widths, np.float64).sum(axis=0)  # [H, N]
        moving = (calibrated > 0).all(axis=0)
        wider = (learned[:, moving] / calibrated[:, moving]).mean(axis=1) if moving.any() else np.zeros(0)
        names = ("coverage_50", "coverage_90", "adaptive_50", "adaptive_90", "adaptive_width")
        return {name: tuple(values.tolist()) for name, values in zip(names, (*covered, wider), strict=True)}

    def score_predictions(self) -> PredictionScores:
        """Score forecasts of the model, persistence and a linear AR(1) from the same origins."""
        if not self.forecasts:
            return PredictionScores()
        return PredictionScores(
            forecast_r2=self.predictions.r2(),
            persistence_r2=Predictions.by_last_value(self.test, self.first).r2(),
            ar1_r2=Predictions.by_autoregression(self.linear, self.train, self.test, self.first).r2(),
            n_origins=len(self.predictions.samples),
            **self.score_intervals(),
        )


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
    one = Evaluation(model, ours, theirs, seed)
    n_states = one.states[0].shape[1]
    yield asdict(one.score_states() if one.is_labelled else StateScores()) | {
        "model": format_call(model),
        "posterior": _posterior_name(model),
        "n_states": n_states,
        "n_train": ours.n_samples,
        "n_test": theirs.n_samples,
        "extrapolation": describe_held_out(ours, theirs),
        "left_out": ""
        if _posterior_name(model) == "linear"  # whose states follow all channels
        else principal_components(ours).describe_left_out(model.config.n_latent),
    }
    yield {
        "elbo_test": model.score(theirs),
        "untrained_elbo_test": None if one.untrained is None else one.untrained.score(theirs),
        "ar1_log_likelihood_train": one.linear.log_likelihood(ours),
        "ar1_log_likelihood_test": one.linear.log_likelihood(theirs),
    }
    yield {"baselines": state_baselines(ours, theirs, n_states, seed, one.untrained) if one.is_labelled else {}}
    yield asdict(one.score_predictions())
    yield {
        "smoothed_r2_train": stacked_r2(ours, one.reconstructed_train),
        "smoothed_r2_test": stacked_r2(theirs, model.smooth(theirs)),
        "persistence_smoothed_r2_train": stacked_r2(ours, [persistence(trial.y) for trial in ours]),
        "persistence_smoothed_r2_test": stacked_r2(theirs, [persistence(trial.y) for trial in theirs]),
        "untrained_smoothed_r2_test": None
        if one.untrained is None
        else stacked_r2(theirs, one.untrained.smooth(theirs)),
        "elbo_train": model.score(ours),
    }


def _posterior_name(model: StateModel) -> str | None:
    """Return the name of the posterior; None if the family has one only."""
    found = getattr(model, "posterior_", None) or getattr(model.config, "posterior", None)
    return None if found is None else str(found)
