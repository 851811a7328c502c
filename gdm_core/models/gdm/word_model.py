"""Words for every moment: what a classifier of moments says, carried through time by a sticky chain, and calibrated.

The classifier learns from the marked frames alone and answers for every frame. Its answers of neighbouring frames go
into a hidden Markov chain over the words, which stays where it is for a bout; members that were each taught without a
fifth of the marks say, on that fifth, how sure the chain may be (one temperature), and where they disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.maths import hmm
from gdm_core.models.gdm.labels import Labels
from gdm_core.models.gdm.window_features import window_features, window_lengths
from gdm_core.models.gdm.word_classifier import TREES, WordClassifier
from gdm_core.trials import UNLABELLED

Float = npt.NDArray[np.float64]

BOUT_SECONDS = 5 / 3  # the mean stay that the chain expects
CLIP_SECONDS = 2.0  # longer marks count as several, for what is taught and what is held back
MEMBERS = 5
MEMBER_TREES = 8
_ROWS_A_SECOND = 10  # neighbouring frames say the same
_MOST_ROWS = 8_000
_MOST_TAUGHT = 6_000
_LEAST_STAY = 0.9
_TEMPERATURES = np.geomspace(1.0, 32.0, 21)
_TEMPERATURE_UNKNOWN = 4.0  # where no mark could be held back
_FIRST_GUESS_STRENGTH = 0.3  # of what the classifier says, where unmarked frames are guessed with it
_GUESS_WEIGHT = 0.3  # of all guessed frames together, against all marked ones
_MOST_GUESSED = 4_000
_MARK_SHARE, _GUESS_SHARE = 0.25, 0.05  # of a sample's channels that a marked or a guessed word weighs in the bound
_MOST_BALANCE = 10.0
_NEVER = -30.0
STATES_STRENGTH = 0.3  # of what soft states say of words, beside the classifier (docs/teach.md)
_LEAST_SHARE = 1e-3
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class WordModel:
    """Says which word each moment is.

    names      of all words; those that were never marked have probability 0
    words      [W] numbers of the words that were marked, in the order in which their first marks lie
    members    classifiers that lack a part of the marks each; the last one has all
    """

    names: tuple[str, ...]
    words: npt.NDArray[np.int64]
    windows: tuple[int, ...]
    stay: float
    temperature: float
    members: tuple[WordClassifier, ...]
    low: npt.NDArray[np.float32]  # [F] between these lie 98 % of what the recordings that were taught hold
    high: npt.NDArray[np.float32]

    def probabilities(self, y: npt.NDArray[Any], by_state: Float | None = None) -> npt.NDArray[np.float32]:
        """[T, C] calibrated probability of each word, for a standardised trial.

        by_state  [T, W] what soft states say of words
        """
        log_p = self._log_said(window_features(y, self.windows), by_state)
        return self.of_all_words(self._tempered(np.log(_through_time(log_p, [len(y)], self.stay) + _TINY)))

    def next_word(
        self, y: npt.NDArray[Any], at: int, by_state: Float, before: Float | None
    ) -> tuple[Float, npt.NDArray[np.float32]]:
        """Sample `at` of a recording that ends with `y`, going on from what `before` [W] said of the sample before it, None
        for the first: what to go on from next [W], and the calibrated probability of each word [C]."""
        log_p = self._log_said(window_features(y, self.windows, np.array([at])), by_state)[0]
        if before is not None:
            leave = (1 - self.stay) / (len(before) - 1)
            log_p = log_p + np.log(leave + (self.stay - leave) * before)
        p = hmm.softmax(log_p)[0]
        return p, self.of_all_words(self._tempered(np.log(p + _TINY))[None])[0]

    def _log_said(self, x: npt.NDArray[np.float32], by_state: Float | None) -> Float:
        """[R, W] log probability of each word by what the classifier sees and by what soft states [R, W] say."""
        log_p = np.log(self.members[-1].probabilities(x))
        return log_p if by_state is None else log_p + STATES_STRENGTH * np.log(by_state + _LEAST_SHARE)

    def disagreement(self, y: npt.NDArray[Any]) -> Float:
        """[T] nats by which the members contradict each other: information that a mark there would give about them."""
        x = window_features(y, self.windows)
        said = np.stack([member.probabilities(x) for member in self.members])  # [M, T, W]
        return _entropy(said.mean(axis=0)) - _entropy(said).mean(axis=0)

    def unfamiliar_share(self, y: npt.NDArray[Any]) -> float:
        """Share of a standardised trial's features that lie outside of what the taught recordings hold; 0.02 among those."""
        x = window_features(y, self.windows)
        return float(((x < self.low) | (x > self.high)).mean())

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What a file keeps."""
        kept: dict[str, npt.NDArray[Any]] = {
            "words": self.words,
            "windows": np.array(self.windows),
            "numbers": np.array([len(self.names), self.stay, self.temperature, len(self.members)]),
            "low": self.low,
            "high": self.high,
        }
        for i, member in enumerate(self.members):
            kept |= {f"member{i}.{name}": value for name, value in member.arrays().items()}
        return kept

    @classmethod
    def from_arrays(cls, kept: dict[str, npt.NDArray[Any]], names: tuple[str, ...]) -> WordModel:
        """What `arrays` gave, with the names of all words."""
        n_words, stay, temperature, n_members = (float(number) for number in kept["numbers"])
        if len(names) != n_words:
            raise ValueError(f"{len(names)} names for {n_words:.0f} words")
        members = [
            {name.partition(".")[2]: value for name, value in kept.items() if name.startswith(f"member{i}.")}
            for i in range(int(n_members))
        ]
        return cls(
            names,
            kept["words"],
            tuple(int(window) for window in kept["windows"]),
            stay,
            temperature,
            tuple(WordClassifier(**member) for member in members),
            kept["low"],
            kept["high"],
        )

    def _tempered(self, log_p: Float) -> Float:
        return hmm.softmax(log_p / self.temperature)[0]

    def of_all_words(self, p: Float) -> npt.NDArray[np.float32]:
        """[..., C] from [..., W] of the marked ones."""
        found = np.zeros((len(p), len(self.names)), np.float32)
        found[:, self.words] = p
        return found


@dataclass(frozen=True, eq=False)
class Guess:
    """What the marks make of the recordings they lie in, of every `step`-th sample of each trial.

    words    [R, W] probability of each word
    marked   [R] the word that was marked there, -1 for none
    lengths  how many of the R belong to each trial
    """

    words: Float
    marked: npt.NDArray[np.int64]
    lengths: list[int]
    step: int

    def row_weights(self, n_channels: int, n_samples: list[int]) -> npt.NDArray[np.float32]:
        """[samples of all trials, W] how much each counts as each word in the bound of a fit, every word the same in all.

        A mark counts as much as a share of a sample's channels, so that it is heard beside them, a guess less.
        """
        heard = n_channels * np.where(self.marked >= 0, _MARK_SHARE, _GUESS_SHARE)[:, None] * self.words
        of_word = heard.sum(axis=0)
        balanced = heard * np.clip(of_word.mean() / np.maximum(of_word, 1e-9), 1 / _MOST_BALANCE, _MOST_BALANCE)
        parts = np.split(balanced, np.cumsum(self.lengths)[:-1])
        spread = [np.repeat(part, self.step, axis=0)[:n] for part, n in zip(parts, n_samples, strict=True)]
        return np.concatenate(spread).astype(np.float32)


def learn(ys: list[npt.NDArray[Any]], labels: Labels, seed: int) -> tuple[WordModel, Guess]:
    """A model from the marks in standardised trials [T, N], and what it says about all of them.

    First from the marks alone; then once more with what the chain makes of every frame beside them, at a smaller weight.
    """
    rate_hz = labels.rate_hz
    fine = max(1, round(rate_hz / _ROWS_A_SECOND))
    n_marked = sum(int((codes >= 0).sum()) for codes in labels.codes)
    words, n_words = labels.used, len(labels.names)
    rank = np.full(n_words + 1, UNLABELLED)  # the last entry is that of -1
    rank[words] = np.arange(len(words))
    folds = _folds(labels.codes, max(2, round(CLIP_SECONDS * rate_hz)))
    windows = window_lengths(rate_hz)
    stay = max(_LEAST_STAY, 1 - 1 / (BOUT_SECONDS * rate_hz))

    rows = [_marked_rows(codes, max(fine, -(-n_marked // _MOST_TAUGHT))) for codes in labels.codes]
    x, answers, fold = _gather(ys, labels.codes, folds, rows, windows, rank)
    step = max(fine, -(-sum(len(y) for y in ys) // _MOST_ROWS))
    grid = [np.arange(0, len(y), step) for y in ys]
    everywhere, truth, held = _gather(ys, labels.codes, folds, grid, windows, rank)
    lengths = [len(part) for part in grid]

    def fitted(kept: npt.NDArray[Any], n_trees: int, number: int) -> WordClassifier:
        weight = WordClassifier.balanced(answers[kept], len(words)) * n_marked
        return WordClassifier.fit(x[kept], answers[kept], weight, len(words), n_trees, seed * (MEMBERS + 2) + number)

    members, sure, said = [], [], []
    for number in range(MEMBERS):
        kept = fold != number
        if kept.all() or len(np.unique(answers[kept])) < 2:
            continue
        members.append(fitted(kept, MEMBER_TREES, number))
        there = held == number
        if there.any():
            guess = _through_time(np.log(members[-1].probabilities(everywhere)), lengths, stay**step)
            sure.append(np.log(guess[there] + _TINY))
            said.append(truth[there])
    temperature = _temperature(np.concatenate(sure), np.concatenate(said)) if sure else _TEMPERATURE_UNKNOWN

    first = fitted(np.ones(len(x), bool), MEMBER_TREES, MEMBERS)
    guess = _anchored(np.log(first.probabilities(everywhere)) * _FIRST_GUESS_STRENGTH, truth, lengths, stay**step)
    unsaid = np.flatnonzero(truth < 0)[:: max(1, -(-len(truth) // _MOST_GUESSED))]
    answers_too = np.tile(np.arange(len(words)), len(unsaid))
    weight_too = guess[unsaid].ravel() / np.maximum(guess[unsaid].sum(axis=0), 1.0)[answers_too] / len(words)
    counts = np.concatenate([[True] * len(x), weight_too > 1e-3 * weight_too.max(initial=0)])
    final = WordClassifier.fit(
        np.concatenate([x, np.repeat(everywhere[unsaid], len(words), axis=0)])[counts],
        np.concatenate([answers, answers_too])[counts],
        n_marked * np.concatenate([WordClassifier.balanced(answers, len(words)), _GUESS_WEIGHT * weight_too])[counts],
        len(words),
        TREES,
        seed * (MEMBERS + 2) + MEMBERS + 1,
    )
    model = WordModel(labels.names, words, windows, stay, temperature, (*members, final), *_ordinary(everywhere))
    known = _anchored(np.log(final.probabilities(everywhere)), truth, lengths, stay**step)
    return model, Guess(known, truth, lengths, step)


def _ordinary(x: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    low, high = np.quantile(x, (0.01, 0.99), axis=0).astype(np.float32)
    return low, high


def _folds(codes: tuple[npt.NDArray[np.int64], ...], clip: int) -> list[npt.NDArray[np.int64]]:
    """For each sample the part of the marks that it belongs to, -1 where unmarked. Parts are stretches of time: marks of
    one moment never lie in two of them."""
    clips, n_clips = [], 0
    for array in codes:
        marked = array >= 0
        begins = marked & ~np.concatenate([[False], marked[:-1]])
        since = np.arange(len(array)) - np.maximum.accumulate(np.where(begins, np.arange(len(array)), 0))
        begins |= marked & (since % clip == 0)
        clips.append(np.where(marked, np.cumsum(begins) - 1 + n_clips, -1))
        n_clips += int(begins.sum())
    return [np.where(array < 0, -1, array * MEMBERS // max(n_clips, 1)) for array in clips]


def _gather(
    ys: list[npt.NDArray[Any]],
    codes: tuple[npt.NDArray[np.int64], ...],
    folds: list[npt.NDArray[np.int64]],
    rows: list[npt.NDArray[np.intp]],
    windows: tuple[int, ...],
    rank: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Features, words by rank and folds of some rows of each trial."""
    x = np.concatenate([window_features(y, windows, part) for y, part in zip(ys, rows, strict=True)])
    words = np.concatenate([rank[array[part]] for array, part in zip(codes, rows, strict=True)])
    return x, words, np.concatenate([array[part] for array, part in zip(folds, rows, strict=True)])


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


def _entropy(p: Float) -> Float:
    return -np.asarray((p * np.log(p)).sum(axis=-1))


def _temperature(log_p: Float, truth: npt.NDArray[np.int64]) -> float:
    """The one under which the held-back marks are likeliest."""
    losses = []
    for temperature in _TEMPERATURES:
        scores = log_p / temperature
        losses.append(float(-hmm.log_normalise(scores)[0][np.arange(len(truth)), truth].mean()))
    return float(_TEMPERATURES[int(np.argmin(losses))])
