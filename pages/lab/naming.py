"""Names, mergers and colours that the user gives to states, and references: expert labels or true states."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import streamlit as st

from gdm_core.errors import DataError
from gdm_studio.plot import figures, palette
from pages.ui import settings, shell
from pages.ui.controls import one_of, text

UNSAID = "as its name says"
COLOURS = (
    "violet", "yellow", "red", "sky blue", "plum", "rose", "navy", "periwinkle", "sage", "orange", "green", "magenta",
)  # fmt: skip


@dataclass(frozen=True)
class StateNames:
    """Names, mergers and colours of K states.

    names    of each column afterwards; a column that is empty because its state went into another says so
    into     [K] the column that each state goes to. A column is a colour, so an empty one stays in its place, and there
             are more of them than states where one wears a colour beyond the first K
    numbers  of each column, which state it is, counted from one; 0 for an empty one
    stands   of each column, which label the visitor says that it is; -1 where that is left to the fitted trials
    """

    names: tuple[str, ...]
    into: tuple[int, ...]
    numbers: tuple[int, ...]
    stands: tuple[int, ...]

    @classmethod
    def plain(cls, n_states: int) -> StateNames:
        return arrange([""] * n_states, range(n_states))

    @classmethod
    def called(cls, names: Sequence[str]) -> StateNames:
        """Return names without mergers or other colours."""
        return cls(tuple(names), tuple(range(len(names))), tuple(range(1, len(names) + 1)), (-1,) * len(names))

    @property
    def used(self) -> list[int]:
        """Columns that hold a state, in the order of states."""
        return sorted(set(self.into), key=lambda column: self.numbers[column])

    @property
    def short(self) -> list[str]:
        """Short label of each state: its name, or its number if the name begins with that."""
        said = [(self.names[column], f"S{self.numbers[column]}") for column in self.used]
        return [number if name.startswith(f"{number} ") else name for name, number in said]

    @property
    def merges(self) -> bool:
        """Whether states are merged."""
        return len(self.used) < len(self.into)

    @property
    def judged(self) -> bool:
        """Whether the user's names can be scored: a merger, or a behaviour of a state."""
        return self.merges or any(label >= 0 for label in self.stands)

    def apply(self, states: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return [T, columns] with merged states added up."""
        soft = np.asarray(states, np.float32)
        if soft.ndim != 2 or soft.shape[1] != len(self.into):
            raise DataError(f"States have shape {soft.shape}; expected [time, {len(self.into)}].")
        if self.into == tuple(range(len(self.names))):
            return soft
        return soft @ np.eye(len(self.names), dtype=np.float32)[list(self.into)]

    def stands_for(self, order: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(the merged state that each of the model's goes to, the label that each merged one is said to be), as `named` in
        bout_scores takes them. Merged states are counted in the order of the page's, whose state k is the model's order[k]."""
        place = {column: j for j, column in enumerate(self.used)}
        into = [0] * len(self.into)
        for k, column in enumerate(self.into):
            into[order[k]] = place[column]
        return tuple(into), tuple(self.stands[column] for column in self.used)

    def code(self) -> list[str]:
        """Return Python lines that name and merge `states` and `new_states`, in the page's order."""
        names = [self.names[column] for column in self.used]
        if not self.merges:
            return [f"names = {names}", "named, new_named = states, new_states"]
        return [
            f"into = {[self.used.index(column) for column in self.into]}  # where each state goes",
            f"names = {names}",
            f"merged = np.eye({len(names)})[into]  # merged as on the page",
            "named, new_named = ([soft @ merged for soft in part] for part in (states, new_states))",
        ]


def arrange(
    names: Sequence[str],
    merged: Sequence[int],
    colours: Sequence[int | None] = (),
    *,
    start: Sequence[int] = (),
    labels: Sequence[str] = (),
    stands: Sequence[int | None] = (),
) -> StateNames:
    """Return the names that the controls describe.

    names    given to each state, "" for none
    merged   [K] the state that each goes into, itself for none; chains are followed, circles are left apart
    colours  [K] the colour wanted for each state, of all in the palette, None for its own; one that another wears is swapped
    start    [K] the colours that states have of their own, the first K of the palette if not given
    labels   the expert's words: a state that is called like one is taken for that behaviour
    stands   [K] the label that each state is said to be, -1 for none of them, None where only its name says so
    """
    n = len(names)
    root = [_root(k, merged) for k in range(n)]
    column = list(start) or list(range(n))  # column[k] is where root k stands
    for k, wanted in enumerate(colours):
        if root[k] == k and wanted is not None and 0 <= wanted < palette.MAX_STATES and wanted != column[k]:
            if wanted in column:
                column[column.index(wanted)] = column[k]
            column[k] = wanted
    into = tuple(column[root[k]] for k in range(n))
    shown = [names[k].strip() or f"S{k + 1}" for k in range(n)]
    width = max(*column, n - 1) + 1 if n else 0
    found, numbers, said = [""] * width, [0] * width, [-1] * width
    for k in range(n):
        if root[k] == k:
            found[column[k]], numbers[column[k]] = shown[k], k + 1
            chosen = stands[k] if k < len(stands) else None
            said[column[k]] = label_called(shown[k], labels) if chosen is None else chosen
    for k in range(n):
        if root[k] != k and not found[column[k]]:
            found[column[k]] = f"(in {shown[root[k]]})"
    return StateNames(tuple(found), into, tuple(numbers), tuple(said))


def label_called(name: str, labels: Sequence[str]) -> int:
    """Return the label with the name of a state ("mount 2" is "mount"); -1 for none."""
    words = [label.strip().lower() for label in labels]
    bare = re.sub(r" \d+$", "", name.strip().lower())
    return next((words.index(said) for said in (name.strip().lower(), bare) if said in words), -1)


def _root(k: int, merged: Sequence[int]) -> int:
    seen = [k]
    while (following := merged[seen[-1]]) != seen[-1]:
        if following in seen:
            return min(seen)
        seen.append(following)
    return seen[-1]


def controls(
    page: str, n_states: int, of: str, expert: Sequence[str] = (), start: Sequence[int] = (), labels: Sequence[str] = ()
) -> StateNames:
    """Show the controls in the sidebar and return the names.

    of      names the recording that names belong to: another one has its own
    expert  what the labels call each state, for those who want to start from there
    start   the colour that each state has of its own: that of the label that it mostly stands for
    labels  the expert's words
    """
    own = [f"S{k + 1}" for k in range(n_states)]
    with st.expander("Name, merge, recolour", icon=":material/palette:"):
        left, right = st.columns(2, gap="small")
        left.button(
            "From labels",
            key=f"{page}-name-by-labels",
            on_click=_take_over,
            args=(of, tuple(expert)),
            disabled=not expert,
            width="stretch",
            help="Call each state what the expert called most of its time, in the fitted trials. Names and mergers of your "
            "own stay.",
        )
        right.button("Clear", key=f"{page}-name-clear", on_click=clear, args=(of,), width="stretch")
        names, merged, colours, stands = [], [], [], []
        for k in range(n_states):
            shell.section(f"State {own[k]}")
            shown: dict[str, Any] = {"max_chars": 30, "placeholder": "a name", "label_visibility": "collapsed"}
            names.append(text(f"Name of {own[k]}", key=f"name{k + 1}", of=of, **shown))
            first, second = st.columns(2, gap="small")
            target = one_of(f"{own[k]} goes into", ["itself", *own], key=f"into{k + 1}", of=of, at=first)
            colour = one_of(f"Colour of {own[k]}", ["its own", *COLOURS], key=f"hue{k + 1}", of=of, at=second)
            merged.append(own.index(target) if target in own else k)
            colours.append(COLOURS.index(colour) if colour in COLOURS else None)
            stands.append(_stands_for(own[k], f"is{k + 1}", of, labels))
    return arrange(names, merged, colours, start=start, labels=labels, stands=stands)


def _stands_for(state: str, key: str, of: str, labels: Sequence[str]) -> int | None:
    """Show which behaviour a state is, and return its label."""
    if not labels:
        return None
    chosen = one_of(
        f"{state} is",
        [UNSAID, *labels],
        key=key,
        of=of,
        help="The behaviour that this state is, in your judgement: the card then has scores of your naming beside the "
        "automatic one. As its name says: a state that you call like a label is that behaviour.",
    )
    return labels.index(chosen) if chosen in labels else None


def clear(of: str) -> None:
    """Forget names, mergers, colours and which behaviour states are."""
    for k in range(palette.MAX_STATES):
        for name in ("name", "into", "hue", "is"):
            if settings.text(key := settings.key(f"{name}{k + 1}", of)) is not None:
                settings.change(key, None)


def _take_over(of: str, names: tuple[str, ...]) -> None:
    """Name states that are neither named nor merged by the user."""
    for k, name in enumerate(names):
        key = settings.key(f"name{k + 1}", of)
        if not settings.text(key) and settings.text(settings.key(f"into{k + 1}", of)) is None:
            settings.change(key, name)


def label_colours(weight: npt.NDArray[Any]) -> tuple[int, ...]:
    """[K] colours: a label's own for the state that holds most of it among those that mostly stand for it, and for all others
    colours that no label has.

    weight  [K, labels] how much of each label is in each state
    """
    n, n_labels = weight.shape
    best = weight.argmax(axis=1)
    worn: dict[int, int] = {}
    for label in range(n_labels):
        mine = [k for k in range(n) if best[k] == label and weight[k, label] > 0]
        if mine:
            worn[max(mine, key=lambda k: float(weight[k, label]))] = label
    taken = set(worn.values())
    left = iter([*range(n_labels, palette.MAX_STATES), *(c for c in range(n_labels) if c not in taken)])
    return tuple(worn[k] if k in worn else next(left) for k in range(n))


def by_labels(weight: npt.NDArray[Any], label_names: Sequence[str]) -> tuple[str, ...]:
    """Return the most frequent label of each state, numbered where states share one."""
    best = [int(label) for label in weight.argmax(axis=1)]
    count = np.bincount(best, minlength=1)
    found = []
    for k, label in enumerate(best):
        name = label_names[label] if label < len(label_names) else f"behaviour {label + 1}"
        found.append(f"{name} {best[:k].count(label) + 1}" if count[label] > 1 else name)
    return tuple(found)


def weights(
    states: Sequence[npt.NDArray[Any]], labels: Sequence[npt.NDArray[Any] | None], n_labels: int
) -> npt.NDArray[np.float64] | None:
    """Return the time [K, labels] of each label in each soft state; None without labels."""
    known = [(s, z) for s, z in zip(states, labels, strict=True) if z is not None and len(z) == len(s)]
    if not known or not n_labels:
        return None
    soft = np.concatenate([s for s, _ in known])
    z = np.concatenate([np.asarray(z, np.int64) for _, z in known])
    if not (z >= 0).any():
        return None
    return np.stack([soft[z == label].sum(axis=0, dtype=np.float64) for label in range(n_labels)], axis=1)


OTHERS = "others"


def words_of(names: Sequence[str], n: int) -> tuple[str, ...]:
    """Return names for at least `n` labels."""
    return (*names, *(f"behaviour {k + 1}" for k in range(len(names), n)))


@dataclass(frozen=True, eq=False)
class LabelNames:
    """Labels and their colours.

    names   of what is drawn, one for each colour
    place   [labels] which of them stands for each label of the data
    joined  how many labels share the last one, "others"; 0 where each has its own
    """

    names: tuple[str, ...]
    place: npt.NDArray[np.int64]
    joined: int = 0

    @classmethod
    def of(cls, names: Sequence[str], labels: Sequence[npt.NDArray[Any] | None]) -> LabelNames | None:
        """Return names and colours of the labels of all trials; None without labels."""
        known = [np.asarray(z, np.int64) for z in labels if z is not None]
        count = np.bincount(np.concatenate([z[z >= 0] for z in known])) if known else np.zeros(0, np.int64)
        if not count.sum():
            return None
        n = max(len(names), len(count))
        count = np.pad(count, (0, n - len(count)))
        every = words_of(names, n)
        if n <= palette.MAX_STATES:
            return cls(every, np.arange(n))
        kept = np.sort(np.argsort(-count, kind="stable")[: palette.MAX_STATES - 1])
        place = np.full(n, len(kept))
        place[kept] = np.arange(len(kept))
        return cls((*(every[k] for k in kept), OTHERS), place, n - len(kept))

    @property
    def colours(self) -> list[str]:
        return palette.colours(len(self.names))

    @property
    def remark(self) -> str:
        """Sentence for the caption of a picture."""
        if not self.joined:
            return ""
        return f"The {len(self.names) - 1} commonest labels have a colour each; the other {self.joined} share one."

    def grouped(self, labels: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the index [T] into `names` of each sample, -1 without a label."""
        z = np.asarray(labels, np.int64)
        known = (z >= 0) & (z < len(self.place))
        return np.where(known, self.place[np.where(known, z, 0)], -1)

    def hot(self, labels: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Return [T, names] for strips and bars."""
        return figures.one_hot(self.grouped(labels), len(self.names))

    def known(self, labels: npt.ArrayLike) -> Reference:
        """Return the labels of a trial as a reference."""
        return Reference("expert", self.grouped(labels), self.hot(labels), self.names, self.remark)


@dataclass(frozen=True, eq=False)
class Reference:
    """What the states of a trial are compared with.

    who      "expert", or "true" of a simulation
    labels   [T] which of `names` each moment is, -1 where nothing is known
    shares   [T, names] the same as states
    remark   what a picture has to say about it
    """

    who: str
    labels: npt.NDArray[np.int64]
    shares: npt.NDArray[np.float32]
    names: tuple[str, ...]
    remark: str = ""

    @classmethod
    def truth(cls, states: npt.ArrayLike) -> Reference:
        """Return true soft states [T, K] as a reference."""
        shares = np.asarray(states, np.float32)
        names = tuple(figures.names_of(shares.shape[1]))
        return cls("true", np.asarray(shares.argmax(axis=1), np.int64), shares, names)


def colour_key(who: str, names: Sequence[str], columns: Iterable[int]) -> str:
    """Return a colour key as HTML."""
    colours = palette.colours(len(names))
    return f"<div>{shell.key_html(who, ((colours[k], names[k]) for k in columns), head=who)}</div>"
