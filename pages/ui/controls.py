"""Controls whose value stands in the address, one call each: its name there, where it starts, what it takes, and what is refused.

A link that asks for anything else gets the nearest value or the start, and one line says so (limits.py). What browsers send is
bounded once more, since theirs are no limits. `of` names the recording that a value belongs to (settings.py), `at` is where
the control stands.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import streamlit as st

from pages.ui import limits, settings
from pages.ui.slider import Position, slider

N = TypeVar("N", int, float)
W = TypeVar("W", bound=str)
V = TypeVar("V", bound=Hashable)
IN_ADDRESS: Literal["query-params"] = "query-params"


def slide(
    label: str, low: float, high: float, start: float, step: float | None = None, *, key: str, of: str = "", **more: Any
) -> Position:
    """A slider (slider.py), whole where its range is."""
    name = settings.key(key, of)
    limits.within(name, label, low, high, _kind(low, high, start))
    return slider(label, low, high, start, step, key=name, bind=IN_ADDRESS, **more)


def number(
    label: str, low: N, high: N, start: N, *, key: str, of: str = "", at: Any = st, called: str = "", **more: Any
) -> N:
    """A box to type a number into, whole where its range is; `called` so where a link is refused, if `label` says too little."""
    name, kind = settings.key(key, of), _kind(low, high, start)
    limits.within(name, called or label, low, high, kind)
    found = at.number_input(label, low, high, start, key=name, bind=IN_ADDRESS, **more)
    return kind(min(max(start if found is None else found, low), high))


def one_of(
    label: str,
    options: Mapping[W, str] | Sequence[W],
    start: W | None = None,
    *,
    key: str,
    of: str = "",
    at: Any = st,
    row: bool = False,
    tall: bool = False,
    **more: Any,
) -> W:
    """A box for one of some words, the first unless `start` says another; in a `row` of buttons, or in a `tall` list of them.

    options   what they are called on the screen and in the address, by what they are
    """
    words: dict[W, str] = dict(options) if isinstance(options, Mapping) else {option: option for option in options}
    name = settings.key(key, of)
    limits.among(name, label, words.values())
    start = start if start is not None and start in words else next(iter(words))
    return pick(label, words, start, at=at, row=row, tall=tall, key=name, bind=IN_ADDRESS, **more)


def pick(
    label: str, words: Mapping[V, str], start: V, *, at: Any = st, row: bool = False, tall: bool = False, **more: Any
) -> V:
    """The same wherever its value is kept: what it gives is one of the words, whatever a browser sends."""
    names = list(words)
    more["format_func"] = lambda one: words.get(one, str(one))
    if row:
        chosen = at.segmented_control(label, names, default=start, required=True, **more)
    elif tall:
        chosen = at.radio(label, names, names.index(start), **more)
    else:
        chosen = at.selectbox(label, names, names.index(start), **more)
    return chosen if chosen in words else start


def switch(label: str, start: bool, *, key: str, of: str = "", at: Any = st, **more: Any) -> bool:
    return bool(at.toggle(label, start, key=settings.key(key, of), bind=IN_ADDRESS, **more))


def several(
    label: str, options: Sequence[str], start: Sequence[str], *, key: str, of: str = "", **more: Any
) -> list[str]:
    """A box for some of these words, in the order in which they were chosen."""
    chosen = st.multiselect(label, list(options), list(start), key=settings.key(key, of), bind=IN_ADDRESS, **more)
    return [word for word in chosen if word in options]


def text(label: str, start: str = "", *, key: str, of: str = "", at: Any = st, **more: Any) -> str:
    return (at.text_input(label, start, key=settings.key(key, of), bind=IN_ADDRESS, **more) or "").strip()


def tabs(names: Sequence[str], key: str = "view") -> list[tuple[str, Any]]:
    """(name, place) of each tab; the page runs again when another is opened, and draws the one whose place is `open`."""
    limits.among(key, "Tab", names)
    return list(zip(names, st.tabs(list(names), key=key, on_change="rerun", bind=IN_ADDRESS), strict=True))


def _kind(*values: float) -> Any:
    return int if all(isinstance(value, int) for value in values) else float
