"""The sheet of a study: one row per recording with its animal and conditions, matched with the recordings by name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd

from gdm_core.errors import ConfigError, DataError
from gdm_core.study.states import RESERVED
from gdm_core.study.text import did_you_mean, format_count, format_items, format_list, format_value
from gdm_core.text import listed, pluralise

RECORDING, ANIMAL, EXCLUDE = "recording", "animal", "exclude"
ROWS_WITHOUT = "Rows of the sheet without a recording"
_SYNONYMS = {
    RECORDING: ("recording", "file", "filename", "file name"),
    ANIMAL: ("animal", "subject", "participant", "patient", "person", "animal_id", "subject_id", "mouse", "mouse_id", "rat"),
}  # fmt: skip
_YES = {"1", "1.0", "true", "yes", "y", "x", "exclude", "excluded"}
_NO = {"0", "0.0", "false", "no", "n", "", "-", "keep", "nan", "none"}
MOST_ADVISED = 50  # recordings that get a spelling suggestion
_ENDING = re.compile(r"(\.(csv|tsv|txt|npz|npy|h5|hdf5|slp|xlsx|parquet|pq|gz|mp4|avi))+$", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Sheet:
    """A study's sheet with one row per recording, in the original order.

    frame       columns, the recording's name first, without `exclude`
    set_aside   excluded recording -> reason
    notes       sentences about how the sheet was read
    """

    frame: pd.DataFrame
    set_aside: Mapping[str, str]
    notes: tuple[str, ...]

    def noting(self, *notes: str) -> Sheet:
        """Return the sheet with further notes."""
        return replace(self, notes=(*self.notes, *notes))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the included recordings."""
        return tuple(name for name in self.frame[RECORDING] if name not in self.set_aside)

    @property
    def animal(self) -> str | None:
        """Name of the column with the animal, if any."""
        return _find_role(self.frame, ANIMAL)

    @property
    def subject(self) -> str:
        """Noun for a subject: the column's name without "id", such as mouse or participant; animal without a column."""
        return re.sub("[_ ]?id$", "", self.animal or ANIMAL, flags=re.IGNORECASE).replace("_", " ").lower()

    @property
    def subjects(self) -> str:
        """Plural of `subject`."""
        return pluralise(self.subject)

    @cached_property
    def animals(self) -> dict[str, str]:
        """Recording -> animal."""
        names = self.frame[RECORDING]
        animals = names if self.animal is None else self.frame[self.animal].fillna(names)
        return dict(zip(names, animals.astype(str), strict=True))


