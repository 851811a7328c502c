"""Controls whose options come and go. What was chosen stands in the address, and nowhere else.

A control begins with what the address says, in every run and not in the first alone: a run may be overtaken by a click
before the browser has heard of it, and what only that run had said would be lost. Nothing is put into
`st.session_state` for a control, because Streamlit tells the browser of that just once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from pages.ui import limits
from pages.ui.controls import pick
from pages.ui.slider import slider
from pages.ui.streamlit_internals import this_run

# By the name of a control: the value that this page put into the address; how often the page itself chose another value.
_WRITTEN, _TURNS = "f1-written", "f1-turns"


def choose_one(
    label: str,
    name: str,
    options: Mapping[str, str] | Sequence[str],
    default: str,
    help: str | None = None,
    *,
    among: str = "",
    always: bool = False,
    row: bool = False,
    **more: Any,
) -> str:
    """A box for one of some options, or a `row` of buttons or another look, as for `controls.pick`.

    options  what they are called on the screen, by what they are in the address
    among    what the options and their words depend on: with others it is another control, which starts anew
    always   the address names the choice even where it is the default, because another day, or what is stored on
             another server, has another default
    """
    words = dict(options) if isinstance(options, Mapping) else {option: option for option in options}
    if not words:
        st.selectbox(label, ["not available"], disabled=True, key=f"f1-{name}-none-{among}", help=help)
        return ""
    width = {"width": "stretch"} if row else {}
    start = _asked(label, name, words, default)
    chosen = pick(label, words, start, row=row, key=_key(name, among), help=help, **width | more)
    _remember(name, chosen, None if always else default)
    return chosen


def choose_range(
    label: str, ends: tuple[str, str], name: str, last: int, default: tuple[int, int], *, among: str
) -> tuple[int, int]:
    """Two sliders between 1 and `last`, of which none passes the other; the address always names both.

    Their values may be put into `st.session_state`: our sliders tell the browser in every run where they stand.
    """
    asked = st.query_params.get(name, "")
    said = [end for part in asked[:40].split("-") if (end := limits.whole(part)) is not None]
    first, end = said if len(said) == 2 else default
    first = min(max(first, 1), last)
    start = (first, min(max(end, first), last))
    key = _key(name, among)
    keys = (f"{key}-first", f"{key}-last")
    now = [st.session_state.get(key, value) for key, value in zip(keys, start, strict=True)]
    if now[0] > now[1]:  # the one that was moved takes the other along
        moved = now[0] if now[0] != start[0] else now[1]
        st.session_state.update(dict.fromkeys(keys, moved))
    found = []
    for place, words, value, key in zip(st.columns(2, gap="small"), ends, start, keys, strict=True):
        with place:
            found.append(slider(words, 1, last, value, key=key).value)
    chosen = (found[0], found[1])
    text = f"{chosen[0]}-{chosen[1]}"
    if asked not in ("", f"{start[0]}-{start[1]}") and chosen == start:
        _correct(name, label, asked, text.replace("-", " to "))
    _remember(name, text, None)
    return chosen


def choose_several(label: str, name: str, options: Sequence[str], default: Sequence[str]) -> tuple[str, ...]:
    """A box for several options, in the order of `options`; the address always names them."""
    asked = [part for part in st.query_params.get(name, "").split("-") if part]
    known = [part for part in asked if part in options]
    if strangers := [part for part in asked if part not in options]:
        _correct(name, label, ", ".join(strangers), ", ".join(known or default))
    chosen = st.multiselect(label, list(options), known or list(default), key=_key(name), placeholder="at least one")
    kept = tuple(option for option in options if option in chosen)
    _remember(name, "-".join(kept), None)
    return kept


def choose_for_visitor(name: str, value: str) -> None:
    """Another value for a control, from a button elsewhere. Call it before the control is shown, as from `on_click`."""
    st.query_params[name] = value
    turns = st.session_state.setdefault(_TURNS, {})
    turns[name] = turns.get(name, 0) + 1


def _key(name: str, among: str = "") -> str:
    """A control that the page itself sets, or Back and Forward, is a new one, which begins with what the address says."""
    turns = st.session_state.setdefault(_TURNS, {})
    if this_run().stepped:
        turns[name] = turns.get(name, 0) + 1
    turn = turns.get(name, 0)
    return "-".join(part for part in ("f1", name, among, str(turn or "")) if part)


def _asked(label: str, name: str, words: Mapping[str, str], default: str) -> str:
    """What the control begins with: what the address says, where that is on offer."""
    asked = st.query_params.get(name, "")
    if asked and asked not in words:
        _correct(name, label, asked, words[default])
    return asked if asked in words else default


def _correct(name: str, label: str, asked: str, shown: str) -> None:
    if st.session_state.get(_WRITTEN, {}).get(name) == asked:
        return  # it was chosen here, for another race
    text = f"{label} in the link is “{asked[:40]}”, which is not to be had here: {shown} is shown."
    limits.say(f"f1-{name}", text, lambda: st.query_params.get(name))


def _remember(name: str, value: str, default: str | None) -> None:
    """Keep a choice in the address, unless it is what anybody finds there anyway."""
    if value == default:
        if name in st.query_params:
            del st.query_params[name]
    elif st.query_params.get(name) != value:
        st.query_params[name] = value
    st.session_state.setdefault(_WRITTEN, {})[name] = value
