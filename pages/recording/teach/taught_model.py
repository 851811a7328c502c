"""A lesson in one run of the page: what is marked, and what the model that was taught it says of the trial that is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from datasets.marks import Marks
from gdm_core.analysis import teaching
from gdm_core.analysis.teaching import Taught
from pages.lab import live
from pages.recording.teach import lessons
from pages.recording.teach.lessons import Clock, Vocabulary
from pages.recording.teach.taught_fit import ready
from pages.recording.view import Here, View

CLIP_S = 2.0
CLIP_STEPS = 30.0


@dataclass(frozen=True, eq=False)
class Teaching:
    """All that the page knows of a lesson in one run.

    of      names the recording
    own     the visitor's marks; marks has the expert's labels besides that he let in
    why     why nothing can be taught yet, "" where it can
    """

    view: View
    here: Here
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
        return train, self.marks.stretches(train), self.marks.words

    @property
    def clip(self) -> float:
        """How long a proposed moment is, in the unit of the data."""
        return CLIP_STEPS if self.view.data.unit == "step" else CLIP_S

    def clock(self, index: int) -> Clock:
        """That of a trial's strips."""
        at = self.view.at(index)
        unit = at.unit
        return Clock(at.trial, unit.of(at.trial.start_seconds), unit.of(1.0 / at.trial.rate_hz), unit.name)

    def when(self, index: int, start: int, stop: int) -> str:
        """A stretch in words."""
        clock = self.clock(index)
        begin, end = clock.times(start, stop)
        return f"{begin:.1f} to {end:.1f} {clock.unit}"


def ask(taught: Teaching) -> live.Answer:
    """What the taught model says of the trial that is looked at."""
    view = taught.view
    if taught.why or not ready(view):
        return live.Answer()
    about = (view.trial.fingerprint, view.shown.order)
    return view.ask("taught", teaching.taught, *taught.question, view.trial, about=about)


def found_in(taught: Teaching, answer: live.Answer) -> Taught | None:
    """The answer, if it is about this trial: the one before stays until there is a newer one."""
    value: Taught | None = answer.value
    if value is None or answer.about[0] != taught.view.trial.fingerprint:
        return None
    return value if set(value.words) <= set(taught.words.words) else None
