"""What takes longer than Study may wait for: worked out beside it, for one visitor, and what came of it said on the page."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

import streamlit as st

from pages.lab.live.background import Task, show_progress, visitor_jobs
from pages.ui import shell

KEPT = "study-"
AT_ONCE_S = 2.5  # that a page waits before it says what it waits for

T = TypeVar("T")
# What is done now, and how much of all is; ends the work once somebody has stopped it.
Say = Callable[[str, float], None]


def of(key: tuple[Hashable, ...], do: Callable[[Say], Any], words: str = "Starting") -> Task:
    """Return the task of that key, begun now if there is none."""

    def run(task: Task) -> Any:
        import_module("torch")  # the server loads it behind its first page, and scipy must not look at half of it
        return do(task.checkpoint)

    task: Task = visitor_jobs().get(("study", *key), lambda: Task(run, words))
    return task


def outcome(
    name: str,
    key: tuple[Hashable, ...],
    do: Callable[[Say], T],
    failed: str,
    *,
    what: str = "",
    kept: str = "",
    words: str = "",
) -> T | None:
    """What comes of it; None while it is under way, and where it failed or was stopped, which is said with a button to begin again.

    name    of its controls on the page
    failed  how it is said that it failed
    what    it is, "the fit": then a button stops it, and `kept` says what stays of it
    words   while it is under way, where it says nothing by itself
    """
    task = of(key, do, words or "Starting")
    ended = task.wait(AT_ONCE_S)
    show_progress(f"{name}-progress", task, ended)
    if not ended:
        if what:
            st.button(f"Cancel {what}", key=f"{name}-stop", on_click=task.cancel, icon=":material/stop:")
        return None
    if task.error is None:
        value: T = task.value
        return value
    again = partial(visitor_jobs().forget, ("study", *key))
    if task.cancelled.is_set():
        was = task.progress[0]
        shell.empty(f"{what.capitalize()} was cancelled", f"Last step: {was}. {kept}".strip())
        st.button("Continue", key=f"{name}-again", icon=":material/refresh:", on_click=again)
    else:
        shell.error(failed, str(task.error), retry=f"{name}-again", again=again)
    return None
