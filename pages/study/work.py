"""What takes longer than a page may wait: done in a thread of the visitor's, while the page goes on and says so."""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import streamlit as st

from gdm_core.errors import FitError, GdmError
from pages.lab.live import background
from pages.ui import page_memory

log = logging.getLogger(__name__)

KEPT = page_memory.stays("study-")
_WORKS = f"{KEPT}works"
MOST_KEPT = 24
AT_ONCE_S = 2.5  # that a page waits before it says what it waits for
STOPPED = "Stopped."

Say = Callable[[str, float], None]


class Stopped(Exception):
    """Somebody asked for the end of it."""


class Work:
    """One piece of work. Plain values that any thread may read.

    do   is given `say(what, share)`, which ends it once somebody has stopped it
    """

    def __init__(self, do: Callable[[Say], Any]) -> None:
        self.said: tuple[str, float] = ("Beginning", 0.0)
        self.value: Any = None
        self.error: GdmError | None = None
        self._do, self._ended, self._stop = do, threading.Event(), threading.Event()
        threading.Thread(target=self._run, name="study", daemon=True).start()

    @property
    def done(self) -> bool:
        return self._ended.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait a moment for the end; whether it came."""
        return self._ended.wait(seconds)

    def stop(self) -> None:
        """End it at the next thing that it says."""
        self._stop.set()

    def _say(self, what: str, share: float) -> None:
        self.said = what, share
        if self._stop.is_set():
            raise Stopped

    def _run(self) -> None:
        try:
            try:
                self.value = self._do(self._say)
            except AttributeError as error:
                if "partially initialized module 'torch'" not in str(error):
                    raise
                # scipy looks at torch while another visitor's thread still imports it: wait for that, and begin again
                importlib.import_module("torch")
                self.value = self._do(self._say)
        except Stopped:
            self.error = FitError(STOPPED)
        except GdmError as error:
            self.error = error
        except Exception as error:  # told to the visitor, and in full in the log
            log.exception("work on a study failed")
            self.error = FitError(
                f"Something went wrong that should not ({type(error).__name__}). The server's log tells more."
            )
        finally:
            self._ended.set()


def of(key: Hashable, do: Callable[[Say], Any]) -> Work:
    """The work of that key, begun now if it is not there. The latest few are kept."""
    works: OrderedDict[Hashable, Work] = st.session_state.setdefault(_WORKS, OrderedDict())
    if key not in works:
        works[key] = Work(do)
    works.move_to_end(key)
    for old in list(works)[: max(0, len(works) - MOST_KEPT)]:
        works.pop(old).stop()
    return works[key]


def forget(key: Hashable) -> None:
    """Begin anew the next time."""
    st.session_state.get(_WORKS, {}).pop(key, None)


def follow(key: str, works: list[Work], words: str = "") -> bool:
    """Wait a little for all of them; say how far they are, and have the page run again at their end. Whether all have ended."""
    until = time.monotonic() + AT_ONCE_S
    ended = all(work.wait(max(0.0, until - time.monotonic())) for work in works)

    def progress() -> tuple[str, float]:
        left = [work for work in works if not work.done] or works
        what, share = left[0].said
        return words or what, share

    background.follow(key, progress, lambda: sum(work.done for work in works), ended)
    return ended