def match_sheet(sheet: Any, recordings: Iterable[str]) -> Sheet:
    """Match the sheet with recordings by name, exactly or else without folder, extension and case."""
    if not isinstance(sheet, pd.DataFrame):
        raise DataError(f"The sheet is a {type(sheet).__name__}; pass a DataFrame with one row per recording.")
    is_indexed = str(sheet.index.name or "").casefold() in _SYNONYMS[RECORDING]
    frame = sheet.reset_index() if is_indexed else sheet.copy()
    frame.columns = [str(column).strip() for column in frame.columns]
    if len(frame.columns) != len(set(frame.columns)):
        doubles = format_list(sorted({c for c in frame.columns if list(frame.columns).count(c) > 1}))
        raise DataError(f"The sheet has several columns named {doubles}. Give each column a different name.")
    key = _find_role(frame, RECORDING)
    if key is None:
        raise DataError(
            f"The sheet has no column 'recording' (or 'file'); it has {format_list(list(frame.columns))}. "
            "It needs one row per recording, with its name."
        )
    cells = read_names(frame)
    if empty := [i + 1 for i, name in enumerate(cells) if not name]:
        raise DataError(f"Row {format_list(empty)} of the sheet has no recording name. Fill it in, or delete the row.")
    notes: list[str] = []
    if clash := [c for c in frame.columns if c in RESERVED and c != key]:
        what = "These columns get the suffix (sheet), because the study's tables use their names"
        notes.append(f"{what}: {format_list(clash)}.")
        frame = frame.rename(columns={column: f"{column} (sheet)" for column in clash})
    frame = frame.infer_objects()
    for c in [c for c in frame if frame[c].dtype == object and frame[c].map(type).nunique() > 1]:
        if frame[c].map(lambda cell: isinstance(cell, str)).any():  # a mixed column: 1 and "1" are one group
            frame[c] = frame[c].map(format_value, na_action="ignore")
    matched = _match_names(cells, [str(name) for name in recordings], notes)
    frame[RECORDING] = [name or given for name, given in zip(matched, cells, strict=True)]
    frame = frame.loc[[name is not None for name in matched]]
    frame = frame[[RECORDING, *[c for c in frame.columns if c != RECORDING]]].reset_index(drop=True)
    excluded: dict[str, str] = {}
    if (exclude := _find_role(frame, EXCLUDE)) is not None:
        out = [_is_yes(cell, exclude) for cell in frame[exclude]]
        excluded = {name: "excluded by the sheet" for name, yes in zip(frame[RECORDING], out, strict=True) if yes}
        frame = frame.drop(columns=exclude)
        if excluded:
            notes.append(format_items(list(excluded), "recording", "excluded by the sheet"))
    if len(excluded) == len(frame):
        raise DataError("The sheet excludes every recording.")
    if _find_role(frame, ANIMAL) is None:
        notes.append("The sheet has no column 'animal', so each recording counts as one animal.")
    return Sheet(frame, excluded, tuple(notes))


def read_names(sheet: pd.DataFrame) -> list[str]:
    """Return the recording's name in each row; none if the sheet has no column for it."""
    key = _find_role(sheet, RECORDING)
    return [] if key is None else ["" if pd.isna(cell) else str(cell).strip() for cell in sheet[key]]


def match_by_suffix(sheet: pd.DataFrame, recordings: Iterable[str]) -> tuple[str, pd.DataFrame] | None:
    """Return the ending in which most names differ and the sheet with the recordings' names; None without one."""
    names, cells = {_normalise(name): name for name in recordings}, read_names(sheet)
    rows = {_normalise(cell) for cell in cells}
    lone, extra = sorted(names.keys() - rows, key=len), sorted(rows - names.keys(), key=len)
    pairs = [(long, short) for longer, shorter in ((lone, extra), (extra, lone)) for long in longer for short in shorter
             if short and long.startswith(short)]  # fmt: skip
    suffix, n = next(iter(Counter(long[len(short) :] for long, short in pairs).most_common(1)), ("", 0))
    if 2 * n <= len(names):
        return None
    found = {row: names[name] for pair in pairs if pair[0] == pair[1] + suffix
             for row, name in (pair, pair[::-1]) if row in rows and name in names}  # fmt: skip
    return suffix, sheet.assign(
        **{str(_find_role(sheet, RECORDING)): [found.get(_normalise(cell), cell) for cell in cells]}
    )


def find_column(frame: pd.DataFrame, name: str, argument: str) -> str:
    """Return the column of this name, ignoring case, or raise ConfigError with similar names."""
    if name in frame.columns:
        return name
    matches = [str(c) for c in frame.columns if str(c).casefold() == str(name).casefold()]
    if len(matches) == 1:
        return matches[0]
    if name == ANIMAL and (found := _find_role(frame, ANIMAL)):
        return found
    if f"{name} (sheet)" in frame.columns:  # renamed by match_sheet
        return f"{name} (sheet)"
    raise ConfigError(
        f"{argument} is {name!r}, which is not a column of the sheet{did_you_mean(str(name), frame.columns)}. "
        f"It has {format_list([str(c) for c in frame.columns])}."
    )


