"""Text tables (CSV and its relatives), read in pieces as their layout says."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import DataError

from .layout import MISSING, SPACES, Layout, sniff, unique_names
from .source import Counted, Source, brief

_SAID = {"\t": "tabs", SPACES: "spaces"}
_MOST_LINES_ABOVE = 50  # of a table that begins further down in its file
_CHUNK_ROWS = 100_000
# Pandas' quick parser of numbers writes past its memory on exponents of many digits, which ends the whole server; its
# exact one does not, but waits for Python's lock at every number. So a mark is put between the e and what may be five
# digits or signs (quotes and zero bytes count, since they may vanish): such a cell is text, and loses the mark as text.
_LONG_EXPONENT = re.compile(r'([eE])(?=["+\-0-9\0]{5})')
_MAYBE_LONG = re.compile(r'[eE]["+\-0-9\0]{0,4}\Z')
_MARK = "\ue000"  # of no meaning, by the Unicode standard


def read_delimited(source: Source, every: int = 1) -> tuple[pd.DataFrame, list[str]]:
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
    if len(body[0]) > len(names):  # seen before pandas makes an index of each field, which takes it seconds
        raise _too_many_fields(source, names)
    if not layout.has_header:
        notes.append("there is no header line; columns are numbered")
    if layout.delimiter != ",":
        notes.append(f"fields are separated by {_SAID.get(layout.delimiter, layout.delimiter)}")
    if layout.preamble:
        notes.append(f"{layout.preamble} lines before the header were skipped")
    if layout.decimal == ",":
        notes.append("decimals are written with a comma")
    frame = read_body(source, layout, names, every)
    return frame, notes


def read_body(source: Source, layout: Layout, names: list[str], every: int) -> pd.DataFrame:
    """The rows below the header, in the columns `names`."""
    pieces: list[pd.DataFrame] = []
    seen = kept = 0
    most_rows = min(source.limits.rows, source.limits.values // len(names))
    # a wide table is read in fewer rows at a time
    chunk_rows = max(1, min(_CHUNK_ROWS, 5_000_000 // len(names)))
    with source.open() as file:
        try:
            counted = Counted(file)
            text = io.TextIOWrapper(io.BufferedReader(counted, 1 << 18), layout.encoding, errors="replace", newline="")
            for _ in range(layout.skipped):  # pandas would take a quote in them for the start of a cell
                text.readline()
            reader = pd.read_csv(
                HarmlessText(text),
                sep=layout.delimiter,
                decimal=layout.decimal,
                header=None,
                names=names,
                skiprows=int(layout.has_header),
                na_values=list(MISSING),
                skip_blank_lines=True,
                low_memory=False,
                chunksize=chunk_rows,
            )
            for chunk in reader:
                if not isinstance(chunk.index, pd.RangeIndex):  # pandas takes what is too much as an index
                    raise _too_many_fields(source, names)
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
                source.tell(min(counted.count / max(source.size, 1), 0.99), f"{seen:,} rows read")
        except DataError:
            raise
        except (csv.Error, OverflowError, ValueError) as error:  # as which pandas says what it cannot split or decode
            raise DataError(f"{source.name}: {_plain(brief(error), layout)}") from error
    if not kept:
        raise DataError(f"{source.name} holds a header but no rows.")
    return join_pieces(pieces)


def _too_many_fields(source: Source, names: list[str]) -> DataError:
    return DataError(f"{source.name}: rows have more fields than the {len(names)} columns of the header.")


class HarmlessText(io.TextIOBase):
    """Text in which no exponent is long enough to harm pandas."""

    def __init__(self, text: io.TextIOBase) -> None:
        self._text, self._held = text, ""

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> str:
        while True:
            new = self._text.read(size)
            block, self._held = self._held + new, ""
            if "e" not in block and "E" not in block:
                return block
            if new and (cut := _MAYBE_LONG.search(block, max(0, len(block) - 6))):  # the rest is in the next block
                block, self._held = block[: cut.start()], block[cut.start() :]
            if block or not new:
                return _LONG_EXPONENT.sub(rf"\1{_MARK}", block)


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
            words = column.astype(str)
            if words.str.contains(_MARK, regex=False).any():
                words = words.str.replace(_MARK, "", regex=False)
            columns[name] = words.where(column.notna(), None).astype("category")
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
