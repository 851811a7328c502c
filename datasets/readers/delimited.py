"""Text tables (CSV and its relatives): encoding, delimiter, decimal sign and header found by looking, read in pieces."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from datasets.readers.source import ProgressCallback, Source, brief
from gdm_core.errors import DataError

_DELIMITERS = (",", ";", "\t", "|")
_NUMBER = re.compile(r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$")
_COMMA_NUMBER = re.compile(r"^\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*$")
_MISSING = (
    "",
    "-",
    "--",
    "?",
    "missing",
    "none",
    "None",
    "null",
    "NULL",
    "NaN",
    "nan",
    "NA",
    "N/A",
    "n/a",
    "#N/A",
    "inf",
    "-inf",
)
_CHUNK_ROWS = 100_000
_MOST_FIELD = 131_072


@dataclass(frozen=True)
class Layout:
    """How a text table is written."""

    encoding: str
    delimiter: str
    decimal: str
    header: tuple[str, ...]  # of the first line that is not a comment; may hold numbers if there is no header
    skipped: int  # comment lines before it
    rows: tuple[tuple[str, ...], ...] = field(repr=False)  # the first rows, header included

    @property
    def has_header(self) -> bool:
        return not all(is_number(cell) or cell.strip() in _MISSING for cell in self.header)


def is_number(cell: str) -> bool:
    """Whether a cell reads as a number, with a point or a comma."""
    return bool(_NUMBER.match(cell) or _COMMA_NUMBER.match(cell))


def sniff(source: Source) -> Layout:
    """Find out how the table is written from its first 256 kB."""
    head = source.head()
    encoding = _encoding(head, source)
    text = head.decode(encoding, errors="replace")
    lines = text.splitlines(keepends=True)
    if len(head) == 1 << 18 and len(lines) > 1:
        lines.pop()  # cut by the end of the sample
    skipped = next(
        (i for i, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")), len(lines)
    )
    lines = lines[skipped : skipped + 200]
    if not lines:
        raise DataError(f"{source.name} holds no rows.")
    delimiter, rows = _delimiter(lines, source)
    cells = [cell for row in rows[1:] for cell in row]
    commas = sum(bool(_COMMA_NUMBER.match(cell)) for cell in cells)
    points = sum("." in cell and bool(_NUMBER.match(cell)) for cell in cells)
    decimal = "," if delimiter != "," and commas > points else "."
    return Layout(encoding, delimiter, decimal, rows[0], skipped, tuple(rows))


def _encoding(head: bytes, source: Source) -> str:
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if head.startswith(mark):
            return name
    if b"\0" in head:
        raise DataError(f"{source.name} is not text: it holds zero bytes. Is its name's ending right?")
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # forgives a letter cut by the end of the sample
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _delimiter(lines: list[str], source: Source) -> tuple[str, list[tuple[str, ...]]]:
    """The delimiter that splits most lines into the same number of fields, two at least; or none at all."""
    best: tuple[float, str, list[tuple[str, ...]]] | None = None
    for delimiter in _DELIMITERS:
        try:
            rows = [tuple(row) for row in csv.reader(lines, delimiter=delimiter) if row]
        except csv.Error as error:
            raise DataError(f"{source.name} is not a readable text table ({brief(error)}).") from error
        if not rows:
            continue
        width, count = Counter(len(row) for row in rows).most_common(1)[0]
        score = (count / len(rows)) * (width > 1) * (1 + 1e-3 * min(width, 100))
        if best is None or score > best[0]:
            best = (score, delimiter, rows)
    if best is None:
        raise DataError(f"{source.name} holds no rows.")
    return best[1], best[2]


def unique_names(names: list[str] | tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Names without blanks and repeats, and notes on what was changed."""
    made: list[str] = []
    repeats: list[str] = []
    taken: set[str] = set()
    for i, raw in enumerate(names):
        name = base = " ".join(str(raw).split())[:200] or f"column {i + 1}"
        n = 2
        while name in taken:
            name, n = f"{base} ({n})", n + 1
        if name != base:
            repeats.append(base)
        taken.add(name)
        made.append(name)
    notes = [f"the column name {name!r} occurs more than once" for name in dict.fromkeys(repeats)]
    return made, notes


