"""A file of the visitor's: read, understood, repaired, and turned into what the lab works on.

Everything stays in the visitor's session: no cache that others share, and none on disk.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import streamlit as st

from datasets import keypoints
from datasets.keypoints import KeypointTable
from datasets.readers.timing import TimeUnit
from datasets.splits import split_trials
from datasets.tables import Role, Table
from pages.lab import Dataset, live
from pages.lab.dataset import from_trials
from pages.ui import settings
from pages.ui.exports import Recipe
from pages.ui.uploads import Upload
from pages.your_data import example

KEPT = "your-data"
PIECE_BYTES = 1 << 20
SOURCE = f"{KEPT}-source"  # the file as it was sent
EXAMPLE_ON = f"{KEPT}-example"  # the visitor tries the page with the example
LABELS = f"{KEPT}-labels"  # the same of labels beside a tracking file
GO = f"{KEPT}-go"
EXAMPLE = "example"  # in the address: "open", or the name of the reading that was fitted
UPLOAD, MARKS = "upload", "marks"
OWN = "Your own file: it stays in this session and is forgotten with it."

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class OpenFile:
    """A file as read.

    digest  names its content and how it was read; source the content alone
    every   of a table, which rows were read
    table   how a script reads the table that `content` was made from, "" where it was not made from one
    """

    name: str
    digest: str
    content: Table | KeypointTable
    every: int = 1
    source: str = ""
    table: str = ""

    @property
    def of(self) -> str:
        """What the controls of this file belong to."""
        return settings.scope(self.digest)

    @property
    def stem(self) -> str:
        """Its name without endings."""
        return Path(self.name.removesuffix(".gz")).stem

    @property
    def sheets(self) -> tuple[str, ...]:
        """Of a workbook, the sheets that could be read."""
        return self.content.sheets if isinstance(self.content, Table) else ()

    @property
    def read_as(self) -> str:
        """The arguments of `tables.read` in a script."""
        sheet = self.content.sheet if isinstance(self.content, Table) and len(self.sheets) > 1 else ""
        more = [f"every={self.every}"] * (self.every > 1) + [f"sheet={sheet!r}"] * bool(sheet)
        return ", ".join([repr(self.name), *more])

    @property
    def tracked(self) -> bool:
        return isinstance(self.content, KeypointTable)


def sheet_key(source: str) -> str:
    return settings.key("_sheet", settings.scope(source))


def every_key(source: str) -> str:
    return settings.key("_every", settings.scope(source))


def received(files: list[Upload]) -> None:
    """Open the file that the visitor has sent."""
    leave_example()
    st.session_state[SOURCE] = files[0]


def source() -> tuple[BinaryIO | None, str]:
    """(the file that the visitor gave, or the example; its name)."""
    sent = st.session_state.get(SOURCE)
    if sent is not None:
        return sent, sent.name
    return (io.BytesIO(example.content()), example.NAME) if st.session_state.get(EXAMPLE_ON) else (None, "")


def labels() -> Any:
    """The file with labels beside a tracking file, or None."""
    return st.session_state.get(LABELS)


def received_labels(files: list[Upload]) -> None:
    st.session_state[LABELS] = files[0]


def leave_labels() -> None:
    st.session_state.pop(LABELS, None)


def leave() -> None:
    """The visitor is done with this file."""
    st.session_state.pop(SOURCE, None)
    leave_example()
    forget()


def private() -> bool:
    """Whether the file is the visitor's own: no link can show it to anybody else."""
    return st.session_state.get(SOURCE) is not None


def from_address() -> None:
    """Open the example where a link asks for it."""
    asked = settings.text(EXAMPLE)
    if asked and not private():
        st.session_state[EXAMPLE_ON] = True
        settings.keep(EXAMPLE, asked)


def try_example() -> None:
    st.session_state[EXAMPLE_ON] = True
    settings.change(EXAMPLE, "open")


def leave_example() -> None:
    st.session_state.pop(EXAMPLE_ON, None)
    settings.change(EXAMPLE, None)


def fit_it(file: OpenFile) -> None:
    """From here on, `file` is fitted as it is read; for the example that is in the address, too."""
    st.session_state[GO] = file.digest
    if not private():
        settings.change(EXAMPLE, file.of)


def is_fitted(file: OpenFile) -> bool:
    """Whether the visitor asked for a fit of this file as it is read."""
    return st.session_state.get(GO) == file.digest or (not private() and settings.text(EXAMPLE) == file.of)


def digest_of(file: BinaryIO) -> str:
    """Names the content without holding a copy of it (`hashlib.file_digest` makes a file in memory copy itself)."""
    found = hashlib.sha256()
    file.seek(0)
    while piece := file.read(PIECE_BYTES):
        found.update(piece)
    file.seek(0)
    return found.hexdigest()


