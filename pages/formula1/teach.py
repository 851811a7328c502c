"""Teach: the visitor names a few stretches of the fitted driver's laps, the model names all others, and the other driver's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from gdm_core.analysis import teaching
from gdm_core.analysis.tables import csv
from gdm_core.analysis.teaching import Overview, Stretch, Taught
from gdm_core.errors import GdmError
from gdm_core.trials import Trials
from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import numbered
from pages.formula1 import state_names
from pages.formula1.data import Floats, Race
from pages.formula1.driver_states import race_of
from pages.formula1.lap_axis import LapAxis
from pages.lab import View, live
from pages.lab.naming import colour_key
from pages.lab.teach import agreement, lessons, marks_panel
from pages.lab.teach.lessons import Vocabulary
from pages.lab.teach.taught_fit import TEACHABLE, AnyTeaching, ask, found_in, proposals, ready
from pages.ui import settings, shell
from pages.ui.downloads import download
from pages.ui.plot import State, plot
from pages.ui.tables import show_table

CLIP_M = 200.0  # what From and To span to begin with


@dataclass(frozen=True, eq=False)
class LapTeaching(AnyTeaching):
    """A lesson that counts metres of laps.

    ours   the laps of the fitted driver, who is marked
    lap    which of them is looked at
    """

    race: Race
    ours: LapAxis
    lap: int

    def columns(self, index: int, start: int, stop: int) -> dict[str, Any]:
        lap, begin, end = self.ours.metres(index, start, stop)
        return {"lap": lap, "from (m)": round(begin), "to (m)": round(end)}

    def place(self, index: int, start: int, stop: int) -> str:
        return self.ours.in_words(index, start, stop)


@dataclass(frozen=True, eq=False)
class Named:
    """What the taught model says of a driver in the lap that is looked at.

    axis      the laps
    proba     [bins, columns] along the lap
    found     the answers that it is made of, each with its trial
    learning  an answer is still to come
    """

    axis: LapAxis
    proba: Floats
    found: tuple[tuple[int, Taught], ...]
    state: State
    order: tuple[int, ...] = ()
    learning: bool = False


def key_of(race: Race) -> str:
    """Names the laps that marks belong to: what is seen of them, and with which model, changes nothing."""
    frames = [(trial.name, trial.n_samples) for trial in race.train.trials]
    return settings.of("marks", race.pick.place, race.train.code, frames)


def tab(view: View) -> None:
    """Mark, see the words along the lap, and how far to trust them."""
    race = race_of(view)
    of, train = key_of(race), view.data.train
    if lessons.no_names(view.data):
        shell.empty(
            "Nothing can be marked in these laps",
            f"What {race.train.code} sent has several holes in one lap, so that marks could not say which part they mean. Choose "
            "other laps, or another driver, at the left.",
        )
        return
    lesson = lessons.lesson(of)
    why = lessons.not_yet(lesson.own, train, view.n_states)
    words = Vocabulary.among((*lesson.own.words, *lesson.words))
    ours, theirs = (_axis(view, side) for side in ("train", "test"))
    mark, beside = st.columns([0.56, 0.44], gap="small")
    with mark, shell.panel("teach-mark-panel", "Teach"):
        shell.quiet(
            f"Name a few stretches of {race.train.code}'s laps, and the model names all others, also those of "
            f"{race.test.code}. Type From and To, drag over the row of marks, or take a proposed stretch."
        )
        taught = LapTeaching(view, of, lesson, lesson.own, words, why, race, ours, _choose_lap(of, lesson, ours))
        marks_panel.outlive_reload(taught)
        _mark_panel(taught)
        how = ", two seconds each. Pressed, From and To are set."
        proposals(taught, ("stretch", "laps"), how, _take_clip)
    with beside, shell.panel("teach-marks", "Marks"):
        marks_panel.listed(taught)
        marks_panel.undo_and_redo(taught)
        marks_panel.files(taught, annotations=False)
    with shell.panel("teach-strip-panel", f"Words along lap {taught.lap}"):
        said = {race.train.code: _named(taught, ours, 0)}
        if race.test.code != race.train.code:
            said[race.test.code] = _named(taught, theirs, len(train))
        _strips(taught, said)
    left, middle, right = st.columns([0.36, 0.34, 0.3], gap="small")
    with left, shell.panel("teach-all", "Words of each driver"):
        _shares(taught)
    with middle, shell.panel("teach-trust", "How far to trust it"):
        heard = next((one for one in said.values() if one.found), None)
        found = None if heard is None else heard.found[0][1]
        agreement.agreement(taught, found, heard is not None and heard.state == "fresh")
    with right, shell.panel("teach-states", "What states mean now"):
        if heard is None:
            shell.quiet(agreement.NO_STATES)
        else:
            names = numbered(state_names.names(view)) or [f"S{j + 1}" for j in range(len(heard.order))]
            agreement.words_of_states(heard.found[0][1], heard.order, names)


def code(view: View) -> list[str]:
    """Lines of Python that teach `model` what is marked; none where that is too little."""
    own, train = lessons.lesson(key_of(race_of(view))).own, view.data.train
    if view.choice.family != TEACHABLE or lessons.no_names(view.data) or lessons.not_yet(own, train, view.n_states):
        return []
    return [
        "",
        *lessons.marks_code(own),
        lessons.teaching_code("taught"),
        "word_proba = taught.predict_label_proba(train)  # each [time, words]",
        "new_word_proba = taught.predict_label_proba(test)",
        'print("states stand for", taught.state_words_)',
    ]


def _axis(view: View, side: str) -> LapAxis:
    race = race_of(view)
    laps = race.train if side == "train" else race.test
    made: LapAxis = view.shown.once(("lap-axis", side), lambda: LapAxis(laps, race.circuit.length), of=(laps,))
    return made


# ---- marking ------------------------------------------------------------------------------------------------------
def _choose_lap(of: str, lesson: lessons.Lesson, axis: LapAxis) -> int:
    numbers = axis.numbers
    first = lesson.stretch[0] if lesson.stretch is not None else numbers[len(numbers) > 1]  # lap 1 begins on the grid
    index = numbers.index(first) if first in numbers else 0
    chosen = st.selectbox("Lap", numbers, index=index, key=settings.key(f"teach-lap-{lesson.turn}", of), width=120)
    return chosen if chosen in numbers else numbers[index]


def _mark_panel(taught: LapTeaching) -> None:
    """A stretch, and a button for each word."""
    of, lesson = taught.of, taught.lesson
    begin, end = (0.0, CLIP_M) if lesson.stretch is None else lesson.stretch[1:]
    keys = tuple(settings.key(f"teach-{name}-{lesson.turn}", of) for name in ("from", "to", "word"))
    with st.container(key="teach-mark", horizontal=True, vertical_alignment="bottom"):
        look: dict[str, Any] = {"step": 10.0, "format": "%.1f", "width": 120}
        st.number_input("From (m)", value=begin, key=keys[0], **look)
        beyond = f"Beyond {taught.ours.length:,.0f} m it goes on into the next lap."
        st.number_input("To (m)", value=end, key=keys[1], help=beyond, **look)
        hint = "such as lift and coast"
        st.text_input("Another word", key=keys[2], max_chars=lessons.MOST_WORD, placeholder=hint, width=180)
        act = partial(_mark, taught, keys)
        st.button("Name it so", key="teach-name", on_click=act, args=(None,))
    if taught.words.words:
        with st.container(key="teach-words", horizontal=True):
            for j, word in enumerate(taught.words.words):
                st.button(word, key=f"teach-is-{j}", on_click=act, args=(word,), help=f"From and To are {word}.")
    if lesson.said:
        shell.error("Not marked", lesson.said)


def _mark(taught: LapTeaching, keys: tuple[str, ...], word: str | None) -> None:
    """The stretch between From and To is `word`; None for the word that was typed."""
    of, kept = taught.of, lessons.lesson(taught.of)
    begin, end, typed = (st.session_state.get(key) for key in keys)
    stretch = (taught.lap, begin, end)
    try:
        # A proposed stretch is its very samples: metres in tenths may not tell those of a car that stands apart.
        same = kept.asking is not None and stretch == kept.stretch
        where = kept.asking[:3] if same and kept.asking is not None else taught.ours.frames(*stretch)
    except GdmError as error:
        lessons.change(of, said=str(error))
        return
    train = taught.view.data.train
    entry = lessons.Entry("mark", train[where[0]].name, *where[1:], (typed or "") if word is None else word)
    now = lessons.take(of, train, entry)
    if now.said:
        return
    left = now.shown
    if same and left:
        _take_clip(taught, left[0])
    else:
        lessons.set_controls(of, stretch=stretch, asking=None)


def _take_clip(taught: LapTeaching, clip: Stretch) -> None:
    """From and To are those of a proposed stretch."""
    lap, begin, end = taught.ours.metres(*clip[:3])
    lessons.set_controls(taught.of, asking=clip, stretch=(lap, round(begin, 1), round(end, 1)))


# ---- words --------------------------------------------------------------------------------------------------------
def _named(taught: LapTeaching, axis: LapAxis, first: int) -> Named:
    """The words of a driver along the lap; `first` is the number of his first trial. Says what could not be worked out."""
    bins, columns = taught.race.circuit.n_bins, max(1, len(taught.words.names))
    proba = np.full((bins, columns), np.nan, np.float32)
    said, state, order, learning = [], "fresh", (), False
    for index in axis.trials_of(taught.lap):
        trial = axis.laps.trials[index]
        answer = ask(taught, trial, f"taught-{first + index}")
        live.unanswered(taught.view.fit, answer, f"The words of {trial.name} could not be worked out")
        found = found_in(taught, trial, answer)
        if found is None:
            learning |= not answer.message
            continue
        part = axis.on_grid(taught.lap, index, taught.words.spread(found.proba, found.words), bins)
        proba = np.where(np.isfinite(part), part, proba)
        said.append((index, found))
        state, order = state if answer.fresh else "stale", answer.about[1]
    return Named(axis, proba, tuple(said), "fresh" if state == "fresh" else "stale", tuple(order), learning)


def _strips(taught: LapTeaching, said: dict[str, Named]) -> None:
    """What is marked in this lap, and what the model makes of it for both drivers."""
    view, race, lap = taught.view, taught.race, taught.lap
    bins, names = race.circuit.n_bins, taught.words.names
    if view.choice.family != TEACHABLE:
        shell.empty("This model cannot be taught", "Choose the Gumbel Dynamical Model; marks stay as they are.")
    elif taught.why:
        shell.empty("Name a few stretches: the model names all others", taught.why)
    labels, words = taught.marks.labels(view.data.train)
    marked = np.full((bins, max(1, len(names))), np.nan, np.float32)
    for index in taught.ours.trials_of(lap):
        part = taught.ours.on_grid(lap, index, taught.words.hot(labels[index], words), bins)
        marked = np.where(np.isfinite(part), part, marked)
    rows = {"marks": marked} | {f"{driver} words": one.proba for driver, one in said.items() if one.found}
    figure = figures.state_strips(
        rows, **race.circuit.axis, names=names,
        caption=f"Lap {lap} of both drivers. Marks: what is named; drag to set From and To. Words: how likely each is; faint "
        "where undecided, empty where nothing was sent.",
    )  # fmt: skip
    figure["layout"] |= {"dragmode": "select", "selectdirection": "h"}
    state: State = "stale" if any(one.state == "stale" for one in said.values() if one.found) else "fresh"

    def take(selection: Any) -> None:
        """From and To are what was dragged over."""
        if selection:
            begin, end = sorted(min(max(float(x), 0.0), taught.ours.length) for x in selection["x"])
            lessons.set_controls(taught.of, stretch=(lap, round(begin, 1), round(end, 1)), asking=None)

    revision = f"{taught.of}/{lap}"
    plot(figure, key="teach-strips", state=state, revision=revision, selected=take)
    if taught.words.words:
        used = [word for word in taught.words.words if word in taught.marks.words] or list(taught.words.words)
        st.html(colour_key("words", names, map(taught.words.column, used)))
    missing = [driver for driver, one in said.items() if not one.axis.trials_of(lap)]
    if missing:
        shell.quiet(f"{' and '.join(missing)} has no lap {lap} among those chosen.")
    elif not taught.why and view.choice.family == TEACHABLE and any(one.learning for one in said.values()):
        shell.quiet("The model is learning these words." if ready(view) else "Taught as soon as the fit is done.")


def _shares(taught: LapTeaching) -> None:
    """How much of the chosen laps of each driver is which word."""
    view, race = taught.view, taught.race
    if taught.why or not ready(view):
        shell.quiet("The share of each word in all chosen laps of both drivers, once something is taught.")
        return
    train, stretches, words = taught.question
    about = (taught.of, view.data.test.fingerprint)
    answer = view.ask("words-of-all", teaching.overview, train, view.data.test, stretches, words, about=about)
    if answer.value is None or answer.about != about:
        if not live.unanswered(view.fit, answer, "The drivers could not be named"):
            shell.quiet("Both drivers are being named.")
        return
    table = shares_table(answer.value, {race.train.code: train, race.test.code: view.data.test})
    look: dict[str, Any] = {"min_value": 0.0, "max_value": 1.0, "format": "percent"}
    bars = {name: st.column_config.ProgressColumn(name, **look) for name in table.columns[1:-1]}
    show_table(table, 200, "teach-all-rows", column_config=bars)
    shell.quiet(
        "Shares: the mean probability of each word over all chosen laps. Sure: that of the likeliest word, on average. Unlike: "
        "laps with much that the marked driver's laps do not hold; rely less on their words."
    )
    download("Words of each driver (CSV)", lambda: csv(table), f"{view.page}-words.csv", key="teach-save-all")


def shares_table(found: tuple[Overview, ...], drivers: dict[str, Trials]) -> pd.DataFrame:
    """A row for each driver: the share of each word over all samples, how sure, and how much of it looks unlike what was taught."""
    rows, entries = [], iter(found)
    for driver, trials in drivers.items():
        many = np.array([trial.n_samples for trial in trials], float)
        own = [next(entries) for _ in trials]
        shares = np.average([entry.shares for entry in own], axis=0, weights=many)
        row: dict[str, Any] = {"driver": driver}
        row |= {f"p {word}": float(share) for word, share in zip(own[0].words, shares, strict=True)}
        row["sure"] = float(np.average([entry.confidence for entry in own], weights=many))
        strange = float(np.average([bool(entry.unlike) for entry in own], weights=many))
        rows.append(row | {"unlike the taught ones": f"{strange:.0%}" if strange else ""})
    return pd.DataFrame(rows)
