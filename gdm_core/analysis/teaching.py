"""What pages ask of a fit once somebody has named a few moments: words for all others, how far to trust them, and what
to name next.

A lesson is the fit of the page, some stretches of its trials and the words that they are. The model that was taught it starts
from that fit. Nothing but the answer is handed back: a model with its classifier weighs megabytes, and is made again in a
second where another question about the same lesson comes to another worker.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gdm_core.analysis import bout_scores
from gdm_core.analysis.bouts import clips_of
from gdm_core.analysis.looks import Look, look
from gdm_core.analysis.metrics import macro_f1
from gdm_core.analysis.proposals import Clip, propose, unlike_taught
from gdm_core.errors import DataError, FitError
from gdm_core.models.base import Status
from gdm_core.models.loading import model_from_bytes
from gdm_core.trials import UNLABELLED, Stretch, Trial, Trials, TrialsLike, as_trials, painted

if TYPE_CHECKING:
    from gdm_core.models.gdm.model import GDM  # loads torch, which first visits do not need

Array = npt.NDArray[np.float32]
MOST_KEPT = 2  # models that a worker remembers
FOLDS = 4  # of marks that are held back in turn

_kept: OrderedDict[str, GDM] = OrderedDict()


class HeldOut(NamedTuple):
    """Macro-F1 over `n_words` words that could be held back, and that of always saying the commonest."""

    macro_f1: float
    majority: float
    n_words: int


@dataclass(frozen=True, eq=False)
class Taught:
    """What a model that was taught `words` says of one trial, in the model's own order of states.

    proba        [T, C] calibrated probability of each word
    states       [T, K] soft states
    word_map     [K, C] probability of each word in each state
    state_words  the word of each state, None for a free one
    unlike       a sentence where the trial looks unlike those that were taught, else None
    held_out     how well its classifier names marks that were held back from it: known as soon as it has learned. None
                 where marks of two words could not be held back
    """

    words: tuple[str, ...]
    proba: Array
    states: Array
    word_map: Array
    state_words: tuple[str | None, ...]
    unlike: str | None
    held_out: HeldOut | None


@dataclass(frozen=True, eq=False)
class TaughtFit:
    """The fit itself, taught `words`: a model file, how it ended, and its look at all trials."""

    words: tuple[str, ...]
    model_bytes: bytes
    fit_status: str
    elbo: float
    seconds: float
    look: Look


@dataclass(frozen=True, eq=False)
class Overview:
    """What a model that was taught `words` says of a whole trial.

    shares      [C] mean probability of each word
    confidence  mean probability of the likeliest word
    unlike      a sentence where the trial looks unlike those that were taught, else None
    """

    words: tuple[str, ...]
    shares: Array
    confidence: float
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
        _held_out(model),
    )


def _held_out(model: GDM) -> HeldOut | None:
    kept = None if model.word_model_ is None else model.word_model_.held_back
    if kept is None or len(np.unique(kept[0])) < 2:
        return None
    marked, said = kept
    return HeldOut(*beside_commonest(said, marked, marked), len(np.unique(marked)))


def beside_commonest(said: Any, truth: Any, marks: Any) -> tuple[float, float]:
    """Macro-F1 of words, and that of always saying the commonest one of `marks`."""
    commonest = np.bincount(marks[marks >= 0]).argmax()
    return macro_f1(said, truth), macro_f1(np.full(len(truth), commonest), truth)


def calibration_error(proba: npt.NDArray[Any], labels: npt.ArrayLike, bins: int = 10) -> float:
    """How far probabilities [T, C] are from what they promise, on labels [T] (-1 left out): the mean distance, over all samples,
    of how sure the likeliest word is and how often it is right, among those that are as sure (expected calibration error)."""
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
    return float(sum(float(part.mean()) * abs(float(sure[part].mean()) - float(right[part].mean())) for part in filled))


def overview(
    model_bytes: bytes, train: Trials, test: Trials, stretches: tuple[Stretch, ...], words: tuple[str, ...]
) -> tuple[Overview, ...]:
    """Every trial in a few numbers, fitted ones first."""
    model = _taught(model_bytes, train, stretches, words)
    found = []
    for trial in (*train, *test):
        proba = np.asarray(model.predict_label_proba(trial), np.float32)
        names = tuple(model.class_names_)
        found.append(
            Overview(names, proba.mean(axis=0), float(proba.max(axis=1).mean()), unlike_taught(model, trial)[0])
        )
    return tuple(found)


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


def held_out_agreement(
    model: GDM, trials: TrialsLike, labels: Sequence[npt.ArrayLike], clips: Sequence[npt.ArrayLike]
) -> tuple[float, float] | None:
    """Agreement of `model`'s configuration with marks, each part of them named by a fit that was taught the others: macro-F1, and
    that of always saying the commonest word.

    clips  [T] for each trial the number of the clip that a sample was marked with, -1 where unmarked: a clip is never split
    None where the marks are too few to leave some out: a word would be missing.
    """
    data = as_trials(trials)
    known, numbers = [np.asarray(part) for part in labels], [np.asarray(part) for part in clips]
    ids = np.unique(np.concatenate(numbers))
    ids = ids[ids >= 0]
    truth, said = [], []
    for fold in np.array_split(ids, min(FOLDS, len(ids))):
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
    return beside_commonest(np.concatenate(said), np.concatenate(truth), np.concatenate(known))


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
    agreed = held_out_agreement(_teachable(model_bytes), train, labels, clips_of([part >= 0 for part in labels]))
    seconds = sum(float((part >= 0).sum()) / trial.rate_hz for part, trial in zip(labels, train, strict=True))
    held = Trust(seconds, *(agreed or ()))
    found = by_expert(_taught(model_bytes, train, stretches, words), test, expert)
    return held if found is None else replace(held, expert=found["macro_f1"], expert_majority=found["majority"])


def by_expert(model: GDM, test: Trials, expert: Sequence[int]) -> dict[str, float] | None:
    """Words of the new trials against the expert's labels of them: macro-F1, that of always saying the commonest, and how far
    probabilities are from what they promise. None where there are no labels, or none that is called like a word."""
    known = [trial for trial in test if trial.labels is not None and (np.asarray(trial.labels) >= 0).any()]
    if not known or max(expert) < 0:
        return None
    truth = np.concatenate([np.asarray(trial.labels, np.int64) for trial in known])
    proba = np.concatenate([model.predict_label_proba(trial) for trial in known])
    said = np.asarray(expert)[proba.argmax(axis=1)]
    number = {label: word for word, label in enumerate(expert) if label >= 0}
    as_words = np.array([UNLABELLED if z < 0 else number.get(int(z), len(expert)) for z in truth])
    f1, majority = beside_commonest(said, truth, truth)
    return {"macro_f1": f1, "majority": majority, "calibration_error": calibration_error(proba, as_words)}


def taught_fit(
    model_bytes: bytes, train: Trials, test: Trials | None, stretches: tuple[Stretch, ...], words: tuple[str, ...]
) -> TaughtFit:
    """The fit, taught to its end: what a page shows in place of the one without words."""
    began = time.perf_counter()
    model = _teachable(model_bytes).warm_start().fit(train, labels=painted(train, stretches), class_names=words)
    if model.status_ is Status.FAILED:
        raise FitError("The fit that was taught these words diverged. Another softness, or fewer states, may help.")
    file, elbo = model.to_bytes(), float(model.elbo_)
    seconds = time.perf_counter() - began
    return TaughtFit(words, file, str(model.status_), elbo, seconds, look(file, train, test))


def score_parts(
    model_bytes: bytes,
    train: Trials,
    test: Trials,
    smooth_s: float,
    shortest_s: float,
    stretches: tuple[Stretch, ...],
    words: tuple[str, ...],
    expert: tuple[int, ...],
    seed: int = 0,
) -> Iterator[dict[str, Any]]:
    """What is measured of a fit that was taught: its states as those of any fit, and under "by_words" what it calls moments."""
    named = by_expert(_teachable(model_bytes), test, expert)
    more = {} if named is None else {"by_words": named}
    for found in bout_scores.score_parts(model_bytes, train, test, smooth_s, shortest_s, seed):
        yield found | more


def seed_parts(
    model_bytes: bytes,
    train: Trials,
    test: Trials,
    smooth_s: float,
    shortest_s: float,
    stretches: tuple[Stretch, ...],
    words: tuple[str, ...],
    *more: Any,
) -> Iterator[dict[str, Any]]:
    """The same of a fit from another seed, which is taught the same words first."""
    taught = taught_fit(model_bytes, train, None, stretches, words).model_bytes
    yield from score_parts(taught, train, test, smooth_s, shortest_s, stretches, words, *more)


def _teachable(model_bytes: bytes) -> GDM:
    from gdm_core.models.gdm.model import GDM

    model = model_from_bytes(model_bytes)
    if not isinstance(model, GDM):
        raise FitError(f"{type(model).__name__} cannot be taught words; fit a GDM for that.")
    return model


def _taught(model_bytes: bytes, train: Trials, stretches: tuple[Stretch, ...], words: tuple[str, ...]) -> GDM:
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
