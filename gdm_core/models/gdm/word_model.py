"""Words for every moment: what a classifier of moments says, carried through time by a sticky chain, and calibrated.

The classifier learns from the marked frames alone and answers for every frame. Its answers of neighbouring frames, which
say nearly the same and so count little each, go into a hidden Markov chain over the words, which stays where it is for a
bout. Classifiers that were each taught without some of the recordings say, on those, how sure the chain may be (one
temperature). Where one recording alone is marked they lack parts of it, and nobody knows about others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError, DataError
from gdm_core.maths import hmm
from gdm_core.models.gdm.word_classifier import TREES, WordClassifier, longest_gap, window_features, window_lengths
from gdm_core.trials import UNLABELLED, Trials

Codes = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]
HeldOut = Literal["recordings", "parts", "nothing"]
_HELD_OUT: tuple[HeldOut, ...] = get_args(HeldOut)

BOUT_SECONDS = 5 / 3  # the mean stay that the chain expects
CLIP_SECONDS = 2.0  # longer marks count as several, for what is taught and what is held back
EVIDENCE_A_SECOND = (3.0, 15.0)  # moments a second that may count as different ones in the chain
FOLDS = 5
FOLD_TREES = 20
_ROWS_A_SECOND = 10  # neighbouring frames say the same
_MOST_ROWS = 8_000
_MOST_TAUGHT = 6_000
_LEAST_STAY = 0.9
_TEMPERATURES = np.geomspace(0.25, 32.0, 29)
_TEMPERATURE_UNKNOWN = 1.0  # where no mark could be held back
_MARK_SHARE, _GUESS_SHARE = 0.25, 0.05  # of a sample's channels that a marked or a guessed word weighs in the bound
_MOST_BALANCE = 10.0
_NEVER = -30.0
STATES_STRENGTH = 0.3  # of what soft states say of words, beside the classifier (docs/teach.md)
_LEAST_SHARE = 1e-3
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Labels:
    """codes: a word's number for each sample of each trial, -1 where nobody said. names: the words. rate_hz: of the trials."""

    codes: tuple[Codes, ...]
    names: tuple[str, ...]
    rate_hz: float

    @property
    def used(self) -> Codes:
        """Numbers of the words that were given, in the order of their first moments, whatever their numbers are."""
        joined = np.concatenate(self.codes)
        words, first = np.unique(joined[joined != UNLABELLED], return_index=True)
        return words[np.argsort(first)]


def check_labels(
    labels: Any, trials: Trials, single: bool, class_names: Sequence[str] | None, n_states: int
) -> Labels | None:
    """Labels that a model with `n_states` can learn from; None where nothing is labelled, so that nothing is learned.

    labels  [T] whole numbers for one recording, a list of such arrays for several, -1 where unlabelled
    """
    given = [labels] if single else list(labels)
    if len(given) != len(trials):
        raise DataError(
            f"There are labels for {len(given)} recordings, but {len(trials)} to fit; give one array for each."
        )
    codes = tuple(_checked(array, trial.name, trial.n_samples) for array, trial in zip(given, trials, strict=True))
    top = max(int(array.max()) for array in codes)
    if top == UNLABELLED:
        return None
    names = _names(class_names, trials, top)
    found = Labels(codes, names, float(np.median([trial.rate_hz for trial in trials])))
    counts = np.bincount(np.concatenate([array[array != UNLABELLED] for array in codes]), minlength=len(names))
    for word in np.flatnonzero(counts == 1):
        trial, at = next((i, int(np.argmax(array == word))) for i, array in enumerate(codes) if (array == word).any())
        raise DataError(
            f"The word {names[word]!r} is marked for a single frame (frame {at} of {trials[trial].name!r}), from which "
            "nothing can be learned. Mark a longer stretch of it, or take the mark away."
        )
    if len(found.used) == 1:
        raise DataError(
            f"Every mark says {names[found.used[0]]!r}. Mark at least one stretch that is something else, so that there "
            "is something to tell it from."
        )
    if len(found.used) > n_states:
        raise ConfigError(
            f"{len(found.used)} words are marked but n_states (K) is {n_states}; every word needs a state of its own. "
            f"Choose n_states >= {len(found.used)} or mark fewer words."
        )
    return found


