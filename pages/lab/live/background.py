"""Background jobs, which outlive a script run, and their progress on the page."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import streamlit as st

from gdm_core.engine.job import Bulk, Job
from gdm_core.errors import FitError, GdmError
from pages.channel import channel
from pages.lab.live import panels
from pages.ui import shell
from pages.ui.plot import Panel, Text, by_key, draw_live

log = logging.getLogger(__name__)

NEWS_EVERY_S = 2.0  # between two reruns for partial results
MAX_JOBS = 24  # of a visitor, with finished ones
_JOBS = "_jobs"


def show_progress(key: str, job: Job | Bulk[Any] | Task, ended: bool) -> None:
    """Show the progress of a job, and rerun the page for news and at its end.

    ended  whether the page already shows the finished job
    """
    if ended:
        return
    before, began = job.news, time.monotonic()

    def draw() -> dict[str, Panel]:
        return by_key(Text(shell.running_html(*job.progress), key))

    def settled() -> str:
        news = time.monotonic() - began >= NEWS_EVERY_S and job.news != before
        return "results" if news or job.ended else ""

    draw_live(draw, lambda: True, settled)


class Stopped(Exception):
    """A task was cancelled."""


class Task:
    """A function in a separate thread.

    do     called with the task; it reports progress with `report` or `checkpoint`
    words  activity until the first report
    """

    news: Hashable = None  # changes with partial results, which `do` writes to `value`

    def __init__(self, do: Callable[[Task], Any], words: str = "Starting") -> None:
        self.progress: tuple[str, float] = (words, 0.0)
        self.value: Any = None
        self.error: GdmError | None = None
        self.cancelled = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(do,), name="task", daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def wait(self, seconds: float) -> bool:
        """Wait for the end; return whether it has come."""
        self._thread.join(seconds)
        return self.ended

    def cancel(self) -> None:
        """End the function at its next `checkpoint`, or where it reads `cancelled`."""
        self.cancelled.set()

    def report(self, activity: str, share: float) -> None:
        self.progress = activity, share

    def checkpoint(self, activity: str, share: float) -> None:
        """Report progress; raise Stopped if the task was cancelled."""
        self.report(activity, share)
        if self.cancelled.is_set():
            raise Stopped

    def _run(self, do: Callable[[Task], Any]) -> None:
        try:
            self.value = do(self)
        except Stopped:
            self.error = FitError("Stopped.")
        except GdmError as error:
            self.error = error
        except Exception as error:  # the thread reports every failure
            log.exception("A task of a page failed.")
            self.error = FitError(f"An unexpected {type(error).__name__} occurred. See the server's log.")


class Jobs:
    """Jobs and tasks by key, of which the first part is a name. Above `max_jobs`, the oldest finished jobs are dropped."""

    def __init__(self, max_jobs: int) -> None:
        self._max_jobs = max_jobs
        self._lock = threading.Lock()
        self._jobs: OrderedDict[tuple[Hashable, ...], Any] = OrderedDict()

    def get(self, key: tuple[Hashable, ...], begin: Callable[[], Any]) -> Any:
        """Return the job of a key, started with `begin` if there is none."""
        with self._lock:
            if key not in self._jobs:
                self._jobs[key] = begin()
            self._jobs.move_to_end(key)
            done = [name for name, job in self._jobs.items() if name != key and job.ended]
            for old in done[: max(0, len(self._jobs) - self._max_jobs)]:
                del self._jobs[old]
            return self._jobs[key]

    def find(self, key: tuple[Hashable, ...]) -> Any:
        """Return the job of a key, None if there is none."""
        with self._lock:
            return self._jobs.get(key)

    def forget(self, key: tuple[Hashable, ...]) -> None:
        """Drop a job; the next `get` starts another one."""
        with self._lock:
            self._jobs.pop(key, None)

    def end(self, name: Hashable) -> None:
        """Cancel and drop all jobs of a name."""
        self._drop(lambda key, _: key[0] == name)

    def leave(self) -> None:
        """Cancel and drop the unfinished jobs."""
        self._drop(lambda _, job: not job.ended)

    def _drop(self, chosen: Callable[[tuple[Hashable, ...], Any], bool]) -> None:
        with self._lock:
            for key, job in list(self._jobs.items()):
                if chosen(key, job):
                    self._jobs.pop(key).cancel()


def visitor_jobs() -> Jobs:
    """Return the jobs of this visitor."""
    jobs: Jobs = st.session_state.setdefault(_JOBS, Jobs(MAX_JOBS))
    channel().at_leave["tasks"] = jobs.leave
    return jobs


def submit_once(key: tuple[Hashable, ...], words: str, function: Callable[..., Any], *args: Any) -> Job:
    """Return this visitor's job of a key, started if there is none; `words` say what it does."""
    engine, session = panels.engine(), f"{panels.visitor()}/{key[0]}"
    job: Job = visitor_jobs().get(key, lambda: engine.submit(function, *args, session=session, name=words))
    return job
