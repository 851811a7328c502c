"""The picture of a study: animals as dots, and all recordings as strips."""

from __future__ import annotations

from gdm_core.study.sheet import RECORDING, ROWS_WITHOUT
from pages.study import pictures
from pages.study.bring import Brought
from pages.study.questions import NOTHING, Answers, Asked
from pages.ui import settings, shell
from pages.ui.controls import one_of
from pages.ui.plot import coming, plot

ON_THE_PAGE = ("study-dots", "study-strips")  # figures that stand above the tabs, whichever is open
DOTS = 370  # pixels of the dots, with their caption
MOST_ABSENT = 3  # that are told above the picture


def draw(brought: Brought, asked: Asked | None, answers: Answers | None) -> None:
    """Dots where a question has an answer; strips always; and in a line who is not there."""
    absent = left_out(brought)
    for one in absent[:MOST_ABSENT]:
        shell.quiet(one)
    if len(absent) > MOST_ABSENT:
        shell.quiet(f"And {len(absent) - MOST_ABSENT} more that take no part or are unlike the rest: see Recordings.")
    if asked is not None and answers is None:
        coming("study-dots", "Animals as dots come with the answer.", DOTS)
    elif asked is not None and answers is not None and answers.table is not None:
        plot(pictures.dots(brought.study, asked, answers), key="study-dots", filename=f"{brought.name}-animals")
    made = pictures.strips(brought.study, sorted_by(brought, asked))
    plot(made, key="study-strips", revision=brought.key, filename=f"{brought.name}-recordings")


def left_out(brought: Brought) -> list[str]:
    """Who takes no part, or is unlike the rest, and why: a sentence each."""
    study = brought.study
    said = [f"{name} is set aside: {why}." for name, why in study.sheet.set_aside.items()]
    said += [f"{name} is {why}." for name, why in study.flagged.items()]
    return [*dict.fromkeys([*said, *brought.notes, *(one for one in study.notes if one.startswith(ROWS_WITHOUT))])]


def sorted_by(brought: Brought, asked: Asked | None) -> str:
    """The column that strips are sorted by, chosen beside them."""
    columns = [str(c) for c in brought.study.conditions if c != RECORDING]
    first = asked.between[0] if asked is not None else NOTHING
    key = settings.key("sort", settings.key(brought.of, settings.of(first)))
    options = [NOTHING, *columns]
    found = one_of("Recordings sorted by", options, first, key=key, width=260)
    return "" if found == NOTHING else found
