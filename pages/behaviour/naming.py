"""Names, mergers and colours that a visitor gives to states. They live in the address, and travel into what is exported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import streamlit as st

from gdm_core.errors import DataError
from pages.ui import palette, settings, shell

COLOURS = (
    "violet", "yellow", "red", "sky blue", "plum", "rose", "navy", "periwinkle", "sage", "orange", "green", "magenta",
)  # fmt: skip


@dataclass(frozen=True)
class Naming:
    """What became of the K states of a picture.

    names   of each column afterwards; a column that is empty because its state went into another says so
    into    [K] the column that each state goes to. A column is a colour, so an empty one stays in its place, and there
            are more of them than states where one wears a colour beyond the first K
    """

    names: tuple[str, ...]
    into: tuple[int, ...]

    @classmethod
    def plain(cls, n_states: int) -> Naming:
        return cls(tuple(f"S{k + 1}" for k in range(n_states)), tuple(range(n_states)))

    @property
    def used(self) -> list[int]:
        """Columns that hold a state."""
        return sorted(set(self.into))

    @property
    def changed(self) -> bool:
        return self != Naming.plain(len(self.into))

    @property
    def merges(self) -> bool:
        """Whether some state went into another one."""
        return len(self.used) < len(self.into)

    def apply(self, states: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """[T, K] with the states of each group added up in its column."""
        soft = np.asarray(states, np.float32)
        if soft.ndim != 2 or soft.shape[1] != len(self.into):
            raise DataError(f"States have shape {soft.shape}; expected [time, {len(self.into)}].")
        if self.into == tuple(range(len(self.names))):
            return soft
        return soft @ np.eye(len(self.names), dtype=np.float32)[list(self.into)]

    def code(self) -> list[str]:
        """Lines of Python that do the same to `states` and `new_states`, in the order of colours."""
        return [
            f"into = {list(self.into)}  # the column that each state goes to",
            f"names = {list(self.names)}",
            f"merged = np.eye({len(self.names)})[into]  # merged and coloured as on the page",
            "named, new_named = ([soft @ merged for soft in part] for part in (states, new_states))",
        ]


def arrange(names: Sequence[str], merged: Sequence[int], colours: Sequence[int]) -> Naming:
    """The naming that the controls describe.

    names    given to each state, "" for none
    merged   [K] the state that each goes into, itself for none; chains are followed, circles are left apart
    colours  [K] the colour wanted for each state, of all in the palette; one that another state wears is swapped
    """
    n = len(names)
    root = [_root(k, merged) for k in range(n)]
    column = list(range(n))  # column[k] is where root k stands
    for k, wanted in enumerate(colours):
        if root[k] == k and 0 <= wanted < palette.MAX_STATES and wanted != k:
            if wanted in column:
                column[column.index(wanted)] = column[k]
            column[k] = wanted
    into = tuple(column[root[k]] for k in range(n))
    shown = [names[k].strip() or f"S{k + 1}" for k in range(n)]
    found = [""] * (max(column) + 1)
    for k in range(n):
        found[column[k]] = shown[k] if root[k] == k else f"(in {shown[root[k]]})"
    return Naming(tuple(found), into)


def _root(k: int, merged: Sequence[int]) -> int:
    seen = [k]
    while (following := merged[seen[-1]]) != seen[-1]:
        if following in seen:
            return min(seen)
        seen.append(following)
    return seen[-1]


def controls(page: str, n_states: int, of: str, expert: Sequence[str] = (), worn: Sequence[int] = ()) -> Naming:
    """The controls in the sidebar.

    of      names the recording that names belong to: another one has its own
    expert  what the labels call each state, for those who want to start from there
    worn    the colour that each state then wears: that of its label where no other state has the same
    """
    own = [f"S{k + 1}" for k in range(n_states)]
    with st.expander("Name, merge, recolour", icon=":material/palette:"):
        left, right = st.columns(2, gap="small")
        left.button(
            "From labels",
            key=f"{page}-name-by-labels",
            on_click=_take_over,
            args=(of, tuple(expert), tuple(worn)),
            disabled=not expert,
            width="stretch",
            help="Call each state what the expert called most of its time, in the fitted trials, in the label's colour "
            "where no other state has the same.",
        )
        right.button("Clear", key=f"{page}-name-clear", on_click=clear, args=(of,), width="stretch")
        names, merged, colours = [], [], []
        for k in range(n_states):
            shell.section(f"State {own[k]}")
            names.append(
                st.text_input(
                    f"Name of {own[k]}",
                    key=settings.key(f"name{k + 1}", of),
                    bind="query-params",
                    max_chars=30,
                    placeholder="a name",
                    label_visibility="collapsed",
                )
                or ""
            )
            first, second = st.columns(2, gap="small")
            with first:
                target = st.selectbox(
                    f"{own[k]} goes into", ["itself", *own], key=settings.key(f"into{k + 1}", of), bind="query-params"
                )
            with second:
                colour = st.selectbox(
                    f"Colour of {own[k]}",
                    ["its own", *COLOURS],
                    key=settings.key(f"hue{k + 1}", of),
                    bind="query-params",
                )
            merged.append(own.index(target) if target in own else k)
            colours.append(COLOURS.index(colour) if colour in COLOURS else k)
    return arrange(names, merged, colours)


def clear(of: str) -> None:
    """Forget names, mergers and colours."""
    for k in range(palette.MAX_STATES):
        for name, empty in (("name", ""), ("into", "itself"), ("hue", "its own")):
            if (key := settings.key(f"{name}{k + 1}", of)) in st.session_state:
                st.session_state[key] = empty


def _take_over(of: str, names: tuple[str, ...], worn: tuple[int, ...]) -> None:
    for k, name in enumerate(names):
        st.session_state[settings.key(f"name{k + 1}", of)] = name
        st.session_state[settings.key(f"into{k + 1}", of)] = "itself"
    for k, colour in enumerate(worn):
        st.session_state[settings.key(f"hue{k + 1}", of)] = "its own" if colour == k else COLOURS[colour]


def worn_by(best: Sequence[int], n_labels: int) -> tuple[int, ...]:
    """[K] colours: a label's own for the one state that stands for it, and for the others colours that no label has.

    best  [K] the label that each state stands for
    """
    labels = list(best)
    alone = [labels.count(label) == 1 and 0 <= label < n_labels for label in labels]
    taken = {label for label, sure in zip(labels, alone, strict=True) if sure}
    free = [c for c in range(n_labels, palette.MAX_STATES)] + [c for c in range(n_labels) if c not in taken]
    left = iter(free)
    return tuple(label if sure else next(left) for label, sure in zip(labels, alone, strict=True))


def by_labels(
    states: Sequence[npt.NDArray[Any]], labels: Sequence[npt.NDArray[Any] | None], label_names: Sequence[str]
) -> tuple[str, ...]:
    """What the expert called most of each state's time; those that share a behaviour are numbered."""
    best = most_called(states, labels, len(label_names))
    count = np.bincount(best, minlength=1)
    found = []
    for k, label in enumerate(best):
        name = label_names[label] if label < len(label_names) else f"behaviour {label + 1}"
        found.append(f"{name} {best[:k].count(label) + 1}" if count[label] > 1 else name)
    return tuple(found)


def most_called(
    states: Sequence[npt.NDArray[Any]], labels: Sequence[npt.NDArray[Any] | None], n_labels: int
) -> list[int]:
    """[K] the label of most of each state's time; [] without labels."""
    known = [(s, z) for s, z in zip(states, labels, strict=True) if z is not None and len(z) == len(s)]
    if not known or not n_labels:
        return []
    soft = np.concatenate([s for s, _ in known])
    z = np.concatenate([np.asarray(z, np.int64) for _, z in known])
    if not (z >= 0).any():
        return []
    weight = np.stack([soft[z == label].sum(axis=0) for label in range(n_labels)], axis=1)  # [K, labels]
    return [int(label) for label in weight.argmax(axis=1)]
