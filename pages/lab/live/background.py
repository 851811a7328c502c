"""Work in the background: what a visitor has begun, how far it is, over the live channel, and a run of the page for news; and a
thread for what takes longer than a page may wait."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeVar

import streamlit as st

from gdm_core.engine.estimate import Estimate
from gdm_core.errors import FitError, GdmError
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


B = TypeVar("B", bound=Cancelled)
_BEGUN = "_begun"  # what of: (what it is about, the work)


def begun(what: str, about: Hashable) -> Any:
    """The work of that kind which this visitor has begun, None if there is none or it is about something else."""
    known, work = st.session_state.get(_BEGUN, {}).get(what, (None, None))
    return work if known == about else None


def begin(what: str, about: Hashable, make: Callable[[], B]) -> B:
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


log = logging.getLogger(__name__)


class Stopped(Exception):
    """Somebody asked for the end of it."""


def _unforeseen(error: Exception) -> GdmError:
    said = f"Something went wrong that should not ({type(error).__name__}). The server's log tells more."
    return FitError(said)


class Work:
    """One piece of work, under way or done. Plain values that any thread may read.

    do          is given the work, to say with `tell` or `go_on` how far it is
    unforeseen  what is said of an error that is none of ours, which the log has in full
    stopping    set once somebody has stopped it
    """

    def __init__(self, do: Callable[[Work], Any], unforeseen: Callable[[Exception], GdmError] = _unforeseen) -> None:
        self.said: tuple[str, float] = ("Beginning", 0.0)
        self.value: Any = None
        self.error: GdmError | None = None
        self.stopping, self._ended = threading.Event(), threading.Event()
        self._do, self._unforeseen = do, unforeseen
        threading.Thread(target=self._run, name="work", daemon=True).start()

    @property
    def done(self) -> bool:
        return self._ended.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait a moment for the end; whether it came."""
        return self._ended.wait(seconds)

    def stop(self) -> None:
        """End it at the next thing that it says, or sooner where it looks at `stopping` itself."""
        self.stopping.set()

    def tell(self, what: str, share: float) -> None:
        """Say what is done now, and how much of all is."""
        self.said = what, share

    def go_on(self, what: str, share: float) -> None:
        """The same, ending the work here where somebody has stopped it."""
        self.tell(what, share)
        if self.stopping.is_set():
            raise Stopped

    def _run(self) -> None:
        try:
            self.value = self._do(self)
        except Stopped:
            self.error = FitError("Stopped.")
        except GdmError as error:
            self.error = error
        except Exception as error:  # told to the visitor, and in full in the log
            log.exception("work of a page failed")
            self.error = self._unforeseen(error)
        finally:
            self._ended.set()


class Works:
    """Pieces of work by what they are about. Those that go on stay, and of the others the latest few."""

    def __init__(self, most: int, unforeseen: Callable[[Exception], GdmError] = _unforeseen) -> None:
        self._most, self._unforeseen = most, unforeseen
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Work] = OrderedDict()

    def get(self, key: Hashable, do: Callable[[Work], Any]) -> Work:
        """The work of that key, begun now if there is none."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = Work(do, self._unforeseen)
            self._kept.move_to_end(key)
            done = [name for name, work in self._kept.items() if work.done]
            for old in done[: max(0, len(self._kept) - self._most)]:
                del self._kept[old]
            return self._kept[key]

    def known(self, key: Hashable) -> bool:
        """Whether there is work of that key."""
        with self._lock:
            return key in self._kept

    def under_way(self) -> dict[Any, Work]:
        with self._lock:
            return {key: work for key, work in self._kept.items() if not work.done}

    def forget(self, key: Hashable) -> None:
        """Begin anew the next time."""
        with self._lock:
            self._kept.pop(key, None)
