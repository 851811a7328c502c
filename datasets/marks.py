"""Marks: stretches of recordings that somebody named. Made and undone one by one, kept as JSON, exchanged in BORIS's form."""

from __future__ import annotations

import collections
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.analysis.bouts import stays
from gdm_core.analysis.tables import NO_SUBJECT, harmless
from gdm_core.errors import DataError
from gdm_core.trials import UNLABELLED, Stretch, Trials, labels_of, painted

from .readers.annotations import read_annotation
from .readers.source import Readable, brief

_FIELDS = ("recording", "start", "stop", "word")
CLIP_S = 2.0
MOST_LETTERS, MOST_FRAMES, MOST_TEXT = 300, 1_000_000_000, 20_000_000


@dataclass(frozen=True)
class Mark:
    """Samples start to stop (exclusive) of a recording are `word`."""

    recording: str
    start: int
    stop: int
    word: str

    def __post_init__(self) -> None:
        if not self.word.strip():
            raise DataError(f"A mark in {self.recording!r} has no word. Say what the moment is.")
        if self.start < 0 or self.stop <= self.start:
            raise DataError(
                f"A mark of {self.word!r} in {self.recording!r} goes from frame {self.start} to {self.stop}; it must begin at 0 "
                "or later and end after it begins."
            )


