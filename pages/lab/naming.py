"""Names, mergers and colours that the user gives to states, and references: expert labels or true states."""

from __future__ import annotations

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

COLOURS = (
    "violet", "yellow", "red", "sky blue", "plum", "rose", "navy", "periwinkle", "sage", "orange", "green", "magenta",
)  # fmt: skip


CONTROLS = ("name", "into", "hue")  # of each state, in the address


@dataclass(frozen=True)
class StateNames:
    """Names, mergers and colours of K states. Columns are colours, so there may be more columns than states.

    names    [columns] name of each column; an empty column names the state that it was merged into
    into     [K] column of each state
    numbers  [columns] number of the state, counted from one; 0 for an empty column
    """

    names: tuple[str, ...]
    into: tuple[int, ...]
    numbers: tuple[int, ...]

    @classmethod
    def plain(cls, n_states: int) -> StateNames:
        return arrange([""] * n_states, range(n_states))

    @classmethod
    def from_names(cls, names: Sequence[str]) -> StateNames:
        """Return names without mergers or other colours."""
        return cls(tuple(names), tuple(range(len(names))), tuple(range(1, len(names) + 1)))

    @property
    def used(self) -> list[int]:
        """Columns with a state, in the order of states."""
        return sorted(set(self.into), key=lambda column: self.numbers[column])

    @property
    def short(self) -> list[str]:
        """Short label of each state: its name, or its number if the name begins with it."""
        pairs = [(self.names[column], f"S{self.numbers[column]}") for column in self.used]
        return [number if name.startswith(f"{number} ") else name for name, number in pairs]

    @property
    def merges(self) -> bool:
        return len(self.used) < len(self.into)

    def apply(self, states: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return [T, columns] with merged states added up."""
        soft = np.asarray(states, np.float32)
        if soft.ndim != 2 or soft.shape[1] != len(self.into):
            raise DataError(f"States have shape {soft.shape}; expected [time, {len(self.into)}].")
        if self.into == tuple(range(len(self.names))):
            return soft
        return soft @ np.eye(len(self.names), dtype=np.float32)[list(self.into)]

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
    names: Sequence[str], merged: Sequence[int], colours: Sequence[int | None] = (), *, start: Sequence[int] = ()
) -> StateNames:
    """Return the names that the controls describe.

    names    of each state, "" for none
    merged   [K] state that each is merged into, itself for none; chains are followed, cycles are ignored
    colours  [K] index of the colour in the palette, None for the default; a colour in use is swapped
    start    [K] default colours; the first K of the palette if omitted
    """
    n = len(names)
    root = [_root(k, merged) for k in range(n)]
    column = list(start) or list(range(n))
    for k, colour in enumerate(colours):
        if root[k] == k and colour is not None and 0 <= colour < palette.MAX_STATES and colour != column[k]:
            if colour in column:
                column[column.index(colour)] = column[k]
            column[k] = colour
    into = tuple(column[root[k]] for k in range(n))
    shown = [names[k].strip() or f"S{k + 1}" for k in range(n)]
    width = max(*column, n - 1) + 1 if n else 0
    found, numbers = [""] * width, [0] * width
    for k in range(n):
        if root[k] == k:
            found[column[k]], numbers[column[k]] = shown[k], k + 1
    for k in range(n):
        if root[k] != k and not found[column[k]]:
            found[column[k]] = f"(in {shown[root[k]]})"
    return StateNames(tuple(found), into, tuple(numbers))


def _root(k: int, merged: Sequence[int]) -> int:
    seen = [k]
    while (following := merged[seen[-1]]) != seen[-1]:
        if following in seen:
            return min(seen)
        seen.append(following)
    return seen[-1]


def controls(page: str, n_states: int, scope: str, start: Sequence[int] = ()) -> StateNames:
    """Show the controls and return the names.

    of      scope of the controls: each recording has its own names
    start   default colour of each state: the colour of its most frequent label
    """
    own = [f"S{k + 1}" for k in range(n_states)]
    with st.popover("Name states", icon=":material/palette:", help="Name, merge or recolour states."):
        st.button("Clear", key=f"{page}-name-clear", on_click=clear, args=(scope,), width="stretch")
        names, merged, colours = [], [], []
        shown: dict[str, Any] = {"max_chars": 30, "placeholder": "Name", "label_visibility": "collapsed"}
        for k, state in enumerate(own):
            name, into, hue = (settings.key(f"{control}{k + 1}", scope) for control in CONTROLS)
            shell.section(f"State {state}")
            names.append(text(f"Name of {state}", key=name, **shown))
            first, second = st.columns(2, gap="small")
            target = one_of(f"{state} goes into", ["itself", *own], key=into, place=first)
            colour = one_of(f"Colour of {state}", ["its own", *COLOURS], key=hue, place=second)
            merged.append(own.index(target) if target in own else k)
            colours.append(COLOURS.index(colour) if colour in COLOURS else None)
    return arrange(names, merged, colours, start=start)


def clear(scope: str) -> None:
    """Reset names, mergers and colours."""
    for k in range(palette.MAX_STATES):
        for name in CONTROLS:
            if settings.text(key := settings.key(f"{name}{k + 1}", scope)) is not None:
                settings.change(key, None)


def label_colours(weight: npt.NDArray[Any]) -> tuple[int, ...]:
    """Return the colours of K states: each label's colour for its main state, other colours for the rest.

    weight  [K, labels] time of each label in each state
    """
    n, n_labels = weight.shape
    best = weight.argmax(axis=1)
    main: dict[int, int] = {}  # label by state
    for label in range(n_labels):
        states = [k for k in range(n) if best[k] == label and weight[k, label] > 0]
        if states:
            main[max(states, key=lambda k: float(weight[k, label]))] = label
    taken = set(main.values())
    left = iter([*range(n_labels, palette.MAX_STATES), *(c for c in range(n_labels) if c not in taken)])
    return tuple(main[k] if k in main else next(left) for k in range(n))


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

    names   one per colour
    place   [labels] index into `names` of each label of the data
    joined  number of labels that share the last name, "others"; 0 if none do
    """

    names: tuple[str, ...]
    place: npt.NDArray[np.int64]
    joined: int = 0

    @classmethod
    def from_labels(cls, names: Sequence[str], labels: Sequence[npt.NDArray[Any] | None]) -> LabelNames | None:
        """Return names and colours of the labels of all trials; None without labels."""
        known = [np.asarray(z, np.int64) for z in labels if z is not None]
        count = np.bincount(np.concatenate([z[z >= 0] for z in known])) if known else np.zeros(0, np.int64)
        if not count.sum():
            return None
        n = max(len(names), len(count))
        every = words_of(names, n)
        if n <= palette.MAX_STATES:
            return cls(every, np.arange(n))
        count = np.pad(count, (0, n - len(count)))
        common = np.sort(np.argsort(-count, kind="stable")[: palette.MAX_STATES - 1])
        place = np.full(n, len(common))
        place[common] = np.arange(len(common))
        return cls((*(every[k] for k in common), OTHERS), place, n - len(common))

    @property
    def colours(self) -> list[str]:
        return palette.colours(len(self.names))

    @property
    def remark(self) -> str:
        """Sentence for captions if labels share a colour; "" if none do."""
        if not self.joined:
            return ""
        return f"The {len(self.names) - 1} most frequent labels have a colour each; the other {self.joined} share one."

    def grouped(self, labels: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the index [T] into `names` of each sample, -1 without a label."""
        z = np.asarray(labels, np.int64)
        known = (z >= 0) & (z < len(self.place))
        return np.where(known, self.place[np.where(known, z, 0)], -1)

    def one_hot(self, labels: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Return [T, names] for strips and bars."""
        return figures.one_hot(self.grouped(labels), len(self.names))


@dataclass(frozen=True, eq=False)
class Reference:
    """Reference states of a trial, to compare inferred states with.

    who      "expert", or "true" of a simulation
    labels   [T] index into `names`, -1 for unlabelled samples
    shares   [T, names] the same as soft states
    """

    who: str
    labels: npt.NDArray[np.int64]
    shares: npt.NDArray[np.float32]
    names: tuple[str, ...]

    @classmethod
    def from_truth(cls, states: npt.ArrayLike) -> Reference:
        """Return true soft states [T, K] as a reference."""
        shares = np.asarray(states, np.float32)
        names = tuple(figures.names_of(shares.shape[1]))
        return cls("true", np.asarray(shares.argmax(axis=1), np.int64), shares, names)


def colour_key(who: str, names: Sequence[str], columns: Iterable[int], numbers: Sequence[int] | None = None) -> str:
    """Return a colour key as HTML; `numbers` of states makes buttons that explain them."""
    colours = palette.colours(len(names))
    return f"<div>{shell.key_html(who, ((colours[k], names[k]) for k in columns), who, numbers)}</div>"
