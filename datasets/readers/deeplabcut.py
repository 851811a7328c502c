"""DeepLabCut CSV files with header rows in all common variants."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError

from .delimited import Layout, read_body, sniff
from .header import is_number
from .order import arrange
from .pose import KeypointTable, finish_table
from .roles import numeric_values
from .source import Source

_LEVELS = {
    "scorer": "scorer", "individuals": "animal", "individual": "animal", "animals": "animal", "bodyparts": "part",
    "bodypart": "part", "keypoints": "part", "keypoint": "part", "parts": "part", "coords": "axis", "coord": "axis",
    "coordinates": "axis",
}  # fmt: skip
AXES = {"x": "x", "y": "y", "z": "z", "likelihood": "score", "score": "score", "confidence": "score", "p": "score"}
_MANGLED = re.compile(r"\.\d+$")
CERTAIN = {"order": "file", "repeats": "keep", "gaps": "missing"}  # frame numbers of a tracker
Column = tuple[str, str, str]  # animal, part, and x, y, z or score


def looks_like_deeplabcut(layout: Layout) -> bool:
    """Return True if a text table has a DeepLabCut header."""
    return _header_rows(layout) is not None


def _header_rows(layout: Layout) -> dict[str, int] | None:
    """Return the row of each header level, by first column or content."""
    found: dict[str, int] = {}
    top = [*layout.above, *layout.rows][:6]
    for i, row in enumerate(top):
        level = _LEVELS.get(row[0].strip().lower())
        if level is not None:
            found.setdefault(level, i)
    if "axis" not in found:  # the first column may be blank; find the row of x, y, likelihood
        for i, row in enumerate(top):
            cells = {_MANGLED.sub("", cell.strip().lower()) for cell in row[1:]} - {""}
            if {"x", "y"} <= cells <= set(AXES):
                found["axis"] = i
    if "axis" in found and "part" not in found and found["axis"] > 0:
        found["part"] = found["axis"] - 1
    return found if {"axis", "part"} <= set(found) else None


def _demangle(row: tuple[str, ...]) -> list[str]:
    """Remove the .1, .2 that pandas appends to repeated names."""
    names = [cell.strip() for cell in row]
    present = set(names)
    return [base if (base := _MANGLED.sub("", name)) in present else name for name in names]


def read_deeplabcut_csv(source: Source, rate_hz: float | None) -> KeypointTable:
    """Read a DeepLabCut CSV."""
    layout = sniff(source)
    rows = _header_rows(layout)
    if rows is None:
        raise DataError(
            f"{source.name} has no DeepLabCut header; expected rows named scorer, (individuals,) bodyparts and coords."
        )
    n_header, every = max(rows.values()) + 1, [*layout.above, *layout.rows]
    body = every[n_header:]
    if not body:
        raise DataError(f"{source.name} has a DeepLabCut header but no frames.")
    width = max(len(every[i]) for i in rows.values())
    if any(len(every[i]) != width for i in rows.values()):
        raise DataError(f"{source.name}: the header rows have different numbers of columns. It may be damaged.")
    parts = _demangle(every[rows["part"]])
    axes = _demangle(every[rows["axis"]])
    animals = _demangle(every[rows["animal"]]) if "animal" in rows else ["animal"] * width
    # the first column is row names or frame numbers unless the axes start there
    first = 0 if axes[0].lower() in AXES and is_number(body[0][0]) and len(body[0]) == width else 1
    below = replace(layout, skipped=layout.skipped + n_header - len(layout.above))
    frame = read_body(source, below, [f"{i}" for i in range(width)])
    columns = [(a or "animal", p, _MANGLED.sub("", x)) for a, p, x in zip(animals, parts, axes, strict=True)]
    arrays = [numeric_values(frame.iloc[:, j]).astype(np.float32) for j in range(first, width)]
    numbers = numeric_values(frame.iloc[:, 0]).astype(np.float64) if first else np.full(len(frame), np.nan)
    notes: tuple[str, ...] = ()
    if np.isfinite(numbers).all() and (np.diff(numbers) != 1).any():
        arrays, notes = complete(numbers, arrays, source.name, frames=True)
    found = assemble(columns[first:], arrays, rate_hz, source.name)
    return replace(found, notes=(*notes, *found.notes))


def complete(
    times: npt.NDArray[np.float64], arrays: list[npt.NDArray[Any]], name: str, frames: bool = False
) -> tuple[list[npt.NDArray[Any]], tuple[str, ...]]:
    """Return the columns of a tracker with NaN for frames that the file lacks, and notes."""
    order = arrange(times, [(name, np.arange(len(times)))], CERTAIN, frames)
    rows = np.concatenate([its for _, its in order.trials])
    return [order.take(values, rows) for values in arrays], order.notes


def assemble(columns: list[Column], arrays: list[npt.NDArray[Any]], rate_hz: float | None, name: str) -> KeypointTable:
    """Assemble a recording from columns, without marker "animals" such as corners of the cage."""
    if strange := [axis for *_, axis in columns if axis.lower() not in AXES]:
        raise DataError(f"{name}: {strange[0]!r} is not a coordinate; expected x, y and likelihood.")
    found: dict[Column, npt.NDArray[Any]] = {}
    by_animal: dict[str, dict[str, None]] = {}  # ordered sets of parts
    for (animal, part, axis), values in zip(columns, arrays, strict=True):
        found.setdefault((animal, part, AXES[axis.lower()]), values)
        its_parts = by_animal.setdefault(animal, {})
        if AXES[axis.lower()] in ("x", "y"):
            its_parts.setdefault(part)
    most = max(by_animal.values(), key=len)
    if not most:
        raise DataError(f"{name} has no coordinates.")
    animals = [animal for animal, its in by_animal.items() if set(its) & set(most)]
    parts = list(dict.fromkeys(part for animal in animals for part in by_animal[animal]))
    for animal, part in ((one, part) for one in animals for part in by_animal[one]):
        if lacking := [axis for axis in "xy" if (animal, part, axis) not in found]:
            raise DataError(f"{name}: {animal} {part} has no {lacking[0]} column.")
    n = len(arrays[0])
    if n * len(animals) * len(parts) > 250_000_000:
        raise DataError(
            f"{name} has too many frames, animals and parts for memory: {n:,} x {len(animals)} x {len(parts)}."
        )
    xy = np.full((n, len(animals), 2, len(parts)), np.nan, dtype=np.float32)
    scores = np.full((n, len(animals), len(parts)), np.nan, dtype=np.float32)
    for a, animal in enumerate(animals):
        for p, part in enumerate(parts):
            for target, axis in ((xy[:, a, 0, p], "x"), (xy[:, a, 1, p], "y"), (scores[:, a, p], "score")):
                target[:] = found.get((animal, part, axis), np.nan)
    notes = []
    if left_out := [animal for animal in by_animal if animal not in animals]:
        notes.append(f"{', '.join(left_out)} has none of the others' body parts and was left out")
    if repeated := len(columns) - len(found):
        notes.append(f"{repeated} columns repeat an animal, part and coordinate; the first of each was used")
    if any(axis == "z" for _, _, axis in found):
        notes.append("the third coordinate (z) was left out")
    recording = KeypointTable(xy, tuple(animals), tuple(parts), scores=scores, name=name, notes=tuple(notes))
    return finish_table(recording, rate_hz)
