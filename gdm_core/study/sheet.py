"""The sheet of a study: which recording is whose, and what was done to whom. Checked against the recordings it speaks of."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd

from gdm_core.errors import ConfigError, DataError

RECORDING, ANIMAL, EXCLUDE = "recording", "animal", "exclude"
ROWS_WITHOUT = "Rows of the sheet without a recording"
_ALSO = {
    RECORDING: ("recording", "file", "filename", "file name"),
    ANIMAL: (
        "animal",
        "subject",
        "participant",
        "patient",
        "person",
        "animal_id",
        "subject_id",
        "mouse",
        "mouse_id",
        "rat",
    ),
}
_YES = {"1", "1.0", "true", "yes", "y", "x", "exclude", "excluded"}
_NO = {"0", "0.0", "false", "no", "n", "", "-", "keep", "nan", "none"}
_SHOWN = 8
_ENDING = re.compile(r"(\.(csv|tsv|txt|npz|npy|h5|hdf5|slp|xlsx|parquet|pq|gz|mp4|avi))+$", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Sheet:
    """One row for each recording of a study, in the order of the sheet.

    frame       its columns, the recording's name first; `exclude` is no longer among them
    set_aside   recording -> why it takes no part
    notes       what was understood, in sentences
    """

    frame: pd.DataFrame
    set_aside: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Recordings that take part."""
        return tuple(name for name in self.frame[RECORDING] if name not in self.set_aside)

    @property
    def animal(self) -> str | None:
        """The column that says whose a recording is."""
        return _known(self.frame, ANIMAL)

    @property
    def animals(self) -> dict[str, str]:
        """Recording -> whose it is."""
        names = self.frame[RECORDING]
        whose = names if self.animal is None else self.frame[self.animal].fillna(names)
        return dict(zip(names, whose.astype(str), strict=True))


def checked(sheet: Any, recordings: Iterable[str], reserved: Sequence[str]) -> Sheet:
    """The sheet matched with the recordings by name: as written, else without folder, ending and case."""
    if not isinstance(sheet, pd.DataFrame):
        raise DataError(f"The sheet is a {type(sheet).__name__}; give a DataFrame with a row for each recording.")
    frame = (
        sheet.reset_index()
        if sheet.index.name and str(sheet.index.name).casefold() in _ALSO[RECORDING]
        else sheet.copy()
    )
    frame.columns = [str(column).strip() for column in frame.columns]
    if len(frame.columns) != len(set(frame.columns)):
        doubles = sorted({c for c in frame.columns if list(frame.columns).count(c) > 1})
        raise DataError(f"The sheet has several columns named {listed(doubles)}. Give each a name of its own.")
    key = _known(frame, RECORDING)
    if key is None:
        raise DataError(
            f"The sheet has no column 'recording' (or 'file'); it has {listed(list(frame.columns))}. "
            "It needs one row for each recording, with its name."
        )
    written = [("" if pd.isna(cell) else str(cell).strip()) for cell in frame[key]]
    if empty := [i + 1 for i, name in enumerate(written) if not name]:
        raise DataError(f"Row {listed(empty)} of the sheet names no recording. Fill it in, or delete the row.")
    notes: list[str] = []
    if clash := [c for c in frame.columns if c in reserved and c != key]:
        notes.append(
            f"Columns of the sheet with names that tables of the study use are called ... (sheet): {listed(clash)}."
        )
        frame = frame.rename(columns={column: f"{column} (sheet)" for column in clash})
    frame = frame.infer_objects()
    for c in [c for c in frame if frame[c].dtype == object and frame[c].map(type).nunique() > 1]:
        if frame[c].map(lambda cell: isinstance(cell, str)).any():  # words and numbers mixed: 1 and "1" are one group
            frame[c] = frame[c].map(in_words, na_action="ignore")
    matched = _matched(written, [str(name) for name in recordings], notes)
    frame[RECORDING] = [name or given for name, given in zip(matched, written, strict=True)]
    frame = frame.loc[[name is not None for name in matched]]
    frame = frame[[RECORDING, *[c for c in frame.columns if c != RECORDING]]].reset_index(drop=True)
    aside: dict[str, str] = {}
    if (exclude := _known(frame, EXCLUDE)) is not None:
        out = [_is_yes(cell, exclude) for cell in frame[exclude]]
        aside = {name: "excluded by the sheet" for name, yes in zip(frame[RECORDING], out, strict=True) if yes}
        frame = frame.drop(columns=exclude)
        if aside:
            notes.append(f"{counted(len(aside), 'recording')} excluded by the sheet: {listed(list(aside))}.")
    if len(aside) == len(frame):
        raise DataError("Every recording is excluded by the sheet, so there is nothing to study.")
    if _known(frame, ANIMAL) is None:
        notes.append("The sheet has no column 'animal', so each recording counts as an animal of its own.")
    return Sheet(frame, aside, tuple(notes))