@dataclass(frozen=True)
class Marks:
    """What was marked, in the order in which it was; every change gives a new one. `undone` waits to be done again."""

    marks: tuple[Mark, ...] = ()
    undone: tuple[Mark, ...] = ()

    def add(self, mark: Mark) -> Marks:
        """With one more; refused where another word stands already."""
        for other in self.marks:
            if other.recording == mark.recording and other.word != mark.word:
                low, high = max(other.start, mark.start), min(other.stop, mark.stop)
                if low < high:
                    raise DataError(
                        f"Frames {low} to {high - 1} of {mark.recording!r} are marked as {other.word!r} already and cannot be "
                        f"{mark.word!r} too. Undo the other mark first, or mark a stretch beside it."
                    )
        return Marks((*self.marks, mark))

    def undo(self) -> Marks:
        """Without the last one; itself where nothing is marked."""
        return Marks(self.marks[:-1], (*self.undone, self.marks[-1])) if self.marks else self

    def redo(self) -> Marks:
        """With what was undone last; itself where nothing was."""
        return Marks((*self.marks, self.undone[-1]), self.undone[:-1]) if self.undone else self

    def without(self, mark: Mark) -> Marks:
        """Without one of them, which can be done again like one that was undone."""
        left = tuple(other for other in self.marks if other != mark)
        return self if left == self.marks else Marks(left, (*self.undone, mark))

    @property
    def words(self) -> tuple[str, ...]:
        """Each word once, in the order of their first marks."""
        return tuple(dict.fromkeys(mark.word for mark in self.marks))

    def seconds(self, trials: Trials) -> float:
        """How much is marked in these recordings; what was marked twice counts once."""
        codes, _ = self.labels(trials)
        return float(sum((part >= 0).sum() / trial.rate_hz for part, trial in zip(codes, trials, strict=True)))

    def labels(self, trials: Trials) -> tuple[list[npt.NDArray[np.int64]], tuple[str, ...]]:
        """(labels [T] of each recording, -1 where unmarked, and the words they count), as `GDM.fit` takes them."""
        where = {trial.name: i for i, trial in enumerate(trials)}
        for mark in self.marks:
            if mark.recording not in where:
                raise DataError(
                    f"A mark of {mark.word!r} belongs to the recording {mark.recording!r}, which is not among: "
                    f"{', '.join(list(where)[:5])}."
                )
            last = trials[where[mark.recording]].n_samples - 1
            if mark.stop > last + 1:
                raise DataError(
                    f"A mark of {mark.word!r} goes to frame {mark.stop - 1} of {mark.recording!r}, which ends with frame "
                    f"{last}. Check that it belongs to this recording."
                )
        return painted(trials, self.stretches(trials)), self.words

    def stretches(self, trials: Trials) -> tuple[Stretch, ...]:
        """(trial, start, stop, number of the word) of each mark, in the order in which they were made."""
        where = {trial.name: i for i, trial in enumerate(trials)}
        words = {word: i for i, word in enumerate(self.words)}
        return tuple((where[mark.recording], mark.start, mark.stop, words[mark.word]) for mark in self.marks)

    # ---- to and from files --------------------------------------------------------------------------------------
    def to_json(self) -> str:
        return json.dumps({"marks": [asdict(mark) for mark in self.marks]}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Marks:
        """What `to_json` wrote, or the same with lists of [recording, start, stop, word]."""
        if len(text) > MOST_TEXT:
            raise DataError(f"This list of marks has {len(text):,} letters; the limit is {MOST_TEXT:,}.")
        try:
            entries = json.loads(text)["marks"]
            rows = [e if isinstance(e, list) else [e[name] for name in _FIELDS] for e in entries]
            given = [(str(name), int(start), int(stop), str(word)) for name, start, stop, word in rows]
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise DataError(
                f"This is no list of marks ({brief(error)}): it needs recording, start, stop and word of each."
            ) from error
        return _collected(_from_file(*one) for one in given)

    def to_boris(self, trials: Trials) -> str:
        """BORIS's aggregated events as CSV: one row a mark, in seconds from the first frame of its recording, which is the
        observation. BORIS and `from_annotation` read one observation a file: give one recording at a time for those."""
        self.labels(trials)  # refuses marks that lie nowhere
        rates = {trial.name: trial.rate_hz for trial in trials}
        ordered = sorted(self.marks, key=lambda m: (m.recording, m.start))
        rate = np.array([rates[mark.recording] for mark in ordered], np.float64)
        start, stop = (
            np.array([getattr(mark, end) for mark in ordered], np.float64) / rate for end in ("start", "stop")
        )
        table = {
            "Observation id": [harmless(mark.recording) for mark in ordered],
            "Subject": NO_SUBJECT,
            "Behavior": [harmless(mark.word) for mark in ordered],
            "Behavior type": "STATE",
            "Start (s)": start,
            "Stop (s)": stop,
            "Duration (s)": stop - start,
            "FPS": rate,
        }
        return pd.DataFrame(table).to_csv(index=False)

    @classmethod
    def from_annotation(cls, source: Readable, recording: str, rate_hz: float, name: str | None = None) -> Marks:
        """Marks from any annotation file that can be read (BORIS, Bento, tables of bouts), for one recording."""
        read = read_annotation(source, rate_hz, name)
        given = [
            (recording, start, stop, read.label_names[read.labels[start]])
            for start, stop in stays(read.labels).tolist()
            if read.labels[start] != UNLABELLED
        ]
        return _collected(_from_file(*one) for one in given)


def _from_file(recording: str, start: int, stop: int, word: str) -> Mark:
    """A mark as a file has it, which may say anything."""
    for name, text in (("recording", recording), ("word", word)):
        if len(text) > MOST_LETTERS:
            raise DataError(
                f"The {name} {text[:40]!r}... of a mark has {len(text):,} letters; the limit is {MOST_LETTERS}."
            )
    if max(abs(start), abs(stop)) > MOST_FRAMES:
        raise DataError(f"A mark of {word!r} in {recording!r} lies beyond frame {MOST_FRAMES:,}, where none can be.")
    return Mark(recording, start, stop, word)


def _collected(marks: Iterable[Mark]) -> Marks:
    """Marks of a file, all at once: one after another, each beside all before it, hundred thousand would take hours."""
    made = Marks(tuple(marks))
    latest: dict[str, list[Mark]] = {}  # of each recording, the mark that ends last, and the last of another word
    for mark in sorted(made.marks, key=lambda one: one.start):
        ends = latest.setdefault(mark.recording, [])
        for other in ends:
            if other.word != mark.word and other.stop > mark.start:
                Marks((other,)).add(mark)  # says what is wrong
        last, *others = sorted([mark, *ends], key=lambda one: one.stop, reverse=True)
        latest[mark.recording] = [last, *[one for one in others if one.word != last.word][:1]]
    return made


def from_labels(
    trials: Trials,
    names: Sequence[str],
    seconds: float,
    *,
    at_random: bool = True,
    beside: Marks | None = None,
) -> Marks:
    """A share of the labels that trials have, as marks: clips of two seconds until there are `seconds` of them.

    names      of the labels
    at_random  clips from anywhere, the same ones first whatever `seconds` is; else from the beginning
    beside     marks that stand already: their frames are left out
    """
    taken = [np.zeros(trial.n_samples, bool) for trial in trials]
    if beside is not None:
        taken = [part >= 0 for part in beside.labels(trials)[0]]
    known = labels_of(trials)
    clips = [
        (i, start, min(start + length, trial.n_samples))
        for i, trial in enumerate(trials)
        for length in [max(2, round(CLIP_S * trial.rate_hz))]
        for start in range(0, trial.n_samples, length)
    ]
    order = np.random.default_rng(0).permutation(len(clips)) if at_random else np.arange(len(clips))
    found: list[Mark] = []
    left = seconds
    for at in order:
        i, start, stop = clips[at]
        free = np.where(taken[i][start:stop], UNLABELLED, known[i][start:stop])
        stop = start + min(stop - start, round(left * trials[i].rate_hz))
        free = free[: stop - start]
        for low, high in stays(free).tolist():
            if free[low] != UNLABELLED:
                found.append(Mark(trials[i].name, start + low, start + high, names[free[low]]))
        left -= float((free != UNLABELLED).sum()) / trials[i].rate_hz
        if left * trials[i].rate_hz < 1:
            break
    there = () if beside is None else beside.words
    frames: collections.Counter[str] = collections.Counter()
    for mark in found:
        frames[mark.word] += mark.stop - mark.start
    # Of a word that is marked for one frame in all nothing can be learned.
    return Marks(tuple(mark for mark in found if frames[mark.word] > 1 or mark.word in there))
