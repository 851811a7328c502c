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
from .header import MISSING, find_header, find_notation, is_number
from .roles import looks_like_time
from .source import BoundedStream, Source, brief, refuse_damage

_DELIMITERS = (",", ";", "\t", "|")
SPACES = r"\s+"
_SEPARATOR_LINE = re.compile(r"""^\s*["']?sep=([,;|\t])["']?[\s;,]*$""", re.IGNORECASE)
_WEB_PAGE = re.compile(rb"\s*<(!doctype html|html|\?xml)", re.IGNORECASE)
_EPOCH = re.compile(r"^\s*1\d{9}(\.\d+)?\s*$")  # seconds since 1970
_MAX_PREAMBLE = 50  # lines before the header


@dataclass(frozen=True)
class Layout:
    """Format of a text table."""

    encoding: str
    delimiter: str
    decimal: str
    header: tuple[str, ...]  # names of the columns, or the first row if there is no header
    skipped: int  # lines before the header
    rows: tuple[tuple[str, ...], ...] = field(repr=False)  # the first rows, header included
    preamble: int = 0  # lines before the header that are neither blank nor comments
    n_header: int = 1  # rows of names
    thousands: str = ""  # sign between thousands
    rate_hz: float | None = None  # as the lines above the header give it
    doubts: tuple[Doubt, ...] = ()


def sniff(source: Source, answers: Answers | None = None) -> Layout:
    """Detect the format of a table from its first 256 kB; `answers` may decide what commas mean."""
    head = source.head()
    if _WEB_PAGE.match(head):
        raise DataError(f"{source.name} is a web page. Download the table itself, as CSV.")
    encoding = _encoding(head, source)
    lines = list(io.StringIO(head.decode(encoding, errors="replace"), newline=""))
    if len(head) == 1 << 18 and len(lines) > 1:
        lines.pop()  # incomplete
    skipped = _first_line(lines, 0)
    declared = _SEPARATOR_LINE.match(lines[skipped]) if skipped < len(lines) else None
    if declared:  # Excel's "sep=;" line
        skipped = _first_line(lines, skipped + 1)
    before, lines = lines[:skipped], lines[skipped : skipped + 200]
    if not lines:
        raise DataError(f"{source.name} has no rows.")
    delimiter, rows = _delimiter(lines, (declared[1],) if declared else _DELIMITERS, source)
    preamble = _preamble(lines, delimiter, rows, source)
    if preamble:
        rows = _split(lines[preamble:], delimiter, source)
    elif before and (names := _names_in_comment(before[-1], delimiter, rows, source)):
        rows, skipped = [names, *rows], skipped - 1
    rate = _rate_above("".join([*before, *lines[:preamble]]))
    if (
        len(rows) > 2
        and all(_EPOCH.match(cell) for cell in rows[0])
        and len(set(rows[1])) == 1
        and is_number(rows[1][0])
    ):
        rate, rows, skipped = float(rows[1][0]), rows[2:], skipped + 2  # start and rate, as Empatica writes them
    cells = [cell for row in rows[1:] for cell in row]
    decimal, thousands, doubts = find_notation(cells, delimiter, answers or {})
    names, n_header, unnamed = find_header(rows, answers or {})
    n_preamble = sum(bool(line.strip()) for line in lines[:preamble])
    doubts = (*doubts, *unnamed)
    return Layout(
        encoding,
        delimiter,
        decimal,
        names,
        skipped + preamble,
        tuple(rows),
        n_preamble,
        n_header,
        thousands,
        rate,
        doubts,
    )


def _rate_above(text: str) -> float | None:
    """Return the rate that the lines above a table give once, as "30 Hz" or an epoch as h:m:s."""
    rates = {float(found) for found in re.findall(r"(\d+(?:\.\d+)?) ?Hz\b", text, re.IGNORECASE)}
    epoch = re.search(r"Epoch Period.*? (\d+):(\d+):(\d+)", text)
    if epoch and (seconds := 3600 * int(epoch[1]) + 60 * int(epoch[2]) + int(epoch[3])):
        rates.add(1 / seconds)
    return rates.pop() if len(rates) == 1 else None


def _first_line(lines: list[str], start: int) -> int:
    """Return the index of the first line that is neither blank nor a comment."""
    content = (i for i, line in enumerate(lines) if i >= start and line.strip() and not line.lstrip().startswith("#"))
    return next(content, len(lines))


def _is_header(cells: tuple[str, ...]) -> bool:
    """Return True if a row has no number, so it can only be names."""
    return any(cell.strip() for cell in cells) and not any(is_number(cell) for cell in cells)


def _preamble(lines: list[str], delimiter: str, rows: list[tuple[str, ...]], source: Source) -> int:
    """Count the lines before the header, which have fewer fields; the header has no number."""
    width = Counter(len(row) for row in rows).most_common(1)[0][0]
    if width < 2 or len(rows[0]) >= width:
        return 0
    for i, line in enumerate(lines[:_MAX_PREAMBLE]):
        cells = next(iter(_split([line], delimiter, source)), ())
        if len(cells) >= width:
            # a device's report, as of ActiGraph, may stand above rows without names
            if cells[0].rstrip().endswith("="):
                continue
            report = i > 2 and all(len(row) < width - 1 or row[0].rstrip().endswith("=") for row in rows[:i])
            return i if len(cells) == width and (_is_header(cells) or report) else 0
    return 0


def _names_in_comment(line: str, delimiter: str, rows: list[tuple[str, ...]], source: Source) -> tuple[str, ...] | None:
    """Return the names in a comment directly above numeric rows, as numpy.savetxt writes it."""
    if not line.lstrip().startswith("#") or not all(is_number(cell) for cell in rows[0]) or len(rows[0]) < 2:
        return None
    cells = _split([line.lstrip().lstrip("#").lstrip(" ")], delimiter, source)
    return cells[0] if cells and len(cells[0]) == len(rows[0]) and _is_header(cells[0]) else None


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