def column_of(frame: pd.DataFrame, asked: str, what: str) -> str:
    """The column that somebody asks for, whatever its case; or a refusal that names the nearest ones."""
    if asked in frame.columns:
        return asked
    alike = [str(c) for c in frame.columns if str(c).casefold() == str(asked).casefold()]
    if len(alike) == 1:
        return alike[0]
    if asked == ANIMAL and (found := _known(frame, ANIMAL)):
        return found
    if f"{asked} (sheet)" in frame.columns:  # what `checked` called it
        return f"{asked} (sheet)"
    raise ConfigError(
        f"{what} is {asked!r}, which is no column of the sheet{near(str(asked), frame.columns)}. "
        f"It has {listed([str(c) for c in frame.columns])}."
    )


def selected(frame: pd.DataFrame, where: Mapping[str, Any] | None) -> pd.DataFrame:
    """Rows of the sheet whose columns have the values asked for (one, or a list of them)."""
    for asked, value in (where or {}).items():
        name = column_of(frame, asked, "where")
        several = isinstance(value, list | tuple | set | frozenset | np.ndarray | pd.Series)
        # compared in words, so that 1 and "1", True and "True", a date and how it is written are the same
        wanted = [in_words(one, frame[name]) for one in (value if several else [value])]
        there = frame[name].map(in_words, na_action="ignore").astype(object)
        known = there.dropna().unique().tolist()
        if missing := [one for one in wanted if one not in known]:
            raise ConfigError(
                f"where: no row of the sheet has {missing[0]!r} in {name!r}{near(missing[0], known)}. It holds {listed(known)}."
            )
        frame = frame[there.isin(wanted)]
        if frame.empty:
            raise ConfigError(f"where: no recording is left with {name} {listed(wanted)}.")
    return frame


def near(name: str, known: Iterable[Any]) -> str:
    """ " (did you mean ...?)" where something is written nearly so."""
    by_folded = {str(one).casefold(): str(one) for one in known}
    found = get_close_matches(name.casefold(), by_folded, n=2, cutoff=0.6)
    return f" (did you mean {' or '.join(repr(by_folded[one]) for one in found)}?)" if found else ""


def _matched(written: list[str], recordings: list[str], notes: list[str]) -> list[str | None]:
    """The recording of each row, None where there is none."""
    by_plain: dict[str, list[str]] = {}
    for name in recordings:
        by_plain.setdefault(_plain(name), []).append(name)
    exact = set(recordings)
    found: list[str | None] = []
    for cell in written:
        alike = by_plain.get(_plain(cell), [])
        if cell not in exact and len(alike) > 1:
            raise DataError(f"The sheet's {cell!r} may be any of {listed(alike)}. Write the recording's name in full.")
        found.append(cell if cell in exact else alike[0] if alike else None)
    there = [name for name in found if name is not None]
    if doubles := sorted({name for name in there if there.count(name) > 1}):
        raise DataError(f"The sheet has several rows for {listed(doubles)}. Keep one row for each recording.")
    rows_without = [cell for cell, name in zip(written, found, strict=True) if name is None]
    if left := [name for name in recordings if name not in set(there)]:
        said = [f"{name!r}{near(name, rows_without)}" for name in left[:_SHOWN]]
        more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        also = f" {ROWS_WITHOUT}: {listed(rows_without)}." if rows_without else ""
        raise DataError(
            f"{counted(len(left), 'recording')} in no row of the sheet: {', '.join(said)}{more}.{also} "
            "Correct the name, add a row, or leave the recording out."
        )
    if rows_without:
        notes.append(f"{ROWS_WITHOUT}: {listed(rows_without)}.")
    return found


def _plain(name: str) -> str:
    """A name without what people leave out: folder, ending, case. "labels.npz:rec000" is "rec000"."""
    last = PurePath(name.replace("\\", "/")).name.rpartition(":")[2]
    return (_ENDING.sub("", last) or last).strip().casefold()


def _known(frame: pd.DataFrame, role: str) -> str | None:
    by_folded = {str(column).strip().casefold(): str(column) for column in reversed(frame.columns)}
    return next((by_folded[name] for name in _ALSO.get(role, (role,)) if name in by_folded), None)


def _is_yes(cell: Any, column: str) -> bool:
    text = "" if pd.isna(cell) else str(cell).strip().casefold()
    if text in _YES or text in _NO:
        return text in _YES
    raise DataError(f"The column {column!r} holds {str(cell)[:40]!r}; write yes or no (or leave it empty).")


def in_words(value: Any, column: pd.Series[Any] | None = None) -> str:
    """A cell of the sheet (or what is asked of a column) as tables and figures write it. Dates such as 20251003 keep all
    their digits: two of them are not to read alike."""
    if isinstance(value, pd.Timestamp | np.datetime64):
        return str(pd.Timestamp(value)).removesuffix(" 00:00:00")
    if isinstance(value, str) and column is not None and pd.api.types.is_numeric_dtype(column.dtype):
        with contextlib.suppress(ValueError):  # "0.3" asked of numbers is 0.3
            value = float(value)
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)
    return f"{value:.12g}" if number else str(value)


def counted(n: int, word: str) -> str:
    """ "1 row is", "2 rows are"."""
    return f"{n} {word} is" if n == 1 else f"{n} {word}s are"


def listed(values: Sequence[Any]) -> str:
    """Values in a row, of many the first."""
    shown = ", ".join(str(value) for value in values[:_SHOWN])
    return shown + (f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else "")