def select_rows(frame: pd.DataFrame, where: Mapping[str, Any] | None) -> pd.DataFrame:
    """Return the rows whose columns have the given values."""
    for key, value in (where or {}).items():
        name = find_column(frame, key, "where")
        several = isinstance(value, list | tuple | set | frozenset | np.ndarray | pd.Series)
        # Compare as text: 1 equals "1", True equals "True", and a date equals its text.
        values = [format_value(one, frame[name]) for one in (value if several else [value])]
        present = frame[name].map(format_value, na_action="ignore").astype(object)
        known = present.dropna().unique().tolist()
        if missing := [one for one in values if one not in known]:
            raise ConfigError(
                f"where: no row of the sheet has {missing[0]!r} in {name!r}{did_you_mean(missing[0], known)}. "
                f"It contains {format_list(known)}."
            )
        frame = frame[present.isin(values)]
        if frame.empty:
            raise ConfigError(f"where: no recording has {name} {format_list(values)}.")
    return frame


def describe_filters(where: Mapping[str, Any]) -> list[str]:
    """Return the filters of `select_rows` as phrases, such as "dose is 1 and 2"."""
    return [
        f"{name} is {listed([format_value(one) for one in np.ravel(value).tolist()])}" for name, value in where.items()
    ]


def find_unlisted(cells: Iterable[str], recordings: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Return recording without a row -> similar names of rows, in parentheses, and the names of rows without a recording."""
    names, rows = list(recordings), list(cells)
    plain, listed_ = {_normalise(name) for name in names}, {_normalise(cell) for cell in rows}
    extra = [cell for cell in rows if _normalise(cell) not in plain]
    lone = [name for name in names if _normalise(name) not in listed_]
    return {name: did_you_mean(name, extra) if i < MOST_ADVISED else "" for i, name in enumerate(lone)}, extra


def _match_names(cells: list[str], recordings: list[str], notes: list[str]) -> list[str | None]:
    """Return the recording of each row, or None."""
    by_plain: dict[str, list[str]] = {}
    for name in recordings:
        by_plain.setdefault(_normalise(name), []).append(name)
    exact, found = set(recordings), list[str | None]()
    for cell in cells:
        matches = by_plain.get(_normalise(cell), [])
        if cell not in exact and len(matches) > 1:
            raise DataError(
                f"The sheet's {cell!r} matches several recordings: {format_list(matches)}. Write the recording's name in full."
            )
        found.append(cell if cell in exact else matches[0] if matches else None)
    present = [name for name in found if name is not None]
    if doubles := sorted({name for name in present if present.count(name) > 1}):
        raise DataError(f"The sheet has several rows for {format_list(doubles)}. Keep one row per recording.")
    hints, extra = find_unlisted(cells, recordings)
    hints |= {name: "" for name in recordings if name not in {*present, *hints}}
    also = f" {ROWS_WITHOUT}: {format_list(extra)}." if extra else ""
    if hints:
        lacking = format_list([f"{name!r}{hint}" for name, hint in hints.items()])
        raise DataError(
            f"{format_count(len(hints), 'recording')} missing from the sheet: {lacking}.{also} "
            "Correct the name, add a row, or leave the recording out."
        )
    notes += [also.strip()] if also else []
    return found


def _normalise(name: str) -> str:
    """Return the name without folder, extension and case: "labels.npz:rec000" becomes "rec000"."""
    last = PurePath(name.replace("\\", "/")).name.rpartition(":")[2]
    return (_ENDING.sub("", last) or last).strip().casefold()


def _find_role(frame: pd.DataFrame, role: str) -> str | None:
    by_folded = {str(column).strip().casefold(): str(column) for column in reversed(frame.columns)}
    return next((by_folded[name] for name in _SYNONYMS.get(role, (role,)) if name in by_folded), None)


def _is_yes(cell: Any, column: str) -> bool:
    text = "" if pd.isna(cell) else str(cell).strip().casefold()
    if text in _YES or text in _NO:
        return text in _YES
    raise DataError(f"The column {column!r} contains {str(cell)[:40]!r}; use yes, no or an empty cell.")
