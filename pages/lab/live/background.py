"""Background jobs: work that outlives a run of a page, and a panel that shows how far it is over the live channel."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Protocol

import streamlit as st

from gdm_core.engine.estimate import Estimate
from gdm_core.errors import FitError, GdmError
from pages.channel import LivePanels, channel
from pages.ui import shell
from pages.ui.plot import Panel, Text, by_key, draw_parts

log = logging.getLogger(__name__)

NEWS_EVERY_S = 2.0  # between two runs of a page for results that come in one after the other
MOST_KEPT = 24  # finished jobs of a visitor
_JOBS = "_jobs"


class Job(Protocol):
    """Work in the background.

    progress  what it does now, and its share from 0 to 1
    news      changes when there is more to show
    """

    @property
    def progress(self) -> tuple[str, float]: ...
    @property
    def news(self) -> Hashable: ...
    @property
    def done(self) -> bool: ...
    def cancel(self) -> None: ...


def show_progress(key: str, job: Job, done: bool) -> None:
    """Show how far a job is, and rerun the page for news and at its end.

    done  whether the page draws the finished job, so that there is nothing to wait for
    """
    if done:
        return
    before, began = job.news, time.monotonic()

    def draw() -> dict[str, Panel]:
        return by_key(Text(shell.running_html(*job.progress), key))

    def settled() -> str:
        news = time.monotonic() - began >= NEWS_EVERY_S and job.news != before
        return "results" if news or job.done else ""

    now = draw()
    draw_parts(now)
    channel().scene.live.append(LivePanels(draw, lambda: True, settled, now))


class Fits:
    """Jobs of the engine that a visitor began together, by name; `news` tells what a page shows of one."""

    def __init__(self, jobs: Mapping[str, Any], news: Callable[[Any], Hashable] = lambda view: view.done) -> None:
        self.jobs, self._news = jobs, news
        self._estimate = Estimate()

    def poll(self) -> dict[str, Any]:
        return {name: job.poll() for name, job in self.jobs.items()}

    @property
    def progress(self) -> tuple[str, float]:
        now = self.poll().values()
        done, total = sum(view.done for view in now), sum(view.total for view in now)
        return self._estimate.describe(done, total), done / max(1, total)

    @property
    def news(self) -> Hashable:
        return tuple(map(self._news, self.poll().values()))

    @property
    def done(self) -> bool:
        return all(view.finished for view in self.poll().values())

    def cancel(self) -> None:
        """End the fits; the cache keeps finished ones."""
        for job in self.jobs.values():
            job.cancel()


class Stopped(Exception):
    """A task was cancelled."""


def _unforeseen(error: Exception) -> GdmError:
    return FitError(f"Something went wrong that should not ({type(error).__name__}). The server's log tells more.")


class Task:
    """A function in a thread of its own.

    do          is given the task, to say how far it is with `tell` or `go_on`
    words       what it does until it says so itself
    unforeseen  makes a message of an error that is none of ours; the log has it in full
    """

    news = None  # what it comes to is there at its end

    def __init__(
        self,
        do: Callable[[Task], Any],
        words: str = "Beginning",
        unforeseen: Callable[[Exception], GdmError] = _unforeseen,
    ) -> None:
        self.progress: tuple[str, float] = (words, 0.0)
        self.value: Any = None
        self.error: GdmError | None = None
        self.cancelled, self._ended = threading.Event(), threading.Event()
        self._do, self._unforeseen = do, unforeseen
        threading.Thread(target=self._run, name="task", daemon=True).start()

    @property
    def done(self) -> bool:
        return self._ended.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait at most so long; return whether it has ended."""
        return self._ended.wait(seconds)

    def cancel(self) -> None:
        """End it at its next `go_on`, or sooner where it looks at `cancelled`."""
        self.cancelled.set()

    def tell(self, what: str, share: float) -> None:
        """Say what is done now, and how much of all is."""
        self.progress = what, share

    def go_on(self, what: str, share: float) -> None:
        """Do the same; raise Stopped if the task was cancelled."""
        self.tell(what, share)
        if self.cancelled.is_set():
            raise Stopped

    def _run(self) -> None:
        try:
            self.value = self._do(self)
        except Stopped:
            self.error = FitError("Stopped.")
        except GdmError as error:
            self.error = error
        except Exception as error:  # told to the visitor, and in full in the log
            log.exception("a task of a page failed")
            self.error = self._unforeseen(error)
        finally:
            self._ended.set()


class Jobs:
    """Jobs by key: a name and what they are about. Keeps those that go on, and the latest `most` in all."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Hashable, ...], Any] = OrderedDict()

    def get(self, key: tuple[Hashable, ...], begin: Callable[[], Any]) -> Any:
        """Return the job of that key, begun now if there is none."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = begin()
            self._kept.move_to_end(key)
            if len(self._kept) > self._most:
                done = [name for name, job in self._kept.items() if name != key and job.done]
                for old in done[: len(self._kept) - self._most]:
                    del self._kept[old]
            return self._kept[key]

    def find(self, key: tuple[Hashable, ...]) -> Any:
        """Return the job of that key, None if there is none."""
        with self._lock:
            return self._kept.get(key)

    def under_way(self) -> dict[tuple[Hashable, ...], Any]:
        with self._lock:
            return {key: job for key, job in self._kept.items() if not job.done}

    def forget(self, key: tuple[Hashable, ...]) -> None:
        """Have the next `get` begin again."""
        with self._lock:
            self._kept.pop(key, None)

    def end(self, name: Hashable) -> None:
        """Cancel and forget all jobs of that name."""
        with self._lock:
            for key in [key for key in self._kept if key[0] == name]:
                self._kept.pop(key).cancel()


def visitor_jobs() -> Jobs:
    """Return the jobs of this visitor."""
    found: Jobs = st.session_state.setdefault(_JOBS, Jobs(MOST_KEPT))
    return found
