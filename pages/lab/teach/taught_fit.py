"""A lesson in one run of the page: what the model that was taught it says, and asks about next; and the page's own fit once it was
taught: strips, card, tabs, exports and the model file follow it while the visitor wants."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import streamlit as st

from datasets.marks import Marks
from gdm_core.analysis import teaching
from gdm_core.analysis.teaching import Taught
from gdm_core.engine import FitResult
from gdm_core.trials import Stretch, Trial
from pages import lab
from pages.lab import live
from pages.lab.teach import lessons
from pages.lab.teach.lessons import Vocabulary
from pages.lab.view import Seen
from pages.ui import shell

TEACHABLE = "gdm"  # the family


def ready(view: lab.View) -> bool:
    """Whether there is a result of these very trials that can be taught."""
    wanted = view.shown.wanted
    if wanted is None or view.shown.result is None or view.shown.state == "preview":
        return False
    return wanted.family == TEACHABLE and wanted.train.fingerprint == view.data.train.fingerprint


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

    def axis(self, index: int) -> dict[str, Any]:
        """The time axis of a trial's strips: where its first frame is, what a frame takes, and in which unit."""
        at = self.view.at(index)
        return {
            "begin": at.unit.of(at.trial.start_seconds),
            "step": at.unit.of(1.0 / at.trial.rate_hz),
            "unit": at.unit.name,
        }

    def columns(self, index: int, start: int, stop: int) -> dict[str, Any]:
        axis = self.axis(index)
        begin, end = (axis["begin"] + axis["step"] * frame for frame in (start, stop))
        return {"from": begin, "to": end, "trial": self.view.data.train[index].name}

    def place(self, index: int, start: int, stop: int) -> str:
        where = self.columns(index, start, stop)
        return f"{where['trial']}, {where['from']:.1f} to {where['to']:.1f} {self.axis(index)['unit']}"


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
