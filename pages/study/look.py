"""The picture of a study: animals as dots, and all recordings as strips."""

from __future__ import annotations

from typing import Any

import pandas as pd

from gdm_core.study.sheet import RECORDING, ROWS_WITHOUT, in_words
from gdm_studio.plot.figures.base import Figure
from pages.study import answer, pictures
from pages.study.bring import Brought
from pages.study.questions import MEASURES, NOTHING, Answers, Asked
from pages.ui import settings, shell
from pages.ui.controls import one_of
from pages.ui.plot import plot

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
    if asked is not None and answers is None:  # what stands below keeps its place
        plot(None, key="study-dots", height=DOTS, empty=("", "Animals as dots come with the answer."))
    elif asked is not None and answers is not None and answers.table is not None:
        plot(dots(brought, asked, answers), key="study-dots", filename=f"{brought.name}-animals")
    by = sorted_by(brought, asked)
    order, groups = ordered(brought, by)
    plot(
        pictures.strips(brought.study, order, groups, by), key="study-strips", revision=brought.key,
        filename=f"{brought.name}-recordings",
    )  # fmt: skip


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


def ordered(brought: Brought, by: str) -> tuple[list[int], list[str]]:
    """(places of the recordings in the order of strips, what each of them belongs to)."""
    frame = brought.study.conditions
    if not by:
        return list(range(len(frame))), [""] * len(frame)
    animal = brought.study.sheet.animal
    keys = frame[[by]] if animal in (None, by) else frame[[by, animal]]
    order = keys.sort_values(list(keys.columns), kind="stable", key=_sortable).index.tolist()
    return order, [word(frame[by].iloc[place]) for place in order]


def _sortable(column: Any) -> Any:
    return column if pd.api.types.is_numeric_dtype(column.dtype) else column.astype(str)


def word(value: Any) -> str:
    """A cell of the sheet in words."""
    return "nothing" if pd.isna(value) else in_words(value)


def with_groups(asked: Asked, table: pd.DataFrame) -> pd.DataFrame:
    """The table with what each row belongs to, as the comparison calls it."""
    words = list(zip(*([word(value) for value in table[name]] for name in asked.between), strict=True))
    return table.assign(
        **{pictures.GROUP: ["_".join(each) for each in words], pictures.SAID: [", ".join(each) for each in words]}
    )


def dots(brought: Brought, asked: Asked, answers: Answers) -> Figure:
    """A dot an animal; of many states or changes, those whose difference is surest."""
    found, values = answers.table, answers.per_unit
    assert found is not None
    assert values is not None
    n = len(found) // (1 if "term" not in found else found["term"].nunique())
    sure = found["p"].to_numpy()[:n].argsort(kind="stable")
    shown = sorted(sure[: pictures.MOST_COLUMNS].tolist())
    made = pictures.dots(
        brought.study, with_groups(asked, values), asked.measure, MEASURES.get(asked.measure, asked.measure),
        str(values.columns[0]), asked.between, answer.groups_of(found), asked.within is not None, shown,
    )  # fmt: skip
    if n > len(shown):
        made["caption"] += f" The {len(shown)} of {n} whose p is smallest."
    return made
