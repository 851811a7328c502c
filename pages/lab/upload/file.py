"""An uploaded file: reading, answers to its questions, options and conversion to a Dataset.

Files and results stay in the session: not in shared caches, and not on disk.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import streamlit as st

from datasets import keypoints
from datasets.keypoints import KeypointTable
from datasets.readers.doubts import Doubt
from datasets.splits import split_trials
from datasets.tables import Role, Table
from gdm_core.analysis.tables import harmless
from gdm_core.text import plural
from pages.lab.dataset import Dataset, from_trials
from pages.ui import settings
from pages.ui.exports import Recipe
from pages.ui.tables import rows_high
from pages.ui.uploads import Upload

KEPT = "uploaded"
SOURCE, ARRIVED = f"{KEPT}-source", f"{KEPT}-arrived"  # the uploaded file, and whether another page received it
OWN = "Your file stays in this session."

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class OpenFile:
    """A file as read.

    digest  of its content and how it was read; source of the content alone
    table   how a script reads the table that `content` was made from; "" if there is none
    narrow  the file with several rows for a time step, of which `content` has one
    roles   changed roles of the columns of `narrow`
    """

    name: str
    digest: str
    content: Table | KeypointTable
    source: str = ""
    table: str = ""
    narrow: OpenFile | None = None
    roles: tuple[tuple[str, str], ...] = ()

    @property
    def scope(self) -> str:
        """Scope of the controls of this file."""
        return settings.scope(self.digest)

    @property
    def stem(self) -> str:
        """File name without extension."""
        return Path(self.name.removesuffix(".gz")).stem

    @property
    def as_table(self) -> Table:
        """Content of a file that is not tracked."""
        assert isinstance(self.content, Table)
        return self.content

    @property
    def as_keypoints(self) -> KeypointTable:
        """Content of a tracked file."""
        assert isinstance(self.content, KeypointTable)
        return self.content

    def read_as(self, answers: Mapping[str, str]) -> str:
        """Return the arguments of `tables.read` in a script."""
        table = self.as_table
        sheet = table.sheet if len(table.sheets) > 1 else ""
        given = {"sheet": sheet, "answers": dict(answers), "roles": dict(self.roles)}
        return ", ".join([repr(self.name), *(f"{key}={value!r}" for key, value in given.items() if value)])

    @property
    def tracked(self) -> bool:
        return isinstance(self.content, KeypointTable)


def sheet_key(source: str) -> str:
    return settings.key("_sheet", settings.scope(source))


def receive_elsewhere(files: list[Upload]) -> None:
    """Keep a file that another page than Your data received, for `take_arrival`."""
    st.session_state[SOURCE], st.session_state[ARRIVED] = files[0], True


def take_arrival() -> bool:
    """Return True once if another page received a file that Your data opens."""
    return bool(st.session_state.pop(ARRIVED, False))


def digest_of(file: BytesIO) -> str:
    """Return a digest of the content, which is not copied."""
    return hashlib.sha256(file.getbuffer()).hexdigest()


def remember(key: str, make: Callable[[], Made], what: str = "made") -> Made:
    """Return the value for `key`, the same object in every run."""
    kept = st.session_state.get(f"{KEPT}-{what}")
    if kept is None or kept[0] != key:
        st.session_state[f"{KEPT}-{what}"] = kept = (key, make())
    return kept[1]


def apply_edits(
    key: str, memory: str, rows: Sequence[Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows to draw the editor `key` with, and those rows with the user's edits.

    Edits refer to the drawn rows and are lost when another page opens; then `memory` has what changed.
    """
    drawn = f"{key}-drawn"
    if key not in st.session_state:
        changes = st.session_state.get(memory, [{}] * len(rows))
        st.session_state[drawn] = [{**row, **change} for row, change in zip(rows, changes, strict=True)]
    base, edits = st.session_state[drawn], st.session_state.get(key, {}).get("edited_rows", {})
    now = [row | edits.get(i, {}) for i, row in enumerate(base)]
    st.session_state[memory] = [dict(row.items() - old.items()) for row, old in zip(now, rows, strict=True)]
    return base, now


