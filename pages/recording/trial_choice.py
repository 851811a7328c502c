"""Which trial a page looks at: as the visitor chose, or where the page itself leads."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from pages.lab import Data
from pages.ui import settings
from pages.ui.controls import one_of


@dataclass(frozen=True)
class Led:
    """The page has led from one trial to another, and stays there until it is released.

    A browser that has not drawn the new value yet sends the one before with whatever it sends (decision 37): that is no
    choice. A third one is.
    """

    to: str
    before: str | None = None
    held: bool = False


def pick(data: Data, *, asking: bool = False) -> int:
    """Which trial is looked at; the first new one to begin with. While Teach is `asking`, the page stays where it led."""
    names = [_name(data, i) for i in range(len(data.trials))]
    first = names[len(data.train)]
    key, place = settings.key("trial", data.of), _place(data)
    led: Led | None = st.session_state.get(place)
    now = st.session_state.get(key, first)
    if led is not None and led.to in names:
        if led.before is None:
            st.session_state[key] = led.to
            st.session_state[place] = Led(led.to, now, led.held)
        elif led.held and asking and now == led.before:
            st.session_state[key] = led.to
        elif now != led.to or not led.held:
            del st.session_state[place]
    titles = {name: data.title(i) for i, name in enumerate(names)}
    said = "The model is fitted to some trials and has never seen the new ones."
    return names.index(one_of("Trial", titles, first, key="trial", of=data.of, help=said))


def go_to(data: Data, index: int, *, hold: bool = False) -> None:
    """Look at that trial from the next run on; with `hold`, stay there while Teach asks about it."""
    st.session_state[_place(data)] = Led(_name(data, index), held=hold)


def release(data: Data) -> None:
    """Where the page has led, nothing holds any more."""
    st.session_state.pop(_place(data), None)


def _name(data: Data, index: int) -> str:
    return f"{'new' if data.is_new(index) else 'fit'}-{index}"


def _place(data: Data) -> str:
    return f"_led-to-trial-{data.of}"
