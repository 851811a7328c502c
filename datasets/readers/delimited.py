"""Text tables (CSV and its relatives): how one is written (encoding, delimiter, decimal sign, header) is found by looking at its
first lines, and it is read in pieces as that says."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import DataError
from gdm_core.trials import working_precision

from .source import BoundedStream, Source, brief, refuse_damage

_DELIMITERS = (",", ";", "\t", "|")
SPACES = r"\s+"
_SEPARATOR_LINE = re.compile(r"""^\s*["']?sep=([,;|\t])["']?[\s;,]*$""", re.IGNORECASE)
_MOST_PREAMBLE = 50
_NUMBER = re.compile(r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$")
_COMMA_NUMBER = re.compile(r"^\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*$")
MISSING = (
    "", "-", "--", "?", "missing", "none", "None", "null", "NULL", "NaN", "nan", "NA", "N/A", "n/a", "#N/A", "inf", "-inf",
)  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """How a text table is written."""

    encoding: str
    delimiter: str
    decimal: str
    header: tuple[str, ...]  # the first row; may hold numbers if there is no header
    skipped: int  # lines before it
    rows: tuple[tuple[str, ...], ...] = field(repr=False)  # the first rows, header included
    preamble: int = 0  # of the lines before it, those that hold text but are no comments

    @property
    def has_header(self) -> bool:
        return not all(is_number(cell) or cell.strip() in MISSING for cell in self.header)


def is_number(cell: str) -> bool:
    """Whether a cell reads as a number, with a point or a comma."""
    return bool(_NUMBER.match(cell) or _COMMA_NUMBER.match(cell))


def sniff(source: Source) -> Layout:
    """Find out how the table is written from its first 256 kB."""
    head = source.head()
    encoding = _encoding(head, source)
    lines = list(io.StringIO(head.decode(encoding, errors="replace"), newline=""))
    if len(head) == 1 << 18 and len(lines) > 1:
        lines.pop()  # cut by the end of the sample
    skipped = _first_line(lines, 0)
    said = _SEPARATOR_LINE.match(lines[skipped]) if skipped < len(lines) else None
    if said:  # Excel's way to name the delimiter
        skipped = _first_line(lines, skipped + 1)
    before, lines = lines[:skipped], lines[skipped : skipped + 200]
    if not lines:
        raise DataError(f"{source.name} holds no rows.")
    delimiter, rows = _delimiter(lines, (said[1],) if said else _DELIMITERS, source)
    preamble = _preamble(lines, delimiter, rows, source)
    if preamble:
        rows = _split(lines[preamble:], delimiter, source)
    elif before and (names := _names_in_comment(before[-1], delimiter, rows, source)):
        rows, skipped = [names, *rows], skipped - 1
    cells = [cell for row in rows[1:] for cell in row]
    commas = sum(bool(_COMMA_NUMBER.match(cell)) for cell in cells)
    points = sum("." in cell and bool(_NUMBER.match(cell)) for cell in cells)
    decimal = "," if delimiter != "," and commas > points else "."
    n_preamble = sum(bool(line.strip()) for line in lines[:preamble])
    return Layout(encoding, delimiter, decimal, rows[0], skipped + preamble, tuple(rows), n_preamble)


def _first_line(lines: list[str], start: int) -> int:
    """The first line that is neither blank nor a comment."""
    wanted = (i for i, line in enumerate(lines) if i >= start and line.strip() and not line.lstrip().startswith("#"))
    return next(wanted, len(lines))


def _is_header(cells: tuple[str, ...]) -> bool:
    """Whether a row can only be names: no number in it."""
    return any(cell.strip() for cell in cells) and not any(is_number(cell) for cell in cells)


def _preamble(lines: list[str], delimiter: str, rows: list[tuple[str, ...]], source: Source) -> int:
    """Lines of text before the header: they have fewer fields than the table, and the header holds no number."""
    width = Counter(len(row) for row in rows).most_common(1)[0][0]
    if width < 2 or len(rows[0]) >= width:
        return 0
    for i, line in enumerate(lines[:_MOST_PREAMBLE]):
        cells = next(iter(_split([line], delimiter, source)), ())  # of the line by itself
        if len(cells) >= width:
            return i if len(cells) == width and _is_header(cells) else 0
    return 0


def _names_in_comment(line: str, delimiter: str, rows: list[tuple[str, ...]], source: Source) -> tuple[str, ...] | None:
    """The names in a comment right above rows of numbers, as numpy.savetxt writes them."""
    if not line.lstrip().startswith("#") or not all(is_number(cell) for cell in rows[0]) or len(rows[0]) < 2:
        return None
    made = _split([line.lstrip().lstrip("#").lstrip(" ")], delimiter, source)
    return made[0] if made and len(made[0]) == len(rows[0]) and _is_header(made[0]) else None


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


def _delimiter(lines: list[str], choices: tuple[str, ...], source: Source) -> tuple[str, list[tuple[str, ...]]]:
    """The delimiter that splits most lines into the same number of fields, two at least; then spaces; or none at all."""
    best: tuple[float, str, list[tuple[str, ...]]] | None = None
    for delimiter in choices:
        rows = _split(lines, delimiter, source)
        if not rows:
            continue
        width, count = Counter(len(row) for row in rows).most_common(1)[0]
        score = (count / len(rows)) * (width > 1) * (1 + 1e-3 * min(width, 100))
        if best is None or score > best[0]:
            best = (score, delimiter, rows)
    if best is None:
        raise DataError(f"{source.name} holds no rows.")
    if best[0] == 0 and len(choices) > 1:
        rows = _split(lines, SPACES, source)
        width, count = Counter(len(row) for row in rows).most_common(1)[0]
        cells = [cell for row in rows[1:] for cell in row]
        # sentences have spaces, too: only rows of numbers count as separated by them
        if width > 1 and count >= 0.9 * len(rows) and sum(map(is_number, cells)) >= 0.7 * len(cells) > 0:
            return SPACES, rows
    return best[1], best[2]


def _split(lines: list[str], delimiter: str, source: Source) -> list[tuple[str, ...]]:
    """The cells of the lines that are not blank."""
    if delimiter == SPACES:
        return [tuple(line.split()) for line in lines if line.strip()]
    with refuse_damage(f"{source.name} is not a readable text table", kinds=(csv.Error,)):
        return [tuple(row) for row in csv.reader(lines, delimiter=delimiter) if row]


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


# ---- reading it -----------------------------------------------------------------------------------------------------
_DELIMITER_NAMES = {"\t": "tabs", SPACES: "spaces"}
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
    source.check_size(columns=len(names))
    if len(body[0]) > len(names):  # seen before pandas makes an index of each field, which takes it seconds
        raise _too_many_fields(source, names)
    if not layout.has_header:
        notes.append("there is no header line; columns are numbered")
    if layout.delimiter != ",":
        notes.append(f"fields are separated by {_DELIMITER_NAMES.get(layout.delimiter, layout.delimiter)}")
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
            counted = BoundedStream(file)
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
                source.report_progress(min(counted.count / max(source.size, 1), 0.99), f"{seen:,} rows read")
        except DataError:
            raise
        except (csv.Error, OverflowError, ValueError) as error:  # as which pandas says what it cannot split or decode
            raise DataError(f"{source.name}: {_explain(brief(error), layout)}") from error
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


def _explain(message: str, layout: Layout) -> str:
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
        elif column.dtype == np.float64 and not _needs_double(column.to_numpy()):
            with np.errstate(over="ignore"):  # what is too large becomes infinite, which counts as missing
                columns[name] = column.astype(np.float32)
        else:
            columns[name] = column
    return pd.DataFrame(columns)


def _needs_double(values: npt.NDArray[np.float64]) -> bool:
    """Whether a column needs double precision: one that only rises, such as a clock, or a small walk far from zero."""
    seen = values[np.isfinite(values)]
    return bool(len(seen) > 1 and (np.diff(seen) >= 0).all()) or working_precision(values) is np.float64


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