def _checked(array: Any, name: str, n_samples: int) -> Codes:
    values = np.asarray(array)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise DataError(
            f"Labels of {name!r} have shape {values.shape} and type {values.dtype}; expected one whole number a sample, "
            "-1 where nothing was said."
        )
    if len(values) > n_samples:
        raise DataError(
            f"{len(values) - n_samples:,} labels lie outside of the recording {name!r}, which ends after {n_samples:,} "
            "samples. Check that they belong to it and count the same frames."
        )
    if len(values) < n_samples:
        raise DataError(
            f"Recording {name!r} has {n_samples:,} samples but {len(values):,} labels; give one for each, -1 where unlabelled."
        )
    if values.dtype.kind == "i" and int(values.min()) < UNLABELLED:
        raise DataError(
            f"Recording {name!r}: sample {int(values.argmin())} has the label {int(values.min())}; words count from 0, "
            "-1 is unlabelled."
        )
    return values.astype(np.int64)


def _names(class_names: Sequence[str] | None, trials: Trials, top: int) -> tuple[str, ...]:
    names = tuple(class_names) if class_names is not None else trials.label_names
    if not names:
        return tuple(f"word {i}" for i in range(top + 1))
    if len(set(names)) != len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"class_names holds {double!r} twice; every word needs a name of its own.")
    if top >= len(names):
        raise DataError(
            f"A label is {top} but there are {len(names)} class_names; expected labels from 0 to {len(names) - 1}, or -1."
        )
    return names


