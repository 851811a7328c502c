"""Teach: the visitor names a few moments, the model names all others. The desk under the picture, the rest in a tab."""

from __future__ import annotations

from typing import Any

import streamlit as st

from gdm_studio.plot import figures
from pages.lab import live
from pages.lab.data import go_to
from pages.lab.teach import agreement, desk, lessons, marks_panel
from pages.lab.teach.lessons import Vocabulary
from pages.lab.teach.taught_fit import TEACHABLE, Teaching, ask, found_in, keep_some, ready
from pages.lab.view import Seen, View
from pages.ui import settings, shell
from pages.ui.plot import plot


def panel(view: View, here: Seen, beside_player: Any) -> None:
    """The tab, and what stands in the picture while it is open: the desk, and what the model makes of the trial."""
    of, data = lessons.key_of(view.data), view.data
    if why := lessons.no_names(data):
        shell.empty("Nothing can be marked here", why)
        return
    left, middle, right = st.columns([0.36, 0.34, 0.3], gap="small")
    marks = lessons.marks_of(data)
    why = lessons.not_yet(marks, data.train, view.n_states)
    lesson = lessons.lesson(of)
    taught = Teaching(view, of, lesson, marks, Vocabulary.of(data, marks, lesson.words), why, here)
    answer = ask(taught, view.trial)
    found = found_in(taught, view.trial, answer)
    with beside_player:
        shell.section("Teach")
        shell.quiet(
            "Name a few moments, and the model names all others. Answer what it asks, press keys while it plays, or drag over the "
            "timeline and press what it is. Marks stay in this browser."
        )
        desk.show(taught, found, keep_some(taught, "moment", "trials", meanwhile=True))
        news = st.container()
        if lesson.said:
            shell.error("Not marked", lesson.said)
        with st.container(key="teach-more", horizontal=True):
            with st.popover("Keys", icon=":material/keyboard:"):
                _choose_key(taught)
            if view.is_new:
                more: dict[str, Any] = {"key": "teach-go-fitted", "on_click": go_to, "args": (view.data, 0)}
                st.button("Go to a fitted trial", icon=":material/arrow_forward:", **more)
    with view.frame.picture:
        _states(taught, answer)
    with left, shell.panel("teach-marks", "Marks"):
        marks_panel.listed(taught)
        marks_panel.share_of_expert(view, of)
        marks_panel.files(taught)
    with middle, shell.panel("teach-trust", "How far to trust it"):
        agreement.agreement(taught, found, answer.fresh)
    with news:
        if change := agreement.changed(taught, found):
            shell.quiet(change)
    with right, shell.panel("teach-states", "What states mean now"):
        agreement.states(taught, answer)
    with shell.panel("teach-all", "All recordings"):
        agreement.every_trial(taught)


def _states(taught: Teaching, answer: live.Answer) -> None:
    """What becomes of the lesson, and the states of the trial after it."""
    view = taught.view
    if view.choice.family != TEACHABLE:
        shell.empty("This model cannot be taught", "Choose the Gumbel Dynamical Model; marks stay as they are.")
    elif taught.why:
        shell.empty("Name a few moments: the model names all others", taught.why)
    else:
        live.unanswered(view.fit, answer, "This could not be taught")
    found = found_in(taught, view.trial, answer)
    if found is not None:
        _, order = answer.about
        naming = view.naming_for(len(order))
        alone = {"states now": naming.apply(found.states[:, list(order)])}
        said = "Its states after the lesson, in their own colours."
        drawn = figures.state_strips(alone, names=naming.names, caption=said, **taught.here.timing)
        state: Any = "fresh" if answer.fresh and taught.learned == taught.marks else "stale"
        plot(drawn, key="teach-states-now", state=state, revision=f"{view.data.key}/{view.index}")
        if found.unlike is not None:
            shell.quiet(found.unlike)
    elif not taught.why and not answer.message and view.choice.family == TEACHABLE:
        shell.quiet("The model is learning these words." if ready(view) else "Taught as soon as the fit is done.")


def _choose_key(taught: Teaching) -> None:
    """What keys do, and which word has which."""
    shell.quiet(
        "1 to 9 begin a stretch of their word at the present moment, playing or paused, and end it when pressed again; another "
        "word's key ends it and begins its own. Esc drops it, Ctrl+Z takes the last mark back, Delete the one under the cursor. "
        "Space plays, comma and point step by a frame, minus and plus change the speed; N, D and U go to the next doubt, "
        "disagreement and unmarked stretch. While the model asks, a key answers, 0 passes over, Esc stops. Ctrl and the wheel "
        "zoom. Keys rest while you type, and where Keys is unticked."
    )
    words, of = taught.words.words, taught.of
    if not words:
        return
    word = st.selectbox("Word", words, key=settings.key("teach-key-word", of))
    number = st.selectbox("Its key", list(lessons.KEYS), key=settings.key("teach-key-number", of))
    chosen = (taught.lesson.keys, word, number)
    st.button("Give it this key", key="teach-give-key", on_click=_give_key, args=(of, words, *chosen))


def _give_key(
    of: str, words: tuple[str, ...], before: tuple[tuple[int, str], ...], word: str | None, number: int | None
) -> None:
    if word is not None and number is not None and word in words and number in lessons.KEYS:
        lessons.change(of, keys=lessons.with_key(words, before, word, number))
