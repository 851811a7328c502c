"""Which moment next: up to three stretches whose words would teach most, wherever Teach is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from gdm_core.trials import Stretch
from pages.lab import live
from pages.lab.teach import lessons
from pages.lab.teach.taught_fit import ready
from pages.lab.teach.taught_model import AnyTeaching, ask_for_clips
from pages.ui import shell

GOLDEN = 0.6180339887  # multiples of it spread most evenly


def keep_some(
    taught: AnyTeaching, one: str, source: str, least: int = 4, n: int = 6, meanwhile: bool = False
) -> tuple[Stretch, ...]:
    """The stretches that are proposed: others are asked for while there are fewer than `least`. Says what becomes of that.

    one, source  what a stretch is called, and what they come from: "moment", "trials"
    meanwhile    where the model has none yet, take some from all over the recordings
    """
    of, lesson = taught.of, taught.lesson
    shown = lesson.shown
    if len(shown) >= least:
        return shown
    answer = ask_for_clips(taught, n) if ready(taught.view) else live.Answer(pending=True)
    if answer.fresh:
        found = tuple((clip.trial, clip.start, clip.stop, 0) for clip in answer.value)
        more = tuple(clip for clip in found if clip not in lesson.asked)
    else:
        failed = live.unanswered(taught.view.fit, answer, f"Which {one} next could not be worked out")
        if shown or not meanwhile:
            if not (failed or shown) and ready(taught.view):
                shell.quiet(f"Which {one} next is being worked out.")
            return shown
        more = all_over(taught, n)
    shown = (*shown, *more)
    if more:
        lessons.change(of, shown=shown, asked=(*lesson.asked, *more), said=lesson.said)
    elif not shown:
        shell.quiet(f"Every {one} of the fitted {source} has been proposed.")
    return shown


def all_over(taught: AnyTeaching, n: int) -> tuple[Stretch, ...]:
    """Up to `n` stretches of the fitted trials in turn, spread over each, and none that is marked or was proposed."""
    train, taken = taught.view.data.train, [*taught.lesson.asked, *taught.own.stretches(taught.view.data.train)]
    found: list[Stretch] = []
    for j in range(20 * n):
        trial = j % len(train)
        length = max(2, round(taught.clip * train[trial].rate_hz))
        start = int((j * GOLDEN % 1) * (train[trial].n_samples - length))
        if start >= 0 and not any(
            trial == one and start < last and first < start + length for one, first, last, _ in taken
        ):
            found.append((trial, start, start + length, 0))
            taken.append(found[-1])
        if len(found) == n:
            break
    return tuple(found)


def proposals(taught: AnyTeaching, called: tuple[str, str], about: str, take: Callable[[Any, Stretch], None]) -> None:
    """A button for each stretch that is proposed, and one for others.

    called  one of them, and where they come from: ("stretch", "laps")
    about   what a press does, in a sentence
    take    called with the lesson and the stretch that was pressed
    """
    of, lesson = taught.of, taught.lesson
    if not (shown := keep_some(taught, *called, least=1, n=3)):
        return
    shell.quiet(f"Which {called[0]} next: those whose names would teach most{about}")
    with st.container(key="teach-next", horizontal=True):
        for j, clip in enumerate(shown):
            kind: Any = "primary" if clip == lesson.asking else "secondary"
            label = taught.place(*clip[:3])
            st.button(label, key=f"teach-clip-{j}", on_click=take, args=(taught, clip), type=kind)
        others: dict[str, Any] = {"shown": (), "asking": None}
        st.button("Others", key="teach-others", on_click=lessons.change, args=(of,), kwargs=others)
