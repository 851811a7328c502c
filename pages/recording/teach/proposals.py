"""Which moment next: up to three stretches whose words would teach most, wherever Teach is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from gdm_core.trials import Stretch
from pages.lab import live
from pages.recording.teach import lessons
from pages.recording.teach.taught_fit import ready
from pages.recording.teach.taught_model import AnyTeaching, ask_for_clips
from pages.ui import shell


def keep_some(taught: AnyTeaching, one: str, source: str, least: int = 4, n: int = 6) -> tuple[Stretch, ...]:
    """The stretches that are proposed: others are asked for while there are fewer than `least`. Says what becomes of that.

    one, source  what a stretch is called, and what they come from: "moment", "trials"
    """
    of, lesson = taught.of, taught.lesson
    shown = lesson.shown
    if not ready(taught.view) or len(shown) >= least:
        return shown
    answer = ask_for_clips(taught, n)
    if not answer.fresh:
        if not live.unanswered(taught.view.fit, answer, f"Which {one} next could not be worked out") and not shown:
            shell.quiet(f"Which {one} next is being worked out.")
        return shown
    more = tuple((clip.trial, clip.start, clip.stop, 0) for clip in answer.value)
    shown = (*shown, *(clip for clip in more if clip not in lesson.asked))
    lessons.change(of, shown=shown, asked=(*lesson.asked, *more), said=lesson.said)
    if not shown:
        shell.quiet(f"Every {one} of the fitted {source} has been proposed.")
    return shown


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
