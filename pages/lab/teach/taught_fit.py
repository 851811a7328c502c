"""The page's own fit once it was taught words: strips, card, tabs, exports and the model file follow it while the visitor wants."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from datasets.marks import Marks
from gdm_core.analysis import teaching
from gdm_core.engine import FitResult
from pages import lab
from pages.lab import Data, live
from pages.lab.live.pictures import Origin
from pages.lab.teach import lessons
from pages.ui import settings, shell

SWITCH = "With my words"
QUESTION = "taught-fit"
TEACHABLE = "gdm"  # the family


@dataclass(frozen=True, eq=False)
class WithWords:
    """A taught fit as the page shows it.

    before  the picture of the fit without words that it was taught from
    marks   what it was taught
    fit     what the worker gave
    """

    before: live.Shown
    marks: Marks
    fit: teaching.TaughtFit
    shown: live.Shown

    def of(self, shown: live.Shown) -> bool:
        """Whether it was taught from what stands in this picture."""
        return (
            self.before.result is shown.result
            and self.before.wanted is shown.wanted
            and self.before.order == shown.order
        )

    @property
    def about(self) -> str:
        """In a few words."""
        n = len(self.marks.words)
        return f"{n} words by {len(self.marks.marks)} marks"

    def options(self, data: Data) -> tuple[Any, ...]:
        """What scores of it depend on besides, as `teaching.scores` takes it."""
        stretches, words = self.marks.stretches(data.train), self.marks.words
        return stretches, words, lessons.expert_numbers(data, words)


def ready(view: lab.View) -> bool:
    """Whether there is a result of these very trials that can be taught."""
    wanted = view.shown.wanted
    if wanted is None or view.shown.result is None or view.shown.state == "preview":
        return False
    return wanted.family == TEACHABLE and wanted.train.fingerprint == view.data.train.fingerprint


def follow(base: lab.View, data: Data) -> tuple[lab.View, WithWords | None, Callable[[], None]]:
    """(the page's view, with the taught fit in place of the one without words while the visitor wants it; that taught fit, where it
    is there; what draws the switch between them)."""
    of = lessons.key_of(data)
    lesson = lessons.lesson(of)
    if lessons.no_names(data) or base.choice.family != TEACHABLE:
        return base, None, lambda: None
    marks = lessons.marks_of(data)
    why = lessons.not_yet(marks, data.train, base.choice.n_states)
    if not lesson.with_words:
        return base, None, lambda: None if why else _switch(of, lesson.turn, False)
    if why or not ready(base):
        said = why or "The words are taught as soon as the fit is done."
        return base, None, lambda: _switch(of, lesson.turn, True, said)
    answer = base.ask(QUESTION, teaching.taught_fit, data.train, data.test, marks.stretches(data.train), marks.words)
    known = base.fit.records.last(WithWords)
    if answer.fresh and (known is None or known.fit is not answer.value or not known.of(base.shown)):
        base.fit.answers.keep_latest(QUESTION)
        known = base.fit.records.keep(_with_words(base.shown, marks, answer.value))
    view, said = base, "" if answer.fresh or answer.message else "The latest marks are being taught."
    if known is not None and not known.of(base.shown):
        known = None
    if known is not None:
        shown = known.shown if answer.fresh else replace(known.shown, state="stale")
        view = replace(base, shown=shown, look=known.fit.look, asked=live.Answer(), shipped=None, came=False)
        what = f"{known.about}, {known.marks.seconds(data.train):.1f} s"
        said = f"Strips, card, tabs, exports and the model file are of the fit that was taught {what}. {said}".strip()

    def switch() -> None:
        _switch(of, lesson.turn, True, said)
        live.unanswered(base.fit, answer, "The fit with your words could not be worked out")

    return view, known, switch


def _with_words(before: live.Shown, marks: Marks, fit: teaching.TaughtFit) -> WithWords:
    assert before.result is not None
    key = f"{before.result.key}/{hashlib.sha256(fit.model_bytes).hexdigest()}"
    result = FitResult(key, fit.model_bytes, fit.fit_status, fit.elbo, fit.seconds, (), ())
    states = live.in_order(fit.look.train, before.order)
    return WithWords(before, marks, fit, replace(before, result=result, train=states, origin=Origin(), _kept={}))


def _switch(of: str, turn: int, on: bool, said: str = "") -> None:
    """Whether the page shows the fit with the visitor's words, and which fit it shows now."""
    key = settings.key(f"teach-with-words-{turn}", of)

    def switched() -> None:
        lessons.change(of, with_words=bool(st.session_state.get(key)))

    st.toggle(
        SWITCH, on, key=key, on_change=switched,
        help="On: the whole page is of the fit that was taught your marks, also what is exported. Off: of the fit without them; "
        "the tab Teach shows what it says after the lesson.",
    )  # fmt: skip
    shell.quiet(said or "Strips, card, tabs, exports and the model file are of the fit without words.")
