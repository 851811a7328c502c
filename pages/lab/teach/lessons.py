"""What a visitor named in the fitted trials of a recording. Kept in the session, under the recording, whatever model is fitted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import streamlit as st

from datasets.marks import Mark, Marks, from_labels
from gdm_core.errors import DataError, GdmError
from gdm_core.models.gdm.word_model import check_labels
from gdm_core.trials import Stretch, Trials, labels_of
from gdm_studio.plot import figures, palette
from pages import lab
from pages.lab import Data
from pages.ui import settings, slider

MOST_WORD = 30  # letters
KEYS = range(1, 10)


@dataclass(frozen=True)
class Lesson:
    """Marks of the visitor's own, and the share of the expert's labels that they let in.

    seconds          of the expert's labels; those of the beginning where `from_start`, else at random
    shown, asked     clips that are proposed now, and all that ever were
    said             what was wrong with the last mark
    touched          whether anything was ever marked or let in
    stretch, asking  where stretches are typed into controls of the page: (lap, From, To), and the proposed clip that they are of
    with_words       whether the page shows the fit that was taught
    words            words that were added without a mark
    keys             (number, word) where the visitor chose the key of a word
    heard            (a desk in the browser, the last of its messages that was heard)
    turn             how often the page has set its controls: each time they are new ones, since a browser that misses a
                     value set for a control it has would send the one before
    """

    own: Marks = field(default_factory=Marks)
    seconds: float = 0.0
    from_start: bool = False
    shown: tuple[Stretch, ...] = ()
    asked: tuple[Stretch, ...] = ()
    said: str = ""
    touched: bool = False
    stretch: tuple[int, float, float] | None = None
    asking: Stretch | None = None
    turn: int = 0
    with_words: bool = False
    words: tuple[str, ...] = ()
    keys: tuple[tuple[int, str], ...] = ()
    heard: tuple[str, int] = ("", 0)


@dataclass(frozen=True)
class Entry:
    """One thing that was done to a lesson, wherever it came from: desk.js and marks_panel make them.

    kind    mark; undo, redo; away: this mark goes; skip: this stretch is not asked about; word: one without a mark;
            whole: the lesson as a browser kept it, in `text`
    """

    kind: str
    recording: str = ""
    start: int = -1
    stop: int = -1
    word: str = ""
    text: str = ""


def after(lesson: Lesson, entry: Entry, trials: Trials) -> Lesson:
    """The lesson after one more entry; one that cannot be changes nothing, and is said."""
    try:
        return replace(_after(lesson, entry, trials), said="", touched=True)
    except GdmError as error:
        return replace(lesson, said=str(error), touched=True)


def _after(lesson: Lesson, entry: Entry, trials: Trials) -> Lesson:
    own, word = lesson.own, entry.word.strip()[:MOST_WORD]
    match entry.kind:
        case "mark":
            marked = with_mark(own, Mark(entry.recording, entry.start, entry.stop, word), trials)
            return replace(lesson, own=marked, shown=_uncovered(lesson.shown, entry, trials))
        case "undo":
            return replace(lesson, own=own.undo())
        case "redo":
            return replace(lesson, own=own.redo())
        case "away":
            return replace(lesson, own=own.without(Mark(entry.recording, entry.start, entry.stop, word)))
        case "skip":
            return replace(lesson, shown=_uncovered(lesson.shown, entry, trials))
        case "word":
            return replace(lesson, words=with_word((*own.words, *lesson.words), lesson.words, word))
        case "whole":
            try:
                return replace(lesson, turn=lesson.turn + 1, **from_json(entry.text, trials))
            except GdmError as error:
                raise DataError(f"The marks that this browser kept cannot be used. {error}") from error
    raise DataError(f"Nothing is known of {entry.kind[:40]!r}: reload the page, whose desk is older than the server.")


def _uncovered(shown: Sequence[Stretch], entry: Entry, trials: Trials) -> tuple[Stretch, ...]:
    """Proposed clips that a stretch leaves unanswered."""
    return tuple(
        clip
        for clip in shown
        if not (trials[clip[0]].name == entry.recording and clip[1] < entry.stop and entry.start < clip[2])
    )


def key_of(data: Data) -> str:
    """Names the recording that marks belong to. Other features or repairs of the same frames keep them."""
    frames = [(trial.name, trial.n_samples) for trial in data.train]
    labels = "" if data.of else hashlib.sha256(b"".join(z.tobytes() for z in labels_of(data.train))).hexdigest()
    return settings.of("marks", data.of, frames, labels)


def lesson(of: str) -> Lesson:
    """What was marked so far."""
    kept: Lesson = st.session_state.get(_place(of), Lesson())
    return kept


def take(of: str, trials: Trials, *entries: Entry, **fields: Any) -> Lesson:
    """Keep the lesson after these entries, with other fields besides. What could not be is said of all of them."""
    kept, wrong = lesson(of), []
    for entry in entries:
        kept = after(kept, entry, trials)
        wrong.append(kept.said)
    kept = replace(kept, said=" ".join(dict.fromkeys(filter(None, wrong))), **fields)
    st.session_state[_place(of)] = kept
    return kept


def change(of: str, **fields: Any) -> None:
    """Keep the lesson with other fields; what was wrong before is over."""
    touched = lesson(of).touched or bool(
        {"own", "seconds", "from_start", "words", "keys", "with_words"} & fields.keys()
    )
    new: dict[str, Any] = {"said": "", "touched": touched} | fields
    st.session_state[_place(of)] = replace(lesson(of), **new)


def set_controls(of: str, **fields: Any) -> None:
    """The same, where the page's controls begin anew with what is kept."""
    change(of, turn=lesson(of).turn + 1, **fields)


