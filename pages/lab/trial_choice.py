"""Which trial a page looks at: as the visitor chose, or where the page itself leads."""

from __future__ import annotations

import time
from dataclasses import dataclass

import streamlit as st

from pages.lab import Data
from pages.ui import settings
from pages.ui.controls import one_of

DRAWN_S = 3.0  # by then a browser has drawn where the page has led


@dataclass(frozen=True)
class Led:
    """The page has led from one trial to another, then.

    A browser that has not drawn the new value yet sends the one before with whatever it sends (decision 37): that is no
    choice.
    """

    to: str
    before: str | None = None
    at: float = 0.0


def pick(data: Data, *, marking: bool = False) -> int:
    """Which trial is looked at; the first new one to begin with, and for `marking` the first fitted one."""
    names = [_name(data, i) for i in range(len(data.trials))]
    first = names[len(data.train)]
    key, place, opened = settings.key("trial", data.of), _place(data), f"_marking-opened-{data.key}"
    now = st.session_state.get(key, first)
    led: Led | None = st.session_state.get(place)
    if marking and not (opened in st.session_state and key in st.session_state):
        st.session_state[opened] = True
        if now == first and key not in st.query_params and (led is None or led.before is not None):
            led = Led(names[0])
    if led is not None and led.to in names:
        if led.before is None:
            st.session_state[key] = led.to
            st.session_state[place] = Led(led.to, now, time.monotonic())
        elif now == led.before and time.monotonic() < led.at + DRAWN_S:
            st.session_state[key] = led.to
        elif now != led.to:
            del st.session_state[place]
    titles = {name: data.title(i) for i, name in enumerate(names)}
    said = "The model is fitted to some trials and has never seen the new ones."
    return names.index(one_of("Trial", titles, first, key="trial", of=data.of, help=said))


def go_to(data: Data, index: int) -> None:
    """Look at that trial from the next run on."""
    st.session_state[_place(data)] = Led(_name(data, index))


def _name(data: Data, index: int) -> str:
    return f"{'new' if data.is_new(index) else 'fit'}-{index}"


def _place(data: Data) -> str:
    return f"_led-to-trial-{data.of}"
