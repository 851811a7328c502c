"""What takes longer than Study may wait for: worked out beside it, for one visitor, and what came of it said on the page."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

import streamlit as st

from pages.lab.live import background
from pages.lab.live.background import Work, Works
from pages.ui import shell

KEPT = "study-"
_WORKS = f"{KEPT}works"
MOST_KEPT = 24
AT_ONCE_S = 2.5  # that a page waits before it says what it waits for

T = TypeVar("T")
# What is done now, and how much of all is; ends the work once somebody has stopped it.
Say = Callable[[str, float], None]


def of(key: Hashable, do: Callable[[Say], Any]) -> Work:
    """The work of that key, begun now if it is not there."""

    def begun(work: Work) -> Any:
        import_module("torch")  # the server loads it behind its first page, and scipy must not look at half of it
        return do(work.go_on)

    works: Works = st.session_state.setdefault(_WORKS, Works(MOST_KEPT))
    return works.get(key, begun)


def outcome(
    name: str, key: Hashable, do: Callable[[Say], T], failed: str, *, what: str = "", kept: str = "", words: str = ""
) -> T | None:
    """What comes of it; None while it is under way, and where it failed or was stopped, which is said with a button to begin again.

    name    of its controls on the page
    failed  how it is said that it failed
    what    it is, "the fit": then a button stops it, and `kept` says what stays of it
    words   while it is under way, where it says nothing by itself
    """
    work = of(key, do)
    ended = work.wait(AT_ONCE_S)
    background.follow(f"{name}-progress", lambda: (words or work.said[0], work.said[1]), lambda: work.done, ended)
    if not ended:
        if what:
            st.button(f"Stop {what}", key=f"{name}-stop", on_click=work.stop, icon=":material/stop:")
        return None
    if work.error is None:
        value: T = work.value
        return value
    again = partial(st.session_state[_WORKS].forget, key)
    if work.stopping.is_set():
        was = work.said[0]
        shell.empty(f"{what.capitalize()} was stopped", f"It was {was[:1].lower()}{was[1:]}. {kept}".strip())
        st.button("Go on", key=f"{name}-again", icon=":material/refresh:", on_click=again)
    else:
        shell.error(failed, str(work.error), retry=f"{name}-again", again=again)
    return None
