"""Teach: the visitor names a few moments, the model names all others. Marks and words under the picture, the rest in a tab."""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from gdm_core.analysis.teaching import Stretch
from gdm_core.errors import DataError, GdmError
from pages.lab import live
from pages.lab.labels import colour_key
from pages.lab.view import Seen, View
from pages.recording.teach import agreement, lessons, marking, marks_panel
from pages.recording.teach.lessons import Vocabulary
from pages.recording.teach.proposals import proposals
from pages.recording.teach.taught_fit import TEACHABLE, ready
from pages.recording.teach.taught_model import Teaching, ask, found_in
from pages.recording.trial_choice import go_to
from pages.ui import figures, limits, settings, shell
from pages.ui.plot import State, plot


def panel(view: View, here: Seen, beside_player: Any) -> None:
    """The tab, and what stands in the picture while it is open: which moment it is, and what the model makes of it."""
    of, data = lessons.key_of(view.data), view.data
    if why := lessons.no_names(data):
        shell.empty("Nothing can be marked here", why)
        return
    left, middle, right = st.columns([0.36, 0.34, 0.3], gap="small")
    marks, wanted = lessons.marks_of(data), view.shown.wanted
    n_states = view.choice.n_states if wanted is None else int(wanted.config["n_states"])
    why = lessons.not_yet(marks, data.train, n_states)
    lesson = lessons.lesson(of)
    taught = Teaching(view, of, lesson, marks, Vocabulary.of(data, marks, lesson.words), why, here)
    answer = ask(taught, view.trial)
    marks_panel.outlive_reload(taught)
    with beside_player:
        shell.section("Teach")
        shell.quiet(
            "Name a few moments, and the model names all others. Take a proposed moment, press keys while it plays, or drag over "
            "the row of marks and press what it is."
        )
        if not view.is_new:
            marking.timeline(taught)
        how = ". The page plays one and asks, then the next."
        proposals(taught, ("moment", "trials"), how, marking.ask_for, follow=partial(_follow, taught))
        if view.is_new:
            _only_fitted(taught)
        else:
            _mark_panel(taught)
    with view.frame.picture:
        _strips(taught, answer)
    with left, shell.panel("teach-marks", "Marks"):
        marks_panel.listed(taught)
        marks_panel.share_of_expert(view, of)
        marks_panel.files(taught)
    with middle, shell.panel("teach-trust", "How far to trust it"):
        agreement.agreement(taught)
    with right, shell.panel("teach-states", "What states mean now"):
        agreement.states(taught, answer)
    with shell.panel("teach-all", "All recordings"):
        agreement.every_trial(taught)


# ---- under the picture --------------------------------------------------------------------------------------------
def _strips(taught: Teaching, answer: live.Answer) -> None:
    """What is marked and what the model makes of it, and its states as they are now."""
    view, here = taught.view, taught.here
    if view.choice.family != TEACHABLE:
        shell.empty("This model cannot be taught", "Choose the Gumbel Dynamical Model; marks stay as they are.")
    elif taught.why:
        shell.empty("Name a few moments: the model names all others", taught.why)
    else:
        live.unanswered(view.fit, answer, "This could not be taught")
    found = found_in(taught, view.trial, answer)
    timing = here.timing
    zoom = f"{view.data.key}/{view.index}"
    rows: dict[str, Any] = {}
    names = taught.words.names
    if not view.is_new:
        labels, words = taught.marks.labels(view.data.train)
        rows["marks"] = taught.words.hot(labels[view.index], words)
    if found is not None:
        rows["words"] = taught.words.spread(found.proba, found.words)
    if rows:
        said = "Marks: what is named; drag to set From and To. Words: how likely each is; faint where undecided."
        figure = figures.state_strips(rows, names=names, caption=said, **timing)
        figure["layout"] |= {"dragmode": "select", "selectdirection": "h"}
        state: State = "fresh" if found is None or answer.fresh else "stale"
        take = partial(_take_stretch, taught)
        plot(figure, key="teach-strips", state=state, revision=zoom, events=("select",), on_select=take)
    if found is not None:
        _, order = answer.about
        naming = view.naming_for(len(order))
        alone = {"states now": naming.apply(found.states[:, list(order)])}
        said = "Its states after the lesson, in their own colours."
        drawn = figures.state_strips(alone, names=naming.names, caption=said, **timing)
        plot(drawn, key="teach-states-now", state="fresh" if answer.fresh else "stale", revision=zoom)
    if taught.words.words:
        used = [w for w in taught.words.words if w in taught.marks.words] or list(taught.words.words)
        columns = [taught.words.columns[taught.words.words.index(word)] for word in used]
        st.html(colour_key("words", names, columns))
    if found is None and not taught.why and not answer.message and view.choice.family == TEACHABLE:
        shell.quiet("The model is learning these words." if ready(view) else "Taught as soon as the fit is done.")
    if found is not None and found.unlike is not None:
        shell.quiet(found.unlike)


def _take_stretch(taught: Teaching, selection: Any) -> None:
    """From and To are what was dragged over, in the trial that the figure showed then: the page may look at another by now."""
    train, index = taught.view.data.train, limits.whole(str((selection or {}).get("revision")).rpartition("/")[2])
    if index is None or index >= len(train):
        return
    clock = taught.clock(index)
    last = clock.start + clock.step * train[index].n_samples
    begin, end = sorted(min(max(float(x), clock.start), last) for x in selection["x"])
    led = {"asking": None} if index != taught.view.index else {}
    if led:
        go_to(taught.view.data, index)
    lessons.set_controls(taught.of, stretch=(index, round(begin, 3), round(end, 3)), in_hand=True, **led)