def open_file(file: Any, name: str, digest: str, progress: Callable[[float, str], None]) -> OpenFile:
    """The file, read once a session. Raises what is wrong with it; nothing of an earlier file is lost by that.

    digest  of its content, as `digest_of` gives it: what was chosen for it (sheet, rows to keep) is kept under that
    """
    sheet = st.session_state.get(sheet_key(digest))
    every = max(int(st.session_state.get(every_key(digest)) or 1), 1)
    key = (digest, name, every, sheet)
    kept = st.session_state.get(KEPT)
    if kept is not None and (kept[0] == key or (kept[0][:2] == key[:2] and kept[1].tracked)):
        return kept[1]
    content = keypoints.read_any(file, name, every=every, progress=progress, sheet=sheet)
    forget()  # fits of the file before, and its data on the workers
    made = OpenFile(name, f"{digest}-{every}-{sheet or ''}", content, every, digest)
    st.session_state[KEPT] = (key, made)
    return made


def forget() -> None:
    """Let go of all that was made of a file, here and on the workers."""
    for name in [name for name in st.session_state if str(name).startswith(KEPT) and name not in (SOURCE, EXAMPLE_ON)]:
        del st.session_state[name]
    live.close_fit("your_data")
    settings.change(live.COLOURS, None)  # of the states that are gone


def remembered(key: str, make: Callable[[], Made], what: str = "made") -> Made:
    """What belongs to `key`, made once: the same object from run to run, so that fits are recognised."""
    kept = st.session_state.get(f"{KEPT}-{what}")
    if kept is None or kept[0] != key:
        st.session_state[f"{KEPT}-{what}"] = kept = (key, make())
    return kept[1]


def edited(key: str, rows: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(the rows that the editor `key` is to be drawn with, those rows with what the visitor changed in it).

    Its changes count from the rows that it was drawn with, and are lost when another page takes it away: then it is
    drawn anew with the rows as they were changed.
    """
    drawn, changed = f"{key}-drawn", f"{key}-changed"
    if key not in st.session_state:
        st.session_state[drawn] = st.session_state.get(changed, [dict(row) for row in rows])
    base = st.session_state[drawn]
    edits = st.session_state.get(key, {}).get("edited_rows", {})
    now = [row | edits.get(i, {}) for i, row in enumerate(base)]
    st.session_state[changed] = now
    return base, now


def as_poses(file: OpenFile) -> OpenFile:
    """The table read as keypoints, which its columns have to be named like; else as it is."""
    table = file.content
    assert isinstance(table, Table)
    found = remembered(file.digest, lambda: keypoints.from_table(table), "keypoints")
    if found is None:
        return file
    return OpenFile(file.name, f"{file.digest}-poses", found, file.every, file.source, f"tables.read({file.read_as})")


# ---- tables -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class TableOptions:
    """What the visitor decided about a table; all but the roles are called as `Table.to_trials` calls them."""

    roles: tuple[tuple[str, str], ...]
    rate_hz: float | None = None
    unit: TimeUnit = "auto"
    resample_to_fixed_step: bool = False
    fill_seconds: float = 0.0
    drop_outliers: bool = False
    position_is_channel: bool = True

    def arguments(self) -> dict[str, Any]:
        """For `Table.to_trials`."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "roles"}


def from_table(file: OpenFile, options: TableOptions) -> Dataset:
    """Trials of a table, the last of them held out."""
    table = file.content
    assert isinstance(table, Table)
    roles = dict(options.roles)
    trials = table.to_trials(roles, **options.arguments())
    train, test = split_trials(trials)
    about = f"{file.name}, {trials.n_samples:,} samples in {len(trials)} {'trial' if len(trials) == 1 else 'trials'}"
    return from_trials(
        f"{file.digest}-{options!r}", about, train, test, table_recipe(file, roles, options),
        notes=table.report(roles, options.unit).sentences(), licences=(OWN,), of=file.of, name=file.stem, keep=False,
        unit="step" if rate_of(table, options) is None else "s",
    )  # fmt: skip


def rate_of(table: Table, options: TableOptions) -> float | None:
    """Samples a second, as said or as the time column has them; None where nothing says so."""
    clock = table.clock(dict(options.roles), options.unit)
    return options.rate_hz or (None if clock is None else clock.rate_hz)


def table_recipe(file: OpenFile, roles: Mapping[str, str], options: TableOptions) -> Recipe:
    """The lines that read and cut the table as the page does."""
    used = {column: str(role) for column, role in roles.items() if role != Role.IGNORE}
    default = TableOptions(())
    given = ", ".join(
        f"{key}={value!r}" for key, value in options.arguments().items() if value != default.arguments()[key]
    )
    lines = [
        f"table = tables.read({file.read_as})",
        f"trials = table.to_trials({used!r}{', ' + given if given else ''})",
        "train, test = splits.split_trials(trials)",
    ]
    return Recipe(
        ["from gdm_studio.datasets import splits, tables"], lines, note=f"The file {file.name} has to be there."
    )
