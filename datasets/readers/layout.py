"""How a text table is written: encoding, delimiter, decimal sign and header, found by looking at its first lines."""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from dataclasses import dataclass, field

from datasets.readers.source import Source, brief
from gdm_core.errors import DataError

_DELIMITERS = (",", ";", "\t", "|")
_NUMBER = re.compile(r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$")
_COMMA_NUMBER = re.compile(r"^\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*$")
MISSING = (
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
        return not all(is_number(cell) or cell.strip() in MISSING for cell in self.header)


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