def show_editor(key: str, table: pd.DataFrame, most: int, **columns: Any) -> None:
    """Show a table, at most so many pixels high, of which `columns` can be edited."""
    fixed = [str(name) for name in table if name not in columns]
    st.data_editor(
        table.map(harmless), hide_index=True, key=key, disabled=fixed, height=rows_high(len(table), most),
        column_config=columns,
    )  # fmt: skip


def apply_answers(file: OpenFile, answers: Mapping[str, str]) -> Table:
    """Return the table with answers to questions about its times and names, the same object in every run."""
    table = file.as_table
    whole = {**table.answers, **answers}
    key = repr((file.digest, sorted(whole.items())))
    return remember(key, lambda: replace(table, answers=whole), f"answered-{sorted(whole.items())}")


def get_narrow(file: OpenFile) -> OpenFile:
    """Return the file with its table as in the file."""
    return replace(file, content=file.as_table.narrow or file.content)


def widen_file(narrow: OpenFile, roles: Mapping[str, str]) -> OpenFile:
    """Return the file with one row per time step, if columns have the role animal or part."""
    table = narrow.as_table
    kinds = {Role.ANIMAL, Role.PART}
    if not kinds & {*roles.values(), *table.roles.values()}:
        return narrow
    changed = tuple((name, role) for name, role in roles.items() if role != table.roles[name])
    if not kinds & set(roles.values()):
        return replace(narrow, roles=changed)
    digest = f"{narrow.digest}-{changed}"
    wide = remember(digest, lambda: table.widen(roles), "wide")
    return replace(narrow, digest=digest, content=wide, narrow=narrow, roles=changed)


def as_poses(file: OpenFile, answers: Mapping[str, str] | None = None) -> OpenFile:
    """Return the table as keypoints if its columns are named like body parts, else unchanged."""
    table = apply_answers(file, answers or {})
    digest = f"{file.digest}-poses{answers or ''}"
    found = remember(digest, lambda: keypoints.from_table(table), f"keypoints-{answers}")
    if found is None:
        return file
    return replace(file, digest=digest, content=found, table=f"tables.read({file.read_as(table.answers)})")


def new_doubts(file: OpenFile, doubts: tuple[Doubt, ...]) -> tuple[Doubt, ...]:
    """Return the questions besides those about the format, which were asked before."""
    return tuple(doubt for doubt in doubts if doubt not in file.content.doubts)


# ---- tables -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class TableOptions:
    """Options of a table: roles, answers to its questions, and further arguments of `Table.to_trials`."""

    roles: Mapping[str, str]
    answers: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)


def from_table(file: OpenFile, options: TableOptions) -> Dataset:
    """Convert a table to trials and hold out the last ones."""
    table = apply_answers(file, options.answers)
    trials = table.to_trials(options.roles, **options.arguments)
    train, test = split_trials(trials)
    about = f"{file.name}, {trials.n_samples:,} samples in {plural(len(trials), 'trial')}"
    return from_trials(
        f"{file.digest}-{options!r}", about, train, test, table_recipe(file, options),
        notes=table.report(options.roles).sentences(), licences=(OWN,), scope=file.scope, name=file.stem, keep=False,
        unit="step" if find_rate(table, options) is None else "s",
    )  # fmt: skip


def find_rate(table: Table, options: TableOptions) -> float | None:
    """Return the sampling rate that was entered or that the time column has; None if unknown."""
    clock = table.understand(options.roles).clock
    return options.arguments.get("rate_hz") or (table.rate_hz if clock is None else clock.rate_hz)


def table_recipe(file: OpenFile, options: TableOptions) -> Recipe:
    """Return the code that reads and splits the table."""
    used = {column: str(role) for column, role in options.roles.items() if role != Role.IGNORE}
    given = [f", {name}={value!r}" for name, value in options.arguments.items()]
    lines = [
        f"table = tables.read({file.read_as(apply_answers(file, options.answers).answers)})",
        f"trials = table.to_trials({used!r}{''.join(given)})",
        "train, test = splits.split_trials(trials)",
    ]
    return Recipe(["from gdm_studio.datasets import splits, tables"], lines, note=f"Needs the file {file.name}.")
