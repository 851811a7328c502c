"""How a text table is written: encoding, delimiter, decimal sign and header, found by looking at its first lines."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from dataclasses import dataclass, field

from gdm_core.errors import DataError

from .source import Source, refuse_damage

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