def plain_mark(mark: Mark) -> list[Any]:
    """A mark as the browser holds it."""
    return [mark.recording, mark.start, mark.stop, mark.word]


def to_plain(kept: Lesson) -> dict[str, Any]:
    """The lesson as the browser holds it and keeps it in its store."""
    return {
        "marks": [plain_mark(mark) for mark in kept.own.marks],
        "seconds": kept.seconds,
        "from_start": kept.from_start,
        "words": list(kept.words),
        "keys": [list(pair) for pair in kept.keys],
        "with_words": kept.with_words,
    }


def from_json(text: str, trials: Trials) -> dict[str, Any]:
    """The fields of a lesson that a browser kept as `to_plain` has it, which may be anything by now."""
    own = with_all(Marks(), Marks.from_json(text), trials)
    more = json.loads(text)
    seconds = slider.number(more.get("seconds")) or 0.0
    words, keys = more.get("words"), more.get("keys")
    known = [word for word in words if isinstance(word, str)] if isinstance(words, list) else []
    pairs = [tuple(pair) for pair in keys if isinstance(pair, list)] if isinstance(keys, list) else []
    return {
        "own": own,
        "seconds": max(seconds, 0.0),
        "from_start": more.get("from_start") is True,
        "with_words": more.get("with_words") is True,
        "words": tuple(word[:MOST_WORD] for word in known if word.strip())[: palette.MAX_STATES],
        "keys": tuple(
            (n, word)
            for n, word in (p for p in pairs if len(p) == 2)
            if type(n) is int and n in KEYS and isinstance(word, str)
        ),
    }


def _place(of: str) -> str:
    return f"_marks-{of}"  # beginning with "_", it outlives a turn to another page


# ---- what a mark says ---------------------------------------------------------------------------------------------
def with_mark(marks: Marks, mark: Mark, trials: Trials) -> Marks:
    """With one more; refused, with a sentence, where it contradicts another, lies outside or is too short."""
    if mark.stop - mark.start < 2:
        raise DataError(
            f"The stretch from frame {mark.start} to {mark.stop} of {mark.recording!r} holds less than two frames, from which "
            "nothing can be learned. Mark a longer one."
        )
    return with_all(marks, Marks((mark,)), trials)


def with_all(marks: Marks, more: Marks, trials: Trials) -> Marks:
    """With all of `more`, or with none of them."""
    for mark in more.marks:
        marks = marks.add(mark)
    marks.labels(trials)
    if len(marks.words) > palette.MAX_STATES:
        raise DataError(
            f"These are {len(marks.words)} words, and there can be {palette.MAX_STATES} states at the most: "
            f"{marks.words[-1]!r} is one too many. Use one of the other words, or undo marks of one."
        )
    return marks


def marks_of(data: Data) -> Marks:
    """All that is marked: the visitor's own, then their share of the expert's labels."""
    of = key_of(data)
    kept = lesson(of)
    if kept.seconds <= 0:
        return kept.own
    asked = kept.seconds, kept.from_start, kept.own.marks
    place = f"_marks-share-{of}"
    if place not in st.session_state or st.session_state[place][0] != asked:
        share = from_labels(data.train, data.every_label, kept.seconds, at_random=not kept.from_start, beside=kept.own)
        st.session_state[place] = asked, share
    share = st.session_state[place][1]
    return Marks((*kept.own.marks, *share.marks))


def no_names(data: lab.Data) -> str:
    """Why marks cannot be kept, where trials cannot be told apart by name; "" where they can."""
    names = [trial.name for trial in data.train]
    double = next((name for name in names if names.count(name) > 1), None)
    if double is None:
        return ""
    return f"Two fitted trials are called {double!r}, and a mark could not say which of them it means. Give each a name of its own."


def not_yet(marks: Marks, trials: Trials, n_states: int) -> str:
    """Why a model cannot be taught these, in a sentence; "" where it can."""
    if not marks.marks:
        return "Name a moment of one behaviour, then one of another."
    try:
        labels, words = marks.labels(trials)
        check_labels(labels, trials, False, words, n_states)
    except GdmError as error:
        return str(error)
    return ""


