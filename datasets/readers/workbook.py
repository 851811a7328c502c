"""Workbooks (XLSX): which sheet holds the table, and its cells as columns."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from gdm_core.errors import ConfigError, DataError

from .archives import measure, open_archive
from .delimited import compact, unique_names
from .roles import is_numeric
from .source import Source, refuse_damage

_MOST_ABOVE = 50  # lines before the header
Row = tuple[Any, ...]


def read_workbook(source: Source, sheet: str | None) -> tuple[pd.DataFrame, list[str], tuple[str, ...], str]:
    """The table of one sheet, notes, the names of all sheets, and that of the one read: `sheet`, or if None the first
    with a column of numbers, since a sheet of remarks often comes first."""
    from openpyxl import load_workbook

    with open_archive(source) as archive:
        for info in archive.infolist():  # the declared sizes were checked; the real ones may be larger
            with refuse_damage(f"{source.name}: the part {info.filename!r} is damaged"), archive.open(info) as member:
                real = measure(member, info.file_size)
            if real > info.file_size:
                raise DataError(f"{source.name}: the part {info.filename!r} unpacks to more than it declares.")
    what = f"{source.name} is not a readable workbook"
    with source.open() as raw, refuse_damage(what, "Save it again, or as CSV."):
        book = load_workbook(raw, read_only=True, data_only=True, keep_links=False)
        names = tuple(str(page.title) for page in book.worksheets)
        if sheet is not None and sheet not in names:
            raise ConfigError(f"{source.name} has no sheet {sheet!r}; it has {', '.join(names)}.")
        pages = [page for page in book.worksheets if sheet is None or page.title == sheet]
        frame, notes, title = _table_of(pages, source)
    if others := [name for name in names if name != title]:
        more = f" and {len(others) - 5} more" if len(others) > 5 else ""
        notes = [f"only the sheet {title!r} was read; there are also {', '.join(others[:5])}{more}", *notes]
    return frame, notes, names, title


def _table_of(pages: list[Any], source: Source) -> tuple[pd.DataFrame, list[str], str]:
    """The first sheet with a column of numbers, else the first with a header and a row."""
    best: tuple[pd.DataFrame, list[str], str] | None = None
    for page in pages:
        rows = _rows_of(page, source)
        if len(rows) < 2:
            continue
        above = _above_header(rows)
        names, notes = unique_names(["" if cell is None else str(cell) for cell in rows[above]])
        if above:
            notes = [*notes, f"{above} lines before the header were skipped"]
        # column by column, each by its own cells: pandas fails on whole numbers without end where it may choose the type
        columns = {name: _typed([row[j] for row in rows[above + 1 :]]) for j, name in enumerate(names)}
        frame = compact(pd.DataFrame(columns))
        if any(is_numeric(frame[name]) for name in names):
            return frame, notes, str(page.title)
        best = best or (frame, notes, str(page.title))
    if best is None:
        where = f"the sheet {pages[0].title!r} of {source.name}" if len(pages) == 1 else f"each sheet of {source.name}"
        raise DataError(
            f"{where[0].upper()}{where[1:]} holds no row below a header. Save it with at least one, or as CSV."
        )
    return best


def _rows_of(page: Any, source: Source) -> list[Row]:
    """The rows of a sheet from the first to the last that hold anything, all of one width."""
    rows: list[Row] = []
    width = 0
    for cells in page.iter_rows(values_only=True):
        if len(cells) > source.limits.columns:
            raise DataError(f"{source.name} has {len(cells):,} columns; the limit is {source.limits.columns:,}.")
        if rows or any(cell is not None for cell in cells):
            rows.append(tuple(cells))
            width = max(width, len(cells))
        if len(rows) * max(width, 1) > min(source.limits.values, 50_000_000) or len(rows) > source.limits.rows:
            raise DataError(f"{source.name} is too large for a workbook. Save it as CSV or Parquet.")
        if len(rows) % 5000 == 1:
            source.tell(0.5, f"{len(rows):,} rows read")
    while rows and all(cell is None for cell in rows[-1]):
        rows.pop()
    return [row + (None,) * (width - len(row)) for row in rows]


def _above_header(rows: list[Row]) -> int:
    """Rows before the header: they fill fewer cells than the table, and the header is the first full row of words."""
    filled = [sum(cell is not None for cell in row) for row in rows[: 4 * _MOST_ABOVE]]
    usual = Counter(filled).most_common(1)[0][0]
    for i in range(min(_MOST_ABOVE, len(rows) - 1)):
        # the first column, of row numbers, may have no name
        if filled[i] >= usual or (filled[i] == usual - 1 and rows[i][0] is None):
            return i if all(isinstance(cell, str | None) for cell in rows[i]) else 0
    return 0


def _typed(cells: list[Any]) -> pd.Series[Any]:
    """A column of cells as numbers or dates where all of them are, else as text."""
    there = [value for value in cells if value is not None]
    if there and all(isinstance(value, int | float) for value in there):
        try:
            return pd.Series(pd.to_numeric(pd.Series(cells, dtype=object), errors="coerce"))
        except OverflowError:
            return pd.Series([_float(value) for value in cells], dtype=np.float64)
    if there and all(hasattr(value, "year") for value in there):
        return pd.Series(pd.to_datetime(pd.Series(cells, dtype=object), errors="coerce"))
    return pd.Series([None if value is None else str(value) for value in cells], dtype=object)


def _float(value: float | None) -> float:
    """A cell as a number; whole numbers of more than 308 digits, which are none for a computer, are missing."""
    try:
        return np.nan if value is None else float(value)
    except OverflowError:
        return np.nan
