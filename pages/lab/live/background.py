"""Work in the background: what a visitor has begun, how far it is, over the live channel, and a run of the page for news."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeVar

import streamlit as st

from gdm_core.engine.estimate import Estimate
from pages.channel import Moving, channel
from pages.ui import parts, shell
from pages.ui.parts import Text


class Polled(Protocol):
    """A look at some fits in the background."""

    @property
    def done(self) -> int: ...
    @property
    def total(self) -> int: ...
    @property
    def finished(self) -> bool: ...


class Cancelled(Protocol):
    """Work that can be ended before it is done."""

    def cancel(self) -> None: ...


Work = TypeVar("Work", bound=Cancelled)
_BEGUN = "_begun"  # what of: (what it is about, the work)


def begun(what: str, about: Hashable) -> Any:
    """The work of that kind which this visitor has begun, None if there is none or it is about something else."""
    known, work = st.session_state.get(_BEGUN, {}).get(what, (None, None))
    return work if known == about else None


def begin(what: str, about: Hashable, make: Callable[[], Work]) -> Work:
    """Begin work of that kind: the latest wish wins, and what this visitor has begun before ends."""
    end(what)
    work = make()
    st.session_state.setdefault(_BEGUN, {})[what] = (about, work)
    return work


def end(what: str) -> None:
    """End it, if there is any; finished fits stay in the store."""
    _, work = st.session_state.get(_BEGUN, {}).pop(what, (None, None))
    if work is not None:
        work.cancel()


NEWS_EVERY_S = 2.0  # between two runs of a page for results that come in one after the other


def follow(key: str, progress: Callable[[], tuple[str, float]], come_in: Callable[[], Hashable], ended: bool) -> None:
    """Say how far some work is, until it has ended; have the page run again when more has come in, and when it ends.

    progress  (what is done, its share from 0 to 1); what it says is drawn while `ended` is False
    come_in   what there is to show so far: anything that is equal only while nothing new has come in, and holds at its end
              another value than before
    ended     whether the work had ended when the page began to draw it
    """
    if ended:
        return
    before, began = come_in(), time.monotonic()

    def drawn() -> dict[str, parts.Part]:
        return parts.by_key(Text(shell.running_html(*progress()), key))

    def settled() -> str:
        return "results" if time.monotonic() - began >= NEWS_EVERY_S and come_in() != before else ""

    now = drawn()
    parts.draw_parts(now)
    channel().scene.moving.append(Moving(drawn, lambda: True, settled, now))


def follow_fits(key: str, poll: Callable[[], Sequence[Polled]], estimate: Estimate) -> None:
    """The same for fits of which `poll` tells how many are done, and `estimate` how long the rest takes."""

    def progress() -> tuple[str, float]:
        now = poll()
        done, total = sum(one.done for one in now), sum(one.total for one in now)
        return estimate.words(done, total), done / max(1, total)

    def come_in() -> tuple[tuple[int, bool], ...]:
        return tuple((one.done, one.finished) for one in poll())

    follow(key, progress, come_in, all(one.finished for one in poll()))