def _typed_stretch(taught: Teaching, index: int, keys: tuple[str, ...]) -> None:
    """The same of what was typed: the fields stay, since they say so already."""
    begin, end = (st.session_state.get(key) for key in keys)
    if begin is not None and end is not None:
        lessons.change(taught.of, stretch=(index, float(begin), float(end)), in_hand=True)


def _only_fitted(taught: Teaching) -> None:
    """Of new trials nothing is taught, so that they can be measured on."""
    view = taught.view
    shell.quiet(
        "This trial is new: nothing is marked in it, so that words can be measured on it. Mark in a fitted one."
    )
    st.button(
        "Go to a fitted trial",
        key="teach-go-fitted",
        on_click=go_to,
        args=(view.data, 0),
        icon=":material/arrow_forward:",
    )


def _mark_panel(taught: Teaching) -> None:
    """A stretch, and a button for each word."""
    view, of, lesson = taught.view, taught.of, taught.lesson
    clock = taught.clock(view.index)
    begin, end = clock.start, clock.start + view.unit.of(taught.clip)
    if lesson.stretch is not None and lesson.stretch[0] == view.index:
        begin, end = lesson.stretch[1:]
    names = [*(f"teach-{name}-{view.index}-{lesson.turn}" for name in ("from", "to")), f"teach-word-{lesson.taken}"]
    first, second, typed = keys = tuple(settings.key(name, of) for name in names)
    with st.container(key="teach-mark", horizontal=True, vertical_alignment="bottom"):
        typing = {"on_change": _typed_stretch, "args": (taught, view.index, (first, second))}
        look: dict[str, Any] = {"step": clock.step, "format": "%.2f", "width": 120} | typing
        st.number_input(f"From ({clock.unit})", value=begin, key=first, **look)
        st.number_input(f"To ({clock.unit})", value=end, key=second, **look)
        st.text_input("Another word", key=typed, max_chars=lessons.MOST_WORD, placeholder="such as grooming", width=180)
        act = partial(_mark, taught, view.index, keys)
        st.button("Name it so", key="teach-name", on_click=act, args=(None,))
        st.button("Add the word", key="teach-add", on_click=_add_word, args=(taught, typed))
    numbers = lessons.keys_of(taught.words.words, lesson.keys)
    with st.container(key="teach-words", horizontal=True):
        for j, word in enumerate(taught.words.words):
            label = f"{word} ({numbers[word]})" if word in numbers else word
            st.button(label, key=f"teach-is-{j}", on_click=act, args=(word,), help=f"From and To are {word}.")
        with st.popover("Keys", icon=":material/keyboard:"):
            _choose_key(taught)
    if taught.lesson.said:
        shell.error("Not marked", taught.lesson.said)


def _choose_key(taught: Teaching) -> None:
    """What keys do, and which word has which."""
    shell.quiet(
        "Keys 1 to 9 begin a stretch of their word at the present moment, playing or paused, and end it when pressed again; "
        "another word's key ends it and begins its own. Esc drops it, Ctrl+Z takes the last mark back. While a proposed moment "
        "is asked for, a key answers, 0 passes it over, and Esc stops. Keys rest while you type, and where Keys is unticked."
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


def _add_word(taught: Teaching, typed: str) -> None:
    kept = lessons.lesson(taught.of)
    try:
        words = lessons.with_word(taught.words, kept.words, str(st.session_state.get(typed) or ""))
    except GdmError as error:
        lessons.change(taught.of, said=str(error))
        return
    lessons.change(taught.of, words=words, taken=kept.taken + 1)


def _mark(taught: Teaching, index: int, keys: tuple[str, ...], word: str | None) -> None:
    """The stretch between From and To is `word`; None for the word that was typed."""
    begin, end, typed = (st.session_state.get(key) for key in keys)
    try:
        if begin is None or end is None:
            raise DataError("From and To are needed: type when the moment begins and when it ends.")
        start, stop = taught.clock(index).frames(float(begin), float(end))
    except GdmError as error:
        lessons.change(taught.of, said=str(error))
        return
    kept = lessons.lesson(taught.of)
    # It is named now, and what comes next may be asked for; a mark that cannot be is still in hand.
    lessons.change(taught.of, in_hand=False)
    if not marking.add(taught, index, start, stop, (typed or "") if word is None else word):
        lessons.change(taught.of, in_hand=kept.in_hand, said=lessons.lesson(taught.of).said)
        return
    lessons.change(taught.of, taken=kept.taken + (word is None))
    now = lessons.lesson(taught.of).asking
    if now is None or now == kept.asking:  # else From and To are those of the next clip
        lessons.set_controls(taught.of, stretch=(index, float(begin), float(end)))


def _follow(taught: Teaching, clip: Stretch) -> None:
    """Who follows the proposals is led to the next one, unless he has something else in hand."""
    kept = lessons.lesson(taught.of)
    if clip in kept.shown and kept.following and kept.asking is None and not kept.in_hand:
        marking.ask_for(taught, clip)
        st.rerun()
