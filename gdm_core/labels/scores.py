"""Agreement of predicted with known labels, and calibration."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.state_scores import macro_f1
from gdm_core.errors import DataError
from gdm_core.trials import UNLABELLED


class Agreement(NamedTuple):
    """Macro-F1 over `n_classes` classes, and macro-F1 of always predicting the most common class."""

    macro_f1: float
    majority: float
    n_classes: int


def measure_agreement(predicted: npt.ArrayLike, truth: npt.ArrayLike) -> Agreement:
    """Compare predicted with known labels [T]."""
    known = np.asarray(truth)
    classes, count = np.unique(known, return_counts=True)
    majority = np.full(len(known), classes[count.argmax()])
    return Agreement(macro_f1(np.asarray(predicted), known), macro_f1(majority, known), len(classes))


def calibration_error(proba: npt.NDArray[Any], labels: npt.ArrayLike, bins: int = 10) -> float:
    """Return the expected calibration error of probabilities [T, C] on labels [T], without unlabelled samples."""
    known = np.asarray(labels)
    if len(known) != len(proba):
        raise DataError(f"There are {len(proba)} probabilities for {len(known)} labels. Pass one label per sample.")
    labelled = known != UNLABELLED
    if not labelled.any():
        raise DataError("No sample has a label (all are -1); calibration needs labels.")
    p, truth = np.asarray(proba, np.float64)[labelled], known[labelled]
    confidence, correct = p.max(axis=1), p.argmax(axis=1) == truth
    bin_of = np.minimum((confidence * bins).astype(int), bins - 1)
    parts = [bin_of == i for i in np.unique(bin_of)]
    return float(sum(part.mean() * abs(confidence[part].mean() - correct[part].mean()) for part in parts))
