"""Names of columns: whether the first rows of a table are a header, and the notation of its numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .doubts import Answers, Doubt

Row = tuple[str, ...]
MISSING = (
    "", "-", "--", "?", "missing", "none", "None", "null", "NULL", "NaN", "nan", "NA", "N/A", "n/a", "#N/A", "inf", "-inf",
)  # fmt: skip
_NUMBER = re.compile(r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$")
COMMA_NUMBER = re.compile(r"^\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*$")
_UNCLEAR = re.compile(r"^\s*[-+]?[1-9]\d{0,2},\d{3}\s*$")  # 1,291
_GROUPED = re.compile(r"^\s*[-+]?\d{1,3}(,\d{3})+(\.\d+)?\s*$")  # 1,291.5 or 1,291,000
_DATE = re.compile(r"^\s*\d{1,4}[-./:]\d{1,2}([-./: ]|$)")
_UNIT_WORDS = "s ms us µs ns min h d hz v mv uv µv a ma g mg kg m mm cm km px °c c k deg rad % bpm pa kpa"
_UNITS = frozenset(_UNIT_WORDS.split())


def is_number(cell: str) -> bool:
    """Return True if a cell is a number with a decimal point or comma."""
    return bool(_NUMBER.match(cell) or COMMA_NUMBER.match(cell))


def is_value(cell: str) -> bool:
    """Return True if a cell is a number or starts like a date or time."""
    return is_number(cell) or bool(_GROUPED.match(cell) or _DATE.match(cell))


def _is_missing(cell: str) -> bool:
    return cell.strip() in MISSING


def find_header(rows: Sequence[Row], answers: Answers) -> tuple[Row, int, tuple[Doubt, ...]]:
    """Return the names of columns, how many rows they take (2 with units or groups), and a doubt.

    Names stand above values, and differ from them. Numbers are names if they count from 0 or 1.
    """
    first, body = rows[0], rows[1:]
    valued = [j for j in range(len(first)) if _is_valued(body, j)]
    above = [j for j in valued if not _is_missing(first[j])]
    if body and above and all(is_value(first[j]) for j in above) and not _counts(first, body):
        words = [j for j in range(len(first)) if j not in valued and not _is_missing(first[j])]
        repeated = any(row[j] == first[j] for j in words for row in body if j < len(row))
        if repeated or not (words or _is_scale([first[j] for j in above], body)):
            return first, 0, ()
        shown = ", ".join(first[:5])
        doubt = Doubt("header", f"Is the first row ({shown}) names of columns, or values?", ("names", "values"))
        return first, int(doubt.chosen(answers) == "names"), (doubt,)
    if not above and all(is_value(cell) or _is_missing(cell) for cell in first):
        return first, 0, ()
    second = body[0] if body else ()
    names = [j for j in valued if j < len(second) and not is_value(second[j]) and not _is_missing(second[j])]
    units = {second[j].strip(" ()[]").lower() for j in names} <= _UNITS
    if len(second) != len(first) or not names or 2 * len(names) < len(valued) or not (units or len(names) > 1):
        return first, 1, ()
    return _join(first, second), 2, ()


def _is_valued(body: Sequence[Row], j: int) -> bool:
    """Return True if most cells of a column are numbers or times."""
    cells = [row[j] for row in body if j < len(row) and not _is_missing(row[j])]
    return sum(map(is_value, cells)) > 0.5 * len(cells)


def _has_decimals(body: Sequence[Row]) -> bool:
    return any("." in cell or "," in cell for row in body for cell in row if is_number(cell))


def _is_scale(cells: Sequence[str], body: Sequence[Row]) -> bool:
    """Return True for increasing whole numbers above decimals, such as wavelengths."""
    numbers = [int(cell) for cell in cells if cell.strip().isdigit()]
    rising = numbers == sorted(set(numbers))
    return len(numbers) == len(cells) > 2 and rising and _has_decimals(body)


def _counts(first: Row, body: Sequence[Row]) -> bool:
    """Return True if a row counts its columns, as pandas names them, above decimals."""
    cells = [cell.strip() for cell in first if cell.strip()]
    counts = [[str(i + start) for i in range(len(cells))] for start in (0, 1)]
    return len(cells) > 1 and len(first) - len(cells) <= 1 and cells in counts and _has_decimals(body)


def _join(first: Row, second: Row) -> Row:
    """Join two rows of names; groups in the first row reach to the next one."""
    names = [name.strip() for name in first]
    if len(set(names)) == len(names) and all(names):
        return tuple(f"{a} ({b.strip(' ()[]')})" if b.strip() else a for a, b in zip(names, second, strict=True))
    for j in range(1, len(names)):
        names[j] = names[j] or names[j - 1]
    return tuple(" ".join(f"{a} {b}".split()) for a, b in zip(names, second, strict=True))


def find_notation(cells: Sequence[str], delimiter: str, answers: Answers) -> tuple[str, str, tuple[Doubt, ...]]:
    """Return the decimal sign, the sign between thousands ("" if none), and a doubt if 1,291 can be either."""
    unclear = next((cell for cell in cells if _UNCLEAR.match(cell)), "")
    decimals = sum(bool(COMMA_NUMBER.match(cell)) and not _UNCLEAR.match(cell) for cell in cells)
    grouped = sum(bool(_GROUPED.match(cell)) and not _UNCLEAR.match(cell) for cell in cells)
    points = sum("." in cell and bool(_NUMBER.match(cell)) for cell in cells)
    if decimals and decimals >= points:
        return "," if delimiter != "," else ".", ".", ()
    if not unclear:
        return ".", "", ()
    if decimals:  # columns differ
        return ".", "", ()
    if grouped or points:
        return ".", ",", ()
    doubt = Doubt("commas", f"Is the comma in {unclear.strip()} a decimal sign, or does it separate thousands?",
                  ("thousands", "decimals"))  # fmt: skip
    if doubt.chosen(answers) == "thousands":
        return ".", ",", (doubt,)
    return "," if delimiter != "," else ".", "", (doubt,)
