"""Functions that workers run for pages: from model bytes and labelled stretches to labels, clips and agreement.

Empty model bytes mean a label model without a base model.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core.labels.model import CalibratedOn, LabelModel
from gdm_core.labels.proposals import Clip, propose, unfamiliar_message
from gdm_core.labels.scores import Agreement, measure_agreement
from gdm_core.models.loading import model_from_bytes
from gdm_core.trials import UNLABELLED, Stretch, Trial, Trials, paint_labels

Array = npt.NDArray[np.float32]
MOST_CACHED = 2  # label models in a worker's memory

_cache: OrderedDict[str, LabelModel] = OrderedDict()


@dataclass(frozen=True, eq=False)
class LabelAnswers:
    """Labels of one trial.

    names           of the classes
    proba           [T, C] calibrated probabilities
    unfamiliar      warning if the trial differs from the training recordings, else None
    held_out        agreement in cross-validation
    calibrated_on   unit of cross-validation
    """

    names: tuple[str, ...]
    proba: Array
    unfamiliar: str | None
    held_out: Agreement | None
    calibrated_on: CalibratedOn

    @property
    def confidence(self) -> Array:
        """Probability [T] of the most probable label."""
        return np.asarray(self.proba.max(axis=1))


@dataclass(frozen=True)
class Trust:
    """Agreement in cross-validation, and with the expert's labels of held-out trials; None if not measurable."""

    seconds: float
    held_out: Agreement | None
    expert: Agreement | None


def expert_agreement(label_model: LabelModel, trials: Trials, expert: Sequence[int]) -> Agreement | None:
    """Compare predictions with the trials' own labels; return None if they have no matching labels.

    expert   the trials' label of each class, -1 for none
    """
    known = [trial for trial in trials if trial.labels is not None and (np.asarray(trial.labels) >= 0).any()]
    if not known or max(expert) < 0:
        return None
    truth = np.concatenate([np.asarray(trial.labels, np.int64) for trial in known])
    predicted = np.asarray(expert)[np.concatenate([label_model.predict(trial) for trial in known])]
    labelled = truth != UNLABELLED
    return measure_agreement(predicted[labelled], truth[labelled])


def label_answers(
    model_bytes: bytes, train: Trials, stretches: tuple[Stretch, ...], names: tuple[str, ...], trial: Trial
) -> LabelAnswers:
    """Return the labels of `trial`, learned from labelled stretches of `train`."""
    model = _fit(model_bytes, train, stretches, names)
    return LabelAnswers(
        model.class_names_,
        model.predict_proba(trial),
        unfamiliar_message(model, trial)[0],
        model.held_out_,
        model.calibrated_on_,
    )


def next_clips(
    model_bytes: bytes,
    train: Trials,
    stretches: tuple[Stretch, ...],
    names: tuple[str, ...],
    proposed: tuple[Stretch, ...],
    n: int,
    clip_seconds: float,
) -> tuple[Clip, ...]:
    """Return up to `n` clips to label next; below two classes, the most different.

    proposed   clips that were proposed before
    """
    enough = len({stretch[3] for stretch in stretches}) > 1
    model = _fit(model_bytes, train, stretches, names) if enough else model_from_bytes(model_bytes)
    before = [Clip(trial, start, stop) for trial, start, stop, _ in proposed]
    return propose(model, train, paint_labels(train, stretches), n=n, clip_seconds=clip_seconds, exclude=before)


def trust(
    model_bytes: bytes,
    train: Trials,
    test: Trials,
    stretches: tuple[Stretch, ...],
    names: tuple[str, ...],
    expert: tuple[int, ...],
) -> Trust:
    """Measure agreement in cross-validation and with the expert.

    expert   the expert's label of each class, -1 for none
    """
    model = _fit(model_bytes, train, stretches, names)
    labels = paint_labels(train, stretches)
    seconds = sum(float((a >= 0).sum()) / trial.rate_hz for a, trial in zip(labels, train, strict=True))
    return Trust(seconds, model.held_out_, expert_agreement(model, test, expert))


def _fit(model_bytes: bytes, train: Trials, stretches: tuple[Stretch, ...], names: tuple[str, ...]) -> LabelModel:
    key = f"{hashlib.sha256(model_bytes).hexdigest()}/{train.fingerprint}/{stretches}/{names}"
    if key not in _cache:
        model = LabelModel(model_from_bytes(model_bytes) if model_bytes else None)
        _cache[key] = model.fit(train, paint_labels(train, stretches), names)
    _cache.move_to_end(key)
    while len(_cache) > MOST_CACHED:
        _cache.popitem(last=False)
    return _cache[key]