@dataclass(frozen=True, eq=False)
class WordModel:
    """Says which word each moment is.

    names         of all words; those that were never marked have probability 0
    words         [W] numbers of the words that were marked, in the order in which their first marks lie
    strength      of what the classifier says of one sample, in the chain
    longest_gap   samples; over such gaps channels are straight lines
    held_out      what `temperature` was chosen on: "recordings", "parts" of one recording, or "nothing"
    held_back     [moments] (word that was marked, word that was said of it) where a classifier and its chain were not taught
                  the mark; none in a model from a file
    """

    names: tuple[str, ...]
    words: npt.NDArray[np.int64]
    windows: tuple[int, ...]
    longest_gap: int
    stay: float
    strength: float
    temperature: float
    held_out: HeldOut
    classifier: WordClassifier
    low: npt.NDArray[np.float32]  # [F] between these lie 98 % of what the recordings that were taught hold
    high: npt.NDArray[np.float32]
    held_back: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None

    def probabilities(self, y: npt.NDArray[Any], by_state: Float | None = None) -> npt.NDArray[np.float32]:
        """[T, C] calibrated probability of each word, for a standardised trial.

        by_state  [T, W] what soft states say of words
        """
        said = _through_time(self._log_said(self._seen(y), by_state), [len(y)], self.stay)
        return self._calibrated(said)

    def next_word(
        self, y: npt.NDArray[Any], at: int, by_state: Float, before: Float | None
    ) -> tuple[Float, npt.NDArray[np.float32]]:
        """Sample `at` of a recording that ends with `y`, going on from what `before` [W] said of the sample before it, None
        for the first: what to go on from next [W], and the calibrated probability of each word [C]."""
        x = window_features(y, self.windows, self.longest_gap, np.array([at]))
        log_p = self._log_said(x, by_state)[0]
        if before is not None:
            leave = (1 - self.stay) / (len(before) - 1)
            log_p = log_p + np.log(leave + (self.stay - leave) * before)
        p = hmm.softmax(log_p)[0]
        return p, self._calibrated(p[None])[0]

    def _log_said(self, x: npt.NDArray[np.float32], by_state: Float | None) -> Float:
        """[R, W] what the chain hears of each moment, from what the classifier sees and what soft states [R, W] say."""
        log_p = np.log(self.classifier.probabilities(x))
        if by_state is not None:
            log_p = log_p + STATES_STRENGTH * np.log(by_state + _LEAST_SHARE)
        return self.strength * log_p

    def _calibrated(self, said: Float) -> npt.NDArray[np.float32]:
        """[R, C] of all words, from what the chain says of those that were marked [R, W]."""
        return self.of_all_words(hmm.softmax(np.log(said + _TINY) / self.temperature)[0])

    def unfamiliar_share(self, y: npt.NDArray[Any]) -> float:
        """Share of a standardised trial's features that lie outside of what the taught recordings hold; 0.02 among those."""
        x = self._seen(y)
        return float(((x < self.low) | (x > self.high)).mean())

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What a file keeps."""
        return {
            "words": self.words,
            "windows": np.array(self.windows),
            "numbers": np.array([len(self.names), self.stay, self.temperature, 1]),
            "time": np.array([self.strength, self.longest_gap, _HELD_OUT.index(self.held_out)]),
            "low": self.low,
            "high": self.high,
        } | {f"member0.{name}": value for name, value in self.classifier.arrays().items()}

    @classmethod
    def from_arrays(cls, kept: dict[str, npt.NDArray[Any]], names: tuple[str, ...]) -> WordModel:
        """What `arrays` gave, with the names of all words."""
        n_words, stay, temperature, n_members = (float(number) for number in kept["numbers"])
        if len(names) != n_words:
            raise ValueError(f"{len(names)} names for {n_words:.0f} words")
        last = f"member{int(n_members) - 1}."  # files of before hold others, of which nothing is asked now
        classifier = WordClassifier(
            **{name.removeprefix(last): value for name, value in kept.items() if name.startswith(last)}
        )
        # Before there was "time", every sample counted fully, gaps were means, and parts of recordings were held back.
        strength, longest, held_out = (float(number) for number in kept.get("time", np.array([1.0, 0.0, 1.0])))
        return cls(
            names,
            kept["words"],
            tuple(int(window) for window in kept["windows"]),
            int(longest),
            stay,
            strength,
            temperature,
            _HELD_OUT[int(held_out)],
            classifier,
            kept["low"],
            kept["high"],
        )

    def _seen(self, y: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        return window_features(y, self.windows, self.longest_gap)

    def of_all_words(self, p: Float) -> npt.NDArray[np.float32]:
        """[..., C] from [..., W] of the marked ones."""
        found = np.zeros((len(p), len(self.names)), np.float32)
        found[:, self.words] = p
        return found


def learn(ys: list[npt.NDArray[Any]], labels: Labels, seed: int) -> tuple[WordModel, npt.NDArray[np.float32]]:
    """A model from the marks in standardised trials [T, N], and by what it says about all of them, [samples of all trials, W] how
    much each counts as each word in the bound of a fit."""
    rate_hz = labels.rate_hz
    fine = max(1, round(rate_hz / _ROWS_A_SECOND))
    n_marked = sum(int((codes >= 0).sum()) for codes in labels.codes)
    words, n_words = labels.used, len(labels.names)
    rank = np.full(n_words + 1, UNLABELLED)  # the last entry is that of -1
    rank[words] = np.arange(len(words))
    folds, held_out = _folds(labels.codes, max(2, round(CLIP_SECONDS * rate_hz)))
    windows, longest = window_lengths(rate_hz), longest_gap(rate_hz)
    stay = max(_LEAST_STAY, 1 - 1 / (BOUT_SECONDS * rate_hz))

    def gathered(rows: list[npt.NDArray[np.intp]]) -> tuple[Any, Any, Any]:
        """Features, words by rank and folds of some rows of each trial."""
        x = np.concatenate([window_features(y, windows, longest, part) for y, part in zip(ys, rows, strict=True)])
        ranks = np.concatenate([rank[array[part]] for array, part in zip(labels.codes, rows, strict=True)])
        return x, ranks, np.concatenate([array[part] for array, part in zip(folds, rows, strict=True)])

    x, answers, fold = gathered(
        [_marked_rows(codes, max(fine, -(-n_marked // _MOST_TAUGHT))) for codes in labels.codes]
    )
    step = max(fine, -(-sum(len(y) for y in ys) // _MOST_ROWS))
    grid = [np.arange(0, len(y), step) for y in ys]
    everywhere, truth, held = gathered(grid)
    lengths = [len(part) for part in grid]
    stays = stay**step

    def fitted(kept: npt.NDArray[Any], n_trees: int, number: int) -> WordClassifier:
        weight = WordClassifier.balanced(answers[kept], len(words))
        return WordClassifier.fit(x[kept], answers[kept], weight, len(words), n_trees, seed * (FOLDS + 1) + number)

    answered = []  # what each classifier says everywhere, and where it may be asked
    for number in range(FOLDS):
        kept = fold != number
        there = (held == number) & np.isin(truth, answers[kept])  # all marks together do have the other words
        if not kept.all() and there.any() and len(np.unique(answers[kept])) > 1:
            answered.append((np.log(fitted(kept, FOLD_TREES, number).probabilities(everywhere)), there))
    strength, temperature, said = _chosen(answered, truth, lengths, stays, rate_hz / step)
    counted, strength = strength, min(1.0, strength / step)
    final = fitted(np.ones(len(x), bool), TREES, FOLDS)
    low, high = np.quantile(everywhere, (0.01, 0.99), axis=0).astype(np.float32)
    model = WordModel(
        labels.names, words, windows, longest, stay, strength, temperature, held_out if answered else "nothing", final,
        low, high, said,
    )  # fmt: skip
    known = _anchored(counted * np.log(final.probabilities(everywhere)), truth, lengths, stays)
    parts = np.split(_heard(known, truth, ys[0].shape[1]), np.cumsum(lengths)[:-1])
    weights = [np.repeat(part, step, axis=0)[: len(y)] for part, y in zip(parts, ys, strict=True)]
    return model, np.concatenate(weights).astype(np.float32)


def _heard(words: Float, marked: npt.NDArray[np.int64], n_channels: int) -> Float:
    """[R, W] how much rows with these probabilities count as each word, every word the same in all.

    A mark counts as much as a share of a sample's channels, so that it is heard beside them, a guess less.
    """
    heard = n_channels * np.where(marked >= 0, _MARK_SHARE, _GUESS_SHARE)[:, None] * words
    of_word = heard.sum(axis=0)
    balanced: Float = heard * np.clip(of_word.mean() / np.maximum(of_word, 1e-9), 1 / _MOST_BALANCE, _MOST_BALANCE)
    return balanced


def _folds(codes: tuple[npt.NDArray[np.int64], ...], clip: int) -> tuple[list[npt.NDArray[np.int64]], HeldOut]:
    """For each sample the part of the marks that it belongs to, -1 where unmarked, and what parts are: recordings, where
    two or more are marked, else stretches of time. Marks of one moment never lie in two of them."""
    marked = [i for i, array in enumerate(codes) if (array >= 0).any()]
    if len(marked) > 1:
        part = {i: number * FOLDS // len(marked) if len(marked) > FOLDS else number for number, i in enumerate(marked)}
        return [np.where(array < 0, -1, part.get(i, -1)) for i, array in enumerate(codes)], "recordings"
    clips, n_clips = [], 0
    for array in codes:
        there = array >= 0
        begins = there & ~np.concatenate([[False], there[:-1]])
        since = np.arange(len(array)) - np.maximum.accumulate(np.where(begins, np.arange(len(array)), 0))
        begins |= there & (since % clip == 0)
        clips.append(np.where(there, np.cumsum(begins) - 1 + n_clips, -1))
        n_clips += int(begins.sum())
    return [np.where(array < 0, -1, array * FOLDS // max(n_clips, 1)) for array in clips], "parts"


def _marked_rows(codes: npt.NDArray[np.int64], step: int) -> npt.NDArray[np.intp]:
    """Every `step`-th marked sample, and the first of each stay, so that no word is lost."""
    marked = np.flatnonzero(codes >= 0)
    turns = np.flatnonzero(np.diff(codes[marked], prepend=-1) != 0)
    return np.union1d(marked[::step], marked[turns])


def _anchored(log_p: Float, truth: npt.NDArray[np.int64], lengths: list[int], stay: float) -> Float:
    """Through time, with what was marked taken as it is."""
    certain = log_p.copy()
    at = np.flatnonzero(truth >= 0)
    certain[at] = _NEVER
    certain[at, truth[at]] = 0.0
    return _through_time(certain, lengths, stay)


def _through_time(log_p: Float, lengths: list[int], stay: float) -> Float:
    """[R, W] marginals of a chain that stays with probability `stay` and else goes anywhere."""
    n_words = log_p.shape[1]
    leave = np.log((1 - stay) / (n_words - 1))
    transition = np.where(np.eye(n_words, dtype=bool), np.log(stay), leave)
    starts = np.zeros(len(log_p), bool)
    starts[np.cumsum([0, *lengths[:-1]])] = True
    return hmm.posterior(log_p, np.full(n_words, -np.log(n_words)), transition, starts).states


def _chosen(
    answered: list[tuple[Float, npt.NDArray[np.bool_]]],
    truth: npt.NDArray[np.int64],
    lengths: list[int],
    stay: float,
    rate_hz: float,
) -> tuple[float, float, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None]:
    """How much of a sample counts in the chain, and the temperature, under which held-back marks are likeliest; and what was
    then said of these."""
    strengths = sorted({min(1.0, moments / rate_hz) for moments in EVIDENCE_A_SECOND})
    if not answered:
        return strengths[0], _TEMPERATURE_UNKNOWN, None
    marked = np.concatenate([truth[there] for _, there in answered])
    n_clips = len(marked) / rate_hz / CLIP_SECONDS
    found, said = [], {}
    for strength in strengths:
        through = [_through_time(strength * guess, lengths, stay)[there] for guess, there in answered]
        log_p = np.log(np.concatenate(through) + _TINY)
        said[strength] = log_p.argmax(axis=1)
        for temperature in _TEMPERATURES:
            likely = hmm.log_normalise(log_p / temperature)[0][np.arange(len(marked)), marked].mean()
            unusual = float(np.log(temperature) ** 2 / 2 / n_clips)  # a few clips are no reason to doubt much
            found.append((float(likely) - unusual, strength, float(temperature)))
    _, strength, temperature = max(found)
    return strength, temperature, (marked, said[strength])
