"""Background work of the Study page for one visitor."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

import streamlit as st

from gdm_core.engine import Engine, Job
from pages.lab.live.background import Task, show_progress, visitor_jobs
from pages.ui import shell

KEPT = "study-"
AT_ONCE_S = 2.5  # seconds before progress is shown
AT_A_TIME = 4  # jobs in flight, or two for each worker
LOOK_EVERY_S = 0.2

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


def run_jobs(
    engine: Engine, list_needed: Callable[[], Iterable[Any]], submit: Callable[[Any], Job], found: dict[Any, Any],
    report: Callable[[], None],
) -> None:  # fmt: skip
    """Add the results of jobs to `found`; a cancellation or failure keeps those that are there.

    list_needed   returns the keys of all results, which may depend on those found
    """
    most, under_way = max(AT_A_TIME, 2 * engine.info().n_workers), dict[Any, Job]()
    try:
        while (left := [key for key in list_needed() if key not in found and key not in under_way]) or under_way:
            under_way |= {key: submit(key) for key in left[: most - len(under_way)]}
            next(iter(under_way.values())).wait(LOOK_EVERY_S)
            for key in [key for key, job in under_way.items() if job.poll().status.final]:
                found[key] = under_way.pop(key).result(0)
            report()
    finally:
        for job in under_way.values():
            job.cancel()
