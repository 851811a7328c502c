"""Text tables such as CSV: detection of encoding, delimiter, decimal sign and header, and reading in chunks."""

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

from .doubts import Answers, Doubt
from .header import GROUPED, MISSING, Row, find_notation, find_top, is_value
from .roles import looks_like_time
from .source import BoundedStream, Source, brief, refuse_damage

_DELIMITERS = (",", ";", "\t", "|")
SPACES = r"\s+"
_SEPARATOR_LINE = re.compile(r"""^\s*["']?sep=([,;|\t])["']?[\s;,]*$""", re.IGNORECASE)
_WEB_PAGE = re.compile(rb"\s*<(!doctype html|html|\?xml)", re.IGNORECASE)
_LINES = 400  # that decide about the layout


class EmptyTableError(DataError):
    """A table without rows."""


@dataclass(frozen=True)
class Layout:
    """Format of a text table.

    names     of the columns; the first row of values if `above` is empty
    above     the rows of names, units and groups
    skipped   lines before the first row of values
    preamble  lines before the names that are neither blank nor comments
    declared  whether the file names its delimiter
    rate_hz   as the lines above the names give it
    rows      the first rows of values
    thousands sign between thousands
    """

    encoding: str
    delimiter: str
    decimal: str
    thousands: str
    names: Row
    above: tuple[Row, ...]
    skipped: int
    preamble: int
    declared: bool
    rate_hz: float | None
    doubts: tuple[Doubt, ...]
    rows: tuple[Row, ...] = field(repr=False)


