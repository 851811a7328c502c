"""Text tables (CSV and its relatives), read in pieces as their layout says."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from datasets.readers.layout import MISSING, SPACES, Layout, sniff, unique_names
from datasets.readers.source import ProgressCallback, Source, brief
from gdm_core.errors import DataError

_SAID = {"\t": "tabs", SPACES: "spaces"}
_MOST_LINES_ABOVE = 50  # of a table that begins further down in its file
_CHUNK_ROWS = 100_000
# Pandas' quick parser of numbers writes past its memory on exponents of many digits, which ends the whole server. Its
# exact one does not, but waits for Python's lock at every number. So the exact one reads only files that hold such a
# thing: an e before five digits or signs. Quotes count, since they may vanish between the letter and its digits.
_LONG_EXPONENT = re.compile(rb'[eE]["+\-0-9]{5}')


class _Careful(Exception):
    """The quick parser must not see the next block."""


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
        notes.append(f"fields are separated by {_SAID.get(layout.delimiter, layout.delimiter)}")
    if layout.preamble:
        notes.append(f"{layout.preamble} lines before the header were skipped")
    if layout.decimal == ",":
        notes.append("decimals are written with a comma")
    frame = read_body(source, layout, names, every, progress)
    return frame, notes


def read_body(
    source: Source, layout: Layout, names: list[str], every: int, progress: ProgressCallback | None
) -> pd.DataFrame:
    """The rows below the header, in the columns `names`."""
    try:
        return _read_body(source, layout, names, every, progress, careful=False)
    except _Careful:
        return _read_body(source, layout, names, every, progress, careful=True)


def _read_body(
    source: Source, layout: Layout, names: list[str], every: int, progress: ProgressCallback | None, careful: bool
) -> pd.DataFrame:
    pieces: list[pd.DataFrame] = []
    seen = kept = 0
    most_rows = min(source.limits.rows, source.limits.values // len(names))
    # a wide table is read in fewer rows at a time
    chunk_rows = max(1, min(_CHUNK_ROWS, 5_000_000 // len(names)))
    with source.open() as file:
        counted = CountedReader(file, careful)
        try:
            text = io.TextIOWrapper(io.BufferedReader(counted, 1 << 18), layout.encoding, errors="replace", newline="")
            for _ in range(layout.skipped):  # pandas would take a quote in them for the start of a cell
                text.readline()
            reader = pd.read_csv(
                text,
                sep=layout.delimiter,
                decimal=layout.decimal,
                header=None,
                names=names,
                skiprows=int(layout.has_header),
                na_values=list(MISSING),
                skip_blank_lines=True,
                low_memory=False,
                chunksize=chunk_rows,
                float_precision="round_trip" if careful else None,
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
            if counted.stopped:
                raise _Careful from error
            raise DataError(f"{source.name}: {_plain(brief(error), layout)}") from error
    if not kept:
        raise DataError(f"{source.name} holds a header but no rows.")
    return join_pieces(pieces)


class CountedReader(io.RawIOBase):
    """A binary stream that knows how many bytes went through it. Unless the parser is `careful`, it stops before a block
    that would be the end of it."""

    def __init__(self, file: IO[bytes], careful: bool) -> None:
        self._file, self._careful, self._tail = file, careful, b""
        self.count, self.stopped = 0, False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._file.read(len(buffer))
        if not self._careful:
            seen = (self._tail + block).replace(b"\0", b"")  # of UTF-16 the letters alone
            if _LONG_EXPONENT.search(seen):
                self.stopped = True
                raise ValueError("a number's exponent is too long for the quick parser")
            self._tail = seen[-6:]
        buffer[: len(block)] = block
        self.count += len(block)
        return len(block)


def _plain(message: str, layout: Layout) -> str:
    found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", message)
    if found:
        line = int(found[2]) + layout.skipped
        advice = "Correct the line, or its quotes."
        if layout.has_header and int(found[2]) <= 1 + _MOST_LINES_ABOVE and int(found[3]) > len(layout.header):
            advice = (
                "If the lines above it are no part of the table, remove them; else correct the line, or its quotes."
            )
        return f"line {line} has {found[3]} fields where {found[1]} are expected. {advice}"
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
