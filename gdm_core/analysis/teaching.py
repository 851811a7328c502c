"""What pages ask of a fit once somebody has named a few moments: words for all others, how far to trust them, and what
to name next.

A lesson is the fit of the page, some stretches of its trials and the words that they are. The model that was taught it starts
from that fit. Nothing but the answer is handed back: a model with its classifier weighs megabytes, and is made again in a
second where another question about the same lesson comes to another worker.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.agreement import held_out_agreement
from gdm_core.analysis.bouts import clips_of
from gdm_core.analysis.metrics import macro_f1
from gdm_core.analysis.proposals import Clip, propose, unlike_taught
from gdm_core.errors import FitError
from gdm_core.models.gdm.teachable import TeachableModel
from gdm_core.models.loading import model_from_bytes
from gdm_core.trials import UNLABELLED, Trial, Trials

Array = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]
Stretch = tuple[int, int, int, int]  # trial, start, stop (exclusive), number of the word
MOST_KEPT = 2  # models that a worker remembers

_kept: OrderedDict[str, TeachableModel] = OrderedDict()


@dataclass(frozen=True, eq=False)
class Taught:
    """What a model that was taught `words` says of one trial, in the model's own order of states.

    proba        [T, C] calibrated probability of each word
    states       [T, K] soft states
    word_map     [K, C] probability of each word in each state
    state_words  the word of each state, None for a free one
    unlike       a sentence where the trial looks unlike those that were taught, else None
    """

    words: tuple[str, ...]
    proba: Array
    states: Array
    word_map: Array
    state_words: tuple[str | None, ...]
    unlike: str | None


@dataclass(frozen=True)
class Trust:
    """Macro-F1 on moments that the model was not taught, each beside always saying one word; None where it cannot be measured.

    held_out   on marks, each part of them named by a model that was taught the others
    expert     on the expert's labels of the new trials
    seconds    how much is marked
    """

    seconds: float
    held_out: float | None = None
    held_out_majority: float | None = None
    expert: float | None = None
    expert_majority: float | None = None


def painted(trials: Trials, stretches: Sequence[Stretch]) -> list[Codes]:
    """[T] for each trial the number of the word of each sample, -1 elsewhere."""
    found = [np.full(trial.n_samples, UNLABELLED, np.int64) for trial in trials]
    for trial, start, stop, word in stretches:
        found[trial][start:stop] = word
    return found


def taught(
    model_bytes: bytes, train: Trials, stretches: tuple[Stretch, ...], words: tuple[str, ...], trial: Trial
) -> Taught:
    """The words of `trial`, by the model that was taught these stretches of `train`."""
    model = _taught(model_bytes, train, stretches, words)
    return Taught(
        tuple(model.class_names_),
        np.asarray(model.predict_label_proba(trial), np.float32),
        np.asarray(model.predict_proba(trial), np.float32),
        np.asarray(model.word_map_, np.float32),
        model.state_words_,
        unlike_taught(model, trial)[0],
    )


def next_clips(
    model_bytes: bytes,
    train: Trials,
    stretches: tuple[Stretch, ...],
    words: tuple[str, ...],
    asked: tuple[Stretch, ...],
    n: int,
    clip_seconds: float,
) -> tuple[Clip, ...]:
    """Up to `n` clips of `train` whose words would teach most. Before there are two words, those that differ most.

    asked  clips that were proposed before
    """
    labels = painted(train, stretches)
    enough = len({stretch[3] for stretch in stretches}) > 1
    model = _taught(model_bytes, train, stretches, words) if enough else _teachable(model_bytes)
    before = [Clip(trial, start, stop) for trial, start, stop, _ in asked]
    return propose(model, train, labels, n=n, clip_seconds=clip_seconds, asked=before)


def trust(
    model_bytes: bytes,
    train: Trials,
    test: Trials,
    stretches: tuple[Stretch, ...],
    words: tuple[str, ...],
    expert: tuple[int, ...],
) -> Trust:
    """How well words are found where they were not taught.

    expert  for each word the expert's label that it is called like, -1 for none
    """
    labels = painted(train, stretches)
    held = held_out_agreement(_teachable(model_bytes), train, labels, clips_of([part >= 0 for part in labels]))
    seconds = sum(float((part >= 0).sum()) / trial.rate_hz for part, trial in zip(labels, train, strict=True))
    by_expert: tuple[float | None, float | None] = None, None
    known = [trial for trial in test if trial.labels is not None and (np.asarray(trial.labels) >= 0).any()]
    if known and max(expert) >= 0:
        model = _taught(model_bytes, train, stretches, words)
        truth = np.concatenate([np.asarray(trial.labels, np.int64) for trial in known])
        said = np.concatenate([np.asarray(expert)[model.predict_labels(trial)] for trial in known])
        commonest = int(np.bincount(truth[truth >= 0]).argmax())
        by_expert = macro_f1(said, truth), macro_f1(np.full(len(truth), commonest), truth)
    held_out, majority = (None, None) if held is None else (held.macro_f1, held.majority)
    return Trust(seconds, held_out, majority, *by_expert)


def _teachable(model_bytes: bytes) -> TeachableModel:
    model = model_from_bytes(model_bytes)
    if not isinstance(model, TeachableModel):
        raise FitError(f"{type(model).__name__} cannot be taught words; fit a GDM for that.")
    return model


def _taught(
    model_bytes: bytes, train: Trials, stretches: tuple[Stretch, ...], words: tuple[str, ...]
) -> TeachableModel:
    """The fit, taught: from where it stands, in a few steps."""
    key = f"{hashlib.sha256(model_bytes).hexdigest()}/{train.fingerprint}/{stretches}/{words}"
    if key not in _kept:
        model = _teachable(model_bytes).warm_start()
        for _ in model.fit_iter(train, painted(train, stretches), words, finish=False):
            pass
        _kept[key] = model
    _kept.move_to_end(key)
    while len(_kept) > MOST_KEPT:
        _kept.popitem(last=False)
    return _kept[key]
