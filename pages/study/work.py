"""Background work of the Study page for one visitor."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from importlib import import_module
from typing import TypeVar

import streamlit as st

from pages.lab.live.background import Task, show_progress, visitor_jobs
from pages.ui import shell

KEPT = "study-"
AT_ONCE_S = 2.5  # seconds before progress is shown

T = TypeVar("T")
# Reports progress (text, share); raises Stopped after a cancellation.
Say = Callable[[str, float], None]


def outcome(
    name: str,
    key: tuple[Hashable, ...],
    do: Callable[[Say], T],
    failed: str,
    *,
    what: str = "",
    kept: str = "",
    words: str = "Starting",
) -> T | None:
    """Return the result of background work; None while it runs, and after a failure or cancellation.

    name    key of its widgets
    failed  title of an error
    what    noun for cancel buttons, such as "the fit"; `kept` tells what a cancellation keeps
    words   progress text until the work reports some
    """

    def run(task: Task) -> T:
        import_module("torch")  # scipy inspects it: load it completely first
        return do(task.checkpoint)

    task: Task = visitor_jobs().get(("study", *key), lambda: Task(run, words))
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