def _delimiter(lines: list[str], choices: tuple[str, ...], source: Source) -> tuple[str, list[tuple[str, ...]]]:
    """Return the delimiter that splits lines most evenly, and the rows."""
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
        raise DataError(f"{source.name} has no rows.")
    if best[0] == 0 and len(choices) > 1:
        rows = _split(lines, SPACES, source)
        width, count = Counter(len(row) for row in rows).most_common(1)[0]
        cells = [cell for row in rows[1:] for cell in row]
        # sentences contain spaces too, so require numeric rows
        if width > 1 and count >= 0.9 * len(rows) and sum(map(is_number, cells)) >= 0.7 * len(cells) > 0:
            return SPACES, rows
    return best[1], best[2]


def _split(lines: list[str], delimiter: str, source: Source) -> list[tuple[str, ...]]:
    """Split the non-blank lines into cells."""
    if delimiter == SPACES:
        return [tuple(line.split()) for line in lines if line.strip()]
    with refuse_damage(f"{source.name} is not a readable text table", kinds=(csv.Error,)):
        return [tuple(row) for row in csv.reader(lines, delimiter=delimiter) if row]


def unique_names(names: list[str] | tuple[str, ...]) -> tuple[list[str], list[str]]:
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

_CHUNK_ROWS = 100_000
# Pandas' fast number parser overruns its memory on exponents of many digits and crashes the server; its exact parser takes
# the GIL for every number. So insert a mark between the e and five possible digits or signs (including quotes and zero
# bytes, which pandas may drop): the cell becomes text, from which the mark is removed later.
_LONG_EXPONENT = re.compile(r'([eE])(?=["+\-0-9\0]{5})')
_MAYBE_LONG = re.compile(r'[eE]["+\-0-9\0]{0,4}\Z')
_GROUPS = {",": r"^\s*[-+]?\d{1,3}(,\d{3})+(\.\d*)?\s*$", ".": r"^\s*[-+]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?\s*$"}
_MARK = "\ue000"  # a private-use character


def read_delimited(
    source: Source, answers: Answers | None = None
) -> tuple[pd.DataFrame, list[str], tuple[Doubt, ...], float | None]:
    """Read the table, and return it with notes and doubts about its format, and the rate above it."""
    layout = sniff(source, answers)
    header = layout.header if layout.n_header else tuple(f"column {i + 1}" for i in range(len(layout.header)))
    names, notes = unique_names(header)
    body = layout.rows[layout.n_header :]
    if not body:
        raise DataError(f"{source.name} has a header but no rows.")
    widths = Counter(len(row) for row in body)
    if widths.most_common(1)[0][0] == len(names) + 1:  # rows end in a delimiter, or start with an unnamed row number
        trailing = all(not row[-1].strip() for row in body if len(row) == len(names) + 1)
        names = [*names, "column after the last"] if trailing else ["row", *names]
    source.check_size(columns=len(names))
    if len(body[0]) > len(names):  # pandas would spend seconds on building an index
        raise _too_many_fields(source, names)
    if not layout.n_header:
        notes.append("there is no header line; columns are numbered")
    if layout.delimiter != ",":
        notes.append(f"fields are separated by {_DELIMITER_NAMES.get(layout.delimiter, layout.delimiter)}")
    if layout.preamble:
        notes.append(f"{layout.preamble} lines before the header were skipped")
    if layout.decimal == ",":
        notes.append("decimals are written with a comma")
    if layout.rate_hz:
        notes.append(f"the lines above the table give {layout.rate_hz:.4g} Hz")
    if layout.n_header == 2:
        notes.append("names are in two rows")
    return read_body(source, layout, names), notes, layout.doubts, layout.rate_hz


def read_body(source: Source, layout: Layout, names: list[str]) -> pd.DataFrame:
    """Read the rows below the header into the columns `names`."""
    pieces: list[pd.DataFrame] = []
    seen = 0
    most_rows = min(source.limits.rows, source.limits.values // len(names))
    # smaller chunks for wide tables
    chunk_rows = max(1, min(_CHUNK_ROWS, 5_000_000 // len(names)))
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
                skiprows=layout.n_header,
                na_values=list(MISSING),
                skip_blank_lines=True,
                low_memory=False,
                chunksize=chunk_rows,
            )
            for chunk in reader:
                if not isinstance(chunk.index, pd.RangeIndex):  # pandas uses extra fields as an index
                    raise _too_many_fields(source, names)
                seen += len(chunk)
                if seen > most_rows:
                    raise DataError(
                        f"{source.name} has more than {most_rows:,} rows, the limit for {len(names)} columns. "
                        "Split the file, or save fewer rows of it."
                    )
                pieces.append(compact(chunk, layout.thousands))
        except DataError:
            raise
        except (csv.Error, OverflowError, ValueError) as error:  # from pandas
            raise DataError(f"{source.name}: {_explain(brief(error), layout)}") from error
    if not seen:
        raise DataError(f"{source.name} has a header but no rows.")
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
        if layout.n_header and int(found[2]) <= 1 + _MAX_PREAMBLE and int(found[3]) > len(layout.header):
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
            if thousands and (grouped := words.str.match(_GROUPS[thousands])).any():
                words = words.mask(grouped, words.str.replace(thousands, "", regex=False))
            columns[name] = words.where(column.notna(), None).astype("category")
        elif column.dtype == np.float64 and not (
            looks_like_time(str(name).strip().lower()) or _needs_double(column.to_numpy())
        ):
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