def sniff(source: Source, answers: Answers | None = None) -> Layout:
    """Detect the format of a table from its first 256 kB; `answers` may decide what commas mean."""
    head = source.head()
    if _WEB_PAGE.match(head):
        raise DataError(f"{source.name} is a web page. Download the table itself, as CSV.")
    encoding = _encoding(head, source)
    lines = list(io.StringIO(head.decode(encoding, errors="replace"), newline=""))
    if len(head) == 1 << 18 and len(lines) > 1:
        lines.pop()  # incomplete
    lines = lines[:_LINES]
    top = next((i for i, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")), len(lines))
    if top == len(lines):
        raise EmptyTableError(f"{source.name} has no rows.")
    declared = _SEPARATOR_LINE.match(lines[top])  # Excel's "sep=;" line
    past = top + 1 if declared else 0
    delimiter, numbered = _delimiter(lines[past:], (declared[1],) if declared else _DELIMITERS, source)
    rows = [row for _, row in numbered]
    found = find_top(rows, answers or {})
    first_name = found.first - len(found.rows)
    skipped = past + numbered[found.first - 1][0] if found.first else past
    above = "".join(lines[: past + numbered[first_name - 1][0]]) if first_name else ""
    preamble = sum(1 for line in above.splitlines()[past:] if line.strip() and line.lstrip()[0] not in "#%")
    decimal, thousands, doubts = find_notation(
        [cell for row in rows[found.first :] for cell in row], delimiter, answers or {}
    )
    return Layout(
        encoding, delimiter, decimal, thousands, found.names, found.rows, skipped, preamble, bool(declared),
        found.rate_hz or _rate_above(above), (*doubts, *found.doubts), tuple(rows[found.first :]),
    )  # fmt: skip


def _rate_above(text: str) -> float | None:
    """Return the rate that the lines above a table give once, as "30 Hz" or an epoch as h:m:s."""
    rates = {float(found) for found in re.findall(r"(\d+(?:\.\d+)?) ?(?:Hz|hertz)\b", text, re.IGNORECASE)}
    epoch = re.search(r"Epoch Period.*? (\d+):(\d+):(\d+)", text)
    if epoch and (seconds := 3600 * int(epoch[1]) + 60 * int(epoch[2]) + int(epoch[3])):
        rates.add(1 / seconds)
    return rates.pop() if len(rates) == 1 else None


def _encoding(head: bytes, source: Source) -> str:
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if head.startswith(mark):
            return name
    if b"\0" in head:
        raise DataError(f"{source.name} is not text: it contains zero bytes. Check its extension.")
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # tolerates an incomplete last character
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _delimiter(lines: list[str], choices: tuple[str, ...], source: Source) -> tuple[str, list[tuple[int, Row]]]:
    """Return the delimiter that splits the last half of the lines most evenly, and all rows with their last lines."""
    best: tuple[float, str, list[tuple[int, Row]]] | None = None
    for delimiter in (*choices, SPACES):
        numbered = _split(lines, delimiter, source)
        body = [row for _, row in numbered[len(numbered) // 2 :]]
        if not body:
            continue
        width = Counter(len(row) for row in body).most_common(1)[0][0]
        share = sum(len(row) == width for _, row in numbered) / len(numbered)
        score = share * (width > 1) * (1 + 1e-3 * min(width, 100))
        if delimiter == SPACES:  # sentences contain spaces too, so require numbers
            values = sum(is_value(cell) for row in body for cell in row) / sum(map(len, body))
            if (best and best[0]) or len(choices) == 1 or share < 0.9 or values < 0.7:
                continue
        if best is None or score > best[0]:
            best = (score, delimiter, numbered)
    if best is None:
        raise EmptyTableError(f"{source.name} has no rows.")
    return best[1], best[2]


def _split(lines: list[str], delimiter: str, source: Source) -> list[tuple[int, Row]]:
    """Split the non-blank lines into cells."""
    spaced = delimiter == SPACES
    with refuse_damage(f"{source.name} is not a readable text table", kinds=(csv.Error,)):
        reader = csv.reader(
            [" ".join(line.split()) for line in lines] if spaced else lines, delimiter=" " if spaced else delimiter
        )
        return [(reader.line_num, tuple(row)) for row in reader if row]


def unique_names(names: list[str] | Row) -> tuple[list[str], list[str]]:
    """Return names without extra spaces and repeats, and notes on repeated names."""
    unique: list[str] = []
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
        unique.append(name)
    notes = [f"the column name {name!r} occurs more than once" for name in dict.fromkeys(repeats)]
    return unique, notes


# ---- reading --------------------------------------------------------------------------------------------------------
_DELIMITER_NAMES = {"\t": "tabs", SPACES: "spaces"}

CHUNK_ROWS = 100_000
# Pandas' fast number parser overruns its memory on exponents of many digits and crashes the server; its exact parser takes
# the GIL for every number. So insert a mark between the e and five possible digits or signs (including quotes and zero
# bytes, which pandas may drop): the cell becomes text, from which the mark is removed later.
_LONG_EXPONENT = re.compile(r'([eE])(?=["+\-0-9\0]{5})')
_MAYBE_LONG = re.compile(r'[eE]["+\-0-9\0]{0,4}\Z')
_NEAR = 50  # rows below the names, where they may be missing
_MARK = "\ue000"  # a private-use character


@dataclass(frozen=True)
class Parsed:
    """A file's table, notes and doubts about it, and of a workbook the names of all sheets and of the one read."""

    frame: pd.DataFrame
    notes: list[str]
    doubts: tuple[Doubt, ...] = ()
    rate_hz: float | None = None
    sheets: tuple[str, ...] = ()
    sheet: str = ""


def read_delimited(source: Source, answers: Answers | None = None) -> Parsed:
    """Read the table; its rate is that above the names."""
    layout = sniff(source, answers)
    if not layout.rows:
        raise EmptyTableError(f"{source.name} has a header but no rows.")
    header = layout.names if layout.above else tuple(f"column {i + 1}" for i in range(len(layout.names)))
    names, notes = unique_names(header)
    widths = Counter(len(row) for row in layout.rows)
    if widths.most_common(1)[0][0] == len(names) + 1:  # rows end in a delimiter, or start with an unnamed row number
        firsts = [row[0] for row in layout.rows]
        names = ["row", *names] if _may_name_rows(firsts) else [*names, "column after the last"]
    source.check_size(columns=len(names))
    if len(layout.rows[0]) > len(names):  # pandas would spend seconds on building an index
        raise _too_many_fields(source, names)
    for applies, note in (
        (not layout.above, "there is no header line; columns are numbered"),
        (
            layout.delimiter != "," and not layout.declared,
            f"fields are separated by {_DELIMITER_NAMES.get(layout.delimiter, layout.delimiter)}",
        ),
        (layout.preamble, f"{layout.preamble} lines before the header were skipped"),
        (layout.decimal == ",", "decimals are written with a comma"),
        (layout.rate_hz, f"the lines above the table give {layout.rate_hz or 0:.4g} Hz"),
        (len(layout.above) > 1, f"names are in {len(layout.above)} rows"),
    ):
        notes += [note] if applies else []
    return Parsed(read_body(source, layout, names), notes, layout.doubts, layout.rate_hz)


def _may_name_rows(cells: list[str]) -> bool:
    """Return True if cells are names of rows: different words, or numbers that count rows."""
    counts = [str(int(cells[0]) + i) for i in range(len(cells))] if cells[0].strip().isdigit() else cells
    return len(set(cells)) == len(cells) and (cells == counts) and not any("." in cell for cell in cells)


def read_body(source: Source, layout: Layout, names: list[str]) -> pd.DataFrame:
    """Read the rows below the header into the columns `names`."""
    pieces: list[pd.DataFrame] = []
    seen = 0
    # smaller chunks for wide tables
    chunk_rows = max(1, min(CHUNK_ROWS, 5_000_000 // len(names)))
    with source.open() as file:
        try:
            kept_open = io.BufferedReader(
                BoundedStream(file), 1 << 18
            )  # the wrapper closes this, not the caller's file
            text = io.TextIOWrapper(kept_open, layout.encoding, errors="replace", newline="")
            for _ in range(layout.skipped):  # pandas would parse quotes in them
                text.readline()
            reader = pd.read_csv(
                HarmlessText(text),
                sep=layout.delimiter,
                decimal=layout.decimal,
                header=None,
                names=names,
                na_values=list(MISSING),
                skip_blank_lines=True,
                low_memory=False,
                chunksize=chunk_rows,
            )
            for chunk in reader:
                if not isinstance(chunk.index, pd.RangeIndex):  # pandas uses extra fields as an index
                    raise _too_many_fields(source, names)
                seen += len(chunk)
                source.check_size(seen, len(names))
                pieces.append(compact(chunk, layout.thousands))
        except DataError:
            raise
        except (csv.Error, OverflowError, ValueError) as error:  # from pandas
            raise DataError(f"{source.name}: {_explain(brief(error), layout)}") from error
    if not seen:
        raise EmptyTableError(f"{source.name} has a header but no rows.")
    return join_pieces(pieces)


def _too_many_fields(source: Source, names: list[str]) -> DataError:
    return DataError(f"{source.name}: rows have more fields than the {len(names)} columns of the header.")


class HarmlessText(io.TextIOBase):
    """A text stream that breaks up exponents that would crash pandas."""

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
            if new and (cut := _MAYBE_LONG.search(block, max(0, len(block) - 6))):  # may continue in the next block
                block, self._held = block[: cut.start()], block[cut.start() :]
            if block or not new:
                return _LONG_EXPONENT.sub(rf"\1{_MARK}", block)


def _explain(message: str, layout: Layout) -> str:
    found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", message)
    if found:
        line = int(found[2]) + layout.skipped
        advice = "Correct the line, or its quotes."
        if layout.above and int(found[2]) <= _NEAR and int(found[3]) > len(layout.names):
            advice = "Remove lines above it that are not part of the table, or correct the line or its quotes."
        return f"line {line} has {found[3]} fields where {found[1]} are expected. {advice}"
    return f"the text cannot be split into rows and columns ({message.strip()})."


def compact(frame: pd.DataFrame, thousands: str = "") -> pd.DataFrame:
    """Convert text to categories, and numbers to single precision if that is precise enough.

    thousands   sign to remove from text such as 1,291
    """
    columns: dict[str, Any] = {}
    for name in frame.columns:
        column = frame[name]
        if column.dtype == object:
            words = column.astype(str)
            if words.str.contains(_MARK, regex=False).any():
                words = words.str.replace(_MARK, "", regex=False)
            if thousands and (grouped := words.str.match(GROUPED[thousands])).any():
                words = words.mask(grouped, words.str.replace(thousands, "", regex=False))
            columns[name] = words.where(column.notna(), None).astype("category")
        elif column.dtype == np.float64 and not (looks_like_time(str(name)) or _needs_double(column.to_numpy())):
            with np.errstate(over="ignore"):  # overflow becomes infinite, which counts as missing
                columns[name] = column.astype(np.float32)
        else:
            columns[name] = column
    return pd.DataFrame(columns)


def _needs_double(values: npt.NDArray[np.float64]) -> bool:
    """Return True for increasing columns, such as clocks, and small changes far from zero."""
    seen = values[np.isfinite(values)]
    return bool(len(seen) > 1 and (np.diff(seen) >= 0).all()) or working_precision(values) is np.float64


def join_pieces(pieces: list[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate pieces column by column, freeing each column once it is copied."""
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
