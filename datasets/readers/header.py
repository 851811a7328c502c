"""Where a text table begins: lines above it, rows of names, and the notation of its numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .doubts import Answers, Doubt

Row = tuple[str, ...]
MISSING = (
    "", "-", "--", "?", ".", "*", "missing", "none", "None", "null", "NULL", "NaN", "nan", "NA", "N/A", "n/a", "<NA>", "#N/A",
    "N.D.", "inf", "-inf", "-nan", "nan(ind)", "-nan(ind)", "1.#QNAN", "1.#IND", "-1.#IND", "1.#INF", "#DIV/0!", "#VALUE!", "#REF!",
    "#NAME?", "#NUM!", "#NULL!",
)  # fmt: skip
_NUMBER = re.compile(r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$")
COMMA_NUMBER = re.compile(r"^\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*$")
_UNCLEAR = re.compile(r"^\s*[-+]?[1-9]\d{0,2},\d{3}\s*$")  # 1,291
# 1,291.5, 1,291,000 or 1,00,291.5, and the same with points
GROUPED = {",": r"^\s*[-+]?\d{1,3}(,\d{2,3})*,\d{3}(\.\d*)?\s*$", ".": r"^\s*[-+]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?\s*$"}
_DATE = re.compile(r"^\s*'?\d{1,4}[-./:]\d{1,2}([-./: T]|$)")
_UNIT_WORDS = "s ms us µs ns min h d hz v mv uv µv a ma g mg kg m mm cm km px °c c k deg rad % bpm pa kpa"
_UNITS = frozenset(_UNIT_WORDS.split())
_EPOCH = re.compile(r"^\s*1\d{9}(\.\d+)?\s*$")  # seconds since 1970
_MOST_NAMES = 4  # rows
_AHEAD = 5  # rows that show that a table has begun


def is_number(cell: str) -> bool:
    """Return True if a cell is a number with a decimal point or comma."""
    return bool(_NUMBER.match(cell) or COMMA_NUMBER.match(cell))


def is_value(cell: str) -> bool:
    """Return True if a cell is a number or starts like a date or time."""
    return is_number(cell) or bool(re.match(GROUPED[","], cell) or _DATE.match(cell))


def _is_missing(cell: str) -> bool:
    return cell.strip() in MISSING


@dataclass(frozen=True)
class Top:
    """Names of the columns, the rows that they take, and the index of the first row of values."""

    names: Row
    rows: tuple[Row, ...]
    first: int
    rate_hz: float | None = None
    doubts: tuple[Doubt, ...] = ()


def find_top(rows: Sequence[Row], answers: Answers) -> Top:
    """Find the first row of values, and the names above it.

    Columns of values are those of the last rows. Names are in the row directly above, as many as the
    values, and differ from them; numbers are names if they count from 0 or 1.
    """
    body = rows[len(rows) // 2 :]
    width = Counter(len(row) for row in body).most_common(1)[0][0]
    body = [row for row in body if len(row) == width]
    valued = [j for j in range(width) if _is_valued(body, j)]
    fits = [i for i, row in enumerate(rows) if abs(len(row) - width) <= (width > 1)]
    counts = all(row[0].strip() for row in body)  # the first column has no gaps
    states = [_state(row, valued, counts) if i in fits else "text" for i, row in enumerate(rows)]
    ahead = [states[i + 1 : i + 1 + _AHEAD] for i in range(len(states))]
    begins = [state == "values" and 2 * its.count("text") <= len(its) for state, its in zip(states, ahead, strict=True)]
    first = begins.index(True) if True in begins else None
    if not valued or first is None:
        top = next(i for i, row in enumerate(rows) if len(row) == width)
        return Top(rows[top], (rows[top],), top + 1)
    above = next((i for i in range(first - 1, -1, -1) if states[i] != "mixed"), -1)
    if above >= 0 and states[above] == "text" and above in fits:
        first = above + 1  # the rows between have faults
    end = first  # of the names
    while end and states[end - 1] == "empty":
        end -= 1
    if end and _may_name(end - 1, rows, states, fits):
        first = end  # rows without values below the names belong to the table
        if counts and not rows[first][0].strip():  # but not numbers of samples
            first = next(i for i in range(first, len(rows)) if states[i] == "values")
    else:
        end = first
    comment = _uncomment(rows[first - 1]) if first else ()
    if comment and len(comment) == len(rows[first]) and not any(map(is_number, comment)):
        return Top(comment, (comment,), first)
    start = end
    while start and end - start < (_MOST_NAMES if width > 1 else 1) and _may_name(start - 1, rows, states, fits):
        if start < end and not _may_group(rows[start - 1], rows[start]):
            break
        start -= 1
    if start < end:
        names = tuple(rows[start:end])
        return Top(_join(names), names, first)
    return _find_names_among_values(rows, first, valued, answers)


def _state(row: Row, valued: Sequence[int], counts: bool) -> str:
    """Return whether the columns of values have values, text, both, or nothing in a row."""
    cells = [row[j] for j in valued if j < len(row) and not _is_missing(row[j])]
    n_values = sum(map(is_value, cells))
    if not cells and not any(cell.strip() for cell in row):
        return "empty"
    if n_values == len(cells) > 0:
        return "values" if row[0].strip() or not counts else "empty"  # numbers of samples below names
    return "mixed" if n_values else "text"


def _may_name(i: int, rows: Sequence[Row], states: Sequence[str], fits: Sequence[int]) -> bool:
    """Return True if a row may be names, units or groups: not a line of a report, such as "Range=  10 V"."""
    named = i in fits and states[i] in ("text", "mixed") and any(cell.strip() for cell in rows[i])
    return named and not rows[i][0].rstrip().endswith("=")


def _may_group(upper: Row, lower: Row) -> bool:
    """Return True if a row may be names of groups: complete, with nothing over the first name, or over incomplete names."""
    incomplete = not all(cell.strip() for cell in lower) or len(set(lower)) < len(lower)
    return len(upper) == len(lower) and (incomplete or not upper[0].strip() or all(cell.strip() for cell in upper))


def _uncomment(row: Row) -> Row:
    """Return the names in a comment, as numpy.savetxt writes them."""
    first = row[0].lstrip().lstrip("#%").strip()
    return () if first == row[0].strip() else (first, *row[1:]) if first else row[1:]


def _find_names_among_values(rows: Sequence[Row], first: int, valued: Sequence[int], answers: Answers) -> Top:
    """Return the names if the first row of values is one, and a doubt if that is unclear."""
    row, body = rows[first], rows[first + 1 :]
    if len(body) > 1 and all(_EPOCH.match(cell) for cell in row) and len(set(body[0])) == 1 and is_number(body[0][0]):
        rate = float(body[0][0])  # start and rate, as Empatica writes them
        return Top(rows[first + 2], (), first + 2, rate if rate > 0 else None)
    if not body:
        return Top(row, (), first)
    if _counts(row, body):
        return Top(row, (row,), first + 1)
    cells = [row[j] for j in valued if j < len(row) and not _is_missing(row[j])]
    words = [j for j in range(len(row)) if j not in valued and not _is_missing(row[j])]
    repeated = any(other[j] == row[j] for j in words for other in body if j < len(other))
    if repeated or not (words or _is_scale(cells, body)):
        return Top(row, (), first)
    doubt = Doubt(
        "header", f"Is the first row ({', '.join(row[:5])}) names of columns, or values?", ("names", "values")
    )
    named = doubt.chosen(answers) == "names"
    return Top(row, (row,) if named else (), first + named, None, (doubt,))


def _is_valued(body: Sequence[Row], j: int) -> bool:
    """Return True if most cells of a column are numbers or times."""
    cells = [row[j] for row in body if not _is_missing(row[j])]
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


def _join(above: Sequence[Row]) -> Row:
    """Join rows of names: groups reach to the next one, and units stand below complete names."""
    width = max(map(len, above))
    filled = [(*row, *[""] * (width - len(row))) for row in above]
    padded = [[cell.strip(" '") if re.search(r"[\w%#]", cell) else "" for cell in row] for row in filled]
    names = padded[0]
    for row in padded[1:]:
        cells = [cell.strip(" ()[]") for cell in row]
        if all(names) and len(set(names)) == width:
            names = [f"{name} ({cell})" if cell else name for name, cell in zip(names, cells, strict=True)]
        elif {cell.lower() for cell in cells if cell} <= _UNITS:
            names = [f"{name} ({cell})".strip() if cell else name for name, cell in zip(names, cells, strict=True)]
        else:
            for j in range(1, width):
                names[j] = names[j] or names[j - 1]
            names = [" ".join(f"{name} {cell}".split()) for name, cell in zip(names, row, strict=True)]
    return tuple(names[: len(above[-1])]) if len(above) > 1 else tuple(cell.strip("'") for cell in above[0])


def find_notation(cells: Sequence[str], delimiter: str, answers: Answers) -> tuple[str, str, tuple[Doubt, ...]]:
    """Return the decimal sign, the sign between thousands ("" if none), and a doubt if 1,291 can be either."""
    unclear = next((cell for cell in cells if _UNCLEAR.match(cell)), "")
    decimals = sum(bool(COMMA_NUMBER.match(cell)) and not _UNCLEAR.match(cell) for cell in cells)
    grouped = sum(bool(re.match(GROUPED[","], cell)) and not _UNCLEAR.match(cell) for cell in cells)
    points = sum("." in cell and bool(_NUMBER.match(cell)) for cell in cells)
    if decimals and decimals >= points:
        return "," if delimiter != "," else ".", ".", ()
    if not unclear or decimals:  # columns may differ
        return ".", "", ()
    if grouped or points:
        return ".", ",", ()
    doubt = Doubt("commas", f"Is the comma in {unclear.strip()} a decimal sign, or does it separate thousands?",
                  ("thousands", "decimals"))  # fmt: skip
    if doubt.chosen(answers) == "thousands":
        return ".", ",", (doubt,)
    return "," if delimiter != "," else ".", "", (doubt,)