# ---- words and their colours --------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Vocabulary:
    """All words that are on the page, each with a colour: the expert's with theirs."""

    words: tuple[str, ...]

    @classmethod
    def of(cls, data: Data, marks: Marks, added: Sequence[str] = ()) -> Vocabulary:
        known = data.every_label if data.words is not None and not data.words.joined else ()
        return cls.among((*known, *added, *marks.words))

    @classmethod
    def among(cls, words: Sequence[str]) -> Vocabulary:
        """Each of these once, in this order."""
        return cls(tuple(dict.fromkeys(words)))

    @property
    def names(self) -> list[str]:
        """Of the columns, as figures take them."""
        return list(self.words[: palette.MAX_STATES])

    def column(self, word: str) -> int:
        """The colour of a word, as a column of the palette: those beyond its end share the last."""
        return min(self.words.index(word), palette.MAX_STATES - 1)

    def spread(self, proba: npt.NDArray[np.float32], words: Sequence[str]) -> npt.NDArray[np.float32]:
        """[T, columns] of probabilities [T, words]."""
        found = np.zeros((len(proba), len(self.names)), np.float32)
        for j, word in enumerate(words):
            found[:, self.column(word)] += proba[:, j]
        return found

    def hot(self, labels: npt.NDArray[np.int64], words: Sequence[str]) -> npt.NDArray[np.float32]:
        """[T, columns] of the numbers of `words`, missing where nothing is marked."""
        at = np.array([*map(self.column, words), -1])
        return figures.one_hot(at[labels], max(1, len(self.names)))


def with_word(words: Sequence[str], added: Sequence[str], word: str) -> tuple[str, ...]:
    """The words that were added without a mark, with one more that is not among all `words`."""
    if not word or word in words:
        raise DataError("Type a word that is not there yet." if not word else f"{word!r} is there already.")
    if len(set(words)) >= palette.MAX_STATES:
        raise DataError(f"There are {len(set(words))} words, and there can be {palette.MAX_STATES} states at the most.")
    return (*added, word)


def keys_of(words: Sequence[str], chosen: Sequence[tuple[int, str]]) -> dict[str, int]:
    """The key of each word that has one: as chosen, and the others in their order on the keys that are left."""
    found = {word: n for n, word in chosen if word in words}
    free = [n for n in KEYS if n not in found.values()]
    return found | dict(zip([word for word in words if word not in found], free, strict=False))


def with_key(words: Sequence[str], chosen: Sequence[tuple[int, str]], word: str, n: int) -> tuple[tuple[int, str], ...]:
    """The keys where `word` has key `n`, and the word that had it has that of `word`, if any."""
    keys = keys_of(words, chosen)
    before = next((other for other, number in keys.items() if number == n), None)
    mine = keys.get(word)
    keys = {other: number for other, number in keys.items() if other not in (word, before)} | {word: n}
    if before is not None and before != word and mine is not None:
        keys[before] = mine
    return tuple(sorted((number, other) for other, number in keys.items()))


def expert_numbers(data: Data, words: Sequence[str]) -> tuple[int, ...]:
    """For each word the expert's label that it is called like, -1 for none."""
    known = [name.strip().lower() for name in data.every_label]
    return tuple(known.index(word.strip().lower()) if word.strip().lower() in known else -1 for word in words)


def marks_code(marks: Marks) -> list[str]:
    """Lines of Python with what is marked, as `labels` and `words`."""
    rows = [f"    {(mark.recording, mark.start, mark.stop, mark.word)!r}," for mark in marks.marks]
    return [
        "from gdm_studio.datasets.marks import Mark, Marks",
        "",
        "named_moments = [  # fitted trial, first frame, the frame after the last, what it is",
        *rows,
        "]",
        "marks = Marks(tuple(Mark(*moment) for moment in named_moments))",
        "labels, words = marks.labels(train)",
    ]


def teaching_code(model: str) -> str:
    """The line that teaches `model`, as `model` names what comes of it."""
    return f"{model} = model.warm_start().fit(train, labels=labels, class_names=words)"


def words_code(model: str) -> list[str]:
    """Lines that write what the taught `model` says."""
    return [
        f"said = [*{model}.predict_label_proba(train), *{model}.predict_label_proba(test)]  # each [time, words]",
        "tables = [pd.DataFrame(proba, columns=list(words)).assign(trial=title) for title, proba in zip(titles, said)]",
        'Path("words.csv").write_bytes(csv(pd.concat(tables, ignore_index=True)))',
        f'print("states stand for", {model}.state_words_)',
    ]


def code(data: Data, n_states: int) -> list[str]:
    """Lines of Python that teach `model` what is marked; none where that is too little."""
    marks = marks_of(data)
    if no_names(data) or not_yet(marks, data.train, n_states):
        return []
    return ["", *marks_code(marks), teaching_code("taught"), *words_code("taught")]
