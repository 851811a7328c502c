"""How far words can be trusted: whether probabilities keep what they promise, and agreement with marks that were held back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.metrics import macro_f1
from gdm_core.errors import DataError
from gdm_core.trials import UNLABELLED, TrialsLike, as_trials

if TYPE_CHECKING:
    from gdm_core.models.gdm.model import GDM  # loads torch, which first visits do not need


@dataclass(frozen=True)
class Reliability:
    """promised, kept [bins]: mean probability of the likeliest word, and how often it was right; share [bins] of the samples.

    error  mean distance of the two over all samples (expected calibration error)
    """

    promised: tuple[float, ...]
    kept: tuple[float, ...]
    share: tuple[float, ...]
    error: float


def reliability(proba: npt.NDArray[Any], labels: npt.ArrayLike, bins: int = 10) -> Reliability:
    """Of probabilities [T, C] against labels [T], -1 left out; empty bins are left out, too."""
    known = np.asarray(labels)
    if len(known) != len(proba):
        raise DataError(f"There are {len(proba)} probabilities for {len(known)} labels; give one label a sample.")
    there = known != UNLABELLED
    if not there.any():
        raise DataError("No sample has a label (all are -1); reliability needs labels.")
    p, truth = np.asarray(proba, np.float64)[there], known[there]
    sure, right = p.max(axis=1), p.argmax(axis=1) == truth
    which = np.minimum((sure * bins).astype(int), bins - 1)
    filled = [which == i for i in range(bins) if (which == i).any()]
    promised = tuple(float(sure[part].mean()) for part in filled)
    kept = tuple(float(right[part].mean()) for part in filled)
    share = tuple(float(part.mean()) for part in filled)
    error = sum(s * abs(a - b) for a, b, s in zip(promised, kept, share, strict=True))
    return Reliability(promised, kept, share, float(error))


@dataclass(frozen=True)
class Agreement:
    """On marks that a model did not see: macro-F1, the same of always saying the commonest word, and how much was marked."""

    macro_f1: float
    majority: float
    seconds: float


def held_out_agreement(
    model: GDM,
    trials: TrialsLike,
    labels: Sequence[npt.ArrayLike],
    clips: Sequence[npt.ArrayLike],
    n_folds: int = 4,
) -> Agreement | None:
    """Agreement of `model`'s configuration with marks, each part of them named by a fit that was taught the others.

    clips  [T] for each trial the number of the clip that a sample was marked with, -1 where unmarked: a clip is never split
    None where the marks are too few to leave some out: a word would be missing.
    """
    data = as_trials(trials)
    known, numbers = [np.asarray(part) for part in labels], [np.asarray(part) for part in clips]
    ids = np.unique(np.concatenate(numbers))
    ids = ids[ids >= 0]
    truth, said = [], []
    for fold in np.array_split(ids, min(n_folds, len(ids))):
        out = [np.isin(part, fold) for part in numbers]
        kept = [np.where(gone, UNLABELLED, part) for part, gone in zip(known, out, strict=True)]
        counts = np.unique(np.concatenate(kept), return_counts=True)
        if len(counts[0][counts[0] >= 0]) < 2 or (counts[1][counts[0] >= 0] < 2).any():
            continue
        taught = model.warm_start()
        for _ in taught.fit_iter(data, kept, finish=False):  # words need neither a score nor calibrated forecasts
            pass
        for part, gone, guess in zip(known, out, taught.predict_labels(data), strict=True):
            truth.append(part[gone])
            said.append(guess[gone])
    if not truth:
        return None
    found, guessed = np.concatenate(truth), np.concatenate(said)
    every = np.concatenate(known)
    commonest = np.bincount(every[every >= 0]).argmax()
    seconds = sum(float((part >= 0).sum()) / trial.rate_hz for part, trial in zip(known, data, strict=True))
    return Agreement(macro_f1(guessed, found), macro_f1(np.full(len(found), commonest), found), seconds)
