"""A lesson in one run of the page: what is marked, and what the model that was taught it says of the trial that is looked at."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from datasets.marks import Marks
from gdm_core.analysis import teaching
from gdm_core.analysis.teaching import Taught
from gdm_core.engine import FitResult
from gdm_core.trials import Trial
from pages import lab
from pages.lab import live
from pages.lab.teach import lessons
from pages.lab.teach.lessons import Clock, Vocabulary
from pages.lab.teach.taught_fit import ready
from pages.lab.view import Seen, View

CLIP_S = 2.0
CLIP_STEPS = 30.0


@dataclass(frozen=True, eq=False)
class AnyTeaching(ABC):
    """All that a page knows of a lesson in one run, whatever it counts stretches in.

    of      names the recording
    own     the visitor's marks; marks has the expert's labels besides that they let in
    why     why nothing can be taught yet, "" where it can
    """

    view: lab.View
    of: str
    lesson: lessons.Lesson
    marks: Marks
    words: Vocabulary
    why: str

    @property
    def own(self) -> Marks:
        return self.lesson.own

    @property
    def question(self) -> tuple[Any, ...]:
        train = self.view.data.train
        return train, self.learned.stretches(train), self.learned.words

    @property
    def learned(self) -> Marks:
        """The marks that the model is taught now."""
        return self.marks

    @property
    def known(self) -> tuple[int, ...]:
        """For each word the expert's label that it is called like, -1 for none."""
        return (-1,) * len(self.learned.words)

    @property
    def clip(self) -> float:
        """How long a proposed moment is, in the unit of the data."""
        return CLIP_S

    @abstractmethod
    def columns(self, index: int, start: int, stop: int) -> dict[str, Any]:
        """Where a stretch of a trial lies, as a row of a table says it."""

    @abstractmethod
    def place(self, index: int, start: int, stop: int) -> str:
        """The same in words."""


@dataclass(frozen=True, eq=False)
class Learned:
    """The marks that a fit was last taught."""

    result: FitResult | None
    marks: Marks


@dataclass(frozen=True, eq=False)
class Teaching(AnyTeaching):
    """That of a recording, which counts time."""

    view: View
    here: Seen

    @cached_property
    def learned(self) -> Marks:
        """Marks that come while it learns wait until it has learned those before: where each mark began the lesson anew, a
        quick hand on a slow machine would never see one."""
        view, now = self.view, self.marks
        if self.why or not ready(view):
            return now
        last = view.fit.records.last(Learned)
        if last is not None and last.result is view.shown.result and last.marks != now:
            train, trial = view.data.train, view.trial
            question = train, last.marks.stretches(train), last.marks.words
            about = (trial.fingerprint, view.shown.order)
            if view.ask("taught", teaching.taught, *question, trial, about=about).pending:
                return last.marks
        return view.fit.records.keep(Learned(view.shown.result, now)).marks

    @property
    def known(self) -> tuple[int, ...]:
        return lessons.expert_numbers(self.view.data, self.learned.words)

    @property
    def clip(self) -> float:
        return CLIP_STEPS if self.view.data.unit == "step" else CLIP_S

    def clock(self, index: int) -> Clock:
        """That of a trial's strips."""
        at = self.view.at(index)
        unit = at.unit
        return Clock(at.trial, unit.of(at.trial.start_seconds), unit.of(1.0 / at.trial.rate_hz), unit.name)

    def columns(self, index: int, start: int, stop: int) -> dict[str, Any]:
        begin, end = self.clock(index).times(start, stop)
        return {"from": begin, "to": end, "trial": self.view.data.train[index].name}

    def place(self, index: int, start: int, stop: int) -> str:
        clock = self.clock(index)
        begin, end = clock.times(start, stop)
        return f"{clock.trial.name}, {begin:.1f} to {end:.1f} {clock.unit}"


def ask(taught: AnyTeaching, trial: Trial, name: str = "taught") -> live.Answer:
    """What the taught model says of a trial; `name` is what an earlier answer is remembered under."""
    view = taught.view
    if taught.why or not ready(view):
        return live.Answer()
    about = (trial.fingerprint, view.shown.order)
    return view.ask(name, teaching.taught, *taught.question, trial, about=about)


def found_in(taught: AnyTeaching, trial: Trial, answer: live.Answer) -> Taught | None:
    """The answer, if it is about this trial: the one before stays until there is a newer one."""
    value: Taught | None = answer.value
    if value is None or answer.about[0] != trial.fingerprint:
        return None
    return value if set(value.words) <= set(taught.words.words) else None


def ask_for_clips(taught: AnyTeaching, n: int) -> live.Answer:
    """Up to `n` clips whose words would teach most."""
    train, stretches, words = taught.question
    if taught.why:  # of one word nothing can be learned yet: clips that differ most, beside what is marked
        stretches, words = tuple((*where[:3], 0) for where in stretches), words[:1]
    return taught.view.ask(
        "next-clips", teaching.next_clips, train, stretches, words, taught.lesson.asked, n, taught.clip
    )
