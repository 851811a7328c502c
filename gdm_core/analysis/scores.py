"""The record that `evaluate` returns: every score beside the lines it has to beat, and what a reader must know of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.analysis import baselines
from gdm_core.text import for_json
from gdm_core.trials import UNLABELLED, Trials

# Rows of the table: field, words. The first is the headline.
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


@dataclass(frozen=True)
class StateScores:
    """How well states match labels on the test trials; None where a score does not apply.

    matched_accuracy       headline: one-to-one matching found on train, applied to test. With another number of states
                           than labels, `matching` is "many-to-one" and each state stands for its majority label
    matched_on_test        the same with the matching found on the test trials, for reference
    majority_map_accuracy  each state votes its majority training label (ties cannot matter)
    paper_accuracy         the paper's metric: 10 nearest neighbours from soft state vectors to labels
    paper_accuracy_hard    the same from one-hot vectors, where the neighbours are an arbitrary ten
    balanced_accuracy, macro_f1   of the labels that the headline's map predicts
    nmi, ari               of the largest state against the labels, no map needed
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
    """Forecasts of the test trials at horizons 1..10, each tuple one value a horizon.

    coverage_*       share of outcomes inside the envelope as calibrated on the training data
    adaptive_*       the same of the envelope that learns along the test trial
    adaptive_width   mean width of its 90 % band, relative to the calibrated one's
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
    """Every score of one model on one pair of train and test trials.

    smoothed_r2_*   reconstruction: the states have seen the sample they explain; beside it each sample predicted by the
                    one before (`persistence_smoothed_r2_*`)
    elbo_*          nats per time step in the data's units; beside it the log-likelihood of the linear AR(1)
    baselines       state scores of what learns no dynamics, and of the same model untrained
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
        """Plain values for JSON; what is not a finite number becomes None."""
        plain: dict[str, Any] = for_json(self)
        return plain

    def line_to_beat(self, score: str) -> tuple[str, float] | None:
        """The best baseline of a state score: (name, value)."""
        found = [(getattr(b, score), name) for name, b in self.baselines.items() if getattr(b, score) is not None]
        if not found:
            return None
        value, name = max(found)
        return name, value

    def to_frame(self) -> pd.DataFrame:
        """A row for each score of states: the model's, then each baseline's."""
        rows = {self.model: self, **self.baselines}
        return pd.DataFrame({name: {score: getattr(one, score) for score in STATE_ROWS} for name, one in rows.items()})

    def __str__(self) -> str:
        return self.table()

    def table(self) -> str:
        """Plain text: each score beside its line to beat."""
        rows: list[tuple[str, str, str]] = []
        if self.matched_on_test is not None:
            for score, words in STATE_ROWS.items():
                best = self.line_to_beat(score)
                detail = f" ({self.matching})" if score == "matched_accuracy" else ""
                beat = "-" if best is None else f"{best[1]:.3f}  {best[0]}"
                rows.append((words + detail, _number(getattr(self, score)), beat))
        for side in ("train", "test"):
            beat = f"{_number(getattr(self, f'persistence_smoothed_r2_{side}'))}  the sample before"
            rows.append(
                (f"smoothed R2, {side} (a reconstruction)", _number(getattr(self, f"smoothed_r2_{side}")), beat)
            )
        for h in HORIZONS_SHOWN:
            if h <= len(self.forecast_r2):
                lines = {"persistence": self.persistence_r2[h - 1], "linear AR(1)": self.ar1_r2[h - 1]}
                beat = ", ".join(f"{_number(value, 4)}  {name}" for name, value in lines.items())
                rows.append((f"forecast R2, {h} step{'s' * (h > 1)} ahead", _number(self.forecast_r2[h - 1], 4), beat))
        for h in HORIZONS_SHOWN:
            if h <= len(self.coverage_90):
                held = f"{_number(self.adaptive_50[h - 1])} / {_number(self.adaptive_90[h - 1])}"
                fixed = f"{_number(self.coverage_50[h - 1])} / {_number(self.coverage_90[h - 1])}  as calibrated"
                words = f"adaptive envelope holds, {h} step{'s' * (h > 1)} ahead"
                rows.append((words, held, f"0.500 / 0.900  nominal, {fixed}"))
        for side in ("train", "test"):
            beat = f"{_number(getattr(self, f'ar1_log_likelihood_{side}'))}  linear AR(1) log-likelihood"
            if side == "test" and self.untrained_elbo_test is not None:
                beat += f", {_number(self.untrained_elbo_test)}  untrained"
            rows.append((f"ELBO a time step, {side} (nats)", _number(getattr(self, f"elbo_{side}")), beat))
        text = [self.model + (f", posterior {self.posterior}" if self.posterior else "")]
        text += align([("", "model", "to beat"), *rows])
        text += [f"Note: {note}" for note in self.notes]
        return "\n".join(text)


def align(rows: list[tuple[str, ...]]) -> list[str]:
    """Lines of text with columns of equal width; the first column is words, the rest keep to the left as well."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def notes_on(
    train: Trials,
    test: Trials,
    known: npt.NDArray[np.int64],
    truth: npt.NDArray[np.int64],
    n_states: int,
    has_untrained: bool,
) -> tuple[str, ...]:
    """What a reader must know to read the numbers."""
    notes = []
    if (truth == UNLABELLED).all():
        notes.append("No test sample is labelled: there are no state scores.")
    else:
        if (known == UNLABELLED).all():
            notes.append("No training sample is labelled: scores that carry labels from train to test are missing.")
        labels = set(np.unique(np.concatenate([known, truth])).tolist()) - {UNLABELLED}
        if len(labels) != n_states:
            notes.append(
                f"{n_states} states for {len(labels)} labels: each state stands for its majority training label "
                "(many-to-one), since they cannot be matched one to one."
            )
    if int((known != UNLABELLED).sum()) > MAX_NEIGHBOUR_SAMPLES:
        notes.append(f"Nearest neighbours come from {MAX_NEIGHBOUR_SAMPLES:,} training samples drawn at random.")
    if train.n_samples > baselines.MAX_TRAINING_SAMPLES:
        notes.append(f"k-means and the HMM learned from the first {baselines.MAX_TRAINING_SAMPLES:,} training samples.")
    if test.n_samples > MAX_ORIGINS:
        notes.append(f"Forecasts start from about {MAX_ORIGINS:,} evenly spaced origins.")
    if not has_untrained:
        notes.append("No untrained control: this model family has none.")
    return tuple(notes)