def read_delimited(
    source: Source, every: int = 1, progress: ProgressCallback | None = None
) -> tuple[pd.DataFrame, list[str]]:
    """The whole table and notes on how it was understood. `every` keeps each n-th row of a table that is too long."""
    layout = sniff(source)
    header = layout.header if layout.has_header else tuple(f"column {i + 1}" for i in range(len(layout.header)))
    names, notes = unique_names(header)
    body = layout.rows[1:] if layout.has_header else layout.rows
    if not body:
        raise DataError(f"{source.name} holds a header but no rows.")
    widths = Counter(len(row) for row in body)
    if widths.most_common(1)[0][0] == len(names) + 1:  # rows end in a delimiter, or start with an unnamed row number
        trailing = all(not row[-1].strip() for row in body if len(row) == len(names) + 1)
        names = [*names, "column after the last"] if trailing else ["row", *names]
    if len(names) > source.limits.columns:
        raise DataError(f"{source.name} has {len(names):,} columns; the limit is {source.limits.columns:,}.")
    if not layout.has_header:
        notes.append("there is no header line; columns are numbered")
    if layout.delimiter != ",":
        notes.append(f"fields are separated by {'tabs' if layout.delimiter == chr(9) else layout.delimiter}")
    if layout.decimal == ",":
        notes.append("decimals are written with a comma")
    frame = read_body(source, layout, names, every, progress)
    return frame, notes


def read_body(
    source: Source, layout: Layout, names: list[str], every: int, progress: ProgressCallback | None
) -> pd.DataFrame:
    pieces: list[pd.DataFrame] = []
    seen = kept = 0
    most_rows = min(source.limits.rows, source.limits.values // len(names))
    # a wide table is read in fewer rows at a time
    chunk_rows = max(1, min(_CHUNK_ROWS, 5_000_000 // len(names)))
    with source.open() as file:
        try:
            counted = CountedReader(file)
            reader = pd.read_csv(
                io.TextIOWrapper(io.BufferedReader(counted, 1 << 18), layout.encoding, errors="replace", newline=""),
                sep=layout.delimiter,
                decimal=layout.decimal,
                header=None,
                names=names,
                skiprows=layout.skipped + int(layout.has_header),
                na_values=list(_MISSING),
                skip_blank_lines=True,
                low_memory=False,
                chunksize=chunk_rows,
            )
            for chunk in reader:
                if not isinstance(chunk.index, pd.RangeIndex):  # pandas takes what is too much as an index
                    raise DataError(
                        f"{source.name}: rows have more fields than the {len(names)} columns of the header."
                    )
                first = -seen % every
                seen += len(chunk)
                piece = chunk.iloc[first::every] if every > 1 else chunk
                kept += len(piece)
                if kept > most_rows:
                    raise DataError(
                        f"{source.name} has more than {most_rows:,} rows, the limit for {len(names)} columns. "
                        "Keep each n-th row instead (every=n), or split the file."
                    )
                pieces.append(compact(piece))
                if progress is not None:
                    progress(min(counted.count / max(source.size, 1), 0.99), f"{seen:,} rows read")
        except (
            pd.errors.ParserError,
            pd.errors.EmptyDataError,
            UnicodeError,
            csv.Error,
            OverflowError,
            ValueError,
        ) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{source.name}: {_plain(brief(error))}") from error
    if not kept:
        raise DataError(f"{source.name} holds a header but no rows.")
    return join_pieces(pieces)


class CountedReader(io.RawIOBase):
    """A binary stream that knows how many bytes went through it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.count = file, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._file.read(len(buffer))
        buffer[: len(block)] = block
        self.count += len(block)
        return len(block)


def _plain(message: str) -> str:
    found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", message)
    if found:
        return f"line {found[2]} has {found[3]} fields where {found[1]} are expected. Correct the line, or its quotes."
    return f"the text cannot be split into rows and columns ({message.strip()})."


def compact(frame: pd.DataFrame) -> pd.DataFrame:
    """Text as categories, and numbers in single precision where that loses nothing that matters."""
    columns: dict[str, Any] = {}
    for name in frame.columns:
        column = frame[name]
        if column.dtype == object:
            columns[name] = column.astype(str).where(column.notna(), None).astype("category")
        elif column.dtype == np.float64 and not _precise(column.to_numpy()):
            with np.errstate(over="ignore"):  # what is too large becomes infinite, which counts as missing
                columns[name] = column.astype(np.float32)
        else:
            columns[name] = column
    return pd.DataFrame(columns)


def _precise(values: npt.NDArray[np.float64]) -> bool:
    """Whether a column needs double precision: one that only rises, such as a clock."""
    seen = values[np.isfinite(values)]
    return bool(len(seen) > 1 and (np.diff(seen) >= 0).all())


def join_pieces(pieces: list[pd.DataFrame]) -> pd.DataFrame:
    """One table from its pieces, column by column, letting go of each piece's column once it is copied."""
    columns: dict[str, Any] = {}
    for name in list(pieces[0].columns):
        parts = [piece.pop(name) for piece in pieces]
        if any(isinstance(part.dtype, pd.CategoricalDtype) for part in parts):
            parts = [
                part if isinstance(part.dtype, pd.CategoricalDtype) else part.astype(str).astype("category")
                for part in parts
            ]
            columns[name] = pd.api.types.union_categoricals(parts, ignore_order=True)
        else:
            columns[name] = np.concatenate([part.to_numpy() for part in parts])
    return pd.DataFrame(columns, copy=False)
